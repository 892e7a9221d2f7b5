"""Edits that are priced before they are made cost less than clearing every turn and than never clearing. Loops of 60
and 300 requests whose results of tools have 0.5k, 2k and 8k tokens, read at 0.1 and at 0.025 of the price of input; and
those of 60 once more with a reminder at the end of each request, which the next one does not have.

Each loop is sent by the product in front of the emulator, in virtual time, and billed by the emulator: as it is, with
all old results but the last three cleared by the agent in every request, and with `HistoryPolicy(clear_results=True)`,
in the first session of a workload and in the sixth. Where nothing is cleared and where the agent clears, agentaccel
places the markers, too: what is compared are the edits alone. No form may cost more than 1.02 times the better of the
two others: the benchmark then exits with 1.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import click

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.facts import cache_facts
from agentaccel.policy import HistoryPolicy
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, FirstByte, Reported, Send, Started
from agentaccel.types import Usage
from agentaccel.wire.anthropic import usage_of
from agentaccel_emulator import Behaviour, Emulator, HttpRequest, Tokenizer
from benchmarks.parallel import spread
from benchmarks.registry import Result, Table, benchmark

MODELS = ("claude-sonnet-5", "claude-fable-5-2")
"""Read at 0.1 and at 0.025 of the price of input."""
BYTES_PER_TOKEN = 1.0
"""Of the emulator's tokenizer here: what costs tokens need not cost time."""
BEGINNING = 1_795_000_000.0
"""When the first session begins."""
KEEP = HistoryPolicy().keep_results
BOUND = 1.02
LEARNED_FROM = 5
"""Sessions of the same length that the sixth one's workload has shown."""

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """An agent that calls a tool in every reply."""

    model: str
    turns: int
    result: int
    """Tokens of each result."""
    tools: int = 3_000
    system: int = 2_000
    said: int = 60
    asked: int = 60
    reminder: int = 0
    """Tokens at the end of each request that the next one does not have."""
    seconds: float = 7.0
    """From one request to the next."""

    def requests(self, *, clears: bool = False) -> Iterator[Body]:
        """Its requests; where it `clears`, old results are notes."""
        shape = {"type": "object", "properties": {"query": {"type": "string"}}}
        tools = [{"name": "search", "description": _text("tool", self.tools), "input_schema": shape}]
        messages: list[Body] = [{"role": "user", "content": _text("task", 300)}]
        for number in range(self.turns):
            yield {
                "model": self.model,
                "max_tokens": 1_024,
                "system": _text("system", self.system),
                "tools": tools,
                "messages": self._reminded(list(_cleared(messages)) if clears else messages, number),
            }
            call = {"id": f"toolu_{number}", "name": "search", "input": {"query": _text(f"asked {number}", self.asked)}}
            said = {"type": "text", "text": _text(f"said {number}", self.said)}
            found = {"tool_use_id": call["id"], "content": _text(f"found {number}", self.result)}
            messages = [
                *messages,
                {"role": "assistant", "content": [said, {"type": "tool_use", **call}]},
                {"role": "user", "content": [{"type": "tool_result", **found}]},
            ]

    def _reminded(self, messages: list[Body], number: int) -> list[Body]:
        if not self.reminder:
            return messages
        *before, last = messages
        said = [{"type": "text", "text": last["content"]}] if isinstance(last["content"], str) else last["content"]
        reminder = {"type": "text", "text": _text(f"reminder {number}", self.reminder)}
        return [*before, {**last, "content": [*said, reminder]}]


