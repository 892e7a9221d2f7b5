"""Pauses that outlast every lifetime, of sessions that have seen such pauses end: what is kept, and what it costs."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pytest

from agentaccel.cache import own_requests as warm
from agentaccel.cache.beliefs import Beliefs, after_topic
from agentaccel.engine.own_requests import OwnRequests
from agentaccel.replay.compare import cost_of
from agentaccel.replay.runs import Run
from agentaccel.replay.simulate import Allowed, Simulated, accelerate
from benchmarks.situations import Situation, requests, runs
from benchmarks.situations.bound import floor
from benchmarks.situations.form import Prompts, Times, Turns, grid
from benchmarks.situations.grid import cell

TALK = Situation(
    name="talk", sessions=7, turns=9, turn=Turns(calls=0, text=300, user=80), prompts=Prompts(shared=False)
)
PEOPLE = next(one for one in grid() if one.name == "human pauses")
LUNCH, NIGHT = 5_000.0, 40_000.0


def timed(run: Run, pauses: Sequence[float]) -> Run:
    """`run` with such pauses between its requests, from start to start."""
    begin = run.steps[0].started
    steps = [
        replace(step, started=at, visible=at + 1, finished=at + 2)
        for step, at in zip(run.steps, accumulate(pauses, initial=begin), strict=False)
    ]
    return replace(run, steps=tuple(steps))


def week() -> list[Run]:
    """Seven days: short pauses mostly, some of minutes, one of 80: anywhere, and at last in the middle."""
    chance, day = random.Random(4), [20.0, 40.0, 15.0, 700.0, LUNCH, 900.0, 30.0, 25.0]
    days = [*(chance.sample(day, len(day)) for _ in range(6)), day]
    begins = accumulate((100_000.0 for _ in days[1:]), initial=0.0)
    return [
        timed(replace(run, steps=tuple(replace(step, started=begin) for step in run.steps)), day)
        for run, day, begin in zip(runs(TALK), days, begins, strict=True)
    ]


def paid(run: Run, done: Simulated) -> float:
    facts = run.steps[0].prefix.facts
    return sum(cost_of(one, facts) for one in (*done.usages[0], *done.kept[0]))


def last_day(allowed: Allowed) -> tuple[Run, Simulated]:
    *before, last = week()
    learned = accelerate(before, allowed).learned[last.workload]
    return last, accelerate([last], allowed, learned=learned)


@pytest.mark.slow
def test_a_pause_beyond_every_lifetime_is_kept_over_by_few_requests() -> None:
    """All of the prompt is read after lunch, for a request of our own an hour and fewer than the minutes would take."""
    run, done = last_day(Allowed(keep_alive=True))
    assert all(one.read for one in done.usages[0][1:])
    assert 1 <= len(done.kept[0]) <= 4
    assert paid(run, done) < 0.75 * paid(run, last_day(Allowed())[1])


@pytest.mark.slow
def test_the_longer_lived_beginning_is_what_makes_it_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: where only the whole prompt may be kept, a long pause behind a short-lived tail loses all of it."""
    cost, held = cell(PEOPLE, 8, "api", 7).after, warm._held
    monkeypatch.setattr(warm, "_held", lambda *given, **how: held(*given, **how)[:1])
    assert cell(PEOPLE, 8, "api", 7).after > 1.1 * cost


@pytest.mark.slow
@pytest.mark.parametrize(
    "less",
    [
        "a person is no other than a tool",
        "all is written again for the shortest lifetime",
        "one as long has to have ended before",
    ],
)
def test_a_person_is_waited_for_once_one_has_been_away_for_minutes(less: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a first session the first pause of more than an hour is bridged; it costs its entry where this is believed."""
    cost, keeping, ended = unpatched(8, seed=6), warm.keeping, warm.has_ended_after
    if less == "a person is no other than a tool":
        monkeypatch.setattr(warm, "USER", "nobody")
    elif less == "all is written again for the shortest lifetime":
        monkeypatch.setattr(warm, "keeping", lambda *given, gain, **how: keeping(*given, gain=min(gain, 1.15), **how))
    else:
        monkeypatch.setattr(warm, "has_ended_after", lambda beliefs, _: ended(beliefs, 3600))
    assert cell(PEOPLE, 8, "api", 6).first > 1.15 * cost


@functools.cache
def unpatched(turns: int, *, seed: int) -> float:
    """What a first session of people costs, as we are."""
    return cell(PEOPLE, turns, "api", seed).first


@pytest.mark.parametrize("seen", ["nothing long", "all that must be"])
def test_nobody_is_waited_for_before_any_pause_has_outlasted_an_entry(
    seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even somebody who is sure to come back; the twin says that it has."""
    if seen == "all that must be":
        monkeypatch.setattr(warm, "has_ended_after", lambda *_: True)
    sure = Beliefs({after_topic("user"): (200.0, 200.0)})
    run = timed(runs(TALK)[0], [250.0, 280.0, LUNCH])
    begun = replace(run, steps=run.steps[:-1])  # what comes after lunch may be kept
    (kept,) = accelerate([begun], Allowed(keep_alive=True), learned=sure).kept
    assert bool(kept) == (seen == "all that must be")


def test_a_lifetime_that_would_not_have_helped_is_not_bought() -> None:
    """Nights outlast an hour as they do five minutes."""
    run = timed(
        runs(replace(TALK, turns=12.0, sessions=1))[0],
        [20.0, NIGHT, 30.0, NIGHT, 25.0, 40.0, NIGHT, 20.0, NIGHT, 30.0, 20.0],
    )
    (usages,) = accelerate([run]).usages
    assert sum((one.write or {}).get("1h", 0) for one in usages) < 0.2 * run.steps[-1].total


def test_of_a_lifetime_that_the_user_chose_only_longer_pauses_count() -> None:
    """Where all is marked for an hour, one of minutes says nothing of what an entry has to outlast."""
    chosen = Allowed(keep_alive=True, ttl="1h")
    (minutes,) = accelerate([timed(runs(TALK)[0], [20.0, 700.0, 900.0])], chosen).kept
    (hours,) = accelerate([timed(runs(TALK)[0], [20.0, LUNCH, 900.0])], chosen).kept
    assert not minutes
    assert hours


@pytest.mark.parametrize("guarded", [True, False])
def test_nothing_is_kept_where_no_request_of_our_own_is_known_to_be_taken(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vendor documents `max_tokens: 0` for its own API, and not for Bedrock: a replay plans there as the product
    does, and so does the oracle. The twin sends such requests everywhere."""
    if not guarded:
        monkeypatch.setattr(OwnRequests, "_is_taken", lambda *_: True)
    chosen, pauses = Allowed(keep_alive=True, ttl="1h"), [20.0, LUNCH, 900.0]
    (there,) = accelerate([timed(runs(TALK)[0], pauses)], chosen).kept
    (here,) = accelerate([timed(runs(replace(TALK, platform="bedrock"))[0], pauses)], chosen).kept
    assert there
    assert bool(here) != guarded


def test_nor_does_the_oracle_keep_anything_there() -> None:
    """What is asked for with consent to keep entries alive costs on Bedrock what it costs without that consent."""
    consent = replace(
        TALK, sessions=1, turns=4.0, times=Times(user=LUNCH), platform="bedrock", consents=("keep_alive",)
    )
    alike = [replace(consent, consents=()), consent]
    bedrock, anyhow = (floor(one, requests(one), range(1)).cost for one in alike)
    assert bedrock == anyhow
    without, kept = (replace(one, platform="api") for one in alike)
    assert floor(kept, requests(kept), range(1)).cost < floor(without, requests(without), range(1)).cost
