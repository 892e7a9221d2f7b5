"""Telling what an import has met before, in copies that may lack a part of what names it."""

from __future__ import annotations

from collections.abc import Hashable


class Identities:
    """Things met before, by the names that each has: the first kind of name that two of them both have says whether
    they are the same.

    Kept is a number for each name, made of it and of which kinds stand before it.

    >>> seen = Identities()
    >>> [seen.met(*one) for one in (("m1", "r1"), (None, "r1"), ("m2", "r1"), ("m1",))]
    [False, True, False, True]
    >>> [seen.met(*one) for one in (("m3", None, "u3"), (None, "r3", "u3"), (None, None, "u3"), (None, None, None))]
    [False, True, True, False]
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def met(self, *names: Hashable | None) -> bool:
        """True if what has these names, one of each kind, has been met before; from now on it has been."""
        seen, before, own, found = self._seen, 0, 1, []
        for name in names:
            if name is not None:
                hashed = hash(name)
                if hashed + own in seen or (before != own - 1 and self._told(hashed, own, before)):
                    for place, other in enumerate(names):
                        self.also(other, place)
                    return True
                found.append(hashed + (own | before))
                before |= own
            own <<= 1
        seen.update(found)
        return False

    def also(self, name: Hashable | None, place: int) -> None:
        """A thing that has been met has this name, too, of the kind `place`; it has names of the kinds before."""
        if name is not None:
            self._seen.add(hash(name) + (2 << place) - 1)

    def _told(self, hashed: int, own: int, before: int) -> bool:
        """True if that name of the kind `own` is one of a thing that has no name of the kinds in `before`."""
        return any(hashed + (own | others) in self._seen for others in range(own) if not others & before)
