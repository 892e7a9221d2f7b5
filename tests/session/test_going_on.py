"""A named session that goes on from the history of another: a fork, or a name for every request of a web service.

What it costs, and what is said that it would have cost, is what it costs under one name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from agentaccel import Accel, ManualClock, Policy, StorePolicy
from agentaccel.emulator import serve
from agentaccel.records import TurnRecord
from agentaccel.report.aggregate import report
from agentaccel.report.figures import Costs
from agentaccel.trace.store import open_reader
from tests.mutants import Mutant, running, survives

Ask = Callable[[list[Any]], None]
RULES = "Be kind. " * 1500


@contextmanager
def asking(api: str, mode: Any, path: Path, *, processes: bool) -> Iterator[tuple[Callable[[str], Any], Ask]]:
    """Opens a session, and asks in it; with `processes`, each session is another process's."""
    clock = ManualClock(now=1.76e9)
    with serve(script=["ok " * 20] * 80, clock=clock) as server:
        bare = (
            anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
            if api == "anthropic"
            else openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
        )
        policy = Policy(mode=mode, strict=True, store=StorePolicy(path=path))
        held = [Accel(policy, clock=clock, environ={})]

        def session(name: str) -> Any:
            if processes:
                held[-1].close()
                held.append(Accel(policy, clock=clock, environ={}))
            return held[-1].session(name, agent="desk")

        def ask(messages: list[Any]) -> None:
            client: Any = held[-1].wrap(bare, **({} if api == "anthropic" else {"platform": "api"}))
            if api == "anthropic":
                client.messages.create(
                    model="claude-sonnet-5",
                    max_tokens=20,
                    system=RULES,
                    messages=messages,
                    cache_control={"type": "ephemeral"},
                )
            else:
                rules = {"role": "system", "content": RULES}
                client.chat.completions.create(model="gpt-6-sol", messages=[rules, *messages])
            clock.advance(20)

        with bare:
            yield session, ask
            held[-1].close()


def more(messages: list[Any], words: str, size: int = 150) -> list[Any]:
    return [*messages, {"role": "assistant", "content": "ok " * 60}, {"role": "user", "content": f"{words} " * size}]


def forks(session: Callable[[str], Any], ask: Ask) -> None:
    """A conversation, and sub-agents that are told all of it."""
    history = [{"role": "user", "content": "Hello " * 300}]
    with session("main"):
        for turn in range(5):
            ask(history)
            history = more(history, f"next {turn}")
    for branch in range(4):
        with session(f"sub {branch}"):
            own = more(history, f"branch {branch}", 50)
            for turn in range(3):
                ask(own)
                own = more(own, f"next {branch} {turn}", 50)


def renamed(session: Callable[[str], Any], ask: Ask) -> None:
    """One conversation under another name in each request."""
    history = [{"role": "user", "content": "Hello " * 300}]
    for turn in range(12):
        with session(f"request {turn}"):
            ask(history)
        history = more(history, f"next {turn}")


def costs(loop: Callable[..., None], api: str, mode: str, folder: Path, *, processes: bool = False) -> Costs:
    path = folder / f"{mode}.db"
    with asking(api, mode, path, processes=processes) as (session, ask):
        loop(session, ask)
    with open_reader(path) as store:
        return report(store.turns()).total.costs


@pytest.mark.parametrize("processes", [False, True], ids=["one process", "a process each"])
@pytest.mark.parametrize("api", ["anthropic", "openai"])
@pytest.mark.parametrize("loop", [forks, renamed])
def test_it_costs_no_more_than_as_written_and_that_is_what_a_run_as_written_costs(
    loop: Callable[..., None], api: str, processes: bool, tmp_path: Path
) -> None:
    """Savings are stated against the request as it was written, which reads what sessions before it have left."""
    ours, written = (costs(loop, api, mode, tmp_path, processes=processes) for mode in ("on", "observe"))
    assert ours.paid is not None
    assert written.paid is not None
    assert ours.paid <= 1.002 * written.paid
    assert ours.as_written == pytest.approx(written.paid, rel=0.002)
    assert written.paid < 0.4 * (written.without or 0.0)


def test_what_it_left_in_the_prompt_before_is_told_from_there(tmp_path: Path) -> None:
    """The first request of such a session is none: its prompt grew, and nothing of it was missed."""
    path = tmp_path / "trace.db"
    with asking("anthropic", "on", path, processes=False) as (session, ask):
        renamed(session, ask)
    with open_reader(path) as store:
        first, *others = [turn for turn in store.turns() if isinstance(turn, TurnRecord)]
    assert first.misses
    assert not any(turn.misses for turn in others)
    assert len({turn.session for turn in others}) == len(others)


GUARDS = (
    Mutant(
        guard="what the session had come to that it goes on from",
        file="session/opening.py",
        old="    if not named or",
        new="    if True or",
    ),
    Mutant(
        guard="what another process knows of it",
        file="session/opening.py",
        old="        recorder.read(lambda store: refresh(source, store, facts, prompt.provider), None)\n",
        new="",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_the_tests_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    assert survives(mutant, tmp_path, running("tests/session/test_going_on.py", only="as_written")) is None
