"""The sessions of a situation: their requests, the same in every process, and the runs that a replay makes of them.

A session is first written as a conversation that only grows (`agents`); what disturbs it is then done to its requests,
one `Change` after the other (`changes`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from agentaccel.cache.breakpoints import marks_of
from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.cache.state import head_of
from agentaccel.facts import CacheFacts
from agentaccel.replay.runs import Run, Step
from agentaccel.types import Prompt
from agentaccel.wire import PartMemory
from agentaccel.wire.anthropic import decode
from benchmarks.situations.agents import Agent, Change, Exchange, bytes_per_token
from benchmarks.situations.amounts import draw
from benchmarks.situations.changes import asked_for
from benchmarks.situations.form import Situation

BEGIN = 1_800_000_000.0
"""When the first session begins, in seconds since the epoch."""

_KEY = b"situation"
"""Digests of a replay are compared with one another only."""


def requests(situation: Situation, changes: Sequence[Change] | None = None) -> list[list[Exchange]]:
    """The requests of every conversation, in the order in which they begin; those of a fan-out one after another.

    `changes` takes the place of those that the situation asks for (`asked_for`).
    """
    chosen = asked_for(situation) if changes is None else changes
    ratio = bytes_per_token(situation)
    begin = BEGIN
    sessions: list[list[Exchange]] = []
    for number in range(situation.sessions * situation.fan_out):
        chance = random.Random(f"{situation.seed}/{situation.name}/{number}")
        group, place_in_group = divmod(number, situation.fan_out)
        session = list(Agent(situation, number, ratio, chance, group).talk(begin))
        for place, change in enumerate(chosen):
            session = change(situation, session, random.Random(f"{situation.seed}/{situation.name}/{number}/{place}"))
        sessions.append(session)
        if place_in_group == situation.fan_out - 1:
            if situation.in_turn:
                begin = max(one.at + one.reply_seconds for some in sessions[-situation.fan_out :] for one in some)
            begin += draw(situation.times.between, chance)
    return sessions


def runs(situation: Situation, sessions: Sequence[Sequence[Exchange]] | None = None) -> tuple[Run, ...]:
    """The sessions as a replay reads them; those of `requests` unless others are given."""
    given = requests(situation) if sessions is None else sessions
    return tuple(
        Run(
            id=f"{situation.name}/{number}",
            workload=situation.name,
            steps=steps_of(situation, session),
        )
        for number, session in enumerate(given)
    )


def steps_of(situation: Situation, session: Sequence[Exchange], facts: CacheFacts | None = None) -> tuple[Step, ...]:
    """The requests of one conversation as a replay reads them, by `facts` in place of the model's own."""
    ratio, memory, steps = bytes_per_token(situation), PartMemory(), list[Step]()
    for one in session:
        rules = facts or situation.facts(one.body["model"])
        prompt = decode(one.body, rules, key=_KEY, place=("anthropic", situation.platform), memory=memory)
        steps.append(step_of(one, prompt, rules, ratio, steps[-1].prefix if steps else None))
    return tuple(steps)


def step_of(one: Exchange, prompt: Prompt, facts: CacheFacts, ratio: float, before: Prefixes | None = None) -> Step:
    """A request that reads as `prompt`, at the times of `one`; `before` is the prompt that it may go on from."""
    head = None if before is None else head_of(before, started=0.0, tokens=None, message_id=None)
    prefix = prefixes(prompt, facts, head)
    return Step(
        prefix=prefix,
        tokens=tuple(round(size / ratio) for size in prefix.sizes),
        started=one.at,
        visible=one.at + one.first_byte,
        finished=one.at + one.reply_seconds,
        marks=marks_of(prefix, prompt.markers),
    )
