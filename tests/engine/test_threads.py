"""One name may stand for several conversations: each has its tool list, its history and its statistics to itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel import CachePolicy, Policy, Usage
from agentaccel.engine import threads
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.threads import Threads
from agentaccel.report.advise.choose import advise
from agentaccel.report.advise.reading import talks_of_store
from agentaccel.rewrite import arranging
from agentaccel.store.store import open_reader
from agentaccel.turn import Failed, Started
from agentaccel.types import Cause
from tests.driver import Driver, Json, assistant, body, prose, tool, user

FREEZES = Policy(strict=True, cache=CachePolicy(freeze_tools=True))
LETTERS = [tool(name, 30) for name in "abcdefg"]
TASK, TESTS = tool("task", 30), tool("run_tests", 30)


@dataclass
class Talk:
    """One conversation, whoever else takes turns with it."""

    system: str
    tools: list[Json]
    messages: list[Json]
    offered: set[str] = field(default_factory=set)
    """Names of the tools that it has had so far."""

    def request(self) -> Json:
        self.offered |= set(_names(self.tools))
        return body(*self.messages, system=self.system, tools=self.tools)

    def answered(self, words: int, seed: int) -> None:
        self.messages += [assistant([{"type": "text", "text": "ok"}]), user(prose(words, seed))]


def _names(tools: list[Json]) -> list[str]:
    return [one["name"] for one in tools]


def _billed(usage: Usage) -> float:
    """In uncached input tokens: a write costs 1.25, a read 0.1."""
    read, written = usage.read or 0, usage.write.get("5m", 0) if usage.write else 0
    return (usage.input or 0) - read - written + 1.25 * written + 0.1 * read


def _all_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session's name as one conversation."""

    def root(self: Threads, root: Conversation, *given: Any, **more: Any) -> Conversation:
        return root

    monkeypatch.setattr(Threads, "of", root)


# --- tool lists -------------------------------------------------------------------------------------------------------


def _taking_turns(path: Path) -> tuple[Driver, list[tuple[str, list[str], list[str]]]]:
    """A parent and a sub-agent under one name: whose turn it was, the tools that it offered, and what was sent."""
    one = Driver(path, policy=FREEZES, arranges=True)
    parent = Talk("You plan. " + prose(1500), [*LETTERS, TASK, TESTS, tool("search", 30)], [user("Go.")])
    helper = Talk("You test. " + prose(1200, 1), [*LETTERS, TESTS], [user("Test it.")])
    sent = []
    with one.accel.session("s", agent="x"):
        for turn, who in enumerate("PPPSSPPPP"):
            talk = parent if who == "P" else helper
            one.ask(talk.request())
            sent.append((who, _names(talk.tools), _names(one.sent["tools"])))
            talk.answered(40, turn)
    return one, sent


def test_the_tools_of_a_sub_agent_and_of_its_parent_are_two_lists(tmp_path: Path) -> None:
    """Neither changes its list, so each is sent just as it was offered; and none is told of a tool that it lacks."""
    one, sent = _taking_turns(tmp_path)
    assert all(offered == now for _, offered, now in sent)
    assert "Not available" not in str(one.sent)
    assert [record.consents for record in one.records] == [()] * 9


def test_as_one_list_the_sub_agent_would_be_sent_what_was_withheld_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: it is the conversations, and that only one's own tools are kept, that keep them apart."""
    _all_in_one(monkeypatch)
    monkeypatch.setattr(arranging, "_goes_on_from", lambda prompt, memory: True)
    _, sent = _taking_turns(tmp_path)
    assert any(set(now) - set(offered) for who, offered, now in sent if who == "S")


POOL = {name: tool(name, 30 + 10 * len(name)) for name in ("read", "write", "grep", "bash", "task", "fetch", "plan")}
LISTS = st.lists(st.sampled_from(sorted(POOL)), min_size=1, unique=True)
TURNS = st.lists(st.tuples(st.integers(0, 3), st.none() | LISTS), min_size=4, max_size=16)
"""Whose turn it is, and the tools that it offers from now on, where they change."""


