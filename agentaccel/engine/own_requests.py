"""Requests of our own that keep what a session has in the cache, while it is open and pauses.

Ended ─warming▶ due ─▶ sent as the session's last request was, asking for no reply ─▶ due again, or never

They are the session's: its next request takes them back, leaving it ends them. Each is recorded by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import cast
from weakref import WeakValueDictionary

from agentaccel.cache.own_requests import PausePlan, kept, warming
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.price import input_cost
from agentaccel.clock import Clock
from agentaccel.concurrency import Background, DueWork
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.draft import Done, Going, Settled, card_of
from agentaccel.facts import CacheFacts, Wire
from agentaccel.locks import Lock
from agentaccel.once import Once
from agentaccel.policy import Policy
from agentaccel.records import KEEP_ALIVE, TurnRecord
from agentaccel.store.recorder import Recorder
from agentaccel.store.store import TurnWrite
from agentaccel.turn import Answer, Reported, Resend
from agentaccel.types import Endpoint, Prompt, Request, Usage
from agentaccel.values import kept_name
from agentaccel.wire import ReplyTap, dialect

# --- What requests of our own have in common, be they sent ahead of a session's next one or during a pause ------------

_REFUSALS = (400, 404, 405, 413, 422)
"""Statuses that say that no such request is taken; others are of the moment, such as credentials that have run out."""


class Refusals:
    """Platforms and models that take no request of our own, as far as they have said so. Thread-safe."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def __contains__(self, prompt: Prompt) -> bool:
        return (prompt.platform, prompt.model) in self._known

    def answered(self, prompt: Prompt, status: int | None) -> bool:
        """Whether this is such a refusal; from then on nothing like it is sent."""
        refused = status in _REFUSALS
        if refused:
            self._known.add((prompt.platform, prompt.model))
        return refused


def said_in(body: bytes, wire: Wire, ttl: str) -> ReplyTap:
    """What a whole reply says of itself; `ttl` as in `Turn`."""
    tap = dialect(wire).reply_tap(False, ttl)
    for _ in (*tap.feed(body), *tap.finish()):
        pass
    return tap


def reported(tap: ReplyTap) -> Reported:
    """What a reply says of itself."""
    metered = tap.metered
    return Reported(
        usage=metered.usage,
        besides=metered.besides,
        doubts=metered.doubts,
        stop=tap.stop,
        message_id=tap.message_id,
        diagnostics=tap.diagnosis,
        model=metered.model or tap.model,
        terms=tap.terms,
    )


log = logging.getLogger("agentaccel")

