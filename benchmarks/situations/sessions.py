"""The sessions of a situation: their requests, the same in every process, and the runs that a replay makes of them.

A session is first written as a conversation that only grows (`agents`); what disturbs it is then done to its requests,
one `Change` after the other (`changes`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from agentaccel.cache.marks import marks_of
from agentaccel.cache.prefix import prefixes
from agentaccel.providers.anthropic import decode
from agentaccel.replay.runs import Run, Step
from benchmarks.situations.agents import Agent, Change, Exchange, bytes_per_token
from benchmarks.situations.amounts import draw
from benchmarks.situations.changes import asked_for
from benchmarks.situations.form import Situation

BEGIN = 1_800_000_000.0
"""When the first session begins, in seconds since the epoch."""

_KEY = b"situation"
"""Digests of a replay are compared with one another only."""


def requests(situation: Situation, changes: Sequence[Change] | None = None) -> list[list[Exchange]]:
    """The requests of every session, in the order in which sessions begin.

    `changes` takes the place of those that the situation asks for (`asked_for`).
    """
    chosen = asked_for(situation) if changes is None else changes
    ratio = bytes_per_token(situation)
    begin = BEGIN
    sessions: list[list[Exchange]] = []
    for number in range(situation.sessions):
        chance = random.Random(f"{situation.seed}/{situation.name}/{number}")
        session = list(Agent(situation, number, ratio, chance).talk(begin))
        for place, change in enumerate(chosen):
            session = change(situation, session, random.Random(f"{situation.seed}/{situation.name}/{number}/{place}"))
        sessions.append(session)
        begin += draw(situation.times.between, chance)
    return sessions


def runs(situation: Situation, sessions: Sequence[Sequence[Exchange]] | None = None) -> tuple[Run, ...]:
    """The sessions as a replay reads them; those of `requests` unless others are given."""
    ratio = bytes_per_token(situation)
    given = requests(situation) if sessions is None else sessions
    return tuple(
        Run(
            id=f"{situation.name}/{number}",
            workload=situation.name,
            steps=tuple(_step(situation, one, ratio) for one in session),
        )
        for number, session in enumerate(given)
    )


def _step(situation: Situation, exchange: Exchange, ratio: float) -> Step:
    facts = situation.facts(exchange.body["model"])
    prompt = decode(exchange.body, facts, key=_KEY, place=("anthropic", situation.platform))
    prefix = prefixes(prompt, facts)
    return Step(
        prefix=prefix,
        tokens=tuple(round(size / ratio) for size in prefix.sizes),
        started=exchange.at,
        visible=exchange.at + exchange.first_byte,
        finished=exchange.at + exchange.reply_seconds,
        marks=marks_of(prefix, prompt.markers),
    )