def _text(title: str, tokens: int) -> str:
    """Text of so many tokens that no other title gives."""
    size = round(tokens * BYTES_PER_TOKEN)
    line = f"{title}: as it was found, with all that follows from it. "
    return (line * (size // len(line) + 1))[:size]


def _cleared(messages: Sequence[Body]) -> Iterator[Body]:
    """What an agent sends that clears all old results, in the words that agentaccel has for it."""
    results = (len(messages) - 1) // 2
    for at, message in enumerate(messages):
        if at and at % 2 == 0 and at // 2 <= results - KEEP:
            (block,) = message["content"]
            note = f"[cleared: the result of search, {len(block['content']):,} characters]"
            yield {**message, "content": [{**block, "content": note}]}
        else:
            yield message


def sent(loop: Loop, accel: Accel, clock: ManualClock, name: str, *, clears: bool = False) -> list[Usage]:
    """What the emulator bills for one session of the loop."""
    tokenizer = Tokenizer(bytes_per_token=BYTES_PER_TOKEN)
    emulator = Emulator(clock=clock, behaviour=Behaviour(tokenizer=tokenizer))
    usages = []
    with accel.session(name, agent=f"{loop.model} {loop.turns}"):
        for request in loop.requests(clears=clears):
            clock.advance(loop.seconds / 2)
            turn = accel.turn(request)
            send = turn.handle(Started(clock.monotonic()))[-1]
            assert isinstance(send, Send)
            usage, message = _answered(emulator, send.request, clock.now)
            clock.advance(loop.seconds / 2)
            turn.handle(FirstByte(clock.monotonic()))
            turn.handle(Reported(usage=usage, stop="tool_use", message_id=message))
            turn.handle(Finished(clock.monotonic()))
            usages.append(usage)
    return usages


def _answered(emulator: Emulator, request: Any, now: float) -> tuple[Usage, str]:
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    body = json.dumps(request).encode()
    reply = emulator.handle(HttpRequest(method="POST", path="/v1/messages", headers=headers, body=body), now)
    if reply.status != 200:
        raise RuntimeError(f"the emulator refused a request: {reply.body[:200]!r}")
    answer = json.loads(reply.body)
    return usage_of(answer["usage"]), str(answer["id"])


def cost(usages: Sequence[Usage], model: str) -> float:
    """In uncached input tokens, by the prices of the facts."""
    facts = cache_facts(model)
    assert facts is not None
    price = {ttl.label: ttl.write for ttl in facts.ttls}
    return sum(
        (usage.uncached or 0)
        + (usage.read or 0) * facts.read
        + sum(tokens * price[label] for label, tokens in (usage.write or {}).items())
        for usage in usages
    )


FORMS = ("never", "every turn", "first session", "sixth session")


def measured(loop: Loop, learned: Path) -> dict[str, tuple[int, float]]:
    """Tokens and cost of the loop by form; `learned` is a folder as `learn` leaves it."""
    found: dict[str, list[Usage]] = {}
    for form in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            if form == FORMS[3]:
                shutil.copytree(learned, folder, dirs_exist_ok=True)
            clock = ManualClock(now=BEGINNING + LEARNED_FROM * 86_400)
            with _accel(Path(folder), clock, edits=form in FORMS[2:]) as accel:
                found[form] = sent(loop, accel, clock, "measured", clears=form == FORMS[1])
    return {form: (sum(it.input or 0 for it in usages), cost(usages, loop.model)) for form, usages in found.items()}


def learn(loop: Loop, folder: Path) -> None:
    """Leave in `folder` what so many sessions of the loop teach, with small results: of them the length alone tells."""
    clock = ManualClock(now=BEGINNING)
    with _accel(folder, clock, edits=True) as accel:
        for number in range(LEARNED_FROM):
            sent(replace(loop, result=40), accel, clock, f"s{number}")
            clock.advance(3_600)


def _accel(folder: Path, clock: ManualClock, *, edits: bool) -> Accel:
    policy = Policy(
        strict=True, store=StorePolicy(path=folder / "trace.db"), history=HistoryPolicy(clear_results=edits)
    )
    return Accel(policy, clock=clock, environ={})


@benchmark()
@click.option("--turns", default=(60, 300), multiple=True, show_default=True, help="Requests of a loop.")
@click.option("--results", default=(500, 2_000, 8_000), multiple=True, show_default=True, help="Tokens of a result.")
@click.option("--models", default=MODELS, multiple=True, show_default=True, help="By their price of reading.")
@click.option("--reminder", default=80, show_default=True, help="Tokens of the reminder; 0 for no such loops.")
def edits(turns: tuple[int, ...], results: tuple[int, ...], models: tuple[str, ...], reminder: int) -> Result:
    return measure(turns=turns, results=results, models=models, reminder=reminder)


def _measured(loops: Sequence[Loop]) -> list[dict[str, tuple[int, float]]]:
    """Tokens and cost, by form, of loops of one length, whose workload learns from sessions of that length."""
    with tempfile.TemporaryDirectory() as learned:
        learn(loops[0], Path(learned))
        return [measured(loop, Path(learned)) for loop in loops]


def measure(
    *,
    turns: Sequence[int] = (60, 300),
    results: Sequence[int] = (500, 2_000, 8_000),
    models: Sequence[str] = MODELS,
    reminder: int = 80,
) -> Result:
    """The benchmark; only the shortest loops are measured with a `reminder`, too."""
    rows, broken, worst = [], list[str](), 0.0
    lengths = [(count, 0) for count in turns] + ([(min(turns), reminder)] if reminder else [])
    jobs = [
        [Loop(model=model, turns=count, result=size, reminder=reminded) for size in results]
        for model in models
        for count, reminded in lengths
    ]
    loops = list(chain(*jobs))
    for loop, found in zip(loops, chain(*spread(_measured, jobs)), strict=True):
        facts = cache_facts(loop.model)
        assert facts is not None
        better = min(found[form][1] for form in FORMS[:2])
        for form, (tokens, price) in found.items():
            kind = (f"{loop.model}, {facts.read:g}", loop.turns, loop.result, loop.reminder)
            rows.append((*kind, form, tokens, round(price), price / better))
            if form in FORMS[2:]:
                worst = max(worst, price / better)
                if price > BOUND * better:
                    broken.append(
                        f"{form}, {loop.model}, {loop.turns} requests, results of {loop.result:,}, "
                        f"reminders of {loop.reminder}: "
                        f"{price / better:.3f} times the better of never clearing and of clearing every turn"
                    )
    return Result(
        figure=f"Priced edits cost at most {worst:.3f} times the better of never clearing and of clearing every turn, "
        f"in {len(loops)} loops, first sessions included.",
        inputs={
            "keep_results": KEEP,
            "emulator: bytes per token": BYTES_PER_TOKEN,
            "learned from sessions": LEARNED_FROM,
        },
        n=len(rows),
        tables=(
            Table(
                title="Input tokens and their cost in uncached tokens",
                columns=(
                    "model, price of a read",
                    "requests",
                    "result",
                    "reminder",
                    "form",
                    "tokens",
                    "cost",
                    "of the better",
                ),
                rows=tuple(rows),
                notes=(
                    "tokens: all input, cached or not; cost: a write is 1.25 of an uncached token",
                    "never and every turn: by the agent itself; agentaccel places the markers in all forms",
                    "reminder: tokens at the end of each request that the next one does not have",
                    "sixth session: after five of the same length, whose results were small",
                ),
            ),
        ),
        broken=tuple(broken),
    )
