"""Servers that go on from any prefix they still have, at no charge: what keeps them from it is moved with consent, and
named in tokens and seconds without."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, CachePolicy, HistoryPolicy, Policy, StorePolicy, Usage
from agentaccel.rewrite import results
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, FirstByte, Reported, Started
from agentaccel.wire import dialect
from tests.driver import Json, prose
from tests.engine.test_arranging import START, stamp


def _request(now: float, turns: int, *, clock_first: bool, streamed: bool = False) -> Json:
    clock, rules = f"It is {stamp(now)} UTC.", "\n".join(prose(15, i) for i in range(100))
    system = f"{clock}\n{rules}" if clock_first else rules
    said = [{"role": "user" if i % 2 == 0 else "assistant", "content": prose(30, i)} for i in range(2 * turns + 1)]
    return {"model": "qwen3", "stream": streamed, "messages": [{"role": "system", "content": system}, *said]}


def _reasons(
    platform: str, folder: Path, *, clock_first: bool, consents: bool = False, streamed: bool = False
) -> list[str]:
    """What the plans of three requests say."""
    clock, said = ManualClock(now=START), []
    cache = CachePolicy(move_volatile=consents)
    policy = Policy(strict=True, store=StorePolicy(path=folder / "t.db"), cache=cache)
    with Accel(policy, clock=clock, environ={}) as accel, accel.session("s"):
        for turns in range(3):
            request = _request(clock.now, turns, clock_first=clock_first, streamed=streamed)
            turn = accel.turn(request, provider="compatible", platform=platform)
            turn.handle(Started(clock.monotonic()))
            clock.advance(2)
            turn.handle(FirstByte(clock.monotonic()))
            turn.handle(Reported(usage=Usage(input=2800, read=0, output=9)))
            turn.handle(Finished(clock.monotonic()))
            said.append(" ".join(turn.plan.reasons))
            clock.advance(9)
    return said


def _tokens(said: str) -> float:
    """Of a sentence, those that stand behind what changes."""
    return float(re.findall(r"about (\d+) tokens", said)[0])


@pytest.mark.parametrize("platform", ["vllm", "sglang", "llamacpp", "ollama", "trtllm"])
def test_what_keeps_a_server_from_reusing_the_prompt_is_named_in_tokens(platform: str, tmp_path: Path) -> None:
    """Each time: by its shape on the first request, and by comparing from the second on. Behind the clock stands nearly
    all of the prompt, some 9,000 bytes at the facts' bytes per token; the consent that would move it is named."""
    for turn, said in enumerate(_reasons(platform, tmp_path, clock_first=True)):
        assert "are not read" in said
        size = len(json.dumps(_request(START, turn, clock_first=True)))
        assert size / 4.5 < _tokens(said) < size / 3
        assert "CachePolicy(move_volatile=True) consents to moving" in said


@pytest.mark.parametrize("platform", ["vllm", "sglang", "llamacpp", "ollama", "trtllm"])
def test_with_consent_it_is_moved_into_the_last_message(platform: str, tmp_path: Path) -> None:
    """From the first request on: by its shape. The user said nothing of the kind, so the plan says who does."""
    for said in _reasons(platform, tmp_path, clock_first=True, consents=True):
        assert "moved to the end from opening messages[0].content" in said
        assert "said in the last message, not by the system: a change of authority" in said


def test_what_a_server_computes_again_is_told_in_its_own_seconds(tmp_path: Path) -> None:
    """Each of the three took 2 s for 2,800 tokens: 1,400 a second, once one has been answered."""
    first, *later = _reasons("llamacpp", tmp_path, clock_first=True, streamed=True)
    assert "to compute, " not in first
    assert "tokens a second" not in first
    for said in later:
        seconds = float(re.findall(r"tokens, ([\d.]+) s to compute,", said)[0])
        assert seconds == pytest.approx(_tokens(said) / 1400, abs=0.06)
        assert "at 1400 tokens a second" in said


def test_of_replies_that_come_as_a_whole_no_speed_is_told(tmp_path: Path) -> None:
    """When they began nobody has seen, unless the server says how long it took."""
    assert not any("tokens a second" in said for said in _reasons("llamacpp", tmp_path, clock_first=True))


def test_a_server_that_reuses_all_of_it_is_not_talked_about(tmp_path: Path) -> None:
    assert not any("are not read" in said for said in _reasons("vllm", tmp_path, clock_first=False))


def test_where_nothing_is_known_of_a_cache_nothing_is_said_of_it(tmp_path: Path) -> None:
    said = _reasons("openrouter", tmp_path, clock_first=True)
    assert not any("computes about" in one or "are not read" in one for one in said)


def test_where_it_is_not_known_how_text_is_said_at_the_end_nothing_is_moved(tmp_path: Path) -> None:
    """Of DeepSeek, which keeps prefixes by itself, too."""
    _, *later = _reasons("deepseek", tmp_path, clock_first=True, consents=True)
    assert all("computes about" in said and "but it is not known how text is said there" in said for said in later)


