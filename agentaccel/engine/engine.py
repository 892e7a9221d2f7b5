"""How a request becomes a turn, and how a turn that has ended becomes a record and the next state.

request ─decode▶ Draft ─find▶ Conversation ─rewrite▶ Draft ─plan─encode▶ Turn        (begin)
Ended ─settle▶ State, misses ─▶ TurnRecord ─▶ store                (when the turn ends)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from agentaccel.cache.observe import Observed, crowded, observe
from agentaccel.cache.planner import Decided, Latest, decide
from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.cache.price import expected_cost, load_prices, prices_are_loaded
from agentaccel.clock import Clock
from agentaccel.concurrency import Background, beside
from agentaccel.engine.chain import CONSENTED, Chain, said
from agentaccel.engine.conversation import Conversation, refresh
from agentaccel.engine.draft import Done, Draft, Observer, Planned, Settled, TurnMode, card_of, mode_of
from agentaccel.engine.fields import asking_usage, unplanned, with_diagnosis
from agentaccel.engine.fork import followed, open_with
from agentaccel.engine.gate import Flight, WriteGate
from agentaccel.engine.inside import StreamInside, model_at
from agentaccel.engine.lineage import Registry
from agentaccel.engine.own_requests import OwnRequests
from agentaccel.engine.pending import Replies
from agentaccel.engine.reuse import Reuse
from agentaccel.engine.routing import Routing, Traffic
from agentaccel.engine.scope import NO_SENDER, Announced, Sender, Session, Within, current
from agentaccel.engine.servers import Servers, hinted, in_slot, unrefused
from agentaccel.engine.settlement import Recording, settle
from agentaccel.engine.sharing import SharedPrefixes
from agentaccel.engine.threads import Threads
from agentaccel.facts import cache_facts
from agentaccel.hooks import Began, HookList, Told
from agentaccel.locks import Lock
from agentaccel.once import Once
from agentaccel.policy import Policy
from agentaccel.rewrite.advisories import NO_ADVISORIES
from agentaccel.rewrite.jobs import Runs
from agentaccel.store.codec import Routed
from agentaccel.store.recorder import Recorder, StoreStalls
from agentaccel.tools.speculator import Speculator
from agentaccel.turn import Ended, Turn
from agentaccel.types import CachePlan, Endpoint, Prompt, Request
from agentaccel.values import kept_name_or_none, maker
from agentaccel.wire import PartMemory, dialect
from agentaccel.wire.json import name_of

log = logging.getLogger("agentaccel")

_CLAUDE = Endpoint()
_draft, _planned, _latest, _turn = maker(Draft), maker(Planned), maker(Latest), maker(Turn)


def _as_written(request: Request, endpoint: Endpoint) -> Turn:
    """The turn of a request that could not be planned."""
    log.exception("agentaccel: could not plan a request; it goes out as written, unrecorded")
    return _unplanned(request, endpoint)


def _unplanned(request: Request, endpoint: Endpoint) -> Turn:
    return Turn(request=request, plan=CachePlan(), on_end=lambda ended: None, wire=endpoint.wire)


class Found(NamedTuple):
    """What is known of a request before it is planned."""

    conversation: Conversation
    routed: Sequence[Routed]
    """Sessions that were answered in the last minute, where their machine matters for this one."""


def _unsent(found: Found) -> None:
    """The request is not sent after all, so its conversation has not begun."""
    conversation = found.conversation
    with conversation.lock:
        if conversation.is_new:
            conversation.begun = None


@dataclass(slots=True)
class Engine:
    """Composes decisions for one `Accel`. Thread-safe: a conversation is locked while its state is read or changed."""

    policy: Policy
    clock: Clock
    recorder: Recorder
    registry: Registry
    listeners: HookList = field(default_factory=HookList)
    write_gate: WriteGate = field(default_factory=WriteGate)
    speculator: Speculator | None = None
    """Runs tools early, where the policy allows it."""
    runs: Runs | None = None
    """Does in the background what the user's functions are asked for; without it they are not."""
    background: Background | None = None
    """Sends requests of our own; without it none are sent."""
    traffic: Traffic = field(default_factory=Traffic)
    replies: Replies = field(default_factory=Replies)
    servers: Servers = field(default_factory=Servers)
    """Those that no data file lists, and what was found out of them."""
    reuse: Reuse = field(default_factory=Reuse)
    """Which conversations servers of the user's own were asked for, the last one last."""
    _parts: PartMemory = field(default_factory=PartMemory)
    _once: Once = field(default_factory=Once)
    _nobody: Conversation = field(default_factory=partial(Conversation, id=""))
    """Whose plans are looked at where no conversation is known."""
    recording: Recording = field(init=False)
    shared_prefixes: SharedPrefixes = field(init=False)
    own_requests: OwnRequests | None = field(init=False, default=None)
    """Keeps entries alive and writes ahead, where the policy allows it."""
    observers: tuple[Observer, ...] = field(init=False)
    """Who is told of each call once it is settled and recorded, in this order."""
    _routing: Routing = field(init=False)
    _chain: Chain = field(init=False)
    _inside: StreamInside = field(init=False)
    _threads: Threads = field(init=False)

    def __post_init__(self) -> None:
        self.recording = Recording(self.recorder, self.registry, keep_content=self.policy.store.content)
        self.shared_prefixes = SharedPrefixes(self.policy, self.clock, self.write_gate)
        tools = () if self.speculator is None else (self.speculator.settled,)
        allowed = self.policy.cache.keep_alive or self.policy.cache.prewarm
        if self.background is not None and allowed and self.policy.mode != "off":
            self.own_requests = OwnRequests(
                self.policy, self.clock, self.background, self.announced, self.shared_prefixes, self.recording
            )
        pauses = () if self.own_requests is None else (self.own_requests.settled,)
        self.observers = (self.registry.settled, *tools, self.shared_prefixes.settled, *pauses, self._tell)
        self._routing = Routing(self.policy.cache, self.recorder, self.traffic)
        self._chain = Chain(self.policy, self.recorder, self._prompt_of)
        self._inside = StreamInside(self.policy, self.speculator)
        self._threads = Threads(self.registry)

    def begin(
        self,
        request: Request,
        endpoint: Endpoint = _CLAUDE,
        *,
        model: str = "",
        attempt: int = 0,
        sender: Sender = NO_SENDER,
    ) -> Turn:
        """The turn that `request` makes; planning the same request again before it ends gives the same plan, but for
        the slot of a server, which one request has at a time.

        Where that fails, the turn sends the request as it was written and records nothing.
        """
        try:
            draft, within = self._read(request, endpoint, model, sender), current.get().of(self.registry.owner)
            return self._begin(draft, within, attempt, self._find(draft, within, attempt))
        except Exception:
            if self.policy.strict:
                raise
            return _as_written(request, endpoint)

    async def begin_async(
        self,
        request: Request,
        endpoint: Endpoint = _CLAUDE,
        *,
        model: str = "",
        attempt: int = 0,
        sender: Sender = NO_SENDER,
    ) -> Turn:
        """The same on a running asyncio loop: the trace store is read beside it."""
        try:
            draft, within = self._read(request, endpoint, model, sender), current.get().of(self.registry.owner)
            if self._may_wait(draft) and not prices_are_loaded():
                await beside(load_prices)
            found = await self.recorder.beside(lambda: self._find(draft, within, attempt), _unsent)
            return self._begin(draft, within, attempt, found)
        except StoreStalls as error:
            self._once.say_aloud(f"{error}; requests go out as written, unrecorded", about="stalls")
            return _unplanned(request, endpoint)
        except Exception:
            if self.policy.strict:
                raise
            return _as_written(request, endpoint)

    def turn_of(self, asked: Draft, conversation: Conversation, within: Within, attempt: int = 0) -> Turn:
        """The turn that a draft makes in its conversation. Raises what `begin` would log."""
        return self._begin(asked, within, attempt, Found(conversation, self._open(conversation, within, asked)))

    def _begin(self, asked: Draft, within: Within, attempt: int, found: Found) -> Turn:
        """The turn of a request of which it is known to what conversation it belongs: in memory alone."""
        conversation, endpoint = found.conversation, asked.endpoint
        if self.own_requests is not None:
            self.own_requests.went_on(conversation.key)
        with conversation.lock:
            planned = self._plan(conversation, within, asked, attempt, found.routed)._replace(beside=within.beside)
            if conversation.origin is not None:
                followed(conversation)
            if not conversation.state.turns:
                planned = self.recording.begins(planned)
            if planned.edited is not None and self.runs is not None:
                conversation.asides.ask(conversation.id, planned.edited.wants, self.runs)
            if planned.mode == "on" and conversation.state.route:
                self._routing.sent(conversation, planned.started)
            if planned.facts is not None and planned.facts.self_hosted:
                self.reuse.asked(asked.place, conversation.key)
                self.servers.asked(endpoint.server, conversation.key)
        applied = planned.plan if planned.mode == "on" else CachePlan()
        flight = self.shared_prefixes.flight(planned, endpoint)
        hooks = None
        if self.speculator is not None:
            hooks = self.speculator.begins(planned, asked.request, endpoint.wire, within)
        return _turn(
            request=dialect(endpoint.wire).encode(planned.request, applied) if planned.request else planned.request,
            plan=planned.plan,
            on_end=partial(self._end, planned, endpoint, flight, self.listeners.begins(planned.started)),
            hold=flight,
            wire=endpoint.wire,
            ttl=planned.lifetime,
            hides_usage="stream_options" in applied.options and not planned.inside,
            unclear=partial(self._inside.leave, model_at(planned.prompt)) if planned.inside else None,
            headers=applied.headers,
            on_send=hooks.on_send if hooks is not None else None,
            on_call=hooks.on_call if hooks is not None else None,
        )

    def _end(
        self, planned: Planned, endpoint: Endpoint, flight: Flight | None, began: Began | None, ended: Ended
    ) -> None:
        self.servers.ended(endpoint.server, planned.conversation.key)
        try:
            done = Done(
                self.shared_prefixes.ended(planned, endpoint.account, flight, ended), endpoint, ended, flight, began
            )
            conversation = planned.conversation
            with conversation.lock:  # rows of a conversation are left in the order in which it knows of them
                settled = settle(done)
                conversation.advance(settled.next)
                self.recording(done, settled)
        except Exception:
            if self.policy.strict:
                raise
            log.exception("agentaccel: could not settle a turn; it is not recorded")
            return
        for observer in self.observers:
            try:
                observer(done, settled)
            except Exception:
                if self.policy.strict:
                    raise
                log.exception("agentaccel: a turn is recorded, and something that is told of it failed")

    def _tell(self, done: Done, settled: Settled) -> None:
        if done.began is not None:
            said = done.reply.said
            named = kept_name_or_none(said.message_id), kept_name_or_none(said.model)
            self.listeners.ended(done.began, Told(settled.record, *named, done.endpoint.server))

    def preview(
        self, request: Request, endpoint: Endpoint = _CLAUDE, *, model: str = "", follows: Conversation | None = None
    ) -> CachePlan:
        """The plan for `request`, without opening or recording anything; as the next one of `follows`, where given."""
        asked = self._read(request, endpoint, model)
        prompt, within = asked.prompt, current.get().of(self.registry.owner)
        session = within.session
        root = session.conversation if session is not None else None
        known = follows or self._threads.known(root, prompt, asked.facts)
        with (known or self._nobody).lock:
            # A copy: looking at a plan must not open the conversation.
            conversation = replace(known or self._nobody, lock=Lock())
        planned = self._plan(conversation, within, asked, 0, self._open(conversation, within, asked))
        (known or self._nobody).latest = conversation.latest
        expected = planned.plan.expected
        if expected is None:
            return planned.plan
        card = card_of(prompt, self.policy, round(expected.total))
        return replace(planned.plan, expected_cost=expected_cost(card, expected))

    def announced(self, session: Session, announced: Announced) -> Planned | None:
        """How a request that is only announced would be planned, with a stub in the place of what is not known yet.

        None where it cannot be told what will stand before that.
        """
        endpoint = announced.endpoint
        request, stubbed = dialect(endpoint.wire).with_stub(announced.request)
        asked = self._read(request, endpoint, announced.model, announced.sender)
        if stubbed:
            asked = asked._replace(prompt=replace(asked.prompt, ephemeral=1))
        conversation, within = self._threads.told(session.conversation, asked.prompt), Within(session)
        routed = self._open(conversation, within, asked)
        with conversation.lock:
            planned = self._plan(conversation, within, asked, 0, routed)
            if planned.mode == "on":
                self.servers.announced(endpoint.server, conversation.key)
        return None if stubbed and planned.prompt is not asked.prompt else planned

    # --- before -------------------------------------------------------------------------------------------------------

    def _read(self, request: Request, endpoint: Endpoint, model: str, sender: Sender = NO_SENDER) -> Draft:
        provider, platform, wire = endpoint[:3]
        name = model or name_of(request.get("model", ""))
        facts = cache_facts(name, provider=provider, platform=platform, wire=wire, aliases=self.policy.aliases)
        prompt = dialect(wire).decode(
            request, facts, key=self.recorder.key, place=(provider, platform), model=model, memory=self._parts
        )
        return _draft(request, prompt, facts, endpoint, model, sender)

    def _prompt_of(self, request: Request, draft: Draft) -> Prompt:
        return self._read(request, draft.endpoint, draft.model).prompt

    def _may_wait(self, draft: Draft) -> bool:
        """True if the request may be worth holding until another one has written its prefix, which prices decide."""
        facts = draft.facts
        if facts is None or facts.self_hosted or not self.policy.cache.max_wait:
            return False
        return sum(one.size for one in draft.prompt.segments) >= facts.min_tokens * facts.bytes_per_token

    def _find(self, asked: Draft, within: Within, attempt: int) -> Found:
        """The conversation that a request belongs to, with what the trace store knows of it. This reads the store."""
        if (session := within.session) is not None and not session.closed:
            conversation = self._threads.of(session.conversation, asked.prompt, asked.facts, attempt=attempt)
        else:
            if session is not None:
                self._once.say(f"a model call was made after session {session.id!r} was left", about="closed session")
            conversation = self._threads.unnamed(asked.prompt, attempt)
        return Found(conversation, self._open(conversation, within, asked))

    def _open(self, conversation: Conversation, within: Within, asked: Draft) -> Sequence[Routed]:
        """Let a conversation take over what the trace store knows, before its next request is planned; returns the
        requests that other sessions have sent to a machine of the provider just now."""
        now, mode = self.clock.wall(), self._mode(conversation, within)
        facts, provider = asked.facts, asked.prompt.provider
        if self.recorder.store is not None:
            self.recorder.read(lambda it: refresh(conversation, it, facts, provider), None)
        if conversation.state.turns:
            return ()
        conversation.account = asked.endpoint.account
        edits, named = mode == "on" and self.policy.history.consents, within.session is not None
        open_with(self.registry, conversation, asked.prompt, facts, now, named=named, edits=edits)
        return self._routing.others(now) if facts is not None and facts.key_rate else ()

    def _mode(self, conversation: Conversation, within: Within) -> TurnMode:
        return mode_of(self.policy, self.recorder.shared_key, conversation.id, within)

    def _plan(
        self, conversation: Conversation, within: Within, asked: Draft, attempt: int, routed: Sequence[Routed]
    ) -> Planned:
        now, mode = self.clock.wall(), self._mode(conversation, within)
        facts, endpoint = asked.facts, asked.endpoint
        conversation.account = endpoint.account
        draft = self._rewritten(asked, conversation, now) if mode == "on" else asked
        request, prompt = draft.request, draft.prompt
        prefix = observed = None
        if facts is not None:
            prefix = conversation.latest.prefix_of(prompt, facts) if conversation.latest is not None else None
            prefix = prefix or prefixes(prompt, facts, conversation.head)
            observed = observe(conversation.state, conversation.head, prefix, now, conversation.snapshot)
            if draft.arranged is not None:
                observed = observed._replace(moves=draft.arranged.moves)
            if facts.self_hosted:
                believed = conversation.snapshot.joined(conversation.state.seen)
                observed = crowded(observed, self.reuse.others(asked.place, conversation.key), believed)
        chosen, standing = self._choose(conversation, request, prompt, prefix, observed, now, endpoint)
        chosen = self._with_fields(chosen, draft, conversation)
        if facts is not None and (facts.key or facts.salt_field or facts.session_field or facts.retentions):
            chosen = self._routing.routed(chosen, draft, conversation, now, on=mode == "on", others=routed)
        chosen = self._for_its_server(chosen, draft, conversation)
        advice = NO_ADVISORIES
        if prefix is not None and observed is not None:
            advice = self._chain.advised(draft, conversation, prefix, observed, now)
        if draft is not asked or advice is not NO_ADVISORIES:
            chosen = said(chosen, draft, advice)
        chosen = self._inside.planned(chosen, draft, conversation, within, mode)
        return _planned(
            conversation=conversation,
            request=request,
            prompt=prompt,
            facts=facts,
            prefix=prefix,
            observed=observed,
            plan=chosen,
            mode=mode,
            attempt=attempt,
            known_as=self.policy.aliases.get(prompt.model),
            started=now,
            head=conversation.head,
            print=conversation.print,
            arranged=draft.arranged,
            edited=draft.edited,
            written=asked.prompt if prompt is not asked.prompt else None,
            drift=advice.drift,
            standing=standing,
            region=endpoint.region,
        )

    def _rewritten(self, asked: Draft, conversation: Conversation, now: float) -> Draft:
        draft = self._chain.rewritten(asked, conversation, now)
        for consent in draft.consents:
            self._once.say(CONSENTED[consent], level=logging.INFO)
        return draft

    def _choose(
        self,
        conversation: Conversation,
        request: Request,
        prompt: Prompt,
        prefix: Prefixes | None,
        observed: Observed | None,
        now: float,
        endpoint: Endpoint,
    ) -> Decided:
        if prefix is None or observed is None:
            what, message, reason = unplanned(prompt)
            if not self.servers.is_told(endpoint.server):
                self._once.say(message, about=what)
            return Decided(CachePlan(wire=endpoint.wire, reasons=(reason,)))
        keeps = self.own_requests is not None and self.own_requests.can_keep(conversation, request, prefix)
        state, snapshot, ttl = conversation.state, conversation.snapshot, self.policy.cache.ttl
        given, latest = (state, observed, prefix, snapshot, ttl, keeps), conversation.latest
        if latest is None or not latest.holds(given, now):
            decided = decide(state, observed, prefix, snapshot, now=now, ttl=ttl, keeps=keeps)
            conversation.latest = latest = _latest(given, now, decided)
        return latest.decided

    def _for_its_server(self, chosen: CachePlan, draft: Draft, conversation: Conversation) -> CachePlan:
        """The plan with what a server of the user's own is known to take, and without what it has refused."""
        address = draft.endpoint.server
        server = self.servers.of(address) if draft.endpoint.provider == "compatible" else None
        if server is not None:
            key, policy = self.recorder.shared_key, self.policy.cache
            isolate, ahead = policy.isolate_tenants, policy.prewarm
            chosen = hinted(chosen, draft, conversation, server, key, isolate=isolate, ahead=ahead)
            slot = self.servers.slot(address, conversation.key)
            chosen = in_slot(chosen, draft, server, slot) if slot is not None else chosen
        refused = self.servers.refused(address)
        return unrefused(chosen, refused) if refused else chosen

    def _with_fields(self, chosen: CachePlan, draft: Draft, conversation: Conversation) -> CachePlan:
        """The plan with what asks for counts and causes."""
        if chosen.wire == "chat":
            chosen = asking_usage(chosen, draft.request, draft.prompt)
        if not self.policy.cache.diagnostics:
            return chosen
        with_it = with_diagnosis(chosen, draft.request, draft.facts, conversation)
        if with_it is not chosen:
            self._once.say("asking the provider for its cache diagnostics, as the policy allows", level=logging.INFO)
        return with_it
