"""Recorded sessions by hand, for advice: prompts as pieces with tokens, and variations of the bundled workloads."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from agentaccel.cache.ledger import Breakpoint
from agentaccel.facts import cache_facts
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.runs import Step
from agentaccel.replay.simulate import simulate
from agentaccel.replay.synthetic import Piece, rendered
from agentaccel.report.advise.nouns import RecordedRequest, RecordedSession
from agentaccel.report.advise.parts import PromptPart, parts_of, with_parts
from agentaccel.types import Usage
from benchmarks.situations.amounts import Even
from benchmarks.workloads import Fault, Workload

MODEL = "claude-sonnet-5"
NOON = 1_770_000_000.0

Placement = Callable[[Step], tuple[Breakpoint, ...]]
AUTOMATIC, STATIC, NONE = PLACEMENTS["automatic"], PLACEMENTS["tools+system+tail 5m"], PLACEMENTS["none"]


def piece(name: str, tokens: int = 500, level: str = "", kind: str = "text") -> Piece:
    """A piece by its name: "T…" is a tool, "S…" of the system prompt, "A…" the assistant's, others the user's."""
    at = level or {"T": "tools", "S": "system"}.get(name[0], "messages")
    role = "" if at != "messages" else "assistant" if name[0] == "A" else "user"
    return Piece(at, role, tokens, name.encode(), kind)  # type: ignore[arg-type]  # one of the levels


def talk(
    prompts: Sequence[Sequence[Piece]],
    marks: Placement = AUTOMATIC,
    *,
    id: str = "s",  # noqa: A002 - as the noun calls it
    gap: float = 10.0,
    begin: float = NOON,
    models: Sequence[str] = (),
    tools: Sequence[tuple[float, float]] = (),
    mode: str = "observe",
    output: int = 50,
) -> RecordedSession:
    """A session of these prompts, every `gap` seconds, each reply taking two; billed as a replay of it bills."""
    requests: list[RecordedRequest] = []
    for number, pieces in enumerate(prompts):
        model = models[number] if models else MODEL
        facts = cache_facts(model)
        assert facts is not None
        prefix, tokens = rendered(pieces, model, facts, requests[-1].step if requests else None)
        at = begin + number * gap
        step = Step(prefix=prefix, tokens=tokens, started=at, visible=at + 1)
        turn = TurnRecord(
            session=id, provider="anthropic", model=model, started=at, first_byte=at + 1, finished=at + 2, mode=mode
        )
        requests.append(
            RecordedRequest(step=replace(step, marks=marks(step)), turn=turn, priced_as=model, output=output)
        )
    made = RecordedSession(
        id=id,
        workload="agent made",
        requests=tuple(requests),
        tools=tuple(
            ToolRecord(session=id, name="t", key="", started=NOON + one, finished=NOON + other, outcome="ok")
            for one, other in tools
        ),
    )
    (usages,) = simulate([made.run], lambda step: step.marks).usages
    return billed(made, usages)


def billed(made: RecordedSession, usages: Sequence[Usage]) -> RecordedSession:
    """`made` with these bills."""
    return replace(
        made,
        requests=tuple(
            replace(one, step=replace(one.step, recorded=usage), turn=replace(one.turn, usage=usage))
            for one, usage in zip(made.requests, usages, strict=True)
        ),
    )


def growing(turns: int, *static: Piece, tokens: int = 500) -> list[list[Piece]]:
    """The prompts of a session that only grows."""
    said = [piece(f"{'UA'[n % 2]}{n}", tokens) for n in range(1, 2 * turns)]
    return [[*static, piece("U first", tokens), *said[: 2 * n]] for n in range(turns)]


def renamed(made: RecordedSession) -> RecordedSession:
    """Tools by their content, since hand-made pieces are named by their place."""

    def names(step: Step) -> list[PromptPart]:
        return [
            part._replace(segment=part.segment._replace(name=part.segment.digest.hex()))
            if part.segment.level == "tools"
            else part
            for part in parts_of(step)
        ]

    return with_parts(made, names)


# --- variations of workloads ------------------------------------------------------------------------------------------

PLACES = (("tools", "system", "tail"), ("system", "tail"))
PRICED = ("claude-sonnet-5", "claude-sonnet-4-5", "claude-haiku-5-5", "claude-opus-5", "claude-sonnet-5-5")


def varied(workload: Workload, seed: int) -> Workload:
    """`workload` with other models, sizes, seeds and parameters of its fault; the fault stays what it is."""
    chance = random.Random(f"{workload.name}/{seed}")
    situation, fault = workload.situation, workload.fault
    kind = fault.kind if fault is not None else ""
    scale = chance.choice((0.7, 1.0, 2.0))
    prompts = replace(situation.prompts, tool_count=chance.choice((3, 6, 12)))
    if kind != "prompt below the minimum":
        prompts = replace(prompts, tools=chance.uniform(1_500, 5_000) * scale, system=chance.uniform(1_000, 5_000))
        situation = replace(situation, sessions=chance.choice((2, 4, 6)))
    if kind not in ("prompt below the minimum", "model switch"):
        situation = replace(situation, model=chance.choice(PRICED))
    situation = replace(situation, seed=seed, bytes_per_token=chance.choice((3.2, 3.6, 4.2)), prompts=prompts)
    if kind in ("volatile text early", "tool order", "summaries"):
        situation = replace(situation, markers=replace(situation.markers, at=chance.choice(PLACES)))
    return replace(workload, situation=situation, fault=fault and _varied(fault, chance))


def _varied(fault: Fault, chance: random.Random) -> Fault:
    if fault.kind == "volatile text early":
        inside = chance.random() < 0.5
        tokens = chance.choice((0.0, 200.0, 1_000.0, Even(low=300, high=1_500)))
        return replace(fault, inside=inside, tokens=tokens, place=chance.choice(("system", "first")))
    if fault.kind == "summaries":
        summary, asked = chance.choice((600.0, 900.0, 1_500.0)), chance.random() < 0.7
        return replace(
            fault, every=chance.choice((3, 4, 5)), summary=summary, kept=chance.choice((0, 2, 4)), asked=asked
        )
    if fault.kind == "model switch":
        return replace(fault, every=chance.choice((1, 2, 3)))
    return fault
