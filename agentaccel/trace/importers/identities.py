"""Telling what an import has met before, in copies that may lack a part of what names it."""

from __future__ import annotations

from collections.abc import Hashable


class Identities:
    """Things met before: of each its name, and other marks of it.

    Two things that both have a name are the same if the names are. Where a copy lacks the name, any other mark that
    both have says so. Kept are numbers, up to two for each name and mark.

    >>> seen = Identities()
    >>> [seen.met(*one) for one in (("m1", "r1"), (None, "r1"), ("m2", "r1"), ("m1",))]
    [False, True, False, True]
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def met(self, name: Hashable | None, *others: Hashable | None) -> bool:
        """True if it has been met before; from now on it has been."""
        seen = self._seen
        marks = [mark for mark in others if mark is not None]
        if name is not None:
            own = hash(("name", name))
            known = own in seen or any(hash(("nameless", mark)) in seen for mark in marks)
            seen.add(own)
            seen.update([hash(("named", mark)) for mark in marks])
        else:
            known = any(hash(("named", mark)) in seen for mark in marks)
            if not known:  # of one that was met under its name, nothing new was heard
                nameless = [hash(("nameless", mark)) for mark in marks]
                known = any(mark in seen for mark in nameless)
                seen.update(nameless)
        return known
