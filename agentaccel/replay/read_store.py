"""The trace store as runs: every session with the prompts that it sent, so that a replay needs no content.

`trace.prompts` says what cannot be told from a store. Left out are turns that were not answered, those whose history
the provider held, and those of other providers than Anthropic. The markers of a step are the user's own: what
agentaccel added is what a replay decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentaccel.cache.marks import marks_of
from agentaccel.records import BATCH, OURS, key_of
from agentaccel.replay.counting import counted, grown
from agentaccel.replay.pace import first_byte_of
from agentaccel.replay.runs import Run, Step
from agentaccel.replay.source import PROVIDER, Rules
from agentaccel.trace.prompts import Kept, kept_turns
from agentaccel.trace.store import Store
from agentaccel.types import Usage

_OUR_OWN = (
    "requests of our own, which wrote or kept entries",
    "a replay decides on these itself; what was recorded cost more by them",
)
_BATCH = ("requests of batches", "nothing but their results is known")
_HELD = ("requests whose history the provider held", "their prompts are not known")


def runs_of_store(store: Store, rules: Rules | None = None) -> Iterator[Run]:
    """The sessions of `store` in the order in which they began, each conversation of one by itself.

    Raises TraceError where it cannot be read.
    """
    chosen = rules if rules is not None else Rules()
    sessions: dict[str, list[Step]] = {}
    first: dict[str, Kept] = {}
    for kept in kept_turns(store):
        key = key_of(kept.record.session, kept.record.thread)
        before = sessions.get(key)
        step = step_of(kept, before[-1] if before else None, chosen)
        if step is not None:
            sessions.setdefault(key, []).append(step)
            first.setdefault(key, kept)
    for name, steps in sessions.items():
        workload = store.workload_of(name)
        if workload is None:
            workload = f"agent {first[name].record.agent or ''}"
        yield Run(id=name, workload=workload, steps=tuple(steps))


def step_of(kept: Kept, last: Step | None, rules: Rules) -> Step | None:
    """The request as a step, after the one before it in its session; None for one that is to be left out."""
    record = kept.record
    answered = record.outcome == "ok" or record.usage.input is not None
    if not answered:
        return None
    if record.mode in OURS:
        rules.passed[_OUR_OWN] += 1
        return None
    if record.mode == BATCH:
        rules.passed[_BATCH] += 1
        return None
    if record.held or not kept.segments:
        rules.passed[_HELD] += 1
        return None
    if record.provider != PROVIDER:
        rules.passed[f"requests to {record.provider}", "only Claude's cache is modelled"] += 1
        return None
    model, facts = rules.of(record.known_as or record.model, record.platform)
    prompt = kept.prompt(model, facts)
    prefix = grown(prompt, facts, last)
    return Step(
        prefix=prefix,
        tokens=counted(prefix, last, record.usage.input),
        started=record.started,
        visible=first_byte_of(record.started, record.first_byte, record.finished),
        finished=record.finished,
        marks=marks_of(prefix, prompt.markers),
        recorded=record.usage if record.usage != Usage() else None,
        turn=record,
    )
