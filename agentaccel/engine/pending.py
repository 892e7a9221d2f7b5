"""Replies that have not told all when their exchange is over, be it that they are still being made or that their usage
is not known yet: a later one of the same `Accel` tells the rest."""

from __future__ import annotations

import atexit
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from agentaccel.locks import Lock, forks
from agentaccel.turn import Abandoned, Failed, Finished, Turn

_MOST = 256
"""Such replies that are waited for; of an older one nothing more will be known."""

Server = tuple[str, int] | None
"""As in `Endpoint`."""


class Unfinished(NamedTuple):
    """A reply that has not told all."""

    id: str
    """The provider's name for it."""
    turn: Turn
    """The request that it answers."""
    otherwise: Finished | Abandoned | Failed
    """How the turn ends if nobody tells more."""


class PendingReplies:
    """The unfinished replies of this process, by server and id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept = OrderedDict[tuple[Server, str], Unfinished]()
        self._forks = forks()
        self._stays = False
        """True if what is waited for is recorded when the program ends."""

    def keep(self, server: Server, reply: Unfinished) -> None:
        """Wait for `reply` of `server`; of the oldest one beyond the bound, no more."""
        with self._lock:
            kept = self._here()
            over = [kept.pop((server, reply.id), None)]
            kept[server, reply.id] = reply
            if len(kept) > _MOST:
                over.append(kept.popitem(last=False)[1])
            if not self._stays:
                self._stays = True
                atexit.register(self.end)
        _end(one for one in over if one is not None)

    def named(self, server: Server, path: str) -> Unfinished | None:
        """The reply of `server` that the path of a URL names; None where it names none that is waited for."""
        if not self._kept:
            return None
        with self._lock:
            kept = self._here()
            return next((kept[server, part] for part in path.split("/") if (server, part) in kept), None)

    def take(self, server: Server, reply: Unfinished) -> bool:
        """True if `reply` was still waited for; it is not any more, and whoever is told so ends its turn."""
        with self._lock:
            kept = self._here()
            now = kept.get((server, reply.id))
            if now is None or now.turn is not reply.turn:
                return False
            del kept[server, reply.id]
            return True

    def end(self) -> None:
        """Nothing is waited for any more."""
        with self._lock:
            over = list(self._here().values())
            self._kept.clear()
        _end(over)

    def _here(self) -> OrderedDict[tuple[Server, str], Unfinished]:
        if self._forks != forks():  # what its parent waits for, the parent tells
            self._kept, self._forks = OrderedDict(), forks()
        return self._kept


def _end(replies: Iterable[Unfinished]) -> None:
    for reply in replies:
        reply.turn.handle(reply.otherwise)
