"""Sessions against the emulator: recorded by agentaccel, or bare, to see what they are billed."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentaccel import Accel, Policy, ToolCall, Usage
from agentaccel.cache.price import input_cost, price_card
from agentaccel.policy import Mode, StorePolicy
from agentaccel.testing import ManualClock
from agentaccel.turn import CallClosed, Finished, FirstByte, Reported, Started
from agentaccel.wire.anthropic import usage_of
from agentaccel_emulator import Behaviour, Emulator, HttpRequest, ScriptedReply, Turn
from benchmarks.situations.form import Situation
from benchmarks.workloads.faults import Sent, Session

_HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


class _Provider:
    """The emulator, which answers as the sessions say."""

    def __init__(self, situation: Situation, behaviour: Behaviour | None = None) -> None:
        self._answer = ScriptedReply()
        self._emulator = Emulator(platform=situation.platform, script=self._reply, behaviour=behaviour)

    def _reply(self, turn: Turn) -> ScriptedReply:
        return self._answer

    def post(self, sent: Sent, body: Any) -> tuple[Usage, dict[str, Any]]:
        """The usage and the reply of one request. Raises ValueError where it is refused."""
        content: list[dict[str, Any]] = [{"type": "text", "text": "As it was."}]
        content += [{"type": "tool_use", "name": "tool_0", "input": {"n": n}} for n in range(len(sent.tools))]
        self._answer = ScriptedReply(
            content=tuple(content), output_tokens=sent.output, first_token=sent.exchange.first_byte
        )
        wire = HttpRequest(method="POST", path="/v1/messages", headers=_HEADERS, body=json.dumps(body).encode())
        reply = self._emulator.handle(wire, sent.exchange.at)
        told = json.loads(reply.body)
        if reply.status != 200:
            raise ValueError(f"the emulator refused a request: {told}")
        return usage_of(told["usage"]), told


def billed(situation: Situation, sessions: Sequence[Session]) -> float:
    """USD for all that `sessions` send and are answered, by the emulator's own counts: input and output."""
    provider, total = _Provider(situation), 0.0
    for _, sent in _in_order(sessions):
        usage, _ = provider.post(sent, sent.exchange.body)
        total += _cost(sent, usage, situation.platform)
    return total


def _cost(sent: Sent, usage: Usage, platform: str) -> float:
    model, tokens = sent.exchange.body["model"], usage.input or 0
    card = price_card("anthropic", model, input_tokens=tokens, platform=platform, at=sent.exchange.at)
    cost = input_cost(card, usage)
    assert card is not None
    assert cost is not None
    return cost + (usage.output or 0) * (card.output or 0.0)


def wall(sessions: Sequence[Session]) -> float:
    """Seconds in which a model or a tool was at work, over all sessions."""
    total = 0.0
    for session in sessions:
        until = 0.0
        for one in session:
            answered = (one.exchange.at, one.exchange.at + one.exchange.reply_seconds)
            for begin, end in sorted((answered, *one.tools)):
                total += max(end - max(begin, until), 0.0)
                until = max(until, end)
    return total


def record(situation: Situation, sessions: Sequence[Session], store: Path, mode: Mode = "observe") -> float:
    """Take `sessions` through agentaccel against the emulator, into `store`; USD for all of them, as `billed`."""
    clock, provider, total = ManualClock(), _Provider(situation), 0.0
    policy = Policy(mode=mode, store=StorePolicy(path=store), strict=True)
    with Accel(policy, clock=clock, environ={}) as accel:

        def take_until(end: float) -> None:
            clock.now = end

        tool = accel.tool(name="tool_0")(take_until)
        for number, sent in _in_order(sessions):
            at, _, reply_seconds, first_byte = sent.exchange
            clock.now = at
            with accel.session(f"{situation.name}/{number}", agent=situation.name):
                turn = accel.turn(sent.exchange.body, platform=situation.platform)
                turn.handle(Started(at))
                usage, told = provider.post(sent, turn.request)
                total += _cost(sent, usage, situation.platform)
                turn.handle(FirstByte(at + first_byte))
                for n in range(len(sent.tools)):
                    turn.handle(CallClosed(ToolCall(name="tool_0", arguments={"n": n}), at + reply_seconds))
                turn.handle(Reported(usage=usage, stop=told["stop_reason"], message_id=told["id"]))
                clock.now = at + reply_seconds
                turn.handle(Finished(at + reply_seconds))
                for begin, end in sent.tools:
                    clock.now = begin
                    tool(end)
    return total


def _in_order(sessions: Sequence[Session]) -> Iterator[tuple[int, Sent]]:
    """Every request with the number of its session, in the order in which they are sent."""
    streams = ([(sent.exchange.at, number, sent) for sent in session] for number, session in enumerate(sessions))
    for _, number, sent in heapq.merge(*streams, key=lambda one: one[:2]):
        yield number, sent