def _gained(path: Path, firsts: list[list[str]], turns: list[tuple[int, list[str] | None]], *, same: bool) -> set[str]:
    """What was sent of tools that the conversation itself had never offered. With the `same` first words, replies and
    questions everywhere: then only the system prompts, by one letter, and the tools tell conversations apart."""
    one = Driver(path, policy=FREEZES, arranges=True)
    rules = prose(900)
    talks = [
        Talk(f"You are {'ABCD'[i]}. {rules}", [POOL[name] for name in names], [user("Go." if same else f"Go {i}.")])
        for i, names in enumerate(firsts)
    ]
    gained = set[str]()
    with one.accel.session("s", agent="x"):
        for who, tools in turns:
            talk = talks[who]
            if tools is not None:
                talk.tools = [POOL[name] for name in tools]
            one.ask(talk.request())
            gained |= set(_names(one.sent["tools"])) - talk.offered
            talk.answered(20, 0 if same else who)
    one.accel.close()
    return gained


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(firsts=st.lists(LISTS, min_size=4, max_size=4), turns=TURNS, same=st.booleans())
def test_no_request_gains_a_tool_that_only_another_conversation_had(
    tmp_path_factory: pytest.TempPathFactory,
    firsts: list[list[str]],
    turns: list[tuple[int, list[str] | None]],
    same: bool,
) -> None:
    """Whatever takes turns under one name, and however its lists change."""
    assert not _gained(tmp_path_factory.mktemp("s"), firsts, turns, same=same)


def test_without_both_guards_a_request_gains_a_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the property, on a case of it."""
    firsts = [["read", "grep", "bash", "task"], ["read", "grep", "bash"], ["read"], ["read"]]
    turns: list[tuple[int, list[str] | None]] = [(0, None), (1, None), (0, None), (1, None)]
    assert not _gained(tmp_path / "with", firsts, turns, same=True)
    _all_in_one(monkeypatch)
    monkeypatch.setattr(arranging, "_goes_on_from", lambda prompt, memory: True)
    assert _gained(tmp_path / "without", firsts, turns, same=True) == {"task"}


def _forked(path: Path, order: str, at: int, *, named: bool) -> list[str]:
    """The tools that a branch is sent which leaves its parent's history behind the `at`-th reply: the parent has a
    tool more, and the same system prompt."""
    one = Driver(path, policy=FREEZES, arranges=True)
    parent = Talk("You plan. " + prose(1500), [*LETTERS, TASK], [user("Go.")])
    branch: Talk | None = None
    sent = []
    with one.accel.session("s", agent="x") if named else nullcontext():
        for turn, who in enumerate(order):
            if who == "S" and branch is None:
                begun = [*parent.messages[: 2 * at], user("You test.")]
                branch = Talk(parent.system, LETTERS, begun)
            talk = parent if branch is None or who == "P" else branch
            one.ask(talk.request())
            talk.answered(40, turn)
            if talk is branch:
                sent.append("".join(_names(one.sent["tools"])))
    one.accel.close()
    return sent


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("order", "at"), [("PPPPPSSPPSS", 2), ("PPSPSPS", 1), ("PSPSPS", 0)])
def test_a_branch_is_not_sent_what_its_parent_has(tmp_path: Path, order: str, at: int, named: bool) -> None:
    assert set(_forked(tmp_path, order, at, named=named)) == {"abcdefg"}


@pytest.mark.parametrize("named", [True, False])
def test_a_branch_from_the_end_is_one_once_its_parent_has_gone_on(tmp_path: Path, named: bool) -> None:
    """Until then it looks like the parent itself, whose author has taken a tool from it."""
    assert _forked(tmp_path, "PPPSPSPS", 3, named=named) == ["abcdefgtask", "abcdefg", "abcdefg"]


def test_without_the_guard_a_branch_is_sent_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(arranging, "_goes_on_from", lambda prompt, memory: True)
    assert "abcdefgtask" in _forked(tmp_path, "PPSPSPS", 1, named=True)


def test_a_tool_that_went_is_kept_within_one_conversation_under_a_shared_name(tmp_path: Path) -> None:
    """The guard is no reason to keep nothing: what one's own list had stays, while others take turns."""
    one = Driver(tmp_path, policy=FREEZES, arranges=True)
    main = Talk(prose(1500), [*LETTERS, tool("task")], [user("Go.")])
    other = Talk(prose(1000, 3), [tool("plan")], [user("Plan.")])
    with one.accel.session("s"):
        for turn in range(6):
            talk = other if turn % 2 else main
            if turn == 4:
                main.tools = LETTERS
            one.ask(talk.request())
            talk.answered(30, turn)
            if turn == 4:
                assert _names(one.sent["tools"]) == [*"abcdefg", "task"]


# --- calls of one message each ----------------------------------------------------------------------------------------


