"""Replies that have not told all when their exchange is over, be it that they are still being made or that their usage
is not known yet: a later one of the same `Accel` tells the rest. So are results of batches."""

from __future__ import annotations

import atexit
from collections import OrderedDict
from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol
from weakref import WeakSet

from agentaccel.engine.draft import reported
from agentaccel.engine.scope import current
from agentaccel.hashing import digest, wire_bytes
from agentaccel.locks import Lock, forks
from agentaccel.policy import Policy
from agentaccel.records import BATCH, TurnRecord
from agentaccel.store.recorder import Recorder
from agentaccel.store.store import TurnWrite
from agentaccel.turn import Abandoned, Failed, Finished, Turn
from agentaccel.types import Endpoint
from agentaccel.values import kept_name, kept_name_or_none
from agentaccel.wire import dialect
from agentaccel.wire.batches import BatchResult
from agentaccel.wire.json import name_of, unusual

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


class OpenReply(Protocol):
    """A reply on its way to whoever reads it."""

    def end(self, how: Literal["closed"]) -> None: ...


class Replies:
    """Those of this process that are being read, or that nobody reads any more and somebody holds. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held = WeakSet[OpenReply]()
        self._forks = forks()
        self.later = PendingReplies()
        """Those that are still being made, whose end a later exchange tells."""

    def add(self, reply: OpenReply) -> None:
        """One has begun."""
        with self._lock:
            self._here().add(reply)

    def end(self) -> None:
        """All of them are over."""
        with self._lock:
            held = tuple(self._here())
        for reply in held:
            reply.end("closed")
        self.later.end()

    def _here(self) -> WeakSet[OpenReply]:
        if self._forks != forks():  # what its parent reads, the parent tells
            self._held, self._forks = WeakSet(), forks()
        return self._held


def _end(replies: Iterable[Unfinished]) -> None:
    for reply in replies:
        reply.turn.handle(reply.otherwise)


# --- Results of batches as records: each is one request, whoever reads it and however often ---------------------------


class Batch(NamedTuple):
    """A batch whose results are being read."""

    id: str
    """The provider's name for it; at OpenAI, for the file with its results."""
    endpoint: Endpoint
    """Where requests like its own are sent one by one."""
    agent: str | None = None
    tenant: str | None = None


def batch_here(owner: int, id_: str, endpoint: Endpoint) -> Batch:
    """The batch `id_`, read by the agent and for the tenant whose session of that `owner` is open here."""
    session = current.get().of(owner).session
    if session is None:
        return Batch(id_, endpoint)
    return Batch(id_, endpoint, session.conversation.agent, session.conversation.tenant)


def record_result(recorder: Recorder, policy: Policy, now: float, batch: Batch, result: BatchResult) -> None:
    """Leave the record of a result that was read, if no reader has left it before in the same store.

    Its session is the batch. When it was made is told by OpenAI alone; where it is not, that is `now` (wall time).
    Without a reply there is no record: nothing was billed.
    """
    if result.reply is None:
        return
    tap, provider, platform = dialect(result.wire).reply_tap(False), batch.endpoint.provider, batch.endpoint.platform
    calls = (*tap.feed(wire_bytes(result.reply)), *tap.finish())
    said, model = reported(tap), kept_name(tap.model or "")
    made = next((result.reply[name] for name in ("created", "created_at") if name in result.reply), None)
    if isinstance(made, bool) or not isinstance(made, int | float) or not 0 < made < now:
        made = now
    terms = unusual({"region": batch.endpoint.region, **said.terms, "service_tier": "batch"})
    record = TurnRecord(
        session=kept_name(batch.id),
        provider=provider,
        platform=platform,
        model=model,
        known_as=policy.aliases.get(model),
        agent=batch.agent,
        tenant=batch.tenant,
        started=float(made),
        outcome="ok" if tap.error is None else "failed",
        error=kept_name_or_none(tap.error),
        mode=BATCH,
        usage=said.usage,
        answered_by=kept_name_or_none(said.model),
        besides=said.besides,
        doubts=said.doubts,
        terms={kept_name(name): kept_name(value) for name, value in terms.items()},
        stop=kept_name_or_none(said.stop),
        calls=tuple(kept_name(call.name) for call in calls),
    )
    named = (provider, platform, batch.id, result.custom_id, name_of(result.reply.get("id")))
    hash_ = digest(wire_bytes(named), recorder.key)
    recorder.write(TurnWrite(record, once=_row(hash_)))


def _row(hash_: bytes) -> int:
    """A row of the store that nothing but what has this hash is written to: below 0, as those of requests are above.

    >>> _row(bytes(16)), _row(b"\\xff" * 16) == -(2**63)
    (-1, True)
    """
    return -1 - (int.from_bytes(hash_[:8]) >> 1)
