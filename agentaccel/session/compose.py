"""How a request becomes a turn, and how a turn that has ended becomes a record and the next state.

request ─decode▶ Prompt ─conversation─▶ plan ─encode▶ Turn        (begin)
Ended ─settle▶ State, misses ─▶ TurnRecord ─▶ store                (when the turn ends)
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from agentaccel.cache.beliefs import Beliefs, Observation
from agentaccel.cache.marks import marks_of
from agentaccel.cache.observe import Observed, observe
from agentaccel.cache.plan import plan
from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.cache.price import PriceCard, price_card
from agentaccel.cache.settle import Sent, Settled, settle
from agentaccel.cache.state import Head, head_of
from agentaccel.cache.weigh import View
from agentaccel.canonical import wire_bytes
from agentaccel.clock import Clock
from agentaccel.facts import CacheFacts, cache_facts, priors
from agentaccel.policy import Policy
from agentaccel.prompt.drift import Print, drift, imprint, value_at
from agentaccel.providers import anthropic
from agentaccel.session.conversation import (
    Conversation,
    dump_head,
    lineage_written,
    refresh,
    row_of,
    workload_of,
)
from agentaccel.session.handle import Scope, current
from agentaccel.session.registry import Registry
from agentaccel.trace.recorder import Recorder
from agentaccel.trace.store import TurnWrite
from agentaccel.turn import Ended, Turn
from agentaccel.types import CachePlan, Expected, Prompt, Request, Segment, TurnRecord

log = logging.getLogger("agentaccel")

TurnMode = Literal["on", "observe", "holdout", "bypass"]

_STRONGEST_SNAPSHOT = {"stable/": 6.0, "goes_on/": 40.0, "shared": 40.0, "bytes/": 1e6}
"""The most occasions that past sessions count for beside what this one shows, by the beginning of the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Going:
    """A turn under way: everything that its settlement needs and that later turns must not change."""

    conversation: Conversation
    request: Request
    prompt: Prompt
    facts: CacheFacts | None
    prefix: Prefixes | None
    observed: Observed | None
    plan: CachePlan
    """As computed, whether or not it was applied."""
    mode: TurnMode
    attempt: int
    started: float
    """Wall time."""
    head: Head | None
    print: Print | None


