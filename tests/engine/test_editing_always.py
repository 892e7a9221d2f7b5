"""Whatever a conversation looks like: what an edit may change, and what it never does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentaccel import Accel, HistoryPolicy, Policy, StorePolicy, Usage
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, FirstByte, Reported, Send, Started
from tests.driver import Json, assistant, prose, user
from tests.engine.test_editing import START, SYSTEM, TOOLS, plain, request

RESULTS = st.lists(st.tuples(st.integers(5, 1500), st.sampled_from(["search", "read"]), st.booleans()), max_size=3)
TURN = st.tuples(RESULTS, st.sampled_from([2, 30, 400, 4000]))


def reply(number: int, results: list[tuple[int, str, bool]]) -> list[Json]:
    """A reply that calls as many tools as there are results, and what comes back."""
    said = {"type": "text", "text": prose(20, number)}
    calls, found = [], []
    for i, (words, name, error) in enumerate(results):
        id_ = f"t{number}_{i}"
        calls.append({"type": "tool_use", "id": id_, "name": name, "input": {"n": i}})
        block = {"type": "tool_result", "tool_use_id": id_, "content": f"{id_} {prose(words, number + i)}"}
        found.append({**block, "is_error": True} if error and words % 3 == 0 else block)
    return [assistant([said, *calls]), user(found or prose(10, number))]


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns=st.lists(TURN, min_size=4, max_size=18), keep=st.integers(1, 4), model=st.sampled_from([0, 1]))
def test_only_old_results_change_calls_keep_their_results_and_what_is_sent_grows(
    turns: list[tuple[list[tuple[int, str, bool]], int]], keep: int, model: int
) -> None:
    """Contract lines 1 and 2 under consent: errors, pinned tools, the last results stay; a plan made twice is one."""
    clock, messages, before = ManualClock(now=START), [user(prose(60))], None
    history = HistoryPolicy(clear_results=True, keep_results=keep, pinned_tools=("read",))
    policy = Policy(strict=True, store=StorePolicy(enabled=False), history=history)
    name = ("claude-sonnet-5", "claude-fable-5-2")[model]
    with Accel(policy, clock=clock, environ={}) as accel, accel.session("s"):
        for number, (results, gap) in enumerate(turns):
            clock.advance(gap)
            made = request(messages, model=name)
            kept = json.dumps(made)
            assert accel.plan(made) == accel.plan(made)
            turn = accel.turn(made)
            send = turn.handle(Started(clock.monotonic()))[-1]
            assert isinstance(send, Send)
            assert json.dumps(made) == kept, "the user's own request is left as it is"
            sent = plain(dict(send.request))
            cleared = check(plain(made), sent, keep)
            anew = any(reason.startswith("cleared ") for reason in turn.plan.reasons)
            if before is not None and not anew:
                assert sent["messages"][: len(before)] == before
            assert bool(cleared) == (turn.plan.consents == ("clear_results",))
            before = sent["messages"]
            total = len(kept) // 4
            turn.handle(FirstByte(clock.monotonic()))
            turn.handle(Reported(usage=Usage(input=total, read=0, write={"5m": total})))
            turn.handle(Finished(clock.monotonic()))
            messages = [*messages, *reply(number, results)]


def check(written: Json, sent: Json, keep: int) -> list[str]:
    """Which results were cleared; all else is as it was written, and none of them may not be."""
    names = {b["id"]: b["name"] for m in written["messages"] for b in m["content"] if b["type"] == "tool_use"}
    results = [b["tool_use_id"] for m in written["messages"] for b in m["content"] if b["type"] == "tool_result"]
    cleared: list[str] = []
    assert {**written, "messages": 0, "system": 0} == {**sent, "messages": 0, "system": 0}
    for old, new in zip(written["messages"], sent["messages"], strict=True):
        assert old["role"] == new["role"]
        for was, now in zip(old["content"], new["content"], strict=True):
            if was == now:
                continue
            assert was["type"] == "tool_result"
            assert {**was, "content": 0} == {**now, "content": 0}
            assert now["content"] == f"[cleared: the result of search, {len(was['content']):,} characters]"
            assert not was.get("is_error")
            assert names[was["tool_use_id"]] == "search"
            cleared.append(was["tool_use_id"])
    assert not set(cleared) & set(results[-keep:])
    last = {b["tool_use_id"] for b in written["messages"][-1]["content"] if b["type"] == "tool_result"}
    assert not last & set(cleared), "what the model has not seen"
    return cleared


def test_the_check_finds_what_may_not_change() -> None:
    """The twin: a lost error, a pinned tool, a changed word, a new result."""
    messages: list[Any] = [user(prose(60))]
    for number in range(8):
        messages += reply(number, [(900, "read" if number == 1 else "search", number == 2)])
    written = plain({"messages": messages, "system": SYSTEM, "tools": TOOLS})

    def broken(at: int) -> Json:
        made = json.loads(json.dumps(written))
        block = made["messages"][at]["content"][0]
        block["content"] = f"[cleared: the result of search, {len(block['content']):,} characters]"
        return made  # type: ignore[no-any-return]

    assert check(written, broken(2), 3) == ["t0_0"]
    for at in (4, 6, 12, 16):
        try:
            check(written, broken(at), 3)
        except AssertionError:
            continue
        raise AssertionError(f"message {at} was not found out")