def _one_by_one(path: Path, *, consents: bool) -> tuple[Driver, list[str]]:
    """Eight calls under one name, each of one message, below instructions that begin with an id; and the plans' words
    of the second."""
    one = Driver(path, policy=Policy(strict=True, cache=CachePolicy(move_volatile=consents)), arranges=True)
    told: list[str] = []
    with one.accel.session("tickets", agent="classifier"):
        for number in range(8):
            system = f"x-request-id: {number * 7919:012x}\n" + prose(2000).replace(" ticket", "\nticket")
            one.ask(body(user(f"Classify ticket {number}, please. " * 20), system=system))
            one.clock.advance(20)
    told += one.records[1].reasons
    return one, told


def test_text_that_changes_from_call_to_call_is_moved_where_no_call_goes_on_from_another(tmp_path: Path) -> None:
    one, _ = _one_by_one(tmp_path, consents=True)
    assert [record.thread == "" for record in one.records] == [True] + [False] * 7
    assert [record.consents for record in one.records[2:]] == [("move_volatile",)] * 6


def test_without_consent_the_plan_says_what_consent_would_do(tmp_path: Path) -> None:
    _, told = _one_by_one(tmp_path, consents=False)
    assert any("move_volatile=True) consents to moving" in one for one in told)


def test_as_texts_of_strangers_they_would_never_be_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(threads, "_is_same_text", lambda one, static: False)
    one, _ = _one_by_one(tmp_path, consents=True)
    assert not any(record.consents for record in one.records)


# --- what each costs --------------------------------------------------------------------------------------------------


def _parent_and_three(one: Driver, *, named: bool, again: Callable[[Driver], Driver] = lambda one: one) -> float:
    """One parent, three sub-agents of nine steps each, in turns; what it is billed in all."""
    talks = [
        Talk("You plan. " + prose(600), [tool("search"), tool("task")], [user(prose(50))]),
        *(Talk(f"You do part {i}. " + prose(250, i), [tool("search")], [user(prose(50, i))]) for i in range(1, 4)),
    ]
    billed = 0.0
    for step, who in enumerate([0, *[1, 2, 3] * 9, 0, 0]):
        one = again(one)
        with one.accel.session("graph", agent="x") if named else nullcontext():
            billed += _billed(one.ask(talks[who].request(), calls="search"))
        talks[who].answered(90, step)
    return billed


@pytest.mark.slow
def test_sub_agents_in_turns_cost_no_more_under_one_name_than_under_none(tmp_path: Path) -> None:
    """A name must never make it worse; and what each misses is the beginning of its first request alone."""
    named, unnamed = Driver(tmp_path / "named"), Driver(tmp_path / "unnamed")
    assert _parent_and_three(named, named=True) <= _parent_and_three(unnamed, named=False)
    assert {record.session for record in named.records} == {"graph"}
    assert len({record.thread for record in named.records}) == 4
    causes = Counter(miss.cause for record in named.records for miss in record.misses)
    assert causes == {Cause.FIRST: 4}
    assert [record.drift for record in named.records] == [None] * 30


@pytest.mark.slow
def test_as_one_conversation_they_would_cost_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    unnamed = _parent_and_three(Driver(tmp_path / "unnamed"), named=False)
    _all_in_one(monkeypatch)
    one = Driver(tmp_path / "named")
    assert _parent_and_three(one, named=True) > unnamed
    assert any(miss.cause is Cause.CHANGED for record in one.records for miss in record.misses)


@pytest.mark.slow
def test_another_process_finds_each_of_them_again(tmp_path: Path) -> None:
    """Each request in a process of its own: nothing but the trace store tells them apart, and they cost the same."""
    one = Driver(tmp_path / "one")
    billed = _parent_and_three(one, named=True)
    first = Driver(tmp_path / "many")

    def again(before: Driver) -> Driver:
        before.accel.close()
        return Driver(tmp_path / "many", clock=before.clock, emulator=before.emulator)

    assert _parent_and_three(first, named=True, again=again) == billed
    assert len({record.thread for record in first.records}) == 4


def test_samples_of_one_first_request_go_on_each_for_itself(tmp_path: Path) -> None:
    """The same request three times, another reply each, and each is gone on from: no history was edited."""
    one = Driver(tmp_path)
    with one.accel.session("s"):
        for _ in range(3):
            one.ask(body(user("Draw a lamp."), system=prose(1500)))
        for turn in (1, 2):
            for sample in range(3):
                said = [user("Draw a lamp.")]
                for step in range(turn):
                    said += [assistant(f"Lamp {sample}.{step}"), user("Another.")]
                one.ask(body(*said, system=prose(1500)))
    assert not [miss for record in one.records for miss in record.misses if miss.cause is Cause.CHANGED]


