"""A named session that goes on from the history of another: a fork, or a name for every request of a web service.

What it costs, and what is said that it would have cost, is what it costs under one name.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import pytest

from agentaccel import Accel, CachePolicy, Policy, StorePolicy
from agentaccel.testing import ManualClock
from agentaccel.types import Cause
from agentaccel_emulator import serve
from tests.driver import Driver, assistant, body, prose, user
from tests.engine.talking import HELLO, RULES, Loop, Talk, costs, main_session, more, played, renamed
from tests.mutants import Mutant, running, survives

pytestmark = pytest.mark.slow


def forks(talk: Talk) -> None:
    """A conversation, and sub-agents that are told all of it."""
    history = main_session(talk, 5)
    for branch in range(4):
        with talk.session(f"sub {branch}"):
            own = more(history, f"branch {branch}", 50)
            for turn in range(3):
                talk.ask(own)
                own = more(own, f"next {branch} {turn}", 50)


@pytest.mark.parametrize("processes", [False, True], ids=["one process", "a process each"])
@pytest.mark.parametrize("api", ["anthropic", "openai"])
@pytest.mark.parametrize("loop", [forks, renamed])
def test_it_costs_no_more_than_as_written_and_that_is_what_a_run_as_written_costs(
    loop: Loop, api: str, processes: bool, tmp_path: Path
) -> None:
    """Savings are stated against the request as it was written, which reads what sessions before it have left."""
    ours, written = (
        costs(loop, api, tmp_path / f"{mode}.db", mode=mode, processes=processes) for mode in ("on", "observe")
    )
    assert ours.paid is not None
    assert written.paid is not None
    assert ours.paid <= 1.002 * written.paid
    assert ours.as_written == pytest.approx(written.paid, rel=0.002)
    assert written.paid < 0.4 * (written.without or 0.0)


def test_what_it_left_in_the_prompt_before_is_told_from_there(tmp_path: Path) -> None:
    """The first request of such a session is none: its prompt grew, and nothing of it was missed."""
    _, [first, *others], _ = played(renamed, "anthropic", tmp_path / "trace.db")
    assert first.misses
    assert not any(turn.misses for turn in others)
    assert len({turn.session for turn in others}) == len(others)


def told_all(talk: Talk, *, turns: int, parts: int, words: int) -> None:
    """Many sub-agents that are told all of a history, ask once and end."""
    history = main_session(talk, turns)
    for part in range(parts):
        with talk.session(f"part {part}"):
            talk.ask(more(history, f"you do part {part}", words))


told_once = partial(told_all, turns=4, parts=30, words=300)
told_late = partial(told_all, turns=3, parts=25, words=50)
"""For longer than an entry lives: they keep it warm themselves."""


def told_the_plan(talk: Talk) -> None:
    """An orchestrator goes on from its plan, and so do its sub-agents, from the plan alone."""
    plan = [{"role": "user", "content": "Task " * 300}, {"role": "assistant", "content": "ok " * 60}]
    with talk.session("main"):
        talk.ask(plan[:1])
        talk.ask([*plan, {"role": "user", "content": "go on " * 50}])
        for part in range(6):
            with talk.session(f"part {part}"):
                talk.ask([*plan, {"role": "user", "content": f"you do part {part} " * 50}])


def behind_examples(talk: Talk) -> None:
    """Sessions of their own, whose first messages are the same examples, of which some have one more."""
    examples: list[Any] = []
    for number in range(3):
        examples = [*examples, {"role": "user", "content": f"example {number} " * 80}]
        examples = [*examples, {"role": "assistant", "content": f"answer {number} " * 80}]
        with talk.session(f"session {number}"):
            own = [*examples, {"role": "user", "content": f"question {number} " * 80}]
            for turn in range(3):
                talk.ask(own)
                own = more(own, f"next {number} {turn}", 50)


@pytest.mark.parametrize("api", ["anthropic", "openai"])
@pytest.mark.parametrize(
    "loop", [told_once, told_the_plan, told_late, behind_examples], ids=["once", "the plan", "late", "examples"]
)
def test_no_saving_is_claimed_that_others_may_have_made_possible(loop: Loop, api: str, tmp_path: Path) -> None:
    """Where it is not known what the user's own markers would have found in other sessions, it is not modelled."""
    ours, written = (costs(loop, api, tmp_path / f"{mode}.db", mode=mode) for mode in ("on", "observe"))
    assert ours.paid is not None
    assert ours.as_written is not None
    assert written.paid is not None
    assert ours.as_written <= 1.01 * max(written.paid, ours.paid)
    assert ours.paid <= 1.12 * written.paid, "the write premiums of the first of them"


