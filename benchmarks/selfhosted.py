"""On a server of one's own, agents with consents have hardly more to compute than if they were arranged by hand.

Sessions of 6 and of 30 requests in seven situations, sent by the product in front of the emulator with the physics of
llama.cpp's server, in virtual time. What counts are tokens of prompts that the server computes: as the agent is
written, with agentaccel in the first session of a workload and in its sixth, and as its author would arrange it by hand
(what changes as the last text of the prompt, tools in one order). In the sixth session no more than 1.10 times of what
by hand takes may be computed, in the first one no more than one prompt on top, and never more than as written: the
benchmark then exits with 1.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from agentaccel import Accel, CachePolicy, HistoryPolicy, Policy, StorePolicy
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, FirstByte, Reported, Send, Started
from agentaccel.wire.openai.usage import usage_of, work_of
from agentaccel_emulator import Behaviour, Emulator, HttpRequest, Tokenizer
from benchmarks.registry import Cell, Result, Table, benchmark

BEGINNING = 1_795_000_000.0
"""When the first session begins."""
LENGTHS = (6, 30)
LEARNED_FROM = 5
"""Sessions of the same length that the sixth one's workload has shown."""
BOUND = 1.10
SECONDS = 7.0
"""From one request of an agent to the next."""
BYTES_PER_TOKEN = 4.0

Body = dict[str, Any]


class Parts(NamedTuple):
    """One request before it is put together: what its author would tell apart."""

    system: tuple[str, ...]
    """Pieces of the instructions."""
    volatile: frozenset[int]
    """Which of them change."""
    tools: tuple[Body, ...]
    messages: tuple[Body, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One kind of agent."""

    name: str
    parts: Callable[[int, int, float], Parts]
    """Those of a session's request: which session, which request, and when."""
    sessions: int = 1
    """They take turns."""
    slots: int = 1


def _text(title: str, tokens: int) -> str:
    """Lines of so many tokens that no other title gives."""
    size, line = round(tokens * BYTES_PER_TOKEN), 0
    lines = list[str]()
    while sum(map(len, lines)) < size:
        lines.append(f"{title}, line {line}: look it up before you speak about it.\n")
        line += 1
    return "".join(lines)


RULES, MORE = _text("Rule", 600), _text("Article", 400)
TOOLS = tuple(
    {
        "type": "function",
        "function": {"name": f"tool_{n}", "description": _text(f"Tool {n}", 90), "parameters": {"type": "object"}},
    }
    for n in range(8)
)


def _shown(now: float) -> str:
    return f"It is {datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC.\n"


def _history(session: int, request: int, *, result: int = 60) -> tuple[Body, ...]:
    """What was said before the request, with a result of a tool in each turn."""
    messages: list[Body] = [{"role": "user", "content": f"Please take ticket {500 + session}."}]
    for turn in range(request):
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": f"tool_{turn % 8}", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": f"Step {turn}.", "tool_calls": [call]})
        found = _text(f"found {session} {turn}", result)
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": found})
    return tuple(messages)


def _clock_first(session: int, request: int, now: float) -> Parts:
    return Parts((_shown(now), RULES, MORE), frozenset({0}), TOOLS, _history(session, request))


def _clock_between(session: int, request: int, now: float) -> Parts:
    return Parts((RULES, _shown(now), MORE), frozenset({1}), TOOLS, _history(session, request))


def _shuffled(session: int, request: int, now: float) -> Parts:
    drawn = random.Random(1000 * session + request).sample(TOOLS, len(TOOLS))
    return Parts((RULES, MORE), frozenset(), tuple(drawn), _history(session, request))


def _results(session: int, request: int, now: float) -> Parts:
    return Parts((RULES, MORE), frozenset(), TOOLS, _history(session, request, result=400))


def _notes(session: int, request: int, now: float) -> Parts:
    notes = _text(f"note of {session}, {request // 5}", 120)
    return Parts((RULES, f"Your notes:\n{notes}", MORE), frozenset({1}), TOOLS, _history(session, request))


def _plain(session: int, request: int, now: float) -> Parts:
    return Parts((RULES, MORE), frozenset(), TOOLS, _history(session, request))


SITUATIONS = (
    Situation(name="clock first", parts=_clock_first),
    Situation(name="clock in the middle", parts=_clock_between),
    Situation(name="tool order", parts=_shuffled),
    Situation(name="growing tool results", parts=_results),
    Situation(name="notes rewritten every fifth request", parts=_notes),
    Situation(name="three sessions on two slots, with a clock", parts=_clock_first, sessions=3, slots=2),
    Situation(name="nothing to win", parts=_plain),
)


def as_written(parts: Parts) -> Body:
    """The request as the agent has it."""
    system = {"role": "system", "content": "".join(parts.system)}
    return {"model": "local", "messages": [system, *parts.messages], "tools": list(parts.tools)}


def by_hand(parts: Parts) -> Body:
    """The request as its author would arrange it: what changes as the last text, and tools in one order."""
    kept = "".join(text for at, text in enumerate(parts.system) if at not in parts.volatile)
    changing = [text for at, text in enumerate(parts.system) if at in parts.volatile]
    *before, last = parts.messages
    content = [{"type": "text", "text": text} for text in (last["content"], *changing)]
    tools = sorted(parts.tools, key=lambda tool: str(tool["function"]["name"]))
    messages = [{"role": "system", "content": kept}, *before, {**last, "content": content}]
    return {"model": "local", "messages": messages, "tools": tools}


class Counted(NamedTuple):
    """What a server computed."""

    computed: int
    largest: int
    """Tokens of the longest prompt."""


