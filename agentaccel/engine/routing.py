"""Fields that say whose request it is: which machine or upstream it goes to, and who may read what it writes.

What separates caches separates tenants, and nothing else does; what routes keeps a conversation together. A
conversation has the same values for life, in every process, and each is a keyed hash: it tells nobody a name.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.draft import Draft
from agentaccel.facts import CacheFacts, priors
from agentaccel.hashing import keyed, pseudonym
from agentaccel.locks import Lock
from agentaccel.policy import CachePolicy
from agentaccel.rewrite.drift import text_of
from agentaccel.store.codec import Routed
from agentaccel.store.recorder import Recorder
from agentaccel.types import CachePlan, Prompt, Request, value_at

# --- Where a provider chooses a machine by the beginning of a prompt and a key: which key a conversation gets ---------
# One machine stands so many requests a minute of one beginning; what comes beyond goes to others, which have not seen
# it. So conversations that begin alike share a machine for as long as they fit, and are spread over more machines,
# each conversation on one of its own choice, once they do not:
#
#     shard = shard_of(name, traffic.loads(front, …), adds=…, most=…)     a new conversation's, which it keeps
#     traffic.sent(front, shard, name, now)                               each of its requests
#
# Every further machine has to compute once what all begin with, so there are no more of them than the traffic needs.

_MOST_FRONTS = 1024
"""Beginnings remembered."""
_MOST_TIMES = 256
"""Requests of one conversation that are counted in a minute."""


def shard_of(name: str, loads: Mapping[int, float], *, adds: float, most: float) -> int:
    """The shard for a new conversation called `name` that adds so much to `loads` (requests a minute, by shard).

    The first one that has room among as many as the traffic needs, in an order of the conversation's own, so that all
    processes agree; then any that is in use already, and at last a new one.

    >>> [shard_of(name, {}, adds=4.0, most=12.0) for name in "abcdef"]
    [0, 0, 0, 0, 0, 0]
    >>> shard_of("a", {0: 12.0}, adds=4.0, most=12.0), shard_of("a", {0: 12.0, 1: 12.0, 5: 4.0}, adds=4.0, most=12.0)
    (1, 2)
    """
    adds = min(adds, most)
    needed = max(1, math.ceil((sum(loads.values()) + adds) / most))
    preferred = sorted(range(needed), key=lambda shard: _weight(name, shard), reverse=True)
    for shard in (*preferred, *sorted(loads)):
        if loads.get(shard, 0.0) + adds <= most:
            return shard
    return next(shard for shard in range(len(loads) + 1) if shard not in loads)


def _weight(name: str, shard: int) -> bytes:
    """Rendezvous: which shards a conversation prefers does not depend on how many there are."""
    return blake2b(f"{shard} {name}".encode("utf-8", "replace"), digest_size=8).digest()


@dataclass(slots=True)
class _Talk:
    """A conversation that was heard of in the last minute."""

    shard: int
    since: float
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_TIMES))


@dataclass(slots=True)
class Traffic:
    """What this process has sent in the last minute, by beginning. Thread-safe; reads no clock."""

    _fronts: OrderedDict[str, dict[str, _Talk]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def sent(self, front: str, shard: int, name: str, now: float) -> None:
        """A request of the conversation called `name` goes out."""
        with self._lock:
            talks = self._fronts.setdefault(front, {})
            talk = talks.get(name)
            if talk is None or talk.shard != shard or talk.times[-1] <= now - _MINUTE:
                talk = talks[name] = _Talk(shard, now)
            talk.times.append(now)
            self._fronts.move_to_end(front)
            while len(self._fronts) > _MOST_FRONTS:
                self._fronts.popitem(last=False)

    def loads(self, front: str, now: float, expected: float) -> dict[int, float]:
        """Requests a minute by shard; a conversation that is younger than that counts for `expected` at least."""
        loads: dict[int, float] = {}
        with self._lock:
            talks = self._fronts.get(front, {})
            for name in [name for name, talk in talks.items() if talk.times[-1] <= now - _MINUTE]:
                del talks[name]
            for talk in talks.values():
                while talk.times[0] <= now - _MINUTE:
                    talk.times.popleft()
                young = talk.since > now - _MINUTE
                count = float(len(talk.times))
                loads[talk.shard] = loads.get(talk.shard, 0.0) + (max(count, expected) if young else count)
        return loads


_FULL = 0.8
"""Share of a machine's rate that conversations are put on: the rate is given as "approximately"."""
_MINUTE = 60.0
_RETENTION = "prompt_cache_retention"
_OTHERS = 500
"""Most of the latest requests of all processes that are looked at."""


