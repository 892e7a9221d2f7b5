"""With a history that may be edited, at every place: never a 400 of our making, and only what may be edited is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentaccel.policy import HistoryPolicy
from tests.fuzz.arranged import HERE, spaced
from tests.fuzz.asked import Asked
from tests.fuzz.edited import run
from tests.fuzz.loops import NAMES
from tests.fuzz.pieces import Edit, Written, amiss, pairs

AT_EACH = pytest.mark.parametrize("name", HERE)
UNKNOWN = ("server",)
"""Where nothing is known of the cache, and nothing is edited."""


def assert_edited_well(name: str, loops: int, seed: int) -> None:
    tally = run(name, loops, seed)
    assert tally.amiss == []
    assert tally.legal > 0.9 * tally.requests, "the generator must reach the stage"
    if name in UNKNOWN:
        assert not tally.edited
    elif loops > 100:
        assert tally.edited["clear_results"] > tally.legal / 20, "not by doing nothing"
        assert tally.edited["distil"] > tally.legal / 40
        assert tally.edited["summarise"] > tally.legal / 250
        assert tally.kept > tally.legal / 4


@pytest.mark.many(4)
@AT_EACH
def test_edited_histories_are_legal_and_only_what_may_be_edited_is(name: str) -> None:
    """Contract lines 1, 2 and 6 where history may be edited: the rest is as it was, and what was edited stays so."""
    assert_edited_well(name, 4 if name in ("api", "chat", "responses") else 2, seed=7)


@pytest.mark.soak
@AT_EACH
@pytest.mark.parametrize("seed", range(2))
def test_edited_histories_are_legal_in_eight_thousand_loops(name: str, seed: int) -> None:
    """The same at length: two seeds of three hundred, at each place."""
    assert_edited_well(name, 300, seed=1000 + seed)


# --- the twin: what is amiss is found out -----------------------------------------------------------------------------


def told() -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
    for number in range(5):
        call = {"type": "tool_use", "id": f"c{number}", "name": NAMES[number % 3], "input": {}}
        found: dict[str, Any] = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"{number} is found"}
        if number == 3:
            found["is_error"] = True
        said += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [found]}]
    return said


def found(sent: list[dict[str, Any]], **more: Any) -> tuple[Edit, list[str]]:
    """What is amiss in `sent`, of `told()`."""
    asked = Asked((), {"In short.": "0 is found"}, {"All was well.": {"messages": told()[:5]}})
    policy = HistoryPolicy(clear_results=True, distil=len, keep_results=1, **more)  # type: ignore[arg-type]
    plain, raw = spaced({"messages": told()})["messages"], told()
    return amiss(Written(plain, raw, policy, asked), spaced({"messages": sent})["messages"])


def test_what_may_be_edited_is_told_apart() -> None:
    said = told()
    assert found(said) == (Edit({}, None, 0), [])
    said[2]["content"][0]["content"] = "In short."
    said[4]["content"][0]["content"] = "[cleared: the result of read, 10 characters]"
    edit, wrong = found(said)
    assert (sorted(edit.texts), edit.used, wrong) == (["c0", "c1"], {"clear_results", "distil"}, [])
    words = "Summary of this conversation so far, in place of its earlier messages:\n\nAll was well."
    first = {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": words}]}
    edit, wrong = found([first, *told()[5:]])
    assert (edit.summary, edit.cut, wrong) == ("All was well.", 5, [])
    assert "11 messages became 9" in found([first, *told()[7:]])[1]


@pytest.mark.parametrize(
    ("at", "text", "more"),
    [
        (2, "0 is lost", {}),
        (4, "In short.", {}),
        (4, "[cleared: the result of search, 10 characters]", {}),
        (4, "[cleared: the result of read, 10 characters]", {"pinned_tools": ("read",)}),
        (8, "[cleared: the result of search, 10 characters]", {}),
        (10, "[cleared: the result of read, 10 characters]", {}),
    ],
)
def test_what_may_not_be_edited_is_found_out(at: int, text: str, more: dict[str, Any]) -> None:
    """A lost text, one of another result, a wrong name, a pinned tool, an error, the last one."""
    said = told()
    said[at]["content"][0]["content"] = text
    assert found(said, **more)[1]


def test_a_lost_message_or_an_edit_that_is_taken_back_is_found_out() -> None:
    said = told()
    assert found(said[:-2])[1]
    assert found([*said[:3], *said[5:]])[1]
    said[1]["content"][0]["input"] = {"q": 1}
    assert found(said)[1]
    assert list(Edit({}, None, 0).lost(Edit({"c0": "short"}, None, 0))) == ["a result that was edited is whole again"]
    assert list(Edit({"c0": "other"}, None, 0).lost(Edit({"c0": "short"}, None, 0)))
    assert list(Edit({}, None, 0).lost(Edit({}, "All was well.", 5))) == ["a summary was taken back"]
    plain = spaced({"messages": told()})["messages"]
    assert not pairs(plain)
    assert pairs(plain[2:])
    assert pairs(json.loads(json.dumps(plain).replace("c1", "c9", 1)))
