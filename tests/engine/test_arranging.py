"""Volatile text travels at the end, with consent, where that is expected to be cheaper: what is billed then."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentaccel import CachePolicy, Policy, Usage
from agentaccel.cache import teach
from agentaccel.testing import ManualClock
from tests.driver import Driver, Json, assistant, body, prose, tool, user

CONSENT = Policy(strict=True, cache=CachePolicy(move_volatile=True))
REFERENCE = "[current value 1, at the end of this conversation]"
START = 1_795_000_000.0
"""2026-11-18 11:06:40 UTC."""
RULES = [f"Rule {i}: {prose(14, i)}." for i in range(120)]


def stamp(seconds: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(form)


def driver(tmp_path: Path, policy: Policy = CONSENT, **more: Any) -> Driver:
    return Driver(
        tmp_path, policy=policy, clock=more.pop("clock", None) or ManualClock(now=START), arranges=True, **more
    )


System = Callable[[int, float], Any]
Tools = Callable[[int], Any]


def talk(
    one: Driver, turns: int, system: System, tools: Tools | None = None, *, first: int = 0, **more: Any
) -> list[Usage]:
    """An append-only conversation whose system prompt and tools are functions of the turn; from turn `first` on."""
    messages = [user(prose(40))]
    usages = []
    for turn in range(turns):
        if turn >= first:
            made = body(*messages, system=system(turn, one.clock.now), tools=tools(turn) if tools else None, **more)
            usages.append(one.ask(made))
        messages += [assistant([{"type": "text", "text": prose(30, turn)}]), user(prose(25, turn + 100))]
    return usages


def clocked(turn: int, now: float) -> str:
    return "\n".join([*RULES[:60], f"It is {stamp(now)} UTC.", *RULES[60:]])


def cost(usages: list[Usage]) -> float:
    """In uncached tokens of a model that reads at a tenth."""
    return sum((u.uncached or 0) + 0.1 * (u.read or 0) + 1.25 * (u.written or 0) for u in usages)


def texts(sent: Json) -> str:
    return json.dumps(sent, ensure_ascii=False)


# --- what is moved ----------------------------------------------------------------------------------------------------


def test_a_clock_is_read_from_the_second_request_on(tmp_path: Path) -> None:
    """Moved by its shape on the first request, so every later one reads all but its last exchange."""
    ours = driver(tmp_path / "ours")
    usages = talk(ours, 10, clocked)
    assert all((usage.read or 0) > 0.8 * (usage.input or 0) for usage in usages[1:])
    without = talk(driver(tmp_path / "plain", Policy(strict=True)), 10, clocked)
    assert cost(usages) < 0.4 * cost(without)
    assert texts(ours.sent).count(stamp(ours.clock.now - 2.0)[:16]) == 1
    assert REFERENCE in ours.sent["system"][0]["text"]
    assert ours.sent["messages"][-1]["content"][-1]["text"].endswith(" UTC.")


def test_the_plan_says_what_was_moved_why_and_by_which_consent(tmp_path: Path) -> None:
    """Moved behind the user's words, it is said by the user: a change of authority."""
    one = driver(tmp_path)
    talk(one, 2, clocked)
    record = one.records[-1]
    assert record.consents == ("move_volatile",)
    assert record.reasons[0].startswith("moved to the end from system: about ")
    assert "with a clock with seconds" in record.reasons[0]
    assert any("a change of authority" in reason for reason in record.reasons)


def test_a_model_that_takes_them_is_told_in_a_system_message(tmp_path: Path) -> None:
    """Where it is documented, the operator's words stay the operator's."""
    one = driver(tmp_path)
    usages = talk(one, 4, clocked, model="claude-opus-5")
    assert one.sent["messages"][-1]["role"] == "system"
    assert (usages[-1].read or 0) > 0.8 * (usages[-1].input or 0)
    assert any("with the operator's authority" in reason for reason in one.records[-1].reasons)