class Field(NamedTuple):
    """A field that goes into the request, and why."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Routing:
    """Composes these fields for one `Accel`. Thread-safe."""

    policy: CachePolicy
    recorder: Recorder
    traffic: Traffic

    def routed(
        self,
        plan: CachePlan,
        draft: Draft,
        conversation: Conversation,
        now: float,
        *,
        on: bool,
        others: Sequence[Routed] = (),
    ) -> CachePlan:
        """The plan with what routes the request and keeps tenants apart; the sender's own fields stay.

        A request whose history the provider holds gets what the conversation has had from its beginning, because
        another key is another cache or machine. `on` says that the plan goes out: then a route is chosen for good, with
        a look at the `others` that were sent in the last minute.
        """
        request, prompt, facts = draft.request, draft.prompt, draft.facts
        if facts is None or (plan.expected is None and not prompt.held):
            return plan
        if on and not conversation.state.route and facts.key == "routes" and facts.controls:
            conversation.state = replace(conversation.state, route=self._route(draft, facts, conversation, now, others))
        found = [one for one in self._fields(prompt, request, facts, conversation) if one.name not in request]
        if not found:
            return plan
        options = {**plan.options, **{one.name: one.value for one in found}}
        return replace(plan, options=options, reasons=(*plan.reasons, *(one.reason for one in found)))

    def sent(self, conversation: Conversation, now: float) -> None:
        """A request of the conversation goes out to the machine that was chosen for it."""
        shard, _, front = conversation.state.route.partition(" ")
        self.traffic.sent(front, int(shard), conversation.id, now)

    # --- what goes into the request -----------------------------------------------------------------------------------

    def _fields(
        self, prompt: Prompt, request: Request, facts: CacheFacts, conversation: Conversation
    ) -> Iterator[Field]:
        tenant = (conversation.tenant or "") if self.policy.isolate_tenants else ""
        if tenant and facts.salt_field:
            yield Field(facts.salt_field, self._named("tenant", tenant), "keeps the tenant's prefixes apart")
        if facts.controls:
            if tenant and facts.key == "partitions":
                yield Field(facts.key_field, self._named("tenant", tenant), "keeps the tenant's prefixes apart")
            shard = conversation.state.route.partition(" ")[0]
            if facts.key == "routes" and shard not in ("", "0"):
                reason = "keeps the conversation on a machine of its own: others that begin alike fill the first"
                yield Field(facts.key_field, self._named("route", conversation.state.route), reason)
        if prompt.held:
            return
        yield from self._sticky(request, facts, conversation, tenant)
        if facts.controls and facts.physics == "automatic" and self.policy.retention in facts.retentions:
            yield Field(_RETENTION, str(self.policy.retention), "as CachePolicy.retention says")

    def _sticky(self, request: Request, facts: CacheFacts, conversation: Conversation, tenant: str) -> Iterator[Field]:
        """Names the conversation to who routes by it, and gives a key where a provider caches by key alone."""
        if facts.session_field and not _pinned(request):
            name = self._named("session", conversation.id)
            yield Field(facts.session_field, name, "keeps the conversation on one upstream")
        if facts.key == "opts_in":
            name = self._named("workload", conversation.workload, tenant)
            yield Field(facts.key_field, name, "the provider caches by key alone")
        elif facts.key == "sticks":
            name = self._named("session", conversation.id)
            yield Field(facts.key_field, name, "keeps the conversation on one server")

    def _named(self, *parts: str) -> str:
        """A name that tells nobody what it is made of, the same in every process that shares the store."""
        return pseudonym(self.recorder.shared_key, *parts)

    # --- which machine ------------------------------------------------------------------------------------------------

    def _route(
        self, draft: Draft, facts: CacheFacts, conversation: Conversation, now: float, others: Sequence[Routed]
    ) -> str:
        """The shard of a conversation, and what its machine is chosen by beside that; empty where it cannot be told.

        The first shard is the one without a key, where the conversation is anyhow: one that has been answered stays.
        """
        request, prompt = draft.request, draft.prompt
        if prompt.held or not facts.key_rate or facts.key_field in request:
            return ""
        front = front_of(request, prompt, facts, self.recorder.shared_key)
        if conversation.state.turns:
            return f"0 {front}"
        others = [row for row in others if row.route.partition(" ")[2] == front]
        expected = _expected(conversation.snapshot, tools=prompt.starts[1] > 0)
        loads = self.traffic.loads(front, now, expected)
        answered: dict[int, float] = {}
        for one in others:
            shard = int(one.route.partition(" ")[0])
            young = expected if one.created > now - _MINUTE else 0.0
            answered[shard] = answered.get(shard, 0.0) + max(float(one.requests), young)
        loads = {shard: max(load.get(shard, 0.0) for load in (loads, answered)) for shard in {*loads, *answered}}
        return f"{shard_of(conversation.id, loads, adds=expected, most=facts.key_rate * _FULL)} {front}"

    def others(self, now: float) -> list[Routed]:
        """The sessions that were answered in the last minute, by any process that shares the store. Reads the store."""
        return self.recorder.read(lambda store: store.routes(now - _MINUTE, _OTHERS), list[Routed]())


def front_of(request: Request, prompt: Prompt, facts: CacheFacts, key: bytes) -> str:
    """A name for what a machine is chosen by: the model and the first tokens of the prompt."""
    left = round(facts.key_front * facts.bytes_per_token)
    hashed = keyed(key).copy()
    hashed.update(prompt.model.encode("utf-8", "surrogatepass"))
    for segment in prompt.segments:
        if left <= 0:
            break
        data = text_of(value_at(request, segment.path))[:left]
        hashed.update(b"\x00" + segment.kind.encode() + b"\x00" + data)
        left -= len(data)
    return hashed.digest().hex()[:32]


def is_elsewhere(plan: CachePlan, facts: CacheFacts) -> bool:
    """Whether a field of ours sends the request to another machine or cache than it would have gone to, or has entries
    kept for longer: what it would have cost without is then not told by what it found."""
    names = (facts.salt_field, facts.key_field, facts.session_field, _RETENTION)
    return any(name in plan.options for name in names if name)


def _expected(beliefs: Beliefs, *, tools: bool) -> float:
    """Requests that a new conversation is expected to make in its first minute."""
    total = goes_on = 1.0
    for turn in range(priors().requests_a_minute - 1):
        goes_on *= beliefs.followed(turn, tools=tools)
        total += goes_on
    return total


def _pinned(request: Request) -> bool:
    """Whether the sender chose the upstream, which switches sticky routing off."""
    provider = request.get("provider")
    return isinstance(provider, Mapping) and "order" in provider
