"""What a piece of text that changed looks like: a clock, a date, an id, a counter, or just text."""

from __future__ import annotations

import re

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