def test_text_without_a_shape_is_moved_once_it_has_changed(tmp_path: Path) -> None:
    """By comparison: only the line that changes, and from the next request on the prefix is read."""
    moods = ["calm", "hurried", "tense", "cheerful", "sleepy", "brisk"]
    one = driver(tmp_path)

    def system(turn: int, now: float) -> str:
        return "\n".join([*RULES[:40], f"The queue is {moods[turn]} and has {3 + turn % 2} tickets.", *RULES[40:]])

    usages = talk(one, 6, system)
    assert not usages[1].read
    assert all((usage.read or 0) > 0.8 * (usage.input or 0) for usage in usages[2:])
    assert one.sent["messages"][-1]["content"][-1]["text"].endswith(
        "[current value 1] The queue is brisk and has 4 tickets."
    )


def test_a_memory_block_that_keeps_changing_is_moved_as_a_whole(tmp_path: Path) -> None:
    """A block of its own behind the instructions, which stay."""
    one = driver(tmp_path)

    def system(turn: int, now: float) -> list[Json]:
        memory = "\n".join(f"Learned {i}: {prose(9, i * 31 + turn * 17)}" for i in range(5))
        return [{"type": "text", "text": "\n".join(RULES)}, {"type": "text", "text": memory}]

    usages = talk(one, 6, system)
    assert all((usage.read or 0) > 0.7 * (usage.input or 0) for usage in usages[2:])
    assert one.sent["system"][1]["text"] == REFERENCE
    assert one.sent["messages"][-1]["content"][-1]["text"].count("Learned") == 5


def test_an_id_in_a_tool_description_is_moved(tmp_path: Path) -> None:
    """A known complaint: one id in front of everything else."""
    one = driver(tmp_path)

    def tools(turn: int) -> list[Json]:
        made = tool("search")
        return [{**made, "description": f"{made['description']} Trace 0f{turn:06x}-1111-4222-8333-444455556666 only."}]

    usages = talk(one, 6, lambda turn, now: "\n".join(RULES), tools)
    assert all((usage.read or 0) > 0.8 * (usage.input or 0) for usage in usages[2:])
    assert one.records[-1].reasons[0].startswith("moved to the end from tool search: ")
    assert one.sent["tools"][0]["name"] == "search"


# --- what stays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Today is 18 November 2026.",
        "Today is 2026-11-18.",
        "Times are written as 2020-01-31T12:00:00Z.",
        "Office hours: 9:00 to 17:00. Refunds take 14 days.",
        "Ticket 8842, customer 1795000000123456.",
    ],
)
def test_what_does_not_change_is_never_moved(tmp_path: Path, text: str) -> None:
    """Dates, examples, office hours and numbers are no clocks: the request is as the user wrote it."""
    one = driver(tmp_path)
    talk(one, 5, lambda turn, now: "\n".join([*RULES[:60], text, *RULES[60:]]))
    assert "current value 1" not in texts(one.sent)
    assert not any(record.consents for record in one.records)


