"""Scripted conversations as runs, with the emulator's own counts: what a replay is measured against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentaccel import Usage
from agentaccel.cache.breakpoints import marks_of
from agentaccel.cache.prefix import prefixes
from agentaccel.engine.conversation import workload_of
from agentaccel.facts import CacheFacts, cache_facts
from agentaccel.replay.placements import Placement
from agentaccel.replay.runs import Run, Step
from agentaccel.types import CachePlan, Marker
from agentaccel.wire.anthropic import decode, encode, usage_of
from agentaccel_emulator import Behaviour, Emulator, Timing, Tokenizer
from agentaccel_emulator.anthropic_prompt import read_tape, with_lists
from tests.driver import MODEL, Driver, Json, assistant, body, prose, tool, user

TOKENIZER = Tokenizer(bytes_per_token=3.3, hidden=11)
FIRST_BYTE = 1.0
"""Seconds to the first byte: as the driver has it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of a script."""

    session: str
    request: Json
    gap: float = 5.0
    """Seconds since the reply before it was complete, in whichever session."""


Asks = Sequence[Ask]


def facts() -> CacheFacts:
    found = cache_facts(MODEL)
    assert found is not None
    return found


def step_of(request: Mapping[str, Any], started: float) -> Step:
    """`request` as a step, with the tokens that the emulator counts."""
    prompt = decode(request, facts(), key=b"test")
    prefix = prefixes(prompt, facts())
    tape = read_tape(
        with_lists(dict(request)), scope=b"", betas="", tokenizer=TOKENIZER, positions="runs", strips_thinking=False
    )
    assert len(tape.tokens) == len(prefix.hashes)
    return Step(
        prefix=prefix,
        tokens=tuple(tape.tokens),
        started=started,
        visible=started + FIRST_BYTE,
        marks=marks_of(prefix, prompt.markers),
    )


def runs_of(asks: Asks, started: Sequence[float]) -> list[Run]:
    """The script as runs, one for each session."""
    steps: dict[str, list[Step]] = {}
    for ask, at in zip(asks, started, strict=True):
        steps.setdefault(ask.session, []).append(step_of(ask.request, at))
    return [Run(id=id_, workload=workload_of(of[0].prefix.prompt, None), steps=tuple(of)) for id_, of in steps.items()]


def live(asks: Asks, folder: Path) -> tuple[list[float], dict[str, list[Usage]]]:
    """The script through `Accel` in front of the emulator: when each request was sent, and usage by session."""
    behaviour = Behaviour(tokenizer=TOKENIZER, timing=Timing(base=FIRST_BYTE, prefill=1e12))
    driver = Driver(folder, emulator=None)
    driver.emulator = Emulator(clock=driver.clock, behaviour=behaviour)
    started, usages = [], {}
    for ask in asks:
        with driver.accel.session(ask.session):
            started.append(driver.clock.now + ask.gap)
            usages.setdefault(ask.session, []).append(driver.ask(ask.request, gap=ask.gap, seconds=2 * FIRST_BYTE))
    driver.accel.close()
    return started, usages


def placed(asks: Asks, placement: Placement, folder: Path) -> tuple[list[float], dict[str, list[Usage]]]:
    """The script in front of the emulator with the markers of `placement` in place of its own."""
    behaviour = Behaviour(tokenizer=TOKENIZER, timing=Timing(base=FIRST_BYTE, prefill=1e12))
    driver = Driver(folder)
    driver.emulator = Emulator(clock=driver.clock, behaviour=behaviour)
    started, usages = [], {}
    for ask in asks:
        driver.clock.advance(ask.gap)
        step = step_of(ask.request, driver.clock.now)
        segments = step.prefix.prompt.segments
        markers = tuple(Marker(path=segments[mark.at].path, ttl=mark.ttl, ours=True) for mark in placement(step))
        status, reply = driver.post(encode(bare(ask.request), CachePlan(markers=markers)))
        assert status == 200, reply
        started.append(driver.clock.now)
        usages.setdefault(ask.session, []).append(usage_of(reply["usage"]))
        driver.clock.advance(2 * FIRST_BYTE)
    driver.accel.close()
    return started, usages


def bare(value: Any) -> Any:
    """A request without markers."""
    if isinstance(value, dict):
        return {name: bare(item) for name, item in value.items() if name != "cache_control"}
    return [bare(item) for item in value] if isinstance(value, list) else value


def counts(usages: Iterable[Usage]) -> list[Usage]:
    """Usages without their output, which a replay does not know, and without zeros."""
    return [replace(one, output=None, write={k: n for k, n in (one.write or {}).items() if n}) for one in usages]


# --- the scripts ------------------------------------------------------------------------------------------------------


TOOLS = [tool("search", 400), tool("book", 300), tool("cancel", 200)]
SYSTEM = prose(1200)


def growing(turns: int, *, seed: int = 0, marked: bool = False, **fixed: Any) -> list[Json]:
    """The requests of a conversation that only grows."""
    messages: list[Json] = [user([{"type": "text", "text": prose(40, seed)}])]
    requests = []
    for turn in range(turns):
        sent = [*messages]
        if marked:
            last = {**sent[-1]["content"][-1], "cache_control": {"type": "ephemeral"}}
            sent[-1] = user([*sent[-1]["content"][:-1], last])
        requests.append(body(*sent, **fixed))
        reply = assistant([{"type": "text", "text": prose(30, seed + turn)}])
        messages += [reply, user([{"type": "text", "text": prose(25, seed + turn + 100)}])]
    return requests


def plain() -> list[Ask]:
    return [Ask("a", one) for one in growing(6, system=SYSTEM, tools=TOOLS)]


def clock_in_system() -> list[Ask]:
    return [Ask("a", {**one, "system": f"{i} o'clock. {SYSTEM}"}) for i, one in enumerate(growing(7, tools=TOOLS))]


def reordered_tools() -> list[Ask]:
    orders = [TOOLS, TOOLS[::-1]]
    return [Ask("a", {**one, "tools": orders[i // 2 % 2]}) for i, one in enumerate(growing(8, system=SYSTEM))]


def long_pause() -> list[Ask]:
    gaps = [5.0, 5.0, 400.0, 5.0, 4000.0, 5.0, 5.0]
    return [Ask("a", one, gap) for one, gap in zip(growing(7, system=SYSTEM, tools=TOOLS), gaps, strict=True)]


def sessions_of_one_workload() -> list[Ask]:
    """One after another, and two of them side by side."""
    first, second, third = (growing(4, seed=7 * i, system=SYSTEM, tools=TOOLS) for i in range(3))
    side_by_side = [one for pair in zip(second, third, strict=True) for one in pair]
    return [*(Ask("a", one) for one in first), *(Ask("bc"[i % 2], one) for i, one in enumerate(side_by_side))]


def parallel_calls() -> list[Ask]:
    """25 results at once."""
    messages: list[Json] = [user([{"type": "text", "text": prose(40)}])]
    requests = [body(*messages, system=SYSTEM, tools=TOOLS)]
    for turn in range(3):
        ids = [f"t{turn}_{i}" for i in range(25)]
        calls = [{"type": "tool_use", "id": id_, "name": "search", "input": {"q": id_}} for id_ in ids]
        results = [{"type": "tool_result", "tool_use_id": id_, "content": prose(20, i)} for i, id_ in enumerate(ids)]
        messages = [*messages, assistant(calls), user(results)]
        requests.append(body(*messages, system=SYSTEM, tools=TOOLS))
    return [Ask("a", one) for one in requests]


def own_markers() -> list[Ask]:
    return [Ask("a", one) for one in growing(6, marked=True, system=SYSTEM, tools=TOOLS)]


def one_shots() -> list[Ask]:
    """Sessions that are never gone on with, each with instructions of its own: nothing is worth writing."""
    requests = [growing(1, seed=i, system=f"{i}: {SYSTEM}", tools=TOOLS)[0] for i in range(16)]
    return [Ask(str(i), one, 20.0) for i, one in enumerate(requests)]


def one_shots_that_share() -> list[Ask]:
    """Sessions that begin alike, in time by the reply's beginning and late by the request's."""
    requests = [growing(1, seed=i, system=SYSTEM, tools=TOOLS)[0] for i in range(16)]
    return [Ask(str(i), one, 300.5 - 2 * FIRST_BYTE if i % 8 else 20.0) for i, one in enumerate(requests)]


def near_the_minimum() -> list[Ask]:
    """Whether a prompt is long enough is told by the tokens per byte that other sessions have taught."""
    lengths = [1400, 1200, 600, 470, 455, 440, 430]
    return [Ask(str(i), one) for i, n in enumerate(lengths) for one in growing(3, seed=i, system=prose(n))]


def kept_warm() -> list[Ask]:
    """The instructions outlive what they were written with, because each request reads them."""
    first = growing(5, system=SYSTEM, tools=TOOLS)
    second = growing(2, seed=9, system=SYSTEM, tools=TOOLS)
    return [*(Ask("a", one, 200.0) for one in first), *(Ask("b", one, 200.0) for one in second)]


def ways_that_change() -> list[Ask]:
    """Many sessions of one request, and then longer ones: the past counts for so much and no more."""
    requests = [growing(1 + (i % 16 == 15), seed=i, tools=TOOLS) for i in range(48)]
    requests += [growing(4, seed=i, system=f"{i} {SYSTEM}", tools=TOOLS) for i in range(8)]
    return [
        Ask(str(i), {**one, "system": one.get("system", f"{i}.{n} {SYSTEM}")})
        for i, session in enumerate(requests)
        for n, one in enumerate(session)
    ]


def a_clock_that_stops() -> list[Ask]:
    """Sessions in which the instructions change with every request, and some in which they do not."""
    asks = []
    for i in range(48):
        moving = enumerate(growing(1 if i % 8 else 6, seed=i, tools=TOOLS))
        asks += [Ask(str(i), {**one, "system": f"{i}.{n} {SYSTEM}"}) for n, one in moving]
    stopped = (growing(8, seed=i, system=f"{i} {SYSTEM}", tools=TOOLS) for i in range(3))
    return asks + [Ask(f"last {i}", one) for i, session in enumerate(stopped) for one in session]


def forked() -> list[Ask]:
    """A second session tells another end of what the first one has sent."""
    first = growing(4, system=SYSTEM, tools=TOOLS)
    messages = [*first[2]["messages"], assistant([{"type": "text", "text": prose(30, 50)}])]
    second = []
    for turn in range(3):
        messages = [*messages, user([{"type": "text", "text": prose(600, 60 + turn)}])]
        second.append(body(*messages, system=SYSTEM, tools=TOOLS))
        messages = [*messages, assistant([{"type": "text", "text": prose(30, 70 + turn)}])]
    return [*(Ask("a", one) for one in first), *(Ask("b", one) for one in second)]


SCRIPTS = {
    make.__name__: make
    for make in (
        plain, clock_in_system, reordered_tools, long_pause, sessions_of_one_workload, parallel_calls, own_markers,
        one_shots, one_shots_that_share, near_the_minimum, kept_warm, ways_that_change, a_clock_that_stops,
        forked,
    )
}  # fmt: skip
