"""Old results of tools become a note, with consent, where that pays: what is sent, what is billed, what is said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agentaccel import CachePolicy, Policy, Usage
from agentaccel.policy import HistoryPolicy
from agentaccel.rewrite import results as weighing
from agentaccel.testing import ManualClock
from agentaccel.types import Cause
from tests.driver import Driver, Json, assistant, body, prose, tool, user

START = 1_795_000_000.0
CONSENT = Policy(strict=True, history=HistoryPolicy(clear_results=True))
PLAIN = Policy(strict=True)
SYSTEM, TOOLS = prose(1200), [tool("search")]


def driver(folder: Path, policy: Policy = CONSENT, **more: Any) -> Driver:
    folder.mkdir(exist_ok=True)
    return Driver(folder, policy=policy, arranges=True, clock=more.pop("clock", None) or ManualClock(now=START), **more)


def turn_of(number: int, words: int = 1200, name: str = "search", **more: Any) -> list[Json]:
    """A call of a tool and its result."""
    call = {"type": "tool_use", "id": f"t{number}", "name": name, "input": {"q": prose(20, number)}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"{number} {prose(words, number)}", **more}
    return [assistant([{"type": "text", "text": prose(30, number)}, call]), user([result])]


def history(turns: int, words: int = 1200) -> list[Json]:
    """The messages of the request after so many turns of a loop."""
    return [user(prose(100)), *(message for number in range(turns) for message in turn_of(number, words))]


def request(messages: Sequence[Json], **more: Any) -> Json:
    return body(*messages, system=SYSTEM, tools=TOOLS, **more)


def talk(one: Driver, turns: int, words: int = 1200, *, first: int = 0, **more: Any) -> list[Usage]:
    return [one.ask(request(history(turn, words), **more)) for turn in range(first, turns)]


def cleared_every_turn(messages: Sequence[Json], keep: int = 3) -> list[Json]:
    """What a user does who clears all old results in every request, in our words."""
    made = list(messages)
    results = [i for i, one in enumerate(made) if one["role"] == "user" and isinstance(one["content"], list)]
    for i in results[:-keep]:
        block = made[i]["content"][0]
        note = f"[cleared: the result of search, {len(block['content']):,} characters]"
        made[i] = user([{**block, "content": note}])
    return made


def cost(usages: Sequence[Usage], read: float = 0.1) -> float:
    return sum((u.uncached or 0) + read * (u.read or 0) + 1.25 * (u.written or 0) for u in usages)


def notes(sent: Json) -> list[int]:
    """Which results were sent as a note."""
    results = [block for one in sent["messages"] for block in blocks(one) if block["type"] == "tool_result"]
    return [i for i, block in enumerate(results) if str(block["content"]).startswith("[cleared: ")]


def blocks(message: Json) -> list[Json]:
    return message["content"] if isinstance(message["content"], list) else []


def edits(one: Driver) -> list[int]:
    """The requests in which something was edited anew."""
    return [i for i, record in enumerate(one.records) if any(it.startswith("cleared ") for it in record.reasons)]


# --- what it saves ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "read", "words", "turns"),
    [
        ("claude-sonnet-5", 0.1, 1200, 24),
        pytest.param("claude-sonnet-5", 0.1, 1200, 60, marks=pytest.mark.soak),
        pytest.param("claude-fable-5-2", 0.025, 350, 60, marks=pytest.mark.soak),
        pytest.param("claude-sonnet-5", 0.1, 350, 60, marks=pytest.mark.soak),
        pytest.param("claude-fable-5-2", 0.025, 1200, 60, marks=pytest.mark.soak),
    ],
)
def test_edits_cost_less_than_clearing_every_turn_and_less_than_never(
    tmp_path: Path, model: str, read: float, words: int, turns: int
) -> None:
    """Must show 6, in small: a first session, nothing learned; billed by the emulator."""
    ours = cost(talk(driver(tmp_path / "ours"), turns, words, model=model), read)
    never = cost(talk(driver(tmp_path / "never", PLAIN), turns, words, model=model), read)
    by_hand = driver(tmp_path / "every", PLAIN)
    every = [by_hand.ask(request(cleared_every_turn(history(turn, words)), model=model)) for turn in range(turns)]
    assert ours <= 1.02 * min(never, cost(every, read))
    if read == 0.1:
        assert ours < 0.9 * min(never, cost(every, read)), "not by doing nothing"


def test_a_short_session_is_left_as_it_is(tmp_path: Path) -> None:
    """What is not expected to be read often enough is not worth making anything anew."""
    one = driver(tmp_path)
    talk(one, 6)
    assert not notes(one.sent)
    assert not any(record.consents for record in one.records)


@pytest.mark.slow
def test_between_two_edits_what_is_sent_only_grows(tmp_path: Path) -> None:
    """A result that was cleared stays a note, byte for byte, and nothing else changes."""
    one = driver(tmp_path)
    sent: list[Json] = []
    for turn in range(30):
        one.ask(request(history(turn)))
        sent.append(json.loads(json.dumps(one.sent)))
    anew = edits(one)
    assert len(anew) > 1
    for turn in range(1, 30):
        before, now = plain(sent[turn - 1]), plain(sent[turn])
        grows = now["messages"][: len(before["messages"])] == before["messages"]
        assert grows == (turn not in anew), turn
        assert set(notes(before)) <= set(notes(now))


def plain(sent: Json) -> Json:
    """A request without markers."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(item) for name, item in value.items() if name != "cache_control"}
        return [bare(item) for item in value] if isinstance(value, list) else value

    made: Json = bare(sent)
    for message in made["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    return made


@pytest.mark.slow
def test_never_two_edits_where_one_pays(tmp_path: Path) -> None:
    """Between two edits, reading what was then cleared has cost as much as making anew what stands behind it."""
    one = driver(tmp_path)
    talk(one, 40, 900)
    anew = edits(one)
    assert len(anew) >= 3
    assert all(later - earlier >= 5 for earlier, later in pairwise(anew))


@pytest.mark.soak
def test_a_session_of_a_workload_that_ends_soon_is_not_edited_near_its_end(tmp_path: Path) -> None:
    """What was learned of lengths bounds what an edit can save."""
    clock = ManualClock(now=START)
    for _ in range(5):
        one = driver(tmp_path, clock=clock)
        with one.accel.session(f"s{clock.now}", agent="short"):
            talk(one, 11, 30)
        one.accel.close()
    known, unknown = driver(tmp_path, clock=clock), driver(tmp_path / "other", clock=clock)
    with known.accel.session("last", agent="short"):
        talk(known, 11)
    with unknown.accel.session("first", agent="short"):
        talk(unknown, 11)
    assert notes(unknown.sent)
    assert not notes(known.sent)


def test_after_a_pause_that_outlasts_the_entries_all_old_results_go_at_once(tmp_path: Path) -> None:
    """What is cold is made anew anyway: the best moment."""
    one = driver(tmp_path)
    talk(one, 7)
    assert not notes(one.sent)
    one.ask(request(history(7)), gap=4000.0)
    assert notes(one.sent) == [0, 1, 2, 3]
    assert any("at once" in reason for reason in one.records[-1].reasons)


# --- what is never touched --------------------------------------------------------------------------------------------


def test_nothing_but_old_results_of_tools_changes(tmp_path: Path) -> None:
    """Calls, thinking, words of user and model: as written, in their order."""
    one = driver(tmp_path)
    messages = history(20)
    for turn in range(1, len(messages), 2):
        thought = {"type": "thinking", "thinking": prose(30, turn), "signature": "s"}
        messages[turn] = assistant([thought, *blocks(messages[turn])])
    one.ask(request(messages), gap=0)
    one.ask(request([*messages, *turn_of(20)]))
    assert notes(one.sent)
    written, sent = plain(request([*messages, *turn_of(20)])), plain(one.sent)
    for old, new in zip(written["messages"], sent["messages"], strict=True):
        for before, after in zip(old["content"], new["content"], strict=True):
            if before != after:
                assert before["type"] == "tool_result"
                assert {**before, "content": ""} == {**after, "content": ""}


@pytest.mark.parametrize(
    "spared",
    [
        {"is_error": True},
        {"cache_control": {"type": "ephemeral"}},
        {
            "content": [
                {"type": "text", "text": "Seen: "},
                {"type": "image", "source": {"type": "url", "url": "https://x"}},
            ]
        },
        {"content": ""},
    ],
)
def test_errors_what_carries_a_marker_and_what_is_more_than_text_stay(tmp_path: Path, spared: Json) -> None:
    """An error tells the model what not to try again; a marker is the user's word; a picture is part of the prompt."""
    one = driver(tmp_path)
    messages = [user(prose(100)), *turn_of(0, **spared), *history(14)[3:]]
    one.ask(request(messages))
    assert notes(one.sent) == list(range(1, 11))
    assert one.sent["messages"][2]["content"][0] == messages[2]["content"][0]


def test_the_last_results_and_pinned_tools_stay(tmp_path: Path) -> None:
    policy = Policy(strict=True, history=HistoryPolicy(clear_results=True, keep_results=5, pinned_tools=("read",)))
    one = driver(tmp_path, policy)
    tools = [tool("search"), tool("read")]
    one.ask(body(user(prose(100)), *turn_of(0, name="read"), *history(14)[3:], system=SYSTEM, tools=tools))
    assert notes(one.sent) == list(range(1, 9))


def test_what_the_model_has_not_seen_stays(tmp_path: Path) -> None:
    """Ten results at once: the last three, and the seven before them, are all new."""
    one = driver(tmp_path)
    calls = [{"type": "tool_use", "id": f"t{i}", "name": "search", "input": {}} for i in range(10)]
    results = [{"type": "tool_result", "tool_use_id": f"t{i}", "content": prose(900, i)} for i in range(10)]
    one.ask(request([user(prose(100)), assistant(calls), user(results)]))
    assert not notes(one.sent)


def test_without_consent_nothing_is_edited(tmp_path: Path) -> None:
    one = Driver(tmp_path, policy=PLAIN, clock=ManualClock(now=START))
    talk(one, 20)
    assert not any(record.consents for record in one.records)


@pytest.mark.parametrize("mode", ["observe", "bypass"])
def test_edits_are_only_made_where_a_plan_is_applied(tmp_path: Path, mode: str) -> None:
    policy = Policy(strict=True, mode="observe", history=CONSENT.history) if mode == "observe" else CONSENT
    one = driver(tmp_path, policy)
    if mode == "observe":
        talk(one, 20)
    else:
        with one.accel.bypass():
            talk(one, 20)
    assert not notes(one.sent)


# --- what is said -----------------------------------------------------------------------------------------------------


def test_the_plan_says_what_was_cleared_what_it_costs_and_why_an_edit_waits(tmp_path: Path) -> None:
    one = driver(tmp_path)
    talk(one, 20)
    first = edits(one)[0]
    done, waits = one.records[first], one.records[first - 1]
    assert done.consents == ("clear_results",)
    assert "tokens fewer in this request and each of about" in done.reasons[0]
    assert any(reason.startswith("clearing ") and "waits" in reason for reason in waits.reasons)
    assert one.records[first + 1].consents == ("clear_results",)


@pytest.mark.slow
def test_what_an_edit_makes_anew_is_not_a_mystery(tmp_path: Path) -> None:
    """Its miss has a cause of its own, and teaches nothing of what changes."""
    one = driver(tmp_path)
    talk(one, 30)
    misses = {i: [miss.cause for miss in record.misses] for i, record in enumerate(one.records) if record.misses}
    assert misses.keys() <= {0, *edits(one)}
    assert all(causes == [Cause.COMPACTED] for i, causes in misses.items() if i)
    assert len(misses) > 1


def test_savings_are_stated_against_the_request_as_written(tmp_path: Path) -> None:
    """With a marker of the user's at the end, the shadow has every result still there."""
    one = driver(tmp_path)
    for turn in range(25):
        messages = history(turn)
        last = messages[-1]["content"]
        block = {"type": "text", "text": last} if isinstance(last, str) else last[0]
        messages[-1] = user([{**block, "cache_control": {"type": "ephemeral"}}])
        one.ask(request(messages))
    record = one.records[-1]
    assert record.as_written is not None
    written, sent = record.as_written, record.usage
    assert (written.input or 0) > 2 * (sent.input or 0)
    assert (written.read or 0) > 0.9 * (written.input or 0)


def test_the_same_request_is_planned_again_alike(tmp_path: Path) -> None:
    """A retry sends what the first attempt sent."""
    one = driver(tmp_path)
    talk(one, 10)
    plans = [one.accel.plan(request(history(10))) for _ in range(2)]
    assert plans[0] == plans[1]
    assert plans[0].arranged == plans[1].arranged
    assert plans[0].consents == ("clear_results",)


# --- other processes, rewinds -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_process_sends_what_the_first_would_have(tmp_path: Path) -> None:
    """Which results are cleared is in the store, as hashes."""
    clock = ManualClock(now=START)
    alone, first = driver(tmp_path / "alone"), driver(tmp_path / "both", clock=clock)
    second = driver(tmp_path / "both", clock=clock, emulator=first.emulator)
    for turn in range(18):
        alone.ask(request(history(turn)))
        one = (first, second)[turn % 2]
        one.ask(request(history(turn)))
        assert notes(one.sent) == notes(alone.sent), turn
    assert notes(alone.sent)
    assert b"order lamp" not in b"".join(path.read_bytes() for path in (tmp_path / "both").iterdir())


def test_after_a_rewind_only_what_is_still_there_is_cleared(tmp_path: Path) -> None:
    """And what both have in common is read."""
    one = driver(tmp_path)
    talk(one, 16)
    cleared = notes(one.sent)
    usage = one.ask(request([*history(13), assistant("Stop."), user("Try another way.")]))
    assert notes(one.sent) == cleared == list(range(7))
    assert (usage.read or 0) > 0.95 * (usage.input or 0)
    usage = one.ask(request([*history(4), assistant("Stop."), user("Or yet another.")]))
    assert notes(one.sent) == [0], "three are among the last again"
    assert len({record.session for record in one.records}) == 1
    assert not any(miss.cause is Cause.UNKNOWN for record in one.records for miss in record.misses)


def test_a_rewind_is_read_from_the_longest_prefix_that_is_still_held_and_called_one(tmp_path: Path) -> None:
    """Without any consent: re-planned from where both prompts part, and named."""
    one = Driver(tmp_path, policy=PLAIN, clock=ManualClock(now=START))
    usages = talk(one, 20)
    rewound = one.ask(request([*history(12), assistant("Stop."), user("Try another way.")]))
    assert (rewound.read or 0) >= (usages[12].input or 0)
    again = one.ask(request([*history(12), assistant("Stop."), user("Try another way."), *turn_of(77)]))
    assert again.read == rewound.input


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda old: [*old[:5], user([{**old[6]["content"][0], "content": "Gone."}]), *old[7:]], "edited history"),
        (lambda old: [*old[:7], assistant("Stop."), user("Another way.")], "rewound to"),
    ],
)
def test_an_edit_of_the_users_own_is_named_and_what_stands_before_it_is_read(
    tmp_path: Path, edit: Any, named: str
) -> None:
    """Where the prompts part in the middle of the history: not a mystery, and the request after it reads all of it."""
    one = Driver(tmp_path, policy=PLAIN, clock=ManualClock(now=START))
    talk(one, 12)
    old = history(11)
    messages = (
        [*old[:6], user([{**old[6]["content"][0], "content": "Gone."}]), *old[7:]] if "edit" in named else edit(old)
    )
    usage = one.ask(request(messages))
    record = one.records[-1]
    details = [(miss.cause, miss.detail) for miss in record.misses]
    assert all(cause is Cause.CHANGED and detail.startswith(named) for cause, detail in details), details
    assert record.drift is None or record.drift.likely == "edited history"
    assert (usage.read or 0) > 3000
    after = one.ask(request([*messages, *turn_of(50)] if "edit" in named else [*messages, *turn_of(51)]))
    assert (after.read or 0) >= 0.99 * (usage.input or 0)


