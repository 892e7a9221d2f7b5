"""Requests of our own: some keep what a session has in the cache while it pauses, some write ahead what it announces.

Done ─▶ the pause is worth a request ─▶ due ───────────┐
                                                       ├─▶ within the budget ─▶ sent, asking for no reply ─▶ recorded
Session.prewarm ─▶ Announced ─▶ plan ─▶ worth its bill ┘

A session owns its requests: its next request takes back those of its pause, leaving it ends all. A request that starts
while a prefix is written ahead, and begins alike, waits for it as for any other that writes its prefix.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, cast
from weakref import WeakValueDictionary

from agentaccel.cache.beliefs import Observation
from agentaccel.cache.bills import cards_of, paid_for
from agentaccel.cache.own_requests import (
    SENT,
    PausePlan,
    Prewarming,
    comes_as_announced,
    kept,
    prewarming,
    prewarming_own,
    warming,
    with_held,
)
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.price import input_cost, load_prices
from agentaccel.clock import Clock
from agentaccel.concurrency import Background, DueWork
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.draft import Done, Planned, Settled, card_of, reported
from agentaccel.engine.gate import Flight
from agentaccel.engine.scope import Announced, Session, announcing
from agentaccel.engine.settlement import Recording, record_of, written_ahead
from agentaccel.engine.sharing import SharedPrefixes, kind_of
from agentaccel.facts import CacheFacts
from agentaccel.locks import Lock
from agentaccel.once import Once
from agentaccel.policy import Policy
from agentaccel.records import KEEP_ALIVE, PREWARM, TurnRecord
from agentaccel.turn import Answer, Ended, Failed, Finished, Resend, Responded, Started, Turn, Wait
from agentaccel.types import Endpoint, Prompt, Request, Usage
from agentaccel.wire import dialect

log = logging.getLogger("agentaccel")

_REFUSALS = (400, 404, 405, 413, 422)
"""Statuses that say that no such request is taken; others are of the moment, such as credentials that have run out."""


class _Reason(NamedTuple):
    """Why a request of our own is sent."""

    mode: str
    """As in `TurnRecord`."""
    consent: str
    name: str
    """What log lines call such a request."""
    begins: str
    """The log line before the first one is sent."""


_PAUSE = _Reason(
    KEEP_ALIVE, "keep_alive", "keep-alive", "keeping cache entries alive during pauses, as the policy allows"
)
_ANNOUNCED = _Reason(PREWARM, "prewarm", "pre-warming", "writing ahead what sessions announce, as the policy allows")


class _OwnRequest(NamedTuple):
    """A request of our own, ready to be sent."""

    reason: _Reason
    planned: Planned
    """The call that it stands for."""
    endpoint: Endpoint
    body: Request
    resend: Resend
    bill: float
    """USD that it is expected to cost."""
    take_in: Callable[[_OwnRequest, Ended], None]
    flight: Flight | None = None

    def record(self, planned: Planned, ended: Ended, *reasons: str) -> TurnRecord:
        """`planned` is the call with what was known when it was sent."""
        return replace(
            record_of(planned, ended, None),
            mode=self.reason.mode,
            status=200 if ended.outcome == "ok" else ended.status,
            as_written=None,
            consents=(self.reason.consent,),
            reasons=reasons,
        )


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Pause:
    """One pause of a session, from its last request on."""

    planned: Planned
    endpoint: Endpoint
    warming: PausePlan
    body: Request
    resend: Resend
    later: DueWork | None = None
    count: int = 0
    """Requests sent in it."""
    expires: float = 0.0
    """Until when there is something to keep."""


@dataclass(slots=True)
class OwnRequests:
    """Sends what the policy allows for open sessions. Thread-safe."""

    policy: Policy
    clock: Clock
    background: Background
    plan: Callable[[Session, Announced], Planned | None]
    """Plans a request that is only announced; None where that cannot be told from what is known of it."""
    shared_prefixes: SharedPrefixes
    recording: Recording
    _refused: set[tuple[str, str]] = field(default_factory=set)
    """Platforms and models that have said that they take no such request."""
    _pauses: WeakValueDictionary[str, _Pause] = field(default_factory=WeakValueDictionary)
    """The pause of each conversation, by its key; held by what is due or under way, so it is gone with the session."""
    _once: Once = field(default_factory=Once)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        load_prices()

    # --- a session pauses: keep its entries alive ---------------------------------------------------------------------

    def went_on(self, key: str) -> None:
        """A request of the conversation is about to be sent: its pause is over."""
        if not self._pauses:
            return
        with self._lock:
            pause = self._pauses.pop(key, None)
        if pause is not None and pause.later is not None:
            pause.later.cancel()

    def settled(self, done: Done, settled: Settled) -> None:
        """A reply has ended: from here on its session pauses."""
        planned, ended = done.planned, done.reply
        conversation, prefix = planned.conversation, planned.prefix
        conversation.can_resend = ended.resend is not None
        if ended.resend is None or ended.outcome != "ok" or planned.mode != "on" or prefix is None:
            return
        if planned.prompt.held or not self._can_pause(conversation, prefix):
            return
        body = dialect(done.endpoint.wire).warmed(ended.request, prefix.facts.keeps)
        if body is None:
            return
        with conversation.lock:
            beliefs = conversation.snapshot.joined(conversation.state.seen)
            warm = warming(conversation.state, prefix, beliefs, self.policy.cache.ttl)
        if warm is None:
            return
        pause = _Pause(planned, done.endpoint, warm, body, ended.resend)
        with self._lock:
            self._pauses[conversation.key] = pause
        self._schedule(pause, planned.started)

    def can_keep(self, conversation: Conversation, request: Request, prefix: Prefixes) -> bool:
        """True if the pause after `request` can be bridged, so that a plan may count on it.

        Not where the provider takes no such request, where nobody knows how to send one or what it costs, and once the
        budget is spent.
        """
        facts = prefix.facts
        if not self._can_pause(conversation, prefix) or dialect(facts.wire).warmed(request, facts.keeps) is None:
            return False
        tokens = round(prefix.size / facts.bytes_per_token)
        bill = self._bill(_PAUSE, prefix.prompt, Usage(input=tokens, read=tokens, write={}))
        return conversation.can_resend and bill is not None and self._has_room(conversation.session, bill)

    def _can_pause(self, conversation: Conversation, prefix: Prefixes) -> bool:
        return (
            self.policy.cache.keep_alive
            and conversation.session.open > 0
            and not prefix.facts.self_hosted  # it keeps what it has room for, for however long
            and self._is_taken(prefix.prompt, prefix.facts)
        )

    def _schedule(self, pause: _Pause, last_used: float) -> None:
        due = pause.warming.due(last_used, pause.count)
        if due is None:
            return
        pause.expires = pause.warming.expires(last_used, pause.count)
        owner = pause.planned.conversation.id
        pause.later = self.background.later(owner, due - self.clock.wall(), partial(self._keep, pause))

    def _is_over(self, pause: _Pause) -> bool:
        conversation = pause.planned.conversation
        return self._pauses.get(conversation.key) is not pause or not conversation.session.open

    def _keep(self, pause: _Pause) -> None:
        if pause.resend.loop is None:
            self._send(self._keeping(pause))
        elif not self._is_over(pause):
            work = partial(self._keep_there, pause)
            future = self.background.on_loop(pause.planned.conversation.id, pause.resend.loop, work)
            future.add_done_callback(partial(_told, _PAUSE))

    async def _keep_there(self, pause: _Pause) -> None:
        """On the client's event loop, which may have been busy until now."""
        await self._send_async(self._keeping(pause))

    def _keeping(self, pause: _Pause) -> Turn | None:
        """The turn of the next request of the pause; None once nothing is left to keep, as after the machine slept: all
        would be written anew."""
        now, planned = self.clock.wall(), pause.planned
        if self._is_over(pause) or now >= pause.expires:
            return None
        bill = self._bill(_PAUSE, planned.prompt, pause.warming.expected(pause.count))
        if bill is None:
            return None
        sent = planned._replace(started=now, attempt=0, waited=None)
        take_in = partial(self._kept, pause)
        return self._begin(_OwnRequest(_PAUSE, sent, pause.endpoint, pause.body, pause.resend, bill, take_in))

    def _kept(self, pause: _Pause, own: _OwnRequest, ended: Ended) -> None:
        planned, conversation, read = own.planned, own.planned.conversation, bool(ended.usage.read)
        why = "keeps what the session has in the cache during a pause (CachePolicy.keep_alive)"
        with conversation.lock:
            if not self._is_over(pause) and planned.prefix is not None:
                state = kept(conversation.state, planned.prefix, pause.warming, now=planned.started, read=read)
                conversation.state = state
            self.recording.write(planned, None, own.record(planned, ended, why), ())
        if ended.outcome == "ok" and read:
            pause.count += 1
            self._schedule(pause, planned.started)

    # --- a session announces its next request: write it ahead ---------------------------------------------------------

    def announced(self, session: Session, call: tuple[Callable[[], Any], bool] | None, loop: Any) -> None:
        """The next request of `session` is one that `call` would send: what it calls, and whether that is awaited.

        None is what sends no request of a client of ours. `loop` is the event loop that runs here.
        """
        if self.background.closed:
            return
        if call is None:
            self._once.say("prewarm takes the create method of a client that this Accel has wrapped")
        elif not call[1]:
            future = self.background.submit(session.id, partial(self._write, session, call[0]))
            future.add_done_callback(partial(_told, _ANNOUNCED))
        elif loop is not None:
            there = self.background.on_loop(session.id, loop, partial(self._write_there, session, call[0]))
            there.add_done_callback(partial(_told, _ANNOUNCED))
        else:
            self._once.say("prewarm of an asynchronous client is called where its event loop runs")

    def _write(self, session: Session, call: Callable[[], object]) -> None:
        with announcing(session) as stopped:
            call()
        for announced in stopped:
            self._send(self._writing(announced, self._planned(session, announced)))

    async def _write_there(self, session: Session, call: Callable[[], Awaitable[object]]) -> None:
        with announcing(session) as stopped:
            await call()
        for announced in stopped:
            planned = await self.recording.recorder.beside(partial(self._planned, session, announced))
            await self._send_async(self._writing(announced, planned))

    def _planned(self, session: Session, announced: Announced) -> Planned | None:
        """The call that is announced, where it can be written ahead. Reads the trace store."""
        if announced.resend is None or not session.conversation.open:
            return None
        planned = self.plan(session, announced)
        if planned is None or planned.mode != "on" or planned.facts is None:
            return None
        return planned if self._is_taken(planned.prompt, planned.facts) else None

    def _writing(self, announced: Announced, planned: Planned | None) -> Turn | None:
        endpoint = announced.endpoint
        if planned is None or planned.facts is None or announced.resend is None:
            return None
        known = dialect(endpoint.wire)
        body = known.warmed(known.encode(planned.request, planned.plan), planned.facts.keeps)
        worth = self._worth(planned, endpoint) if body is not None else None
        if body is None or worth is None:
            return None
        flight = self.shared_prefixes.flight(planned, endpoint)
        if flight is not None:  # it waits for nobody: where another one writes this already, there is nothing to do
            flight.kind, flight.streamed = f"{flight.kind} {PREWARM}", True
            flight.at_most, flight.cost_per_second = float("inf"), 0.0
        take_in = partial(self._written, worth)
        return self._begin(
            _OwnRequest(_ANNOUNCED, planned, endpoint, body, announced.resend, worth.bill, take_in, flight)
        )

    def _worth(self, planned: Planned, endpoint: Endpoint) -> Prewarming | None:
        """What writing ahead is worth; None where it does not pay."""
        expected, prefix, conversation = planned.plan.expected, planned.prefix, planned.conversation
        if expected is None or prefix is None or not prefix.size:
            return None
        card, own = card_of(planned.prompt, self.policy, round(expected.total)), prefix.facts.self_hosted
        if not own and (card is None or card.read is None):
            self._unpriced(_ANNOUNCED, planned.prompt)
            return None
        with conversation.lock:
            beliefs = conversation.snapshot.joined(conversation.state.seen)
            state, account, now = conversation.state, endpoint.account + planned.apart, self.clock.monotonic()
            lent = self.shared_prefixes.lent(state, prefix, account, now, first=conversation.is_new)
        there = max((prefix.sizes[entry.at] for entry in lent.values()), default=0) / prefix.size * expected.total
        comes, kind, streamed = comes_as_announced(beliefs), kind_of(planned, endpoint), planned.streamed
        sooner = partial(self.shared_prefixes.write_gate.sooner, kind, streamed=streamed)
        if own:
            cold = expected.total - max(expected.read, there)
            worth = prewarming_own(cold, comes=comes, seconds=sooner(cold, 0.0))
        else:
            expected = with_held(expected, there)
            cold = expected.total - expected.read
            seconds = sooner(cold, cold - sum(expected.write.values()))
            worth = prewarming(expected, card, comes=comes, seconds=seconds)
        cost_per_second = 1.0 if own else self.policy.cache.cost_per_second
        return worth if worth is not None and worth.pays(cost_per_second=cost_per_second) else None

    def _written(self, worth: Prewarming, own: _OwnRequest, ended: Ended) -> None:
        conversation, usage = own.planned.conversation, ended.usage
        planned = self.shared_prefixes.ended(own.planned, own.endpoint.account, own.flight, ended)
        why = f"writes ahead what the session announced (CachePolicy.prewarm): {worth}"
        record, learned = own.record(planned, ended, why, *planned.plan.reasons), tuple[Observation, ...]()
        if usage.read is not None or usage.written is not None:
            learned = (SENT,)
        with conversation.lock:
            known = conversation.knowledge
            if learned and planned.prefix is not None and planned.observed is not None:
                known = written_ahead(known, planned, planned.prefix, planned.observed, ended)
            conversation.advance(known)
            self.recording.write(planned, None, record, learned)
        self.shared_prefixes.settled(
            Done(planned, own.endpoint, ended, own.flight), Settled(record, known, None, learned)
        )

    # --- sending, for either reason -----------------------------------------------------------------------------------

    def _is_taken(self, prompt: Prompt, facts: CacheFacts) -> bool:
        return bool(facts.keeps) and (prompt.platform, prompt.model) not in self._refused

    def _bill(self, reason: _Reason, prompt: Prompt, usage: Usage) -> float | None:
        """USD that a request like `prompt` costs; None where no price is known."""
        card = card_of(prompt, self.policy, usage.input or 0)
        if card is None:
            self._unpriced(reason, prompt)
        return input_cost(card, usage)

    def _unpriced(self, reason: _Reason, prompt: Prompt) -> None:
        self._once.say(f"no price is known for {prompt.model!r}: no {reason.name} request is sent")

    def _has_room(self, session: Conversation, usd: float) -> bool:
        return session.own_requests_cost + usd <= self.policy.cache.own_requests_budget

    def _spend(self, planned: Planned, usd: float) -> None:
        session = planned.conversation.session
        with session.lock:
            session.own_requests_cost += usd

    def _begin(self, own: _OwnRequest) -> Turn | None:
        """The turn of a request that is to be sent now, its bill counted as spent; None where none is to be."""
        planned = own.planned
        session = planned.conversation.session
        with session.lock:
            if not self._has_room(session, own.bill):
                return None
            session.own_requests_cost += own.bill
        turn = Turn(
            request=own.body,
            plan=planned.plan,
            on_end=partial(self._ended, own),
            hold=own.flight,
            wire=own.endpoint.wire,
            ttl=planned.lifetime,
            headers=planned.plan.headers,
            resend=own.resend,
        )
        if any(isinstance(one, Wait) for one in turn.handle(Started(self.clock.monotonic(), can_wait=True))):
            self._spend(planned, -own.bill)
            return None
        self._once.say(own.reason.begins, level=logging.INFO)
        return turn

    def _send(self, turn: Turn | None) -> None:
        if turn is None or turn.resend is None:
            return
        with self._sending(turn) as answers:
            answers.append(cast(Answer, turn.resend.send(turn.request, turn.headers)))
        self._answered(turn, *answers)

    async def _send_async(self, turn: Turn | None) -> None:
        if turn is None or turn.resend is None:
            return
        with self._sending(turn) as answers:
            answers.append(await cast(Awaitable[Answer], turn.resend.send(turn.request, turn.headers)))
        self._answered(turn, *answers)

    @contextmanager
    def _sending(self, turn: Turn) -> Iterator[list[Answer]]:
        """Whatever the client raises ends the turn; nobody is there to be told, but for a task that is cancelled."""
        try:
            yield []
        except Exception as error:  # noqa: BLE001
            turn.handle(Failed(at=self.clock.monotonic(), error=type(error).__name__))
        except BaseException as error:
            turn.handle(Failed(at=self.clock.monotonic(), error=type(error).__name__, cancelled=True))
            raise

    def _answered(self, turn: Turn, answer: Answer | None = None) -> None:
        if answer is None:
            return
        now = self.clock.monotonic()
        turn.handle(Responded(now, answer.status))
        if answer.status != 200:
            turn.handle(Failed(at=now, status=answer.status))
            return
        tap = dialect(turn.wire).reply_tap(False, turn.ttl)
        for _ in (*tap.feed(answer.body), *tap.finish()):
            pass
        turn.handle(reported(tap))
        turn.handle(Finished(now))

    def _ended(self, own: _OwnRequest, ended: Ended) -> None:
        prompt = own.planned.prompt
        if ended.status in _REFUSALS:
            self._refused.add((prompt.platform, prompt.model))
            self._once.say(f"a {own.reason.name} request was refused with {ended.status} for {prompt.model!r}; no more")
        record = own.record(own.planned, ended)
        cost = paid_for(record, cards_of(record, self.policy.aliases, self.policy.prices))  # as the report has it
        if cost is not None or ended.outcome == "failed":  # else it may have been billed, nobody knows for how much
            self._spend(own.planned, (cost or 0.0) - own.bill)
        own.take_in(own, ended)


def _told(reason: _Reason, future: Future[Any]) -> None:
    """What goes wrong in here stays in here."""
    error = None if future.cancelled() else future.exception()
    if error is not None:
        log.error("agentaccel: no %s request could be made", reason.name, exc_info=error)
