"""A text that keeps changing in places, as what stays of it: runs of stable units with holes between them.

A unit is a line; a long line is taken by its sentences, and a long sentence by its words. So a change takes the words
around it with it, and what comes and goes next to it (the digits of a number, another line of a git status) does not
make another hole of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from itertools import chain, pairwise
from typing import NamedTuple

LONGEST = 240
"""Characters of a line, or of a sentence, that is one unit."""

MOST_UNITS = 1500
"""Units of a text that is compared with another one; of longer texts nothing is told."""

_MOST_PAIRS = 10_000
"""Pairs of equal units, one of either text, between their first difference and their last: what comparing them takes
grows with these and with the differences. With more, all in between is taken for one."""

_LEAST_ISLAND = 12
"""Characters of stable text between two holes, blanks apart, from which it does not belong to them: lines that hold no
more are alike by chance."""

_MOSTLY = 0.5
"""Share of a sentence that is taken by its words from which on it is the same one with other words in it: of another
sentence a few words are alike by chance, and would not be the next time."""

_SENTENCE = re.compile(r"(?<=[.!?;] )")
_WORD = re.compile(r"\S+\s*|\s+")

Units = tuple[str, ...]
Range = tuple[int, int]
"""The first unit of a hole, and the one behind it."""


def units_of(text: str, *, words: bool = False) -> Units:
    """`text` in units, which make it up when they are joined; by its `words` where what changes is short.

    >>> units_of("You are Ada.\\nIt is 12:30:07.\\n")
    ('You are Ada.\\n', 'It is 12:30:07.\\n')
    """
    return tuple(_WORD.findall(text) if words else chain.from_iterable(map(_pieces, text.splitlines(keepends=True))))


def _pieces(line: str) -> Iterator[str]:
    if len(line) <= LONGEST:
        yield line
        return
    for sentence in filter(None, _SENTENCE.split(line)):
        if len(sentence) <= LONGEST:
            yield sentence
        else:
            yield from _WORD.findall(sentence)


class Template(NamedTuple):
    """What stays of a text."""

    runs: tuple[Units, ...]
    """Runs of units, with a hole between each two; the first begins the text and the last ends it, and where one of
    them is empty the text begins or ends with a hole."""

    @property
    def holes(self) -> int:
        return len(self.runs) - 1

    @property
    def stable(self) -> int:
        """Characters that stay."""
        return sum(map(len, chain.from_iterable(self.runs)))

    def around(self, hole: int) -> tuple[str | None, str | None]:
        """The units before and behind a hole; None at the beginning and at the end of the text."""
        before, behind = self.runs[hole], self.runs[hole + 1]
        return before[-1] if before else None, behind[0] if behind else None

    def match(self, units: Units) -> tuple[Range, ...] | None:
        """The holes of `units`, where all that stays is there in its order; None where it is not.

        >>> was = Template((("You are Ada.\\n",), ("Be brief.",)))
        >>> was.match(("You are Ada.\\n", "It is noon.\\n", "Be brief.")), was.match(("Be brief.",))
        (((1, 2),), None)
        """
        first, last = self.runs[0], self.runs[-1]
        if self.holes == 0:
            return () if units == first else None
        at, end = len(first), len(units) - len(last)
        if end < at or units[:at] != first or units[end:] != last:
            return None
        found: list[Range] = []
        for run in self.runs[1:-1]:
            begin = _find(units, run, at, end)
            if begin is None:
                return None
            found.append((at, begin))
            at = begin + len(run)
        return (*found, (at, end))


WHOLE = Template(((), ()))
"""A text of which nothing stays."""


def _find(units: Units, run: Units, start: int, end: int) -> int | None:
    size = len(run)
    return next((i for i in range(start, end - size + 1) if units[i] == run[0] and units[i : i + size] == run), None)


def with_holes(units: Units, holes: Sequence[Range]) -> Template:
    """The template of `units` with `holes`, which may touch or overlap: then they are one."""
    joined: list[Range] = []
    for start, end in sorted(holes):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    starts = [0, *(end for _, end in joined)]
    ends = [*(start for start, _ in joined), len(units)]
    return Template(tuple(units[start:end] for start, end in zip(starts, ends, strict=True)))


def merged(template: Template, units: Units) -> Template:
    """What stays of `template` in `units` too; its holes stay holes."""
    flat = tuple(chain.from_iterable(template.runs))
    if len(flat) > MOST_UNITS or len(units) > MOST_UNITS:
        return WHOLE
    borders, at = {0}, 0
    for run in template.runs:
        at += len(run)
        borders.add(at)
    pieces: list[tuple[int, int, int]] = []
    for begin, at, size in _not_by_chance(_common(flat, units), units):
        end = begin + size
        cuts = sorted({begin, end, *(border for border in borders if begin < border < end)})
        pieces.extend((one, at + one - begin, other - one) for one, other in pairwise(cuts))
    return _assembled(template, flat, units, pieces)


def _common(one: Units, other: Units) -> Iterator[tuple[int, int, int]]:
    """What two texts have in common, in order: where it begins in each, and how many units."""
    most = min(len(one), len(other))
    start = next((i for i in range(most) if one[i] != other[i]), most)
    end = next((i for i in range(most - start) if one[-1 - i] != other[-1 - i]), most - start)
    a, b = one[start : len(one) - end], other[start : len(other) - end]
    there = Counter(b)
    yield 0, 0, start
    if sum(there[unit] for unit in a) <= _MOST_PAIRS:
        for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
            yield block.a + start, block.b + start, block.size
    yield len(one) - end, len(other) - end, end


def _not_by_chance(common: Iterable[tuple[int, int, int]], units: Units) -> Iterator[tuple[int, int, int]]:
    """What is `common` without the few words that a sentence has in common with the one that stood in its place."""
    pieces, other = list(common), set[int]()
    alike = {i for _, at, size in pieces for i in range(at, at + size)}
    for sentence in _in_words(units):
        size = sum(len(units[i]) for i in sentence)
        if sum(len(units[i]) for i in sentence if i in alike) < _MOSTLY * size:
            other.update(sentence)
    for begin, at, size in pieces:
        start = 0
        for i in range(size + 1):
            if i == size or at + i in other:
                if i > start or size == 0:
                    yield begin + start, at + start, i - start
                start = i + 1


def _in_words(units: Units) -> Iterator[range]:
    """Sentences that are taken by their words, each as the range of these."""
    start = 0
    for i in range(len(units) + 1):
        words = i < len(units) and not any(map(str.isspace, units[i].strip()))
        if words and not units[i].endswith("\n"):
            continue
        end = i + words
        if end - start > 1:
            yield range(start, end)
        start = i + 1


def _assembled(template: Template, flat: Units, units: Units, pieces: Sequence[tuple[int, int, int]]) -> Template:
    runs: list[Units] = []
    for n, (a, b, size) in enumerate(pieces):
        run = units[b : b + size]
        begins = n == 0 and a == b == 0 and bool(template.runs[0])
        ends = n == len(pieces) - 1 and a + size == len(flat) and b + size == len(units) and bool(template.runs[-1])
        if not (begins or ends) and sum(len(unit.strip()) for unit in run) < _LEAST_ISLAND:
            continue
        if not runs and not begins:
            runs.append(())
        runs.append(run)
        if ends:
            break
    else:
        runs = [*(runs or [()]), ()]
    return Template(tuple(runs))


# --- What a piece of text that changed looks like: a clock, a date, an id, a counter, or just text --------------------

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