class _Server:
    """The emulated one, and its clock."""

    def __init__(self, situation: Situation, clock: ManualClock) -> None:
        tokenizer = Tokenizer(bytes_per_token=BYTES_PER_TOKEN)
        behaviour = Behaviour(tokenizer=tokenizer, slots=situation.slots)
        self.clock = clock
        self._emulator = Emulator(platform="llamacpp", behaviour=behaviour, clock=clock)

    def answer(self, request: Any) -> Body:
        """What it tells of a request: usage and timings."""
        headers = {"content-type": "application/json", "authorization": "Bearer k"}
        asked = HttpRequest(
            method="POST", path="/v1/chat/completions", headers=headers, body=json.dumps(request).encode()
        )
        reply = self._emulator.handle(asked, self.clock.now)
        if reply.status != 200:
            raise RuntimeError(f"the emulator refused a request: {reply.body[:200]!r}")
        told: Body = json.loads(reply.body)
        return told


def sent(situation: Situation, length: int, accel: Accel | None, server: _Server, day: int, arranged: Any) -> Counted:
    """What is computed in sessions of so many requests, which take turns."""
    computed, largest = 0, 0
    for request in range(length):
        for session in range(situation.sessions):
            server.clock.advance(SECONDS / situation.sessions)
            body = arranged(situation.parts(100 * day + session, request, server.clock.wall()))
            told = (
                server.answer(body)
                if accel is None
                else _accelerated(accel, body, server, f"{day} {session}", situation.name)
            )
            computed += told["timings"]["prompt_n"]
            largest = max(largest, told["usage"]["prompt_tokens"])
    return Counted(computed, largest)


def _accelerated(accel: Accel, body: Body, server: _Server, session: str, agent: str) -> Body:
    with accel.session(session, agent=agent):
        turn = accel.turn(body, provider="compatible", platform="llamacpp")
        send = turn.handle(Started(server.clock.monotonic()))[-1]
        assert isinstance(send, Send)
        told = server.answer(send.request)
        server.clock.advance(told["timings"]["prompt_ms"] / 1000)
        turn.handle(FirstByte(server.clock.monotonic()))
        turn.handle(Reported(usage=usage_of(told["usage"]), work=work_of(told)))
        turn.handle(Finished(server.clock.monotonic()))
    return told


FORMS = ("as written", "by hand", "first session", "sixth session")


def measured(situation: Situation, length: int) -> dict[str, Counted]:
    """What the server computes, by form."""
    found = {}
    for form, arranged in zip(FORMS[:2], (as_written, by_hand), strict=True):
        server = _Server(situation, ManualClock(now=BEGINNING))
        found[form] = sent(situation, length, None, server, 9, arranged)
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as learned:
        clock = ManualClock(now=BEGINNING)
        with _accel(Path(learned), clock) as accel:
            for day in range(LEARNED_FROM):
                sent(situation, length, accel, _Server(situation, clock), day, as_written)
                clock.advance(3_600)
        for form, folder in zip(FORMS[2:], (empty, learned), strict=True):
            clock = ManualClock(now=BEGINNING + 86_400)
            with _accel(Path(folder), clock) as accel:
                found[form] = sent(situation, length, accel, _Server(situation, clock), 9, as_written)
    return found


def _accel(folder: Path, clock: ManualClock) -> Accel:
    policy = Policy(
        strict=True,
        store=StorePolicy(path=folder / "trace.db"),
        cache=CachePolicy(move_volatile=True, freeze_tools=True),
        history=HistoryPolicy(clear_results=True),
    )
    return Accel(policy, clock=clock, environ={})


def complaints(situation: Situation, length: int, found: dict[str, Counted]) -> list[str]:
    """What should hold and does not."""
    written, hand, first, sixth = (found[form] for form in FORMS)
    name, broken = f"{situation.name}, {length} requests", list[str]()
    if sixth.computed > BOUND * hand.computed:
        broken.append(f"{name}: {sixth.computed / hand.computed:.3f} times by hand in the sixth session")
    if first.computed > hand.computed + situation.sessions * first.largest:
        broken.append(f"{name}: {first.computed - hand.computed:,} tokens more than by hand in the first session")
    broken += [
        f"{name}: {ours.computed:,} tokens in the {form}, {written.computed:,} as written"
        for form, ours in zip(FORMS[2:], (first, sixth), strict=True)
        if ours.computed > written.computed
    ]
    return broken


@benchmark()
@click.option("--lengths", default=LENGTHS, multiple=True, show_default=True, help="Requests of a session.")
def selfhosted(lengths: tuple[int, ...]) -> Result:
    return measure(lengths)


def measure(lengths: Sequence[int] = LENGTHS) -> Result:
    """The benchmark."""
    rows, broken, worst = list[tuple[Cell, ...]](), list[str](), 0.0
    for situation in SITUATIONS:
        for length in lengths:
            found = measured(situation, length)
            broken += complaints(situation, length, found)
            hand = found[FORMS[1]].computed
            worst = max(worst, found[FORMS[3]].computed / hand)
            counts = [found[form].computed for form in FORMS]
            rows.append((situation.name, length, *counts, counts[2] / hand, counts[3] / hand))
    return Result(
        figure=f"With consents a server of one's own computes at most {worst:.3f} times what it would of prompts that "
        f"are arranged by hand, in {len(rows)} cases, once five sessions were seen.",
        inputs={"emulator: platform": "llamacpp", "emulator: bytes per token": BYTES_PER_TOKEN},
        n=len(rows) * len(FORMS),
        tables=(
            Table(
                title="Tokens of prompts that are computed",
                columns=("situation", "requests", *FORMS, "first / by hand", "sixth / by hand"),
                rows=tuple(rows),
            ),
        ),
        broken=tuple(broken),
    )
