"""Write epochs: whether anything that may write has run since a read was started.

The world is divided into domains that tools declare. What declares none touches all of it. A read is fresh while the
version of its domain is the one that it was started at and the domain is open: a write closes its domain while it runs
and changes the version as it begins and as it ends, however it ends, so a read that overlaps a write is dead. A call
of which it is not known yet whether it writes closes its domain, too, until that is known.

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
    """Versions of domains. Thread-safe without a lock: every change is one assignment of a number that is new.

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
        """The last write that declared no domain."""
        self._here: dict[str, int] = {}
        """The last write of each domain."""
        self._open: dict[int, str | None] = {}
        """Domains that are closed, by the call that closes them."""

    def version(self, domain: str | None) -> Version:
        """What a read of `domain` that starts now depends on; None is a read of everything."""
        if domain is None:
            return Version(self._any, self._any)
        return Version(self._everywhere, self._here.get(domain, 0))

    def closed(self, domain: str | None) -> bool:
        """Whether something that writes there, or may, is under way."""
        if not self._open:
            return False
        if domain is None:
            return True
        return any(one is None or one == domain for one in tuple(self._open.values()))

    def holds(self, version: Version, domain: str | None) -> bool:
        """Whether a read started at `version` still tells how things are."""
        return version == self.version(domain) and not self.closed(domain)

    def begins(self, domain: str | None) -> int:
        """A call that writes in `domain` is about to run; returns what `ends` has to be given."""
        call = self._wrote(domain)
        self._open[call] = domain
        return call

    def ends(self, call: int) -> None:
        """It has run, failed or been cancelled."""
        self._wrote(self._open[call])
        self._open.pop(call, None)

    def pends(self, domain: str | None) -> int:
        """A call is about to run of which it is not known whether it writes; returns what `settles` has to be given."""
        call = next(self._numbers)
        self._open[call] = domain
        return call

    def settles(self, call: int, *, ended: bool, writes: bool) -> None:
        """It is known now. One that writes and has not `ended` goes on as one that `begins` returned."""
        if writes:
            self._wrote(self._open[call])
        if ended or not writes:
            self._open.pop(call, None)

    def _wrote(self, domain: str | None) -> int:
        number = next(self._numbers)
        if domain is None:
            self._everywhere = number
        else:
            self._here[domain] = number
        self._any = number
        return number