@pytest.mark.slow
def test_text_that_changes_every_ten_requests_is_left_where_it_is_when_that_is_cheaper(tmp_path: Path) -> None:
    """Expected cost: read at a tenth nine times of ten, or sent uncached every time."""
    one = driver(tmp_path)

    def system(turn: int, now: float) -> list[Json]:
        memory = prose(2500, turn // 10)
        return [{"type": "text", "text": prose(1500, 5)}, {"type": "text", "text": memory}]

    talk(one, 24, system)
    moved = [turn for turn, record in enumerate(one.records) if record.consents]
    assert moved == []


def test_a_short_text_that_changes_every_ten_requests_is_moved_where_much_stands_behind_it(tmp_path: Path) -> None:
    """The twin: the same gate lets it go where that is cheaper."""
    one = driver(tmp_path)
    talk(one, 24, lambda turn, now: "\n".join([f"Shift {prose(3, turn // 10)}.", *RULES]))
    moved = [turn for turn, record in enumerate(one.records) if record.consents]
    assert moved == list(range(10, 24))


@pytest.mark.parametrize("pinned", ["system", "system[0]"])
def test_pinned_text_never_moves(tmp_path: Path, pinned: str) -> None:
    policy = Policy(strict=True, cache=CachePolicy(move_volatile=True, pinned=(pinned,)))
    one = driver(tmp_path, policy)
    talk(one, 4, clocked)
    assert not any(record.consents for record in one.records)


def test_instructions_never_move_as_a_whole(tmp_path: Path) -> None:
    """Two agents that share a session by mistake have two prompts, not one that keeps changing."""
    one = driver(tmp_path)
    talk(one, 6, lambda turn, now: "\n".join(prose(14, i + 500 * (turn % 2)) + f" {turn % 2}." for i in range(90)))
    assert not any(record.consents for record in one.records)


def test_a_prompt_below_the_minimum_is_left_alone(tmp_path: Path) -> None:
    one = driver(tmp_path)
    one.ask(body(user("Hi"), system=f"It is {stamp(START)} UTC.\nBe brief.\nBe kind."))
    assert one.sent["system"] == f"It is {stamp(START)} UTC.\nBe brief.\nBe kind."


def test_behind_a_prefilled_answer_nothing_can_stand(tmp_path: Path) -> None:
    """The request goes out as it was written."""
    one = driver(tmp_path)
    one.ask(body(user(prose(2000)), assistant("The answer is"), system=clocked(0, START)))
    assert not one.records[-1].consents


@pytest.mark.parametrize(("model", "moved"), [("claude-sonnet-4-5", False), ("claude-sonnet-5", True)])
def test_earlier_thinking_is_not_lost_by_a_move(tmp_path: Path, model: str, moved: bool) -> None:
    """Where text of the user takes earlier thinking out of the prompt, nothing is moved behind it."""
    one = driver(tmp_path)
    thought = {"type": "thinking", "thinking": prose(30), "signature": "s"}
    call = {"type": "tool_use", "id": "t1", "name": "search", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": prose(40)}
    one.ask(
        body(
            user(prose(40)),
            assistant([thought, call]),
            user([result]),
            system=clocked(0, START),
            tools=[tool("search")],
            model=model,
            thinking={"type": "enabled", "budget_tokens": 1024},
            max_tokens=4096,
        )
    )
    assert bool(one.records[-1].consents) is moved


@pytest.mark.parametrize("policy", [Policy(strict=True), Policy(mode="observe", cache=CONSENT.cache, strict=True)])
def test_without_consent_and_in_observe_mode_the_prompt_is_the_users(tmp_path: Path, policy: Policy) -> None:
    """Contract lines 1 and 10: the driver checks that what is sent is the prompt that was written."""
    one = Driver(tmp_path, policy=policy, clock=ManualClock(now=START))
    talk(one, 4, clocked)
    assert "current value 1" not in texts(one.sent)


def test_a_bypassed_request_goes_out_untouched(tmp_path: Path) -> None:
    one = driver(tmp_path)
    talk(one, 2, clocked)
    made = body(user(prose(40)), system=clocked(0, START))
    with one.accel.bypass():
        one.ask(made)
    assert one.sent == made


# --- what lasts -------------------------------------------------------------------------------------------------------


def test_an_arranged_request_is_arranged_no_further(tmp_path: Path) -> None:
    """Idempotent: two of us in a row do what one does."""
    one = driver(tmp_path / "one")
    talk(one, 3, clocked)
    again = driver(tmp_path / "two", clock=one.clock)
    again.ask(one.sent, gap=0.0)
    assert not again.records[-1].consents
    assert [block["text"] for block in again.sent["messages"][-1]["content"]] == [
        block["text"] for block in one.sent["messages"][-1]["content"]
    ]


def test_a_second_process_arranges_alike(tmp_path: Path) -> None:
    """By the shape of what is moved, or by where it stood: the store holds hashes of what stands around it."""
    one = driver(tmp_path)

    def system(turn: int, now: float) -> str:
        return "\n".join([*RULES[:40], f"The mood is {prose(4, turn)} today.", f"It is {stamp(now)}.", *RULES[40:]])

    with one.accel.session("s"):
        talk(one, 5, system)
    before = one.sent["system"][0]["text"]
    other = driver(tmp_path, clock=one.clock, emulator=one.emulator)
    with other.accel.session("s"):
        usages = talk(other, 6, system, first=5)
    assert other.sent["system"][0]["text"] == before
    assert (usages[0].read or 0) > 0.8 * (usages[0].input or 0)


def test_the_next_session_of_a_workload_moves_from_its_first_request_on(tmp_path: Path) -> None:
    """What one session has shown of a text without a shape is known to those behind it."""
    one = driver(tmp_path)

    def system(turn: int, now: float) -> str:
        return "\n".join([*RULES[:40], f"The mood is {prose(4, turn)} today.", *RULES[40:]])

    with one.accel.session("first", agent="a"):
        talk(one, 6, system)
    with one.accel.session("second", agent="a"):
        usages = talk(one, 1, lambda turn, now: system(77, now))
    assert one.records[-1].consents == ("move_volatile",)
    assert (usages[0].read or 0) > 0.8 * (usages[0].input or 0)


def test_a_clock_that_was_seen_not_to_run_is_left_alone_by_the_next_session(tmp_path: Path) -> None:
    """A comparison outweighs a shape."""
    one = driver(tmp_path)
    text = "\n".join([*RULES[:60], f"Deployed {stamp(START)} UTC.", *RULES[60:]])
    with one.accel.session("first", agent="a"):
        talk(one, 4, lambda turn, now: text)
    with one.accel.session("second", agent="a"):
        talk(one, 2, lambda turn, now: text)
    assert [bool(record.consents) for record in one.records] == [True] * 4 + [False] * 2


def test_two_sessions_at_once_share_nothing_by_accident(tmp_path: Path) -> None:
    one = driver(tmp_path)
    first, second = [user("a" + prose(40))], [user("b" + prose(40, 3))]
    for turn in range(4):
        for name, messages, rules in (("x", first, RULES[:70]), ("y", second, RULES[70:])):
            with one.accel.session(name):
                one.ask(body(*messages, system="\n".join([*rules, f"It is {stamp(one.clock.now)}.", prose(900)])))
            messages += [assistant(prose(10, turn)), user(prose(10, turn + 9))]
    assert all((one.usage.read or 0) > 0.8 * (one.usage.input or 0) for one in one.records[2:])


# --- beside the user's own markers ------------------------------------------------------------------------------------


def test_the_users_own_markers_stay_where_they_stood(tmp_path: Path) -> None:
    """The one of the request itself stays on the block that was the last one: behind it stands what is never read."""
    mark = {"type": "ephemeral"}
    one = driver(tmp_path)
    messages = [user(prose(40))]
    for turn in range(4):
        one.ask(body(*messages, system=clocked(turn, one.clock.now), cache_control=mark))
        messages += [assistant(prose(30, turn)), user(prose(25, turn + 100))]
    assert "cache_control" not in one.sent
    content = one.sent["messages"][-1]["content"]
    assert [("cache_control" in block) for block in content] == [True, False]
    last = one.records[-1].usage
    assert (last.read or 0) > 0.8 * (last.input or 0)
    assert (last.uncached or 0) > 10  # what was moved is not written


def test_savings_are_stated_against_the_request_as_written(tmp_path: Path) -> None:
    """With the user's own top-level marker it would have been written anew each time; the records say so, to the bill
    that the emulator gives for just that."""
    mark = {"type": "ephemeral"}
    ours = driver(tmp_path / "ours")
    talk(ours, 8, clocked, cache_control=mark)
    theirs = driver(tmp_path / "theirs", Policy(strict=True, mode="observe"))
    bare = talk(theirs, 8, clocked, cache_control=mark)
    for record, usage in zip(ours.records, bare, strict=True):
        said = record.as_written
        assert said is not None
        assert said.read == usage.read == 0
        assert (said.written or 0) == pytest.approx(usage.written or 0, rel=0.03)
        assert (said.input or 0) == pytest.approx(usage.input or 0, rel=0.03)


def test_nothing_of_the_text_reaches_the_store(tmp_path: Path) -> None:
    """Contract line 9: hashes, sizes and counts."""
    one = driver(tmp_path)
    talk(one, 5, lambda turn, now: "\n".join([*RULES, f"The mood is zebrastripe{turn} today.", "Be kumquat."]))
    one.accel.close()
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"zebrastripe" not in data
    assert b"kumquat" not in data


# --- one request, several times ---------------------------------------------------------------------------------------


def test_a_request_that_is_planned_again_is_arranged_alike(tmp_path: Path) -> None:
    """A retry sends what the first attempt sent: what is learned is learned when the turn ends."""
    one = driver(tmp_path)
    talk(one, 3, clocked)
    made = body(user(prose(40)), system=clocked(3, one.clock.now))
    first, second = one.accel.turn(made), one.accel.turn(made)
    assert first.plan == second.plan
    assert first.plan.consents == ("move_volatile",)


def test_a_repeated_request_says_nothing_of_what_changes(tmp_path: Path) -> None:
    """Sent twice at once with the same clock: it has not stood still, it was the same request."""
    one = driver(tmp_path)
    made = body(user(prose(40)), system=clocked(0, one.clock.now))
    with one.accel.session("s"):
        for _ in range(4):
            one.ask(made, gap=0.0)
        one.ask(body(user(prose(40)), assistant("Yes."), user("And?"), system=clocked(1, one.clock.now)))
    assert [bool(record.consents) for record in one.records] == [True] * 5


def test_the_callers_request_is_never_touched(tmp_path: Path) -> None:
    one = driver(tmp_path)
    made = body(user(prose(40)), system=clocked(0, one.clock.now), tools=[tool("search")])
    before = json.dumps(made)
    one.ask(made)
    assert json.dumps(made) == before
    assert one.sent["tools"][0]["description"] == made["tools"][0]["description"]


def test_a_plan_that_is_applied_by_hand_is_what_a_turn_sends(tmp_path: Path) -> None:
    """For people with their own HTTP: the markers of such a plan stand in the request that it has arranged."""
    one = driver(tmp_path)
    talk(one, 2, clocked)
    made = body(user(prose(40)), system=clocked(3, one.clock.now))
    plan = one.accel.plan(made)
    assert plan.consents == ("move_volatile",)
    assert not plan.empty
    sent = plan.apply(made)
    assert one.post(dict(sent))[0] == 200
    assert REFERENCE in texts(dict(sent))
    one.ask(made, gap=0.0)
    assert one.sent == sent


def test_a_consent_that_is_used_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Contract line 1: what needs consent is logged once, and not at all where it was not used."""
    caplog.set_level("INFO", logger="agentaccel")
    one = driver(tmp_path)
    talk(one, 2, lambda turn, now: "\n".join(RULES))
    assert "moving text" not in caplog.text
    talk(one, 3, clocked)
    assert caplog.text.count("moving text that keeps changing to the end of prompts, as the policy allows") == 1


@pytest.mark.slow
def test_where_no_session_goes_on_and_none_begins_alike_nothing_is_moved(tmp_path: Path) -> None:
    """A move on a first request saves nothing where nobody reads what stays: the workload has shown it.

    To move a line of some 45 tokens costs 50 each time, which 1,400 tokens of its block times 1.15 are worth down to
    odds of one in 32 that the session goes on.
    """
    one = driver(tmp_path)
    for number in range(45):
        with one.accel.session(f"s{number}", agent="one question"):
            system = "\n".join(
                [prose(700, number * 13), f"It is {stamp(one.clock.now)} UTC. {prose(22)}", f"Case {number}."]
            )
            one.ask(body(user(prose(30, number)), system=f"{number}\n{system}"))
    moved = [bool(record.consents) for record in one.records]
    assert moved[0]
    assert not any(moved[40:])


def test_what_we_put_at_the_end_is_no_growth(tmp_path: Path) -> None:
    """Each request has a note of its own in the place of the one before, so a prompt grows by the difference of two
    requests that both have one. The provider counts these; what is learned is their mean."""
    one = driver(tmp_path)
    with one.accel.session("s", agent="x") as session:
        usages = talk(one, 8, lambda turn, now: "\n".join([*RULES, f"It is {stamp(now)} UTC. {prose(25, turn)}"]))
        grown, occasions = session.conversation.state.seen.counts["grows"]
    totals = [one.input or 0 for one in usages]
    true = (totals[-1] - totals[1]) / (len(totals) - 2)
    assert grown / occasions == pytest.approx(true, rel=0.1)


def test_with_the_note_counted_it_would_be_twice_as_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(teach, "lasting_tokens", lambda prefix, tokens: tokens)
    with pytest.raises(AssertionError):
        test_what_we_put_at_the_end_is_no_growth(tmp_path)
