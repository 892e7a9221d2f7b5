"""How much of its rate limit each tool has left: the runs of the last minute, early ones too, against what is declared,
and nothing for a while where a run was refused for its rate.

A sliding window of the times of the last runs, which is exact and holds no more times than the limit has runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

MINUTE = 60.0

_TOO_MANY = (429, 503, 529)
"""States of an answer that ask for fewer requests: RFC 6585, section 4; RFC 9110, section 15.6.4; the last is what some
providers say when they are overloaded."""
MOST_REST = 3600.0
"""Seconds that a tool rests at most, whatever an answer asks for."""
_CAUSES = 5
"""So many exceptions are looked at, of which each is the cause of the one before."""


class Rates:
    """Runs by tool. Thread-safe without a lock.

    >>> rates = Rates({"search": 10})
    >>> for second in range(8):
    ...     rates.ran("search", float(second))
    >>> round(rates.headroom("search", 30.0), 2), round(rates.headroom("search", 63.5), 2), rates.headroom("look", 30.0)
    (0.2, 0.6, 1.0)
    """

    __slots__ = ("_limits", "_rests", "_runs")

    def __init__(self, limits: Mapping[str, int]) -> None:
        """`limits`: by name of a tool, the runs that it stands in a minute."""
        self._limits = dict(limits)
        self._runs = {name: deque[float](maxlen=limit) for name, limit in limits.items()}
        self._rests: dict[str, float] = {}
        """Until when a tool is to be left alone."""

    def limit(self, tool: str) -> int | None:
        """Its runs in a minute; None where that is not limited."""
        return self._limits.get(tool)

    def ran(self, tool: str, now: float) -> None:
        """A run of it begins, at that monotonic time."""
        runs = self._runs.get(tool)
        if runs is not None:
            runs.append(now)

    def failed(self, tool: str, failure: BaseException, now: float) -> None:
        """A run of it has failed, at that monotonic time; where it was refused for its rate, the tool rests.

        >>> rates = Rates({})
        >>> refused = OSError()
        >>> refused.status_code = 429
        >>> rates.failed("search", refused, 0.0)
        >>> rates.headroom("search", 59.0), rates.headroom("search", 61.0)
        (0.0, 1.0)
        """
        try:
            rest = rest_after(failure)
        except Exception:  # noqa: BLE001 - an attribute of an exception that raises itself: what is told is the failure
            return
        if rest is not None:
            self._rests[tool] = max(now + rest, self._rests.get(tool, now))

    def limited(self, tool: str, now: float) -> bool:
        """Whether its headroom can be other than all."""
        return tool in self._limits or self._rests.get(tool, now) > now

    def headroom(self, tool: str, now: float) -> float:
        """The share of its limit that is left, from 0 to 1."""
        if self._rests.get(tool, now) > now:
            return 0.0
        limit = self._limits.get(tool)
        if limit is None:
            return 1.0
        return 1.0 - sum(now - began < MINUTE for began in tuple(self._runs[tool])) / limit


def rest_after(failure: BaseException) -> float | None:
    """Seconds for which to leave a tool alone that has failed so; None where it was not refused for its rate.

    What the answer says (Retry-After, in seconds), else a minute. Libraries keep an answer's state in several places:
    those of httpx, requests, aiohttp, urllib and botocore are known, also below an exception that was raised from it.
    """
    one: BaseException | None = failure
    for _ in range(_CAUSES):
        if one is None:
            return None
        answer = getattr(one, "response", None)
        if _state(one, answer) in _TOO_MANY:
            return _retry_after(one, answer)
        one = one.__cause__ or one.__context__
    return None


def _state(failure: BaseException, answer: Any) -> object:
    if isinstance(answer, dict):
        told = answer.get("ResponseMetadata")
        return told.get("HTTPStatusCode") if isinstance(told, dict) else None
    places = (getattr(failure, name, None) for name in ("status_code", "status", "code"))
    return next((one for one in (getattr(answer, "status_code", None), *places) if isinstance(one, int)), None)


def _retry_after(failure: BaseException, answer: Any) -> float:
    headers: Any = getattr(answer, "headers", None) or getattr(failure, "headers", None)
    if isinstance(answer, dict):
        headers = answer["ResponseMetadata"].get("HTTPHeaders")
    try:
        seconds = float(headers.get("retry-after") or headers.get("Retry-After"))
    except (AttributeError, TypeError, ValueError):  # it says nothing, or a date
        return MINUTE
    return min(seconds, MOST_REST) if seconds >= 0 else MINUTE
