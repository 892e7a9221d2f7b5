"""What an import of logs came across, and how it is told how far that is; apart from what reads them, which is much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes there were when the import began."""

LISTED = 5
"""Names that a sentence lists."""


@dataclass(slots=True, kw_only=True)
class ImportTally:
    """What an import came across; filled while the records are read, complete when the last one is out."""

    files: int = 0
    """Files whose format was recognised."""
    lines: int = 0
    skipped: int = 0
    """Lines that could not be read: garbage, or longer than what is kept of one."""
    cut: int = 0
    """Last lines that were cut, or still being written; not part of `skipped`."""
    duplicates: int = 0
    """Replies that another file of the same import had already told of (resumed and forked sessions)."""
    nested: int = 0
    """Spans that told of the same call as one inside them."""
    unread_lines: int = 0
    """Lines with messages in no form that is known."""
    unread_forms: Counter[str] = field(default_factory=Counter)
    """The fields of such lines."""
    unread_spans: int = 0
    """Spans whose counters are not understood: of none of them a request was made."""
    unread_names: Counter[str] = field(default_factory=Counter)
    """The attributes that seem to count tokens there."""
    kindless: Counter[str] = field(default_factory=Counter)
    """What spans call themselves that count tokens and are of no kind that is known: of none a request was made."""
    half_read: Counter[str] = field(default_factory=Counter)
    """Attributes that seem to count what the cache did, of requests whose other counters were understood."""
    sums: int = 0
    """Agents that tell the usage of all their requests together, and of no single one."""
    unrecognised: list[str] = field(default_factory=list)
    """Files in neither of the known formats."""
    unreadable: list[str] = field(default_factory=list)
    """Files that could not be read to their end, as "path: why"."""
    contentless: list[str] = field(default_factory=list)
    """Trace stores where content was looked for, each with how many of its sessions have none."""
    empty: int = 0
    """Files without a single line."""

    def gaps(self, known: str) -> list[str]:
        """What could not be read or understood, as sentences; of files that were not recognised, that they are
        `known`."""
        found = {
            f"lines that could not be read, and were skipped: {self.skipped:,} of {self.lines:,}": self.skipped,
            f"last lines that were cut or still being written, and were skipped: {self.cut:,}": self.cut,
            f"lines in no known form, which were not read: {self.unread_lines:,} "
            f"(with {some_of(sorted(self.unread_forms))})": self.unread_lines,
            f"spans whose counters are not understood, and of which no request was made: {self.unread_spans:,} "
            f"({some_of(sorted(self.unread_names))})": self.unread_spans,
            "spans that count tokens and are of no known kind, and of which no request was made: "
            f"{self.kindless.total():,} ({some_of(sorted(self.kindless))})": self.kindless,
            f"requests whose cache counters are not understood: {some_of(sorted(self.half_read))}": self.half_read,
            f"agents that tell only the sum of their requests, which is in no figure: {self.sums:,}": self.sums,
            f"{known}: {some_of(self.unrecognised)}": self.unrecognised,
            f"not readable to the end: {some_of(self.unreadable)}": self.unreadable,
        }
        return [note for note, any_ in found.items() if any_]

    def notes(self, known: str) -> list[str]:
        """All that was left out: `gaps` and `others`."""
        return [*self.gaps(known), *self.others()]

    def others(self) -> list[str]:
        """What was left out because it would have counted twice, or tells of nothing, as sentences."""
        found = {
            f"replies or runs that were there more than once, and count once: {self.duplicates:,}": self.duplicates,
            f"spans that told of the same call as one inside them, which counts once: {self.nested:,}": self.nested,
            f"empty files: {self.empty:,}": self.empty,
            f"sessions without content, which StorePolicy(content=True) keeps: {some_of(self.contentless)}": (
                self.contentless
            ),
        }
        return [note for note, any_ in found.items() if any_]


def some_of(names: Sequence[str]) -> str:
    """The first few of `names`, and how many more there are.

    >>> some_of(["a", "b", "c", "d", "e", "f", "g"])
    'a, b, c, d, e and 2 more'
    """
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more:,} more" if more > 0 else "")
