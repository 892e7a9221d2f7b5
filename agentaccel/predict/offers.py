"""How often offers were right: by their rank, at all and after each symbol.

The first of a list may be asked for always and the fourth never, so ranks are counted apart, in classes. What was seen
after the same symbol weighs more than what was seen at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

MOST_BEFORE = 8
"""Symbols after which offers are counted apart; the one met least goes."""
_RANKS = (0, 1, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4)
"""Class of a place in the order of offers."""
CLASSES = 5
_PRIOR, _WORTH = 0.15, 1.5
"""What an offer is expected to be worth before it was seen, and what that weighs, in sightings."""
_GENERAL = 3.0
"""What all that was seen weighs against what was seen after the same symbol, in sightings."""

Sensitive = Callable[[str, str], bool]
"""Whether the value of an argument of a tool must not be learned: tool, argument."""


class Stat:
    """How often offers were made and right, by class of rank; at all, and after each symbol."""

    __slots__ = ("_session", "after", "all", "kind", "name", "openings", "sessions", "worth")

    def __init__(self, name: str = "", kind: str = "") -> None:
        self.name, self.kind = name, kind
        self.all = [0.0] * (2 * CLASSES)
        self.after: dict[str, list[float]] = {}
        self.sessions = 0
        """In how many it was right."""
        self.openings = 0
        """The same, without those that began like an earlier one."""
        self._session = 0
        self.worth = 0.0
        """What it is kept for: a low estimate of how often it was right, in its best class of rank."""

    def learn(self, before: str, right: Sequence[bool], session: int, *, repeats: bool = False) -> None:
        """Take in which of the offers made after `before` were right, in order; `repeats`: in such a session."""
        there = self.after.get(before)
        if there is None:
            self._make_room(MOST_BEFORE - 1)
            there = self.after[before] = [0.0] * (2 * CLASSES)
        every = self.all
        for rank, one in enumerate(right):
            at = 2 * _RANKS[rank]
            every[at] += 1.0
            there[at] += 1.0
            if one:
                every[at + 1] += 1.0
                there[at + 1] += 1.0
        if session != self._session and True in right:
            self._session = session
            self.sessions += 1
            self.openings += not repeats
        self._weigh()

    def limit(self) -> None:
        """After its counts were changed from outside."""
        self._make_room(MOST_BEFORE)
        self._weigh()

    def _make_room(self, most: int) -> None:
        while len(self.after) > most:
            del self.after[min(self.after, key=lambda one: (self.after[one][0], one))]

    def _weigh(self) -> None:
        self.worth = max(
            [(right + 0.1) / (met + 2.0) for met, right in zip(self.all[::2], self.all[1::2], strict=True)]
        )

    def rate(self, before: str, rank: int) -> float:
        """How probable it is that the offer of this rank is right, given that the tool is called."""
        at = 2 * _RANKS[rank]
        every = (self.all[at + 1] + _PRIOR * _WORTH) / (self.all[at] + _WORTH)
        there = self.after.get(before)
        return every if there is None else (there[at + 1] + _GENERAL * every) / (there[at] + _GENERAL)

    @property
    def seen(self) -> float:
        return self.all[0]


def limit(table: dict[Any, Any], most: int, worth: Callable[[Any], float], keep: Iterable[Any] = ()) -> None:
    """Drop what is worth least, the oldest of equals."""
    kept = set(keep)
    excess = len(table) - most
    if excess > 0:
        for one in sorted((one for one in table if one not in kept), key=worth)[:excess]:
            del table[one]