# --- calls on the side ------------------------------------------------------------------------------------------------


def _desk(one: Driver, side: Callable[[], object], *, tools: bool = True, at: int = 5) -> None:
    """A loop of five requests, with a call on the side before its request with index `at`."""
    messages = [user(prose(60))]
    for turn in range(6):
        if turn == at:
            side()
        if turn < 5:
            listed = {"tools": [tool("search"), tool("book")]} if tools else {}
            one.ask(body(*messages, system=prose(900), **listed), calls="search" if turn < 4 else "")
            messages += [assistant(prose(30, turn)), user(prose(80, turn))]


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@pytest.mark.parametrize("at", [0, 3, 5], ids=["first", "between", "last"])
def test_a_call_that_nothing_follows_is_soon_not_written(at: int, tools: bool, tmp_path: Path) -> None:
    """A summary of one message, without tools or a system prompt: written once at most, because writing costs a quarter
    more than the input itself and nobody reads it. As it is where no session is named."""
    one = Driver(tmp_path)
    written = list[int]()
    for number in range(4):
        with one.accel.session(f"s{number}", agent="desk"):
            asked = body(user(prose(2500, number)))
            _desk(one, lambda asked=asked: written.append(one.ask(asked).written or 0), tools=tools, at=at)
        one.clock.advance(4000)
    assert written[1:] == [0, 0, 0]


