"""Which records a report is over, and where its days begin."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

_EPOCH, _LAST = datetime(1970, 1, 1, tzinfo=UTC), 253_402_214_400.0
"""The last day of the year 9999 in seconds since the epoch: a day of room for the zones ahead of UTC."""

_QUARTER = 900
"""Seconds. Every zone's days begin, and its clocks are put forward and back, at a quarter of an hour of UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A time from `since` on and before `until`, in seconds since the epoch; None for no bound."""

    since: float | None = None
    until: float | None = None
    zone: tzinfo = UTC
    """Whose days, weeks and months they are, and whose times are shown."""

    @property
    def bounded(self) -> bool:
        """True if some records may be outside."""
        return self.since is not None or self.until is not None

    def holds(self, at: float) -> bool:
        """True if what happened at `at` is part of it."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


EVER = Period()
"""Everything, with the days of UTC."""


def moment(seconds: float, zone: tzinfo = UTC) -> datetime:
    """A time since the epoch as a date in `zone`; the nearest there is for one that no calendar has.

    >>> moment(1e12).year
    9999
    """
    return (_EPOCH + timedelta(seconds=min(max(seconds, 0.0), _LAST))).astimezone(zone)


FORMS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"}
"""How days, ISO weeks and months are called."""


class Calendar:
    """The names of the days, weeks or months of one zone. Each quarter of an hour is looked up once."""

    def __init__(self, unit: str, zone: tzinfo) -> None:
        self._form, self._zone = FORMS[unit], zone
        self._names: dict[int, str] = {}

    def name(self, at: float) -> str:
        """What the time `at`, in seconds since the epoch, belongs to."""
        quarter = int(min(max(at, 0.0), _LAST) // _QUARTER)
        name = self._names.get(quarter)
        if name is None:
            name = self._names[quarter] = moment(quarter * _QUARTER, self._zone).strftime(self._form)
        return name
