"""Write epochs: whether anything that may write has run since a read was started.

The world is divided into scopes that tools declare. What declares none touches all of it. A read is fresh while the
version of its scope is the one that it was started at and the scope is open: a write closes its scope while it runs
and changes the version as it begins and as it ends, however it ends, so a read that overlaps a write is dead. A call
of which it is not known yet whether it writes closes its scope, too, until that is known.

Writes by other processes are out of sight here; witnesses and maximum ages are for those.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple


class Version(NamedTuple):
    """What was last written, as numbers that are never given twice."""

    everywhere: int
    here: int


class WriteEpochs:
    """Versions of scopes. Thread-safe without a lock: every change is one assignment of a number that is new.

    >>> world = WriteEpochs()
    >>> files, mails = world.version("files"), world.version("mails")
    >>> world.ends(world.begins("files"))
    >>> world.holds(files, "files"), world.holds(mails, "mails")
    (False, True)
    """

    __slots__ = ("_any", "_everywhere", "_here", "_numbers", "_open")

    def __init__(self) -> None:
        self._numbers = count(1)
        self._any = 0
        """The last write of all, which is what a read of everything depends on."""
        self._everywhere = 0
        """The last write that declared no scope."""
        self._here: dict[str, int] = {}
        """The last write of each scope."""
        self._open: dict[int, str | None] = {}
        """Domains that are closed, by the call that closes them."""

    def version(self, scope: str | None) -> Version:
        """What a read of `scope` that starts now depends on; None is a read of everything."""
        if scope is None:
            return Version(self._any, self._any)
        return Version(self._everywhere, self._here.get(scope, 0))

    def closed(self, scope: str | None) -> bool:
        """True if something that writes there, or may, is under way."""
        if not self._open:
            return False
        if scope is None:
            return True
        return any(one is None or one == scope for one in tuple(self._open.values()))

    def holds(self, version: Version, scope: str | None) -> bool:
        """True if a read started at `version` still tells how things are."""
        return version == self.version(scope) and not self.closed(scope)

    def begins(self, scope: str | None) -> int:
        """A call that writes in `scope` is about to run; returns what `ends` has to be given."""
        call = self._wrote(scope)
        self._open[call] = scope
        return call

    def ends(self, call: int) -> None:
        """It has run, failed or been cancelled."""
        self._wrote(self._open[call])
        self._open.pop(call, None)

    def suspect(self, scope: str | None) -> int:
        """A call is about to run of which it is not known whether it writes; returns what `resolve` has to be given."""
        call = next(self._numbers)
        self._open[call] = scope
        return call

    def resolve(self, call: int, *, ended: bool, writes: bool) -> None:
        """It is known now. One that writes and has not `ended` goes on as one that `begins` returned."""
        if writes:
            self._wrote(self._open[call])
        if ended or not writes:
            self._open.pop(call, None)

    def _wrote(self, scope: str | None) -> int:
        number = next(self._numbers)
        if scope is None:
            self._everywhere = number
        else:
            self._here[scope] = number
        self._any = number
        return number