SIDES = [
    pytest.param(lambda one: nullcontext(), {"system": "You write titles."}, id="another agent"),
    pytest.param(lambda one: nullcontext(), {"system": prose(900), "tools": [tool("search")]}, id="another task"),
    pytest.param(lambda one: one.accel.bypass(), {"system": prose(900)}, id="bypassed"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("around", "asked"), SIDES)
def test_a_call_on_the_side_is_no_edited_history(around: Any, asked: Json, tmp_path: Path) -> None:
    """And nobody who never summarises is told to do so less often."""
    one = Driver(tmp_path)
    for number in range(3):
        with one.accel.session(f"s{number}", agent="desk"):

            def side() -> None:
                with around(one):
                    one.ask(body(user("Say in five words what this was about."), **asked))

            _desk(one, side)
        one.clock.advance(4000)
    assert not [miss for record in one.records for miss in record.misses if miss.cause is Cause.CHANGED]
    assert not [record.drift for record in one.records if record.drift is not None]
    with open_reader(one.store) as store:
        assert "summaries" not in {advice.kind for advice in advise(talks_of_store(store))}


# --- one conversation in another form ---------------------------------------------------------------------------------


def _rewritten(one: Driver, last: Callable[[list[Json]], list[Json]], *, reply: int = 400) -> None:
    """Six requests, and one with the history that `last` makes of theirs; the sixth reply has `reply` words."""
    messages = [user(prose(300))]
    with one.accel.session("s", agent="x"):
        for turn in range(6):
            one.ask(body(*messages, system=prose(900), tools=[tool("search")], max_tokens=reply))
            messages += [assistant(prose(150, turn)), user(prose(200, turn))]
        one.ask(body(*last(messages), system=prose(900), tools=[tool("search")]))


def test_a_history_whose_beginning_was_summed_up_is_the_same_conversation(tmp_path: Path) -> None:
    """Its end is still there."""
    one = Driver(tmp_path)
    _rewritten(one, lambda old: [user("Summary: " + prose(60)), *old[-5:]])
    assert {record.thread for record in one.records} == {""}
    assert [miss.cause for miss in one.records[-1].misses] == [Cause.CHANGED]


def test_a_history_whose_first_messages_were_dropped_is_the_same_conversation(tmp_path: Path) -> None:
    one = Driver(tmp_path)
    _rewritten(one, lambda old: old[4:])
    assert {record.thread for record in one.records} == {""}


def test_a_reminder_at_the_end_of_each_request_makes_no_other_conversation(tmp_path: Path) -> None:
    """The next request does not have it, so the first message is another one from the second request on."""
    one, messages = Driver(tmp_path), [user([{"type": "text", "text": prose(300)}])]
    with one.accel.session("s"):
        for turn in range(4):
            *before, last = messages
            one.ask(
                body(*before, user([*last["content"], {"type": "text", "text": f"Todo {turn}"}]), system=prose(900))
            )
            messages += [assistant(prose(30, turn)), user([{"type": "text", "text": prose(60, turn)}])]
    assert {record.thread for record in one.records} == {""}


def test_a_summary_as_long_as_the_last_reply_goes_on_from_it(tmp_path: Path) -> None:
    """Nothing of the history is left, but the same agent goes on with what it has just said, and with less."""
    one = Driver(tmp_path)
    messages = [user(prose(900))]
    with one.accel.session("s", agent="x"):
        for turn in range(4):
            one.ask(body(*messages, system=prose(900), tools=[tool("search")]))
            messages += [assistant(prose(150, turn)), user(prose(400, turn))]
        replied = one.accel.session("s").conversation.state.replied
        assert replied
        one.ask(body(user("w " * replied), system=prose(900), tools=[tool("search")]))
        one.ask(body(user(prose(600, 5)), system=prose(900), tools=[tool("search")]))
    assert [record.thread == "" for record in one.records] == [True] * 5 + [False]


def test_looking_at_a_plan_begins_no_conversation(tmp_path: Path) -> None:
    one = Driver(tmp_path)
    with one.accel.session("s") as session:
        one.ask(body(user("Go."), system=prose(900)))
        one.accel.plan(body(user("Something else."), system=prose(900)))
        assert session.conversation.others == []


def test_a_first_request_that_failed_leaves_no_conversation_behind(tmp_path: Path) -> None:
    """The next one begins in its place, under the name itself."""
    one = Driver(tmp_path)
    with one.accel.session("s"):
        failed = one.accel.turn(body(user("Go."), system=prose(900)))
        failed.handle(Started(one.clock.monotonic()))
        failed.handle(Failed(at=one.clock.monotonic(), status=529, error="OverloadedError"))
        one.ask(body(user("Go on."), system=prose(900)))
    assert [record.thread for record in one.records] == ["", ""]


def test_two_calls_over_the_same_documents_are_no_history_in_another_form(tmp_path: Path) -> None:
    """What both begin with says nothing: many calls do. By hand: three requests of one conversation, and another."""
    one, documents = Driver(tmp_path), [{"type": "text", "text": prose(90, seed)} for seed in range(4)]
    messages = [user([*documents, {"type": "text", "text": "Which is the oldest?"}])]
    with one.accel.session("s"):
        for turn in range(3):
            one.ask(body(*messages, system=prose(900)))
            messages += [assistant(prose(30, turn)), user(prose(60, turn))]
        one.ask(body(user([*documents, {"type": "text", "text": "Which is the longest?"}]), system=prose(900)))
    assert [record.thread == "" for record in one.records] == [True] * 3 + [False]


# --- many conversations under one name --------------------------------------------------------------------------------


def _digested(path: Path, others: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Segments that are looked at to sort in each of four calls of one message, beside `others` of 41 messages."""
    one, seen = Driver(path), list[str]()
    with one.accel.session("s"):
        for number in range(others):
            messages = [user(f"Go {number}.")]
            for turn in range(20):
                messages += [assistant(f"ok {number} {turn}"), user(f"next {number} {turn}")]
            one.ask(body(*messages, system=prose(300)))
        counts = list[int]()
        with monkeypatch.context() as patched:
            patched.setattr(threads, "digest_of", lambda segment: (seen.append(segment.level), segment.digest)[1])
            for number in range(4):
                one.ask(body(user(f"Alone {number}."), system=prose(300)))
                counts.append(len(seen) - sum(counts))
    assert len({record.thread for record in one.records}) == others + 4
    return counts


def test_to_begin_another_looks_at_no_text_of_the_others_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: the others were looked at as each began, all but the last; so the first call looks at its 41 messages,
    where the second looks at the one of the first call. How many others there are makes no difference."""
    few, many = (_digested(tmp_path / str(others), others, monkeypatch) for others in (3, 10))
    assert few == many
    assert few[0] - few[1] == 41 - 1
    assert few[1] == few[2] == few[3] < 10


def test_without_keeping_them_each_text_would_be_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    anew = lambda one, head: frozenset(map(threads.digest_of, head.segments[head.starts[2] :]))  # noqa: E731
    monkeypatch.setattr(threads, "_texts", anew)
    assert min(_digested(tmp_path, 10, monkeypatch)) > 10 * 41


def test_without_the_place_where_they_part_the_documents_would_be_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of what both begin with."""
    monkeypatch.setattr(threads, "_is_kept", lambda head, told: True)
    with pytest.raises(AssertionError):
        test_two_calls_over_the_same_documents_are_no_history_in_another_form(tmp_path)