def test_a_session_is_told_nothing_by_one_whose_beginning_alone_it_shares(tmp_path: Path) -> None:
    """Neither what has changed since, as nothing has, nor that its request was followed."""
    _, turns, _ = played(behind_examples, "anthropic", tmp_path / "trace.db")
    firsts = [turns[0], *(now for before, now in pairwise(turns) if now.session != before.session)]
    assert {miss.cause for turn in firsts for miss in turn.misses} == {Cause.FIRST}


def test_tools_that_another_session_has_are_none_of_its_own(tmp_path: Path) -> None:
    """With consent to keep tools where they were: a sub-agent may call what it was given, and nothing else."""
    clock = ManualClock(now=1.76e9)
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db"), cache=CachePolicy(freeze_tools=True))
    named: list[Any] = [{"name": name, "input_schema": {"type": "object"}} for name in ("look", "book", "drop")]
    with (
        serve(script=["ok"] * 9, clock=clock) as server,
        Accel(policy, clock=clock, environ={}) as accel,
        accel.wrap(anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)) as client,
    ):
        history: list[Any] = [HELLO]
        for name, tools in (("main", named), ("main", named), ("reviewer", named[:1])):
            with accel.session(name, agent="desk"):
                client.messages.create(
                    model="claude-sonnet-5", max_tokens=20, system=RULES, messages=history, tools=tools
                )
            history = more(history, name)
        sent = [[tool["name"] for tool in entry.request["tools"]] for entry in server.log]
    assert sent == [["look", "book", "drop"]] * 2 + [["look"]]


def test_to_look_at_a_plan_counts_nothing(tmp_path: Path) -> None:
    """The request that is sent afterwards does; and of several that go on from one, the first alone."""
    driver = Driver(tmp_path)
    history: list[Any] = [user(prose(1500))]
    with driver.accel.session("main", agent="a") as main:
        driver.ask(body(*history))
    history = [*history, assistant("ok"), user("go on")]
    for number in range(2):
        with driver.accel.session(f"sub {number}", agent="a"):
            driver.accel.plan(body(*history))
            assert (main.conversation.state.last_started is None) == (number > 0)
            driver.ask(body(*history))
            assert main.conversation.state.last_started is None


GUARDS = (
    Mutant(
        guard="what the session had come to that it goes on from",
        at="agentaccel.engine.fork:open_with",
        old="    if not named or",
        new="    if True or",
    ),
    Mutant(
        guard="what others may have kept as it was written",
        at="agentaccel.cache.settle:_may_be_others",
        old="return turn_of(prefix.prompt) > 0",
        new="return False",
    ),
    Mutant(
        guard="that a request was followed, which counts once",
        at="agentaccel.engine.engine:Engine._begin",
        old="                followed(conversation)\n",
        new="                pass\n",
    ),
    Mutant(
        guard="a session that has only its beginning in common",
        at="agentaccel.engine.fork:_goes_on",
        old="return bool(sent) and _digests(sent) == _digests(now[: len(sent)])",
        new="return True",
    ),
    Mutant(
        guard="what another process knows of it",
        at="agentaccel.engine.fork:open_with",
        old="        registry.recorder.read(lambda store: refresh(source, store, facts, prompt.provider), None)\n",
        new="",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_the_tests_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    command = [*running("tests/engine/test_going_on.py"), "-m", "not soak"]
    assert survives(mutant, tmp_path, command) is None