_NOTHING = Reported(usage=Usage())
"""What an answer that failed says."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Pause:
    """One pause of a session, from its last request on."""

    going: Going
    endpoint: Endpoint
    facts: CacheFacts
    warming: PausePlan
    body: Request
    resend: Resend
    later: DueWork | None = None
    count: int = 0
    """Requests sent in it."""
    expires: float = 0.0
    """Until when there is something to keep."""


@dataclass(slots=True)
class Keeper:
    """Keeps entries of open sessions alive. Thread-safe."""

    policy: Policy
    clock: Clock
    recorder: Recorder
    background: Background
    refusals: Refusals = field(default_factory=Refusals)
    _pauses: WeakValueDictionary[str, _Pause] = field(default_factory=WeakValueDictionary)
    """The pause of each conversation, by its key; held by what is due or under way, so it is gone with the session."""
    _once: Once = field(default_factory=Once)
    _lock: Lock = field(default_factory=Lock)

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
        going, endpoint, ended = done.going, done.endpoint, done.reply
        conversation, prefix, facts = going.conversation, going.prefix, going.facts
        conversation.can_resend = ended.resend is not None
        if ended.resend is None or ended.outcome != "ok" or going.mode != "on" or prefix is None or facts is None:
            return
        if going.prompt.held or not self._takes(conversation, prefix):
            return
        body = dialect(endpoint.wire).warmed(ended.request)
        if body is None:
            return
        with conversation.lock:
            beliefs = conversation.snapshot.joined(conversation.state.seen)
            warm = warming(conversation.state, prefix, beliefs, self.policy.cache.ttl)
        if warm is None:
            return
        pause = _Pause(going, endpoint, facts, warm, body, ended.resend)
        with self._lock:
            self._pauses[conversation.key] = pause
        self._schedule(pause, going.started)

    def can_keep(self, conversation: Conversation, request: Request, prefix: Prefixes) -> bool:
        """Whether the pause after `request` can be bridged, so that a plan may count on it.

        Not where the provider takes no such request, where nobody knows how to send one or what it costs, and once the
        budget is spent.
        """
        prompt, facts = prefix.prompt, prefix.facts
        if not self._takes(conversation, prefix) or dialect(facts.wire).warmed(request) is None:
            return False
        tokens = round(prefix.size / facts.bytes_per_token)
        expected = Usage(input=tokens, read=tokens, write={})
        return conversation.can_resend and self._has_room(conversation, prompt, expected)

    def _takes(self, conversation: Conversation, prefix: Prefixes) -> bool:
        return conversation.session.open > 0 and bool(prefix.facts.keeps) and prefix.prompt not in self.refusals

    def _schedule(self, pause: _Pause, last_used: float) -> None:
        due = pause.warming.due(last_used, pause.count)
        if due is None:
            return
        pause.expires = pause.warming.expires(last_used, pause.count)
        conversation = pause.going.conversation
        pause.later = self.background.later(conversation.id, due - self.clock.wall(), partial(self._send, pause))

    def _is_over(self, pause: _Pause) -> bool:
        conversation = pause.going.conversation
        return self._pauses.get(conversation.key) is not pause or not conversation.session.open

    def _is_due(self, pause: _Pause) -> bool:
        """Whether there is still something to keep: after a sleep of the machine, say, it would all be written anew."""
        return not self._is_over(pause) and self.clock.wall() < pause.expires

    def _send(self, pause: _Pause) -> None:
        if not self._is_due(pause) or not self._affords(pause):
            return
        self._once.say("keeping cache entries alive during pauses, as the policy allows", level=logging.INFO)
        started, owner, resend = self.clock.wall(), pause.going.conversation.id, pause.resend
        if resend.loop is None:
            self._send_here(pause, started)
            return
        future = self.background.on_loop(owner, resend.loop, partial(self._send_there, pause))
        future.add_done_callback(partial(self._done, pause, started))

    def _send_here(self, pause: _Pause, started: float) -> None:
        try:
            answer = cast(Answer, pause.resend.send(pause.body))
        except Exception as error:  # noqa: BLE001 - whatever the client raises, nobody is there to be told
            self._failed(pause, started, type(error).__name__)
        else:
            self._answered(pause, started, answer)

    async def _send_there(self, pause: _Pause) -> Answer | None:
        """On the client's event loop, which may have been busy until now."""
        return await cast(Awaitable[Answer], pause.resend.send(pause.body)) if self._is_due(pause) else None

    def _done(self, pause: _Pause, started: float, future: Future[Answer | None]) -> None:
        error = future.exception()
        if error is not None:
            self._failed(pause, started, type(error).__name__)
            return
        answer = future.result()
        if answer is None:
            return  # the session was left or has gone on, and with it the request
        try:
            self._answered(pause, started, answer)
        except Exception:
            log.exception("agentaccel: could not take in the reply to a keep-alive request")

    def _affords(self, pause: _Pause) -> bool:
        """Whether the budget has room for one more."""
        return self._has_room(pause.going.conversation, pause.going.prompt, pause.warming.expected(pause.count))

    def _has_room(self, conversation: Conversation, prompt: Prompt, expected: Usage) -> bool:
        """Whether the budget has room for a request that is billed so."""
        card = card_of(prompt, self.policy, expected.input or 0)
        if card is None:
            self._once.say(f"no price is known for {prompt.model!r}: its entries are not kept alive")
        cost = input_cost(card, expected)
        return cost is not None and conversation.session.keeping_cost + cost <= self.policy.cache.own_requests_budget

    def _answered(self, pause: _Pause, started: float, answer: Answer) -> None:
        if answer.status != 200:
            prompt = pause.going.prompt
            if self.refusals.answered(prompt, answer.status):
                message = f"a keep-alive request was refused with {answer.status} for {prompt.model!r}; no more"
                self._once.say(message, about=f"refused {prompt.model}")
            self._record(pause, started, _NOTHING, answer.status)
            return
        said = reported(said_in(answer.body, pause.endpoint.wire, pause.going.lifetime))
        usage, conversation = said.usage, pause.going.conversation
        card = card_of(pause.going.prompt, self.policy, usage.input or 0)
        cost = input_cost(card, usage) if card is not None and usage.input is not None else None
        with conversation.lock:
            conversation.session.keeping_cost += cost or 0.0
            if not self._is_over(pause) and pause.going.prefix is not None:
                conversation.state = kept(
                    conversation.state, pause.going.prefix, pause.warming, now=started, read=bool(usage.read)
                )
        self._record(pause, started, said, answer.status)
        pause.count += 1
        if usage.read:
            self._schedule(pause, started)

    def _failed(self, pause: _Pause, started: float, error: str) -> None:
        self._record(pause, started, _NOTHING, None, error)

    def _record(self, pause: _Pause, started: float, said: Reported, status: int | None, error: str = "") -> None:
        conversation, prompt = pause.going.conversation, pause.going.prompt
        record = TurnRecord(
            session=conversation.id,
            provider=prompt.provider,
            platform=prompt.platform,
            model=prompt.model,
            known_as=pause.going.known_as,
            agent=conversation.agent,
            tenant=conversation.tenant,
            parent=conversation.parent,
            thread=conversation.thread,
            started=started,
            finished=self.clock.wall(),
            outcome="ok" if status == 200 else "failed",
            status=status,
            error=kept_name(error) if error else None,
            mode=KEEP_ALIVE,
            usage=said.usage,
            answered_by=said.model,
            besides=said.besides,
            doubts=said.doubts,
            terms=pause.going.terms(said.terms),
            reasons=("keeps what the session has in the cache during a pause (CachePolicy.keep_alive)",),
            consents=("keep_alive",),
        )
        write = TurnWrite(
            record=record,
            session=None,
            segments=prompt.segments,  # those of the request before: nothing is new
            content=None,
            lineage=(),
            messages=prompt.messages,
            learned=(),
            beginnings=(),
        )
        self.recorder.write(write)