def _cleared(folder: Path, *, evicts: bool) -> int:
    """In how many of sixteen requests old results are sent as a note, where a server keeps all or nothing."""
    clock, edited, before = ManualClock(now=START), 0, ""
    policy = Policy(
        strict=True,
        store=StorePolicy(path=folder / f"{evicts}.db"),
        history=HistoryPolicy(clear_results=True, keep_results=4),
    )
    messages: list[Json] = [{"role": "system", "content": "You read exports."}, {"role": "user", "content": "Go."}]
    with Accel(policy, clock=clock, environ={}) as accel, accel.session("s"):
        for step in range(16):
            turn = accel.turn({"model": "qwen3", "messages": messages}, provider="compatible", platform="llamacpp")
            turn.handle(Started(clock.monotonic()))
            sent = json.dumps(turn.request["messages"])
            shared = next((i for i, (one, other) in enumerate(zip(sent, before, strict=False)) if one != other), 0)
            read = 0 if evicts else shared // 4
            turn.handle(Reported(usage=Usage(input=len(sent) // 4, read=read, output=9)))
            turn.handle(Finished(clock.monotonic()))
            before, edited = sent, edited + bool(turn.plan.consents)
            call = {"id": f"c{step}", "type": "function", "function": {"name": "export", "arguments": "{}"}}
            messages += [
                {"role": "assistant", "content": "Next.", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{step}", "content": prose(400, step)},
            ]
            clock.advance(9)
    return edited


def test_old_results_are_cleared_where_the_server_computes_them_again_each_time(tmp_path: Path) -> None:
    """Where it keeps them they cost nothing, and to take them out would have all behind them computed again. Where it
    gives them up for other conversations, each request has them computed."""
    assert _cleared(tmp_path, evicts=False) == 0
    assert _cleared(tmp_path, evicts=True) >= 6


def test_the_test_above_bites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the price of what is given up, nothing is cleared there."""
    monkeypatch.setattr(results, "read_price", lambda facts, beliefs: facts.read)
    assert _cleared(tmp_path, evicts=True) == 0


ENDS: dict[str, tuple[Json, Any]] = {
    "text of a user": ({"role": "user", "content": "Hi"}, "Hi"),
    "nothing": ({"role": "tool", "tool_call_id": "c", "content": ""}, None),
    "parts": ({"role": "user", "content": [{"type": "text", "text": "Hi"}]}, "Hi"),
}


@pytest.mark.parametrize("name", ENDS)
def test_in_a_chat_the_note_is_one_more_part_of_the_last_message(name: str) -> None:
    """On a line of its own: some templates put parts together as they are. Of nothing the note is all."""
    message, text = ENDS[name]
    sent = dialect("chat").with_note({"messages": [message]}, "It is noon.", "last")
    assert sent is not None
    before = [{"type": "text", "text": text}] if text else []
    assert sent["messages"][-1]["content"] == [*before, {"type": "text", "text": "\nIt is noon."}]


@pytest.mark.parametrize("content", [None, [], 5])
def test_where_the_last_message_has_no_text_nothing_is_said(content: Any) -> None:
    assert (
        dialect("chat").with_note({"messages": [{"role": "user", "content": content}]}, "It is noon.", "last") is None
    )
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I"}]
    assert dialect("chat").with_note({"messages": said}, "It is noon.", "last") is None


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_in_responses_an_output_that_is_text_stays_text(kind: str) -> None:
    """vLLM takes no list there for some models; a list gets one more part."""
    item: Json = {"type": kind, "call_id": "c", "output": "found"}
    sent = dialect("responses").with_note({"input": [item]}, "It is noon.", "last")
    assert sent is not None
    assert sent["input"][-1]["output"] == "found\nIt is noon."
    listed = {**item, "output": [{"type": "input_text", "text": "found"}]}
    sent = dialect("responses").with_note({"input": [listed]}, "It is noon.", "last")
    assert sent is not None
    assert [part["text"] for part in sent["input"][-1]["output"]] == ["found", "\nIt is noon."]


@pytest.mark.parametrize(
    "kind", ["local_shell_call_output", "apply_patch_call_output", "shell_call_output", "reasoning"]
)
def test_what_takes_no_text_of_ours_is_left_alone(kind: str) -> None:
    item = {"type": kind, "call_id": "c", "output": "found"}
    assert dialect("responses").with_note({"input": [item]}, "It is noon.", "last") is None


def test_where_text_that_was_moved_cannot_be_the_plan_says_why(tmp_path: Path) -> None:
    """A request that ends with words for the model to go on with, in the middle of a conversation."""
    clock = ManualClock(now=START)
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "t.db"), cache=CachePolicy(move_volatile=True))
    with Accel(policy, clock=clock, environ={}) as accel, accel.session("s"):
        for turns in range(3):
            request = _request(clock.now, turns, clock_first=True)
            if turns == 1:
                request["messages"].append({"role": "assistant", "content": "The answer is"})
            turn = accel.turn(request, provider="compatible", platform="llamacpp")
            turn.handle(Started(clock.monotonic()))
            turn.handle(Reported(usage=Usage(input=2800, read=0, output=9)))
            turn.handle(Finished(clock.monotonic()))
            said = [one for one in turn.plan.reasons if one.startswith("nothing is moved in this request: ")]
            assert len(said) == (turns == 1)
            clock.advance(9)


def test_words_that_only_look_like_ours_do_not_keep_a_clock_in_its_place(tmp_path: Path) -> None:
    clock, policy = ManualClock(now=START), Policy(cache=CachePolicy(move_volatile=True), strict=True)
    with Accel(replace(policy, store=StorePolicy(path=tmp_path / "t.db")), clock=clock, environ={}) as accel:
        request = _request(clock.now, 0, clock_first=True)
        request["messages"][0]["content"] += "\n[Ask for a rating, at the end of this conversation]"
        plan = accel.plan(request, provider="compatible", platform="llamacpp")
        assert plan.consents == ("move_volatile",)
