"""Which records a report is over, and where its days begin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

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

_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")
_WEEK = re.compile(r"([0-9]{4})-?W([0-9]{2})")
"""Python takes the name of a week for its Monday."""


def days_of(name: str) -> tuple[date, date]:
    """The first day of the day, ISO week or month of that name, and the first day after it. Raises ValueError.

    >>> [day.isoformat() for day in days_of("2026-W43")]
    ['2026-10-19', '2026-10-26']
    >>> [day.isoformat() for day in days_of("2026-12")]
    ['2026-12-01', '2027-01-01']
    """
    if match := _WEEK.fullmatch(name):
        first, days = date.fromisocalendar(int(match[1]), int(match[2]), 1), 7
    elif match := _MONTH.fullmatch(name):
        first = date(int(match[1]), int(match[2]), 1)
        return first, (first + timedelta(days=31)).replace(day=1)
    else:
        first, days = date.fromisoformat(name), 1
    return first, first + timedelta(days=days)


def time_of(name: str) -> datetime:
    """The date and time that `name` is, such as 2026-02-01T12:00. Raises ValueError, also for a time of a week."""
    if _WEEK.fullmatch(re.split("[T ]", name)[0]):
        raise ValueError("a week has no time of day")
    return datetime.fromisoformat(name)


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