def test_an_auxiliary_request_of_the_session_does_not_undo_its_edits(tmp_path: Path) -> None:
    """A title, asked for in between, has none of the results."""
    one = driver(tmp_path)
    with one.accel.session("s"):
        talk(one, 20)
        before = notes(one.sent)
        one.ask(body(user("Give this a title."), system="Be brief."))
        one.ask(request(history(20)))
    assert before
    assert set(before) <= set(notes(one.sent))


# --- twins ------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_without_the_wait_edits_come_every_turn_and_cost_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the rule that an edit waits is what saves."""
    ours = cost(talk(driver(tmp_path / "ours"), 40))
    from agentaccel.rewrite.edits import Weighed

    monkeypatch.setattr(Weighed, "pays", property(lambda self: self.saved > 0))
    hasty = driver(tmp_path / "hasty")
    dear = cost(talk(hasty, 40))
    assert len(edits(hasty)) > 30
    assert dear > 1.3 * ours


def test_without_the_rule_on_what_is_new_the_model_would_lose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: the check above would find that out."""
    monkeypatch.setattr(weighing, "replies_before", lambda prompt: [9] * (len(prompt.segments) + 1))
    one = driver(tmp_path)
    calls = [{"type": "tool_use", "id": f"t{i}", "name": "search", "input": {}} for i in range(10)]
    results = [{"type": "tool_result", "tool_use_id": f"t{i}", "content": prose(900, i)} for i in range(10)]
    one.ask(request([user(prose(100)), assistant(calls), user(results)]))
    assert notes(one.sent)


@pytest.mark.slow
def test_moved_text_and_edited_history_go_together(tmp_path: Path) -> None:
    """Both consents: the note with the time stands behind everything, and old results are notes."""
    policy = Policy(strict=True, cache=CachePolicy(move_volatile=True), history=HistoryPolicy(clear_results=True))
    one = driver(tmp_path, policy)
    reads = []
    for turn in range(24):
        system = f"{SYSTEM}\nIt is 2026-11-18 11:{turn:02}:{(turn * 7) % 60:02} UTC.\n{prose(100)}"
        usage = one.ask(body(*history(turn), system=system, tools=TOOLS))
        reads.append((usage.read or 0) / (usage.input or 1))
    assert set(one.records[-1].consents) == {"move_volatile", "clear_results"}
    assert notes(one.sent)
    assert sum(share > 0.7 for share in reads[4:]) >= 17