@dataclass(slots=True)
class Composer:
    """Composes decisions for one `Accel`. Thread-safe: a conversation is locked while its state is read or changed."""

    policy: Policy
    clock: Clock
    recorder: Recorder
    registry: Registry
    _said: set[str] = field(default_factory=set)

    def begin(self, request: Request, *, platform: str = "api", model: str = "", attempt: int = 0) -> Turn:
        """The turn that `request` makes; planning the same request again before it ends gives the same plan."""
        scope = current.get()
        prompt, facts = self._read(request, platform, model)
        conversation = self._conversation(scope, prompt, attempt)
        with conversation.lock:
            going = self._plan(conversation, scope, request, prompt, facts, attempt)
        applied = going.plan if going.mode == "on" else CachePlan()
        return Turn(
            request=anthropic.encode(request, applied),
            plan=going.plan,
            on_end=partial(self._settle, going),
        )

    def preview(self, request: Request, *, platform: str = "api", model: str = "") -> CachePlan:
        """The plan for `request`, without opening or recording anything."""
        prompt, facts = self._read(request, platform, model)
        scope = current.get()
        known = scope.session.conversation if scope.session is not None else self.registry.by_lineage(prompt)
        conversation = known if known is not None else Conversation(id="")
        with conversation.lock:
            return self._plan(conversation, scope, request, prompt, facts, 0).plan

    # --- before -------------------------------------------------------------------------------------------------------

    def _read(self, request: Request, platform: str, model: str) -> tuple[Prompt, CacheFacts | None]:
        name = model or str(request.get("model", ""))
        facts = cache_facts(name, platform=platform, aliases=self.policy.aliases)
        return anthropic.decode(request, facts, key=self.recorder.key, platform=platform, model=model), facts

    def _conversation(self, scope: Scope, prompt: Prompt, attempt: int) -> Conversation:
        session = scope.session
        if session is not None and not session.closed:
            return session.conversation
        if session is not None:
            self._say("closed session", f"a model call was made after session {session.id!r} was left")
        return self.registry.by_lineage(prompt) or self.registry.begin(prompt, retried=attempt > 0)

    def _plan(
        self,
        conversation: Conversation,
        scope: Scope,
        request: Request,
        prompt: Prompt,
        facts: CacheFacts | None,
        attempt: int,
    ) -> _Going:
        now = self.clock.wall()
        store = self.recorder.store
        if store is not None:
            self.recorder.read(lambda it: refresh(conversation, it, facts, prompt.provider), None)
        if conversation.created is None:
            self._open(conversation, prompt, now)
        prefix = observed = None
        if facts is not None:
            prefix = prefixes(prompt, facts)
            observed = observe(conversation.state, conversation.head, prefix, now)
        chosen = self._choose(conversation, prompt, prefix, observed, now)
        if "diagnostics" not in request:
            chosen = self._with_diagnostics(chosen, conversation, facts)
        return _Going(
            conversation=conversation,
            request=request,
            prompt=prompt,
            facts=facts,
            prefix=prefix,
            observed=observed,
            plan=chosen,
            mode=self._mode(conversation, scope),
            attempt=attempt,
            started=now,
            head=conversation.head,
            print=conversation.print,
        )

    def _open(self, conversation: Conversation, prompt: Prompt, now: float) -> None:
        """The first request of a conversation: what is believed of its workload is fixed here."""
        conversation.workload = workload_of(prompt, conversation.agent)
        conversation.created = now
        learned = self.recorder.read(lambda store: store.beliefs(conversation.workload), Beliefs())
        conversation.snapshot = _bounded(learned)

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
        seen = conversation.state.seen.after(observed.stability, priors().memory)
        beliefs = conversation.snapshot.after(Observation(topic, yes, n) for topic, (yes, n) in seen.counts.items())
        return plan(
            prefix,
            View(
                state=conversation.state,
                beliefs=beliefs,
                now=now,
                cut=observed.cut,
                ttl=self.policy.cache.ttl,
                price=self._price(prompt, prefix, beliefs),
            ),
        )

    def _price(self, prompt: Prompt, prefix: Prefixes, beliefs: Beliefs) -> PriceCard | None:
        ratio = beliefs.bytes_per_token(prompt.model) or prefix.facts.bytes_per_token
        return price_card(
            prompt.provider,
            prompt.model,
            input_tokens=round(prefix.size / ratio),
            aliases=self.policy.aliases,
            override=self.policy.prices,
        )

    def _with_diagnostics(self, chosen: CachePlan, conversation: Conversation, facts: CacheFacts | None) -> CachePlan:
        if not self.policy.cache.diagnostics or facts is None or not facts.diagnostics or chosen.expected is None:
            return chosen
        self._say(
            "diagnostics", "asking the provider for its cache diagnostics, as the policy allows", level=logging.INFO
        )
        previous = conversation.head.message_id if conversation.head is not None else None
        reason = "asks the provider why a prefix was missed (CachePolicy.diagnostics)"
        options = {"diagnostics": {"previous_message_id": previous}}
        return replace(chosen, options=options, reasons=(*chosen.reasons, reason))

    def _mode(self, conversation: Conversation, scope: Scope) -> TurnMode:
        if scope.bypass:
            return "bypass"
        if self.policy.mode == "observe":
            return "observe"
        key = self.recorder.shared_key
        drawn = hashlib.blake2b(conversation.id.encode("utf-8", "replace"), digest_size=8, key=key).digest()
        return "holdout" if int.from_bytes(drawn) < self.policy.holdout * 2**64 else "on"

    # --- after --------------------------------------------------------------------------------------------------------

    def _settle(self, going: _Going, ended: Ended) -> None:
        conversation = going.conversation
        for call in ended.calls:
            self.registry.asked(call, conversation.id)
        with conversation.lock:
            settled = self._fold(going, ended)
            record = self._record(going, ended, settled)
            self.recorder.write(self._write(going, ended, settled, record))

    def _fold(self, going: _Going, ended: Ended) -> Settled | None:
        """Take the turn into the conversation; None where the provider answered nothing that could be taken."""
        answered = ended.outcome == "ok" or ended.usage.input is not None
        if going.prefix is None or going.observed is None or not answered:
            return None
        conversation, prefix = going.conversation, going.prefix
        on = going.mode == "on"
        markers = (*going.prompt.markers, *(going.plan.markers if on else ()))
        heard = ended.first_byte if ended.first_byte is not None else ended.finished
        settled = settle(
            conversation.state,
            going.head,
            Sent(
                prefix=prefix,
                marks=marks_of(prefix, markers),
                written_marks=marks_of(prefix, going.prompt.markers),
                started=going.started,
                visible=going.started + (heard - ended.started),
                usage=ended.usage,
                ours=on and bool(going.plan.markers),
            ),
            going.observed,
        )
        conversation.state = settled.state
        conversation.head = head_of(
            prefix, started=going.started, tokens=ended.usage.input, message_id=ended.message_id
        )
        conversation.print = imprint(going.prompt, going.request, going.print)
        conversation.stored_turns += 1
        return settled

    def _record(self, going: _Going, ended: Ended, settled: Settled | None) -> TurnRecord:
        conversation, prompt = going.conversation, going.prompt
        moved = None
        if going.print is not None and going.facts is not None and settled is not None:
            moved = drift(going.print, prompt, going.request, going.facts)

        def wall(at: float | None) -> float | None:
            return None if at is None else going.started + (at - ended.started)

        return TurnRecord(
            session=conversation.id,
            provider=prompt.provider,
            platform=prompt.platform,
            model=prompt.model,
            agent=conversation.agent,
            tenant=conversation.tenant,
            parent=conversation.parent,
            attempt=going.attempt,
            started=going.started,
            first_byte=wall(ended.first_byte),
            finished=wall(ended.finished),
            outcome=ended.outcome,
            status=ended.status,
            error=ended.error,
            mode=going.mode,
            streamed=prompt.stream,
            usage=ended.usage,
            stop=ended.stop,
            calls=tuple(call.name for call in ended.calls),
            markers=(*prompt.markers, *(going.plan.markers if going.mode == "on" else ())),
            reasons=going.plan.reasons,
            expected=_whole(settled.expected) if settled is not None else None,
            as_written=settled.as_written if settled is not None else None,
            reusable=settled.reusable if settled is not None else None,
            misses=settled.misses if settled is not None else (),
            drift=moved,
            held=prompt.held,
            diagnosis=ended.diagnostics,
        )

    def _write(self, going: _Going, ended: Ended, settled: Settled | None, record: TurnRecord) -> TurnWrite:
        conversation, prefix = going.conversation, going.prefix
        lineage: tuple[bytes, ...] = ()
        learned: tuple[Observation, ...] = ()
        static: bytes | None = None
        if settled is not None and prefix is not None:
            lineage = lineage_written(going.prompt, conversation.tenant, settled.state.born)
            self.registry.waits_at(conversation.id, lineage)
            static = _static(prefix)
            learned = (*settled.learned, *self._shared(going, settled, static))
        keep = self.policy.store.content
        head = conversation.head
        return TurnWrite(
            record=record,
            session=row_of(conversation) if settled is not None else None,
            segments=going.prompt.segments,
            content=(lambda segment: _content(going.request, segment)) if keep else None,
            lineage=lineage,
            learned=learned,
            static=static,
            ends=(lambda ends: dump_head(head, ends)) if head is not None else None,
        )

    def _shared(self, going: _Going, settled: Settled, static: bytes | None) -> tuple[Observation, ...]:
        """Whether a session that begins shares its static prefix with one that was active within a lifetime."""
        if static is None or settled.state.turns != 1 or going.facts is None:
            return ()
        last = self.recorder.read(lambda store: store.static_last_used(static), None)
        in_time = last is not None and going.started - last <= going.facts.ttls[0].seconds
        return (Observation("shared", float(in_time)),)

    def _say(self, what: str, message: str, level: int = logging.WARNING) -> None:
        """One log line per thing."""
        if what not in self._said:
            self._said.add(what)
            log.log(level, "agentaccel: %s", message)


def _bounded(beliefs: Beliefs) -> Beliefs:
    """`beliefs` with the weight of the past limited, so that what a session shows can outweigh it."""
    counts: dict[str, tuple[float, float]] = {}
    for topic, (yes, n) in beliefs.counts.items():
        most = next((most for start, most in _STRONGEST_SNAPSHOT.items() if topic.startswith(start)), n)
        share = min(1.0, most / n) if n > 0 else 1.0
        counts[topic] = (yes * share, n * share)
    return Beliefs(counts)


def _static(prefix: Prefixes) -> bytes | None:
    static = [i for i, segment in enumerate(prefix.prompt.segments) if segment.level != "messages"]
    return prefix.hashes[static[-1]] if static else None


def _content(request: Request, segment: Segment) -> bytes:
    return wire_bytes(value_at(request, segment.path))


def _whole(expected: Expected) -> Expected:
    """An expectation rounded to whole tokens: more digits would claim more than is known."""
    return Expected(
        read=round(expected.read),
        write={label: round(tokens) for label, tokens in expected.write.items()},
        uncached=round(expected.uncached),
    )
