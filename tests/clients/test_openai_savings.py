"""What the plan is worth on models that cache, and charge for writing, by themselves: calls with and without it.

Each test has its floor: doing nothing costs what the bare client costs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import openai
import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.testing import ManualClock
from agentaccel_emulator import Behaviour, RunningServer, serve
from tests.mutants import Mutant, running, survives

MODEL = "gpt-6.1-sol"
READ, WRITTEN = 0.05, 1.25
Calls = Callable[..., None]
TOOLS = [{"type": "function", "function": {"name": "find", "description": "Find. " * 400, "parameters": {}}}]


def cost(
    calls: Calls,
    folder: Path | None,
    *,
    sees_implicit: bool = False,
    sees_explicit: bool = True,
    named: bool = False,
) -> float:
    """The input cost of `calls`, in uncached tokens; wrapped where there is a `folder` to record in. Where sessions are
    `named`, they are also given what begins one."""
    behaviour = Behaviour(explicit_sees_implicit=sees_implicit, implicit_sees_explicit=sees_explicit)
    with (
        serve(script=["ok " * 20] * 60, clock=ManualClock(now=1e9), behaviour=behaviour) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as bare,
    ):
        if folder is None:
            calls(bare, server)
        else:
            policy = Policy(strict=True, store=StorePolicy(path=folder / "trace.db"))
            with Accel(policy, clock=server.clock, environ={}) as accel:
                calls(accel.wrap(bare, platform="api"), server, *([accel.session] if named else []))
        total = server.counters.total
    return total.uncached + READ * total.read + WRITTEN * total.write_30m


def ask(client: Any, messages: list[Any], **more: Any) -> None:
    client.chat.completions.create(model=MODEL, messages=messages, **more)


def shared_beginning(client: Any, server: RunningServer) -> None:
    """One question each, behind the same instructions."""
    for number in range(12):
        ask(client, [rules(1500), user(f"case {number}: " + "x " * 200)])
        server.clock.advance(20)


def summed_up(client: Any, server: RunningServer, session: Callable[[str], Any] = nullcontext) -> None:
    """Long conversations, hours apart, whose history is replaced by a summary whenever it has grown."""
    for number in range(2):
        history = [rules(2500), user(f"task {number}")]
        with session(f"s{number}"):
            for turn in range(60):
                ask(client, history, tools=TOOLS)
                history = [*history, {"role": "assistant", "content": "ok " * 20}, user(f"more {turn} " * 60)]
                if len(history) > 14:
                    history = [history[0], user(f"what happened until {number} {turn} " * 60)]
                server.clock.advance(100)
        server.clock.advance(40_000)


def one_shots(client: Any, server: RunningServer) -> None:
    """One long question each, behind next to nothing."""
    for number in range(12):
        ask(client, [rules(20), user(f"case {number}: " + "x " * 3000)])
        server.clock.advance(20)


def one_shot_responses(client: Any, server: RunningServer) -> None:
    """The same over Responses, whose instructions cannot carry a breakpoint."""
    for number in range(12):
        client.responses.create(model=MODEL, instructions="Rules. " * 800, input=f"case {number}: " + "x " * 3000)
        server.clock.advance(20)


def volatile_tail(client: Any, server: RunningServer) -> None:
    """A state dump at the end of each request, replaced by the next."""
    for session in range(2):
        history = [rules(800), user(f"task {session}")]
        for turn in range(8):
            ask(client, [*history, user(f"state {session} {turn} " * 400)])
            history += [{"role": "assistant", "content": "ok " * 20}, user(f"more {turn} " * 60)]
            server.clock.advance(20)


def now_and_then(client: Any, server: RunningServer) -> None:
    """A few requests every half an hour or a bit later, behind the same long task."""
    for session in range(8):
        history = [rules(1500), user("task " * 800)]
        for turn in range(3):
            client.responses.create(model=MODEL, input=history)
            history = [*history, {"role": "assistant", "content": "ok " * 20}, user(f"more {session} {turn} " * 60)]
            server.clock.advance(20)
        server.clock.advance((1_700, 1_900)[session % 2])


def plain_loop(client: Any, server: RunningServer) -> None:
    """A conversation that only grows: the provider does right by itself."""
    history = [rules(800), user("task")]
    for turn in range(10):
        ask(client, history)
        history = [*history, {"role": "assistant", "content": "ok " * 20}, user(f"more {turn} " * 60)]
        server.clock.advance(20)


def rules(words: int) -> Any:
    return {"role": "developer", "content": "Rules. " * words}


def user(text: str) -> Any:
    return {"role": "user", "content": text}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "at_most"),
    [(shared_beginning, 0.25), (one_shots, 0.9), (one_shot_responses, 0.9), (volatile_tail, 0.5), (plain_loop, 1.0)],
)
def test_what_is_written_for_nothing_is_not_written(calls: Calls, at_most: float, tmp_path: Path) -> None:
    """Promised: never dearer than bare, and far cheaper where the provider's own breakpoint stands wrong."""
    assert cost(calls, tmp_path) <= at_most * cost(calls, None) + 1e-9


@pytest.mark.soak
@pytest.mark.parametrize("sees_implicit", [False, True])
def test_either_reading_of_what_an_explicit_request_finds_is_cheaper(sees_implicit: bool, tmp_path: Path) -> None:
    """Not documented: whether an entry that the provider wrote by itself is found by a breakpoint at its place."""
    bare = cost(volatile_tail, None, sees_implicit=sees_implicit)
    assert cost(volatile_tail, tmp_path, sees_implicit=sees_implicit) <= 0.5 * bare


@pytest.mark.slow
@pytest.mark.parametrize("sees_explicit", [False, True])
def test_what_explicit_breakpoints_wrote_is_read_whether_or_not_the_providers_own_finds_it(
    sees_explicit: bool, tmp_path: Path
) -> None:
    """Nor is that."""
    paid = cost(now_and_then, tmp_path, sees_explicit=sees_explicit)
    assert paid <= 0.95 * cost(now_and_then, None)
    assert paid <= 1.01 * cost(now_and_then, tmp_path / "again")


@pytest.mark.slow
def test_instructions_are_found_again_once_the_history_was_summed_up(tmp_path: Path) -> None:
    """The provider keeps the end of each request by itself; a history that is gone takes that with it."""
    assert cost(summed_up, tmp_path, named=True) < 0.5 * cost(summed_up, None)


GUARDS = (
    Mutant(
        guard="leaving out the breakpoint that wrote what is read",
        at="agentaccel.cache.planner:_choose",
        old="all(one.at != kept for one in chosen), ",
        new="True, ",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_the_tests_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    """Chosen by us: a safety test that passes without what it tests is none."""
    assert (
        survives(
            mutant,
            tmp_path,
            [*running("tests/clients/test_openai_savings.py", only="summed_up or providers_own"), "-m", "not soak"],
        )
        is None
    )
