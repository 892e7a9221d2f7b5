"""A reminder at the end of each request, which the next one does not have: what stands before it is cached, also where
old results of tools are cleared there."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentaccel.policy import HistoryPolicy
from tests.driver import prose
from tests.engine.talking import HELLO, Talk, costs
from tests.mutants import Mutant, running, survives

pytestmark = pytest.mark.slow


def worked(talk: Talk, history: list[Any], number: int) -> list[Any]:
    """`history` with a call of a tool and its result behind it, as the provider has these."""
    said, found, name = prose(30, number), f"{number} {prose(900, number)}", f"c{number}"
    if talk.api == "anthropic":
        call = {"type": "tool_use", "id": name, "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": name, "content": found}
        answer = {"role": "assistant", "content": [{"type": "text", "text": said}, call]}
        return [*history, answer, {"role": "user", "content": [result]}]
    function = {"name": "read", "arguments": "{}"}
    answer = {
        "role": "assistant",
        "content": said,
        "tool_calls": [{"id": name, "type": "function", "function": function}],
    }
    return [*history, answer, {"role": "tool", "tool_call_id": name, "content": found}]


def reminded(talk: Talk, turns: int = 30) -> None:
    history: list[Any] = [HELLO]
    with talk.session("one"):
        for number in range(turns):
            talk.ask([*history, {"role": "user", "content": f"Reminder {number}. {prose(20, number)}"}])
            history = worked(talk, history, number)


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_clearing_old_results_before_a_reminder_costs_less_than_keeping_them(api: str, tmp_path: Path) -> None:
    paid = partial(costs, reminded, api, tools=("read",))
    kept = paid(tmp_path / "kept.db").paid
    cleared = paid(tmp_path / "cleared.db", history=HistoryPolicy(clear_results=True)).paid
    bare = paid(tmp_path / "bare.db", mode="observe").paid
    assert kept is not None
    assert cleared is not None
    assert bare is not None
    assert kept < 0.3 * bare
    assert cleared < 0.9 * kept


GUARD = Mutant(
    guard="forgetting what is replaced each turn where the history is edited",
    at="agentaccel.cache.observe:observe",
    old="Observed((), state.variants, state.cut, in_time",
    new="Observed((), state.variants, 0, in_time",
)


@pytest.mark.soak
def test_the_test_fails_without_the_guard(tmp_path: Path) -> None:
    command = [*running("tests/engine/test_edits_before_a_reminder.py"), "-m", "not soak"]
    assert survives(GUARD, tmp_path, command) is None
