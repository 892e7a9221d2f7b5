"""Requests of our own that write what a session's next request begins with, where the agent announces that one.

Session.prewarm ─the client's own way, until it would be sent▶ Announced ─plan, weigh▶ sent for no reply ─▶ ledger

They are the session's: leaving it ends them. Each is recorded by itself. A request that starts meanwhile and begins
alike waits for them as for any other that writes its prefix (`loop.fanout`), where that pays.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from agentaccel.cache.beliefs import Observation
from agentaccel.cache.breakpoints import marks_of
from agentaccel.cache.own_requests import SENT, Prewarming, comes_as_announced, prewarming, with_held
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.price import input_cost
from agentaccel.cache.settle import settle
from agentaccel.cache.teach import Sent
from agentaccel.clock import Clock
from agentaccel.concurrency import Background
from agentaccel.engine.conversation import ConversationState
from agentaccel.engine.draft import Done, Going, Settled, card_of
from agentaccel.engine.gate import Flight
from agentaccel.engine.own_requests import Refusals, reported, said_in
from agentaccel.engine.scope import Announced, Scope, Session, Stay, current
from agentaccel.engine.settlement import Recording, record_of
from agentaccel.engine.sharing import Fanning, kind_of, with_lent, without_unread
from agentaccel.once import Once
from agentaccel.policy import Policy
from agentaccel.records import PREWARM, TurnRecord
from agentaccel.turn import Answer, Ended, Failed, Finished, Responded, Started, Turn, Wait
from agentaccel.types import Endpoint
from agentaccel.wire import dialect

log = logging.getLogger("agentaccel")


class Plans(Protocol):
    """Plans a request that is only announced; None where that cannot be told from what is known of it."""

    def announced(self, session: Session, announced: Announced) -> Going | None: ...


class _Ahead(NamedTuple):
    """What a request of our own is sent for."""

    going: Going
    endpoint: Endpoint
    worth: Prewarming


@dataclass(slots=True)
class Prewarmer:
    """Writes ahead what open sessions announce. Thread-safe."""

    policy: Policy
    clock: Clock
    background: Background
    plans: Plans
    fanning: Fanning
    recording: Recording
    refusals: Refusals = field(default_factory=Refusals)
    once: Once = field(default_factory=Once)

    def here(self, session: Session, call: Callable[[], object]) -> None:
        """The session's next request is one that `call` would send, which blocks: done in a thread."""
        self.background.submit(session.id, partial(self._here, session, call)).add_done_callback(_told)

    def there(self, session: Session, call: Callable[[], Awaitable[object]], loop: Any) -> None:
        """The same on an event loop."""
        self.background.on_loop(session.id, loop, partial(self._there, session, call)).add_done_callback(_told)

    def _here(self, session: Session, call: Callable[[], object]) -> None:
        announced = None
        current.set(Scope(stays=(Stay(session),), announces=True))
        try:
            call()
        except Announced as stopped:
            announced = stopped
        turn = self._begun(session, announced)
        if turn is not None and turn.resend is not None:
            answer = None
            with self._sending(turn):
                answer = cast(Answer, turn.resend.send(turn.request))
            self._answered(turn, answer)

    async def _there(self, session: Session, call: Callable[[], Awaitable[object]]) -> None:
        announced = None
        current.set(Scope(stays=(Stay(session),), announces=True))
        try:
            await call()
        except Announced as stopped:
            announced = stopped
        turn = self._begun(session, announced)
        if turn is not None and turn.resend is not None:
            answer = None
            with self._sending(turn):
                answer = await cast(Awaitable[Answer], turn.resend.send(turn.request))
            self._answered(turn, answer)

    @contextmanager
    def _sending(self, turn: Turn) -> Iterator[None]:
        """Whatever the client raises ends the turn; nobody is there to be told, but for a task that is cancelled."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            turn.handle(Failed(at=self.clock.monotonic(), error=type(error).__name__))
        except BaseException as error:
            turn.handle(Failed(at=self.clock.monotonic(), error=type(error).__name__, cancelled=True))
            raise

    # --- before -------------------------------------------------------------------------------------------------------

    def _begun(self, session: Session, announced: Announced | None) -> Turn | None:
        """The turn of a request of our own, to be sent now; None where none is to be."""
        if announced is None or announced.resend is None or not session.conversation.open:
            return None
        endpoint, going = announced.endpoint, self.plans.announced(session, announced)
        if going is None or going.mode != "on" or going.facts is None or not going.facts.keeps:
            return None
        known = dialect(endpoint.wire)
        body = known.warmed(known.encode(going.request, going.plan))
        if body is None or going.prompt in self.refusals:
            return None
        worth = self._worth(going, endpoint)
        if worth is None:
            return None
        flight = self.fanning.flight(going, endpoint)
        if flight is not None:  # it waits for nobody: where another one writes this already, there is nothing to do
            flight.kind, flight.streamed = f"{flight.kind} {PREWARM}", True
            flight.at_most, flight.cost_per_second = float("inf"), 0.0
        turn = Turn(
            request=body,
            plan=going.plan,
            on_end=partial(self._ended, _Ahead(going, endpoint, worth), flight),
            hold=flight,
            wire=endpoint.wire,
            ttl=going.lifetime,
            resend=announced.resend,
        )
        if any(isinstance(one, Wait) for one in turn.handle(Started(self.clock.monotonic(), can_wait=True))):
            self._spend(going, -worth.bill)
            return None
        self.once.say("writing ahead what sessions announce, as the policy allows", level=logging.INFO)
        return turn

    def _worth(self, going: Going, endpoint: Endpoint) -> Prewarming | None:
        """What it is worth, its bill being within the budget, and taken from it; None where it does not pay."""
        expected, prefix, conversation = going.plan.expected, going.prefix, going.conversation
        if expected is None or prefix is None or not prefix.size:
            return None
        card = card_of(going.prompt, self.policy, round(expected.total))
        if card is None or card.read is None:
            self.once.say(f"no price is known for {going.prompt.model!r}: nothing is written ahead")
            return None
        with conversation.lock:
            beliefs = conversation.snapshot.joined(conversation.state.seen)
            account = endpoint.account + going.apart
            lent = self.fanning.lent(
                conversation.state, prefix, account, self.clock.monotonic(), first=conversation.is_new
            )
        there = max((prefix.sizes[entry.at] for entry in lent.values()), default=0) / prefix.size * expected.total
        expected = with_held(expected, there)
        kind, cold = kind_of(going, endpoint), expected.total - expected.read
        cold_and_warm = (cold, cold - sum(expected.write.values()))
        before, after = (
            self.fanning.fanout.takes(kind, tokens, streamed=going.prompt.stream) for tokens in cold_and_warm
        )
        worth = prewarming(expected, card, comes=comes_as_announced(beliefs), seconds=before - after)
        policy = self.policy.cache
        if worth is None or not worth.pays(cost_per_second=policy.cost_per_second):
            return None
        return worth if self._spend(going, worth.bill, within=policy.own_requests_budget) else None

    def _spend(self, going: Going, usd: float, *, within: float = float("inf")) -> bool:
        """Count so much as spent, where that stays within a budget; whether it was."""
        with going.conversation.lock:
            spent = going.conversation.session.keeping_cost + usd
            if spent <= within:
                going.conversation.session.keeping_cost = spent
            return spent <= within

    # --- after --------------------------------------------------------------------------------------------------------

    def _answered(self, turn: Turn, answer: Answer | None) -> None:
        if answer is None:
            return
        now = self.clock.monotonic()
        turn.handle(Responded(now, answer.status))
        if answer.status != 200:
            turn.handle(Failed(at=now, status=answer.status))
            return
        tap = said_in(answer.body, turn.wire, turn.ttl)
        turn.handle(reported(tap))
        turn.handle(Finished(now))

    def _ended(self, ahead: _Ahead, flight: Flight | None, ended: Ended) -> None:
        going, endpoint, worth = ahead
        conversation, usage = going.conversation, ended.usage
        if self.refusals.answered(going.prompt, ended.status):
            self.once.say(f"writing ahead was refused with {ended.status} for {going.prompt.model!r}; no more")
        going = self.fanning.ended(going, endpoint.account, flight, ended)
        if ended.outcome != "cancelled":  # else it may have been billed, nobody knows
            cost = (
                input_cost(card_of(going.prompt, self.policy, usage.input), usage) if usage.input is not None else 0.0
            )
            self._spend(going, (cost or 0.0) - worth.bill)
        record, learned = self._record(going, worth, ended), tuple[Observation, ...]()
        if usage.read is not None or usage.written is not None:
            learned = (SENT,)
        with conversation.lock:
            known = conversation.knowledge
            if learned and going.prefix is not None and going.observed is not None:
                known = _taken_in(known, going, going.prefix, ended)
            conversation.advance(known)
            self.recording.write(going, None, record, learned)
        self.fanning.settled(Done(going, endpoint, ended, flight), Settled(record, known, None, learned))

    def _record(self, going: Going, worth: Prewarming, ended: Ended) -> TurnRecord:
        return replace(
            record_of(going, ended, None),
            mode=PREWARM,
            as_written=None,
            consents=(PREWARM,),
            reasons=(
                f"writes ahead what the session announced (CachePolicy.prewarm): {worth.seconds:.1f} s are expected to "
                f"be won for {worth.cost:.4f} USD",
                *going.plan.reasons,
            ),
        )


def _taken_in(known: ConversationState, going: Going, prefix: Prefixes, ended: Ended) -> ConversationState:
    """What was written is held now; nothing else of the session has changed."""
    usage = ended.usage
    assert going.observed is not None
    sent = Sent(
        prefix=prefix,
        marks=marks_of(prefix, going.markers_sent),
        written_marks=(),
        started=going.started,
        visible=going.started + (ended.finished - ended.started),
        usage=usage,
        ours=True,
    )
    settled = settle(with_lent(known.state, going.lent), known.head, sent, going.observed)
    state = replace(
        known.state,
        ledger=settled.state.ledger,
        seen=known.state.seen.after((SENT,)),
        ours=True,  # from here on, what the user's own markers would have done is another thing
    )
    written = ((usage.read or 0) + (usage.written or 0)) or None
    return known._replace(state=without_unread(state, going.lent), ahead=written)


def _told(future: Future[Any]) -> None:
    """What goes wrong in here stays in here."""
    error = None if future.cancelled() else future.exception()
    if error is not None:
        log.error("agentaccel: nothing could be written ahead", exc_info=error)
