"""What a piece of text that changed looks like: a clock, a date, an id, a counter, or just text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("clock", re.compile(r"(?:\d{4}-\d{2}-\d{2}[T ])?\b\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?\b")),
    (
        "date",
        re.compile(
            r"\b\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b"
            r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? \d{1,2}\b"
            r"|\b\d{1,2}\.? (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b"
            r"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"
        ),
    ),
    ("id", re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")),
    ("clock", re.compile(r"\b1[5-9]\d{8}(?:\.\d+)?\b|\b1[5-9]\d{11}\b")),  # seconds or milliseconds since the epoch
    ("id", re.compile(r"\b(?=[0-9a-zA-Z_-]*\d)(?=[0-9a-zA-Z_-]*[a-zA-Z])[0-9a-zA-Z_-]{8,}\b")),
    ("counter", re.compile(r"\d+(?:[.,]\d+)?")),
)
"""Most telling first; the first that covers the place wins."""

_CONTEXT = 48
"""Characters looked at on either side of the place, enough for the longest shape."""


def shape_at(text: str, start: int, end: int) -> str:
    """The kind of text that stands in characters `start` to `end` (exclusive) of `text`.

    >>> text = "You are Ada. It is 2026-11-21 12:30:07. Be brief."
    >>> shape_at(text, 37, 38), shape_at(text, 8, 9), shape_at("attempt 7 of 9", 8, 9)
    ('clock', 'text', 'counter')
    """
    low, high = max(start - _CONTEXT, 0), min(end + _CONTEXT, len(text))
    window = text[low:high]
    for name, pattern in _SHAPES:
        for match in pattern.finditer(window):
            if match.start() + low < end and match.end() + low > start:
                return name
    return "text"


# --- before anything was seen to change -------------------------------------------------------------------------------

_NOW = re.compile(
    r"\b(?P<date>\d{4}-\d{2}-\d{2})[T ]\d{1,2}:\d{2}(?P<seconds>:\d{2}(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?"
    r"|\b(?P<epoch>1[5-9]\d{8}(?:\.\d+|\d{3})?)\b"
)
_TIME = re.compile(r"\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b")
_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_HINTS = (
    (re.compile(r":\d\d"), frozenset({_NOW, _TIME})),
    (re.compile(r"1[5-9]\d{8}"), frozenset({_NOW})),
    (re.compile(r"-[0-9a-fA-F]{4}-"), frozenset({_UUID})),
)
"""What such text cannot be without. Each begins with a character, so a text is searched for it many times faster."""
_NEAR = 2 * 86400.0
"""Seconds within which a time is taken for the present, wherever in the world it was written down."""


class Stamp(NamedTuple):
    """Text that by its shape alone may be another one in the next request."""

    start: int
    """Character of the text at which it begins, inclusive."""
    end: int
    """Character at which it ends, exclusive."""
    shape: str
    """A name in `priors.toml`, under `moves`."""


def stamps(text: str, now: float) -> Iterator[Stamp]:
    """What in `text` looks like something that changes from one request to the next, when it is `now`.

    Of times only the present one: a time that is long past is an example, or history.

    >>> text = "It is 2026-11-21 12:30:07. A date is written as 2020-01-31T00:00:00Z."
    >>> [(text[one.start : one.end], one.shape) for one in stamps(text, 1795264207.0)]
    [('2026-11-21 12:30:07', 'clock with seconds')]
    """
    possible = frozenset[re.Pattern[str]]().union(*(patterns for hint, patterns in _HINTS if hint.search(text)))
    taken: list[tuple[int, int]] = []
    for match in _NOW.finditer(text) if _NOW in possible else ():
        taken.append(match.span())
        if abs(_seconds(match) - now) <= _NEAR:
            precise = match["seconds"] or match["epoch"]
            yield Stamp(*match.span(), "clock with seconds" if precise else "clock")
    for shape, pattern in (("time with seconds", _TIME), ("uuid", _UUID)):
        for match in pattern.finditer(text) if pattern in possible else ():
            if not any(start < match.end() and match.start() < end for start, end in taken):
                yield Stamp(*match.span(), shape)


def _seconds(match: re.Match[str]) -> float:
    """The time that was written, in seconds since the epoch; infinite where it is none."""
    if match["epoch"]:
        seconds = float(match["epoch"])
        return seconds / 1000 if seconds > 1e11 else seconds
    try:
        return datetime.fromisoformat(match["date"]).replace(tzinfo=UTC).timestamp() + 43200
    except ValueError:
        return float("inf")
