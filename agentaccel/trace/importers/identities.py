"""Telling what an import has met before, in copies that may lack a part of what names it."""

from __future__ import annotations

from collections.abc import Hashable


class Identities:
    """Things met before: of each its name, and other marks of it.

    Two things that both have a name are the same if the names are. Where a copy lacks the name, another mark says so.
    Kept is a number for each name and mark.

    >>> seen = Identities()
    >>> [seen.met(*one) for one in (("m1", "r1"), (None, "r1"), ("m2", "r1"), ("m1",))]
    [False, True, False, True]
    """

    __slots__ = ("_marks", "_nameless", "_names")

    def __init__(self) -> None:
        self._names: set[int] = set()
        self._marks: set[int] = set()
        """Of things that have a name."""
        self._nameless: set[int] = set()
        """Marks of things that have none."""

    def met(self, name: Hashable | None, mark: Hashable | None = None) -> bool:
        """True if it has been met before; from now on it has been. A log has many: no loop, no tuple."""
        marked = hash(mark) if mark is not None else None
        if name is not None:
            own = hash(name)
            known = own in self._names or (marked is not None and marked in self._nameless)
            self._names.add(own)
            if marked is not None:
                self._marks.add(marked)
            return known
        if marked is None:
            return False
        if marked in self._marks or marked in self._nameless:
            return True
        self._nameless.add(marked)
        return False
