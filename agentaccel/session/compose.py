"""How a request becomes a turn, and how a turn that has ended becomes a record and the next state.

request ─decode▶ Prompt ─conversation─▶ plan ─encode▶ Turn        (begin)
Ended ─settle▶ State, misses ─▶ TurnRecord ─▶ store                (when the turn ends)
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field, replace
from functools import partial

from agentaccel.cache.beliefs import Beliefs, snapshot_of
from agentaccel.cache.decide import decide
from agentaccel.cache.observe import Observed, observe
from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.cache.price import expected_cost, price_card
from agentaccel.clock import Clock
from agentaccel.facts import CacheFacts, Wire, cache_facts
from agentaccel.listening import Began, Listeners, Told
from agentaccel.locks import Lock
from agentaccel.loop.fanout import Fanout, Flight
from agentaccel.policy import Policy
from agentaccel.providers import PartMemory, dialect
from agentaccel.session.conversation import (
    Conversation,
    refresh,
    workload_of,
)
from agentaccel.session.fanning import Fanning
from agentaccel.session.fields import asking_usage, asking_why, can_ask_why, routed
from agentaccel.session.handle import Scope, current
from agentaccel.session.lineage import Lineage
from agentaccel.session.registry import Registry
from agentaccel.session.settlement import Going, Settlement, TurnMode
from agentaccel.trace.recorder import Recorder
from agentaccel.turn import Ended, Turn
from agentaccel.types import CachePlan, Endpoint, Prompt, Request

log = logging.getLogger("agentaccel")


_CLAUDE = Endpoint()


@dataclass(slots=True)
class Composer:
    """Composes decisions for one `Accel`. Thread-safe: a conversation is locked while its state is read or changed."""

    policy: Policy
    clock: Clock
    recorder: Recorder
    registry: Registry
    listeners: Listeners = field(default_factory=Listeners)
    fanout: Fanout = field(default_factory=Fanout)
    _parts: PartMemory = field(default_factory=PartMemory)
    _said: set[str] = field(default_factory=set)

    @property
    def _settlement(self) -> Settlement:
        return Settlement(self.recorder, self.registry, keep_content=self.policy.store.content)

    @property
    def _fanning(self) -> Fanning:
        return Fanning(self.policy, self.clock, self.fanout)

    def begin(self, request: Request, endpoint: Endpoint = _CLAUDE, *, model: str = "", attempt: int = 0) -> Turn:
        """The turn that `request` makes; planning the same request again before it ends gives the same plan.

        Where that fails, the turn sends the request as it was written and records nothing.
        """
        try:
            return self._begin(request, endpoint, model, attempt)
        except Exception:
            if self.policy.strict:
                raise
            log.exception("agentaccel: could not plan a request; it goes out as written, unrecorded")
            return Turn(request=request, plan=CachePlan(), on_end=lambda ended: None)

    def _begin(self, request: Request, endpoint: Endpoint, model: str, attempt: int) -> Turn:
        scope = current.get()
        prompt, facts = self._read(request, endpoint, model)
        conversation = self._conversation(scope, prompt, attempt)
        with conversation.lock:
            going = self._plan(conversation, scope, request, prompt, facts, attempt, endpoint.wire)
        applied = going.plan if going.mode == "on" else CachePlan()
        flight = self._fanning.flight(going, endpoint)
        return Turn(
            request=dialect(endpoint.wire).encode(request, applied),
            plan=going.plan,
            on_end=partial(self._end, going, endpoint, flight, self.listeners.begins(going.started)),
            hold=flight,
            wire=endpoint.wire,
            ttl=facts.ttls[0].label if facts is not None else "",
            hides_usage="stream_options" in applied.options,
        )

    def _end(self, going: Going, endpoint: Endpoint, flight: Flight | None, began: Began | None, ended: Ended) -> None:
        try:
            fanning = self._fanning
            going = fanning.ended(going, endpoint.account, ended)
            record = self._settlement.settle(going, ended)
            fanning.settled(going, endpoint.account, flight, ended)
            if began is not None:
                self.listeners.ended(began, Told(record, ended.message_id, ended.model, endpoint.server))
        except Exception:
            if self.policy.strict:
                raise
            log.exception("agentaccel: could not settle a turn; it is not recorded")

    def preview(self, request: Request, endpoint: Endpoint = _CLAUDE, *, model: str = "") -> CachePlan:
        """The plan for `request`, without opening or recording anything."""
        prompt, facts = self._read(request, endpoint, model)
        scope = current.get()
        session = scope.session
        known = session.conversation if session is not None else self.registry.by_lineage(prompt, Lineage(prompt))
        with (known or Conversation(id="")).lock:
            # A copy: looking at a plan must not open the conversation.
            conversation = replace(known, lock=Lock()) if known is not None else Conversation(id="")
        going = self._plan(conversation, scope, request, prompt, facts, 0, endpoint.wire)
        expected = going.plan.expected
        if expected is None:
            return going.plan
        card = price_card(
            prompt.provider,
            prompt.model,
            input_tokens=round(expected.total),
            platform=prompt.platform,
            aliases=self.policy.aliases,
            override=self.policy.prices,
        )
        return replace(going.plan, expected_cost=expected_cost(card, expected))

    # --- before -------------------------------------------------------------------------------------------------------

    def _read(self, request: Request, endpoint: Endpoint, model: str) -> tuple[Prompt, CacheFacts | None]:
        provider, platform, wire = endpoint[:3]
        name = model or str(request.get("model", ""))
        facts = cache_facts(name, provider=provider, platform=platform, wire=wire, aliases=self.policy.aliases)
        prompt = dialect(wire).decode(
            request, facts, key=self.recorder.key, place=(provider, platform), model=model, memory=self._parts
        )
        return prompt, facts

    def _conversation(self, scope: Scope, prompt: Prompt, attempt: int) -> Conversation:
        session = scope.session
        if session is not None and not session.closed:
            return session.conversation
        if session is not None:
            self._say("closed session", f"a model call was made after session {session.id!r} was left")
        if prompt.after and (known := self.registry.by_reply(prompt.after)) is not None:
            return known
        lineage = Lineage(prompt)
        if prompt.held:  # its few messages are the beginning of nothing
            return self.registry.begin(lineage, retried=attempt > 0)
        return self.registry.by_lineage(prompt, lineage) or self.registry.begin(lineage, retried=attempt > 0)

    def _plan(
        self,
        conversation: Conversation,
        scope: Scope,
        request: Request,
        prompt: Prompt,
        facts: CacheFacts | None,
        attempt: int,
        wire: Wire,
    ) -> Going:
        now = self.clock.wall()
        store = self.recorder.store
        if store is not None:
            self.recorder.read(lambda it: refresh(conversation, it, facts, prompt.provider), None)
        if conversation.created is None:
            self._open(conversation, prompt, now)
        prefix = observed = None
        if facts is not None:
            prefix = prefixes(prompt, facts, conversation.head)
            observed = observe(conversation.state, conversation.head, prefix, now)
        chosen = self._choose(conversation, prompt, prefix, observed, now)
        if chosen.wire != wire:
            chosen = replace(chosen, wire=wire)
        chosen = self._with_fields(chosen, conversation, request, prompt, facts)
        return Going(
            conversation=conversation,
            request=request,
            prompt=prompt,
            facts=facts,
            prefix=prefix,
            observed=observed,
            plan=chosen,
            mode=self._mode(conversation, scope),
            attempt=attempt,
            known_as=self.policy.aliases.get(prompt.model),
            started=now,
            head=conversation.head,
            print=conversation.print,
        )

    def _open(self, conversation: Conversation, prompt: Prompt, now: float) -> None:
        """The first request of a conversation: what is believed of its workload is fixed here."""
        conversation.workload = workload_of(prompt, conversation.agent)
        conversation.created = now
        learned = self.recorder.read(lambda store: store.beliefs(conversation.workload), Beliefs())
        conversation.snapshot = snapshot_of(learned)

    def _choose(
        self,
        conversation: Conversation,
        prompt: Prompt,
        prefix: Prefixes | None,
        observed: Observed | None,
        now: float,
    ) -> CachePlan:
        if prefix is None or observed is None:
            self._say(
                f"model {prompt.model}", f"no cache facts for model {prompt.model!r}; map it with Policy(aliases=…)"
            )
            return CachePlan(reasons=(f"no cache facts are known for model {prompt.model!r}",))
        return decide(conversation.state, observed, prefix, conversation.snapshot, now=now, ttl=self.policy.cache.ttl)

    def _with_fields(
        self,
        chosen: CachePlan,
        conversation: Conversation,
        request: Request,
        prompt: Prompt,
        facts: CacheFacts | None,
    ) -> CachePlan:
        """The plan with what else goes into the request: fields that ask, name or route."""
        wire = chosen.wire
        if wire == "chat":
            chosen = asking_usage(chosen, request, prompt)
        if facts is None or chosen.expected is None:
            return chosen
        if facts.key or facts.session_field:
            chosen = routed(chosen, request, facts, conversation, self.recorder.shared_key)
        if self.policy.cache.diagnostics and can_ask_why(facts):
            head = conversation.head
            asked = asking_why(chosen, request, head.message_id if head is not None else None)
            if asked is not chosen:
                message = "asking the provider for its cache diagnostics, as the policy allows"
                self._say("diagnostics", message, level=logging.INFO)
            chosen = asked
        return chosen

    def _mode(self, conversation: Conversation, scope: Scope) -> TurnMode:
        if scope.bypass:
            return "bypass"
        if self.policy.mode == "observe":
            return "observe"
        if not self.policy.holdout:
            return "on"
        key = self.recorder.shared_key
        drawn = hashlib.blake2b(conversation.id.encode("utf-8", "replace"), digest_size=8, key=key).digest()
        return "holdout" if int.from_bytes(drawn) < self.policy.holdout * 2**64 else "on"

    def _say(self, what: str, message: str, level: int = logging.WARNING) -> None:
        """One log line per thing."""
        if what not in self._said:
            self._said.add(what)
            log.log(level, "agentaccel: %s", message)
