"""A decision stands in a loop that only goes on, half as long as it took to come to it; for none that shows more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel import CachePolicy, Policy, Usage
from agentaccel.cache import planner as deciding
from agentaccel.cache.beliefs import Beliefs, Observation, followed_at_topic
from agentaccel.cache.ledger import Ledger
from agentaccel.cache.observe import ONLY_GREW, Observed
from agentaccel.cache.pauses import short_after_topic
from agentaccel.cache.prefix import prefixes
from agentaccel.cache.standing import STANDS, asked_of, dump_standing, ends_of, is_quiet, load_standing
from agentaccel.cache.state import SessionState
from agentaccel.engine.conversation import Conversation
from agentaccel.facts import cache_facts
from agentaccel.replay.compare import cost_of
from agentaccel.store.states import dump_state, load_state
from agentaccel.testing import ManualClock
from agentaccel.testing.inside import conversations
from agentaccel.wire.anthropic import decode
from agentaccel_emulator import Emulator
from tests.driver import MODEL, Driver, Json, assistant, body, prose, tool, user

SYSTEM, TOOLS = prose(900), [tool("search", 400), tool("book", 300)]
MARK = {"type": "ephemeral"}
READY = 24
"""Requests after which a decision stands for several more."""


def turn(number: int, words: int = 60, results: int = 1) -> list[Json]:
    """A reply that calls the tool, and what comes back."""
    calls = [{"type": "tool_use", "id": f"t{number}-{i}", "name": "search", "input": {}} for i in range(results)]
    answers = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": prose(words, number)}]}
        for call in calls
    ]
    return [assistant([{"type": "text", "text": prose(12, number)}, *calls]), user(answers)]


class Loop:
    """A conversation under way."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.driver = Driver(folder, **more)
        self.messages = [user(prose(40))]
        self.system: Any = SYSTEM
        self.tools = TOOLS
        self.more: Json = {}

    def request(self) -> Json:
        return body(*self.messages, system=self.system, tools=self.tools, **self.more)

    def go(self, turns: int) -> Loop:
        for _ in range(turns):
            self.ask()
            self.messages = [*self.messages, *turn(len(self.messages))]
        return self

    def ask(self, gap: float = 5.0) -> Usage:
        return self.driver.ask(self.request(), gap=gap, calls="search")

    @property
    def stands(self) -> bool:
        """Whether the next request is sent as decided before."""
        return STANDS in self.driver.accel.plan(self.request()).reasons

    @property
    def conversation(self) -> Conversation:
        (conversation,) = conversations(self.driver.accel)
        return conversation

    @property
    def state(self) -> SessionState:
        return self.conversation.state


def before_the_last(loop: Loop) -> Loop:
    """Such that a decision was taken for the last request, and stands for the next ones."""
    loop.go(READY)
    while loop.state.standing is None or loop.state.standing.answered != loop.state.turns - 1:
        loop.go(1)
    assert loop.stands
    return loop


def paid(loop: Loop) -> float:
    """The input side of all its bills in uncached tokens."""
    facts, usages = cache_facts(MODEL), [one.usage for one in loop.driver.records]
    assert facts is not None
    return sum(cost_of(usage, facts) for usage in usages)


@pytest.mark.slow
def test_a_decision_stands_for_half_as_many_requests_as_there_had_been(tmp_path: Path) -> None:
    loop, decided = Loop(tmp_path), list[int]()
    for number in range(41):
        if not loop.stands:
            decided.append(number)
        loop.go(1)
        assert number >= 2 or loop.state.standing is None
    assert decided == [0, 1, 2, 4, 7, 11, 17, 26, 40]
    assert {mark.ttl for one in loop.driver.records for mark in one.markers} == {"5m"}


@pytest.mark.slow
def test_a_loop_is_billed_as_if_each_request_were_decided_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each expectation is the bill."""
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    loop = Loop(tmp_path / "one").go(40)
    assert any(STANDS in one.reasons for one in loop.driver.records)
    monkeypatch.setattr(deciding, "is_quiet", lambda *_: False)
    anew = Loop(tmp_path / "other").go(40)
    assert not any(STANDS in one.reasons for one in anew.driver.records)
    for one, other in zip(loop.driver.records, anew.driver.records, strict=True):
        assert [mark.path for mark in one.markers] == [mark.path for mark in other.markers]
        assert one.expected is not None
        assert (one.expected.read, one.expected.total) == (one.usage.read, one.usage.input)
    assert not any(one.misses for one in loop.driver.records[1:])
    # When the longer life is bought may differ by a request or two.
    assert paid(loop) == pytest.approx(paid(anew), rel=0.002)


LATE = [8] * 50 + [400, 8, 8, 400, 8, 400, 400, 8, 8, 8, 400, 8, 400, 8, 8, 400, 8, 8, 400, 8]
"""Pauses of a session in seconds, none of which outlasts a lifetime until late."""


@pytest.mark.slow
def test_sessions_that_pause_late_are_billed_as_if_each_request_were_decided_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a longer lifetime is worth anything, when it is bought is decided with each request."""

    def costs(folder: Path) -> float:
        folder.mkdir()
        first = Loop(folder)
        for number in range(3):
            loop = first if number == 0 else Loop(folder, clock=first.driver.clock, emulator=first.driver.emulator)
            for pause in LATE:
                loop.ask(pause)
                size = 900 if len(loop.messages) % 14 == 1 else 30
                loop.messages = [*loop.messages, *turn(len(loop.messages) + 1000 * number, words=size)]
            loop.driver.accel.close()
        return paid(first)

    standing = costs(tmp_path / "one")
    monkeypatch.setattr(deciding, "is_quiet", lambda *_: False)
    assert standing <= 1.002 * costs(tmp_path / "other")


@pytest.mark.slow
@pytest.mark.parametrize("again", ["the same", "more of it"])
def test_what_is_held_of_the_very_request_is_expected(again: str, tmp_path: Path) -> None:
    """A request that is sent once more, or goes on within its last message, reads what it wrote."""
    loop = before_the_last(Loop(tmp_path))
    loop.ask()
    if again != "the same":
        (result,) = loop.messages[-1]["content"]
        loop.messages[-1] = user([result, {"type": "text", "text": "and now go on"}])
    expected = loop.driver.accel.plan(loop.request()).expected
    usage = loop.ask()
    assert expected is not None
    assert round(expected.read) == usage.read


def test_a_decision_in_another_form_does_not_stand(tmp_path: Path) -> None:
    standing = before_the_last(Loop(tmp_path)).state.standing
    assert standing is not None
    assert load_standing(dump_standing(standing)) == standing
    assert load_standing([*dump_standing(standing), "of a newer version"]) is None
    _, *first_form = dump_standing(standing)  # it had no number, and our own markers alone
    assert load_standing(first_form) is None
    assert load_standing([1, *first_form]) is None


def test_what_another_process_takes_up_stands_there_too(tmp_path: Path) -> None:
    """And what a retry plans is what was planned."""
    clock = ManualClock()
    emulator = Emulator(clock=clock)
    loop = before_the_last(Loop(tmp_path, clock=clock, emulator=emulator))
    assert load_state(dump_state(loop.state)) == loop.state
    there = Driver(tmp_path, clock=clock, emulator=emulator)
    there.ask(loop.request())
    (record,) = there.records[-1:]
    assert STANDS in record.reasons
    assert record.expected == record.usage or not record.misses


def _bare(block: Json) -> Json:
    return {name: value for name, value in block.items() if name != "cache_control"}


def paused(loop: Loop) -> None:
    loop.driver.clock.advance(70.0)


def grown(loop: Loop) -> None:
    loop.messages[-1] = turn(len(loop.messages), words=300)[-1]
    loop.messages[-1]["content"][0]["tool_use_id"] = loop.messages[-2]["content"][-1]["id"]


def edited(loop: Loop) -> None:
    loop.messages = [user(prose(41)), *loop.messages[1:]]


def rewound(loop: Loop) -> None:
    loop.messages = [*loop.messages[:-4], *turn(99)]


def instructed(loop: Loop) -> None:
    loop.system = SYSTEM + " Be brief."


def equipped(loop: Loop) -> None:
    loop.tools = [*TOOLS, tool("cancel", 40)]


def marked(loop: Loop) -> None:
    loop.messages = [{**one, "content": [_bare(block) for block in one["content"]]} for one in loop.messages[1:]]
    loop.messages = [user(prose(40)), *loop.messages]
    loop.messages[-1] = user([{**loop.messages[-1]["content"][0], "cache_control": MARK}])


def marked_in_front(loop: Loop) -> None:
    loop.system = [{"type": "text", "text": SYSTEM, "cache_control": MARK}]


def far(loop: Loop) -> None:
    """More blocks than the provider looks back over, and more bytes than usual."""
    loop.messages = [*loop.messages[:-2], *turn(10_000 + len(loop.messages), words=2, results=24)]


def forgotten(loop: Loop) -> None:
    """The provider has lost what it held, which the last reply told."""
    loop.driver.emulator.reset()
    loop.go(1)


def expired(loop: Loop) -> None:
    """What the last request wrote is not believed to be held any more."""
    entries = {hash_: one._replace(expires=0.0) for hash_, one in loop.state.ledger.entries.items()}
    loop.conversation.state = replace(loop.state, ledger=Ledger(entries))


def away(loop: Loop) -> None:
    """For longer than the shortest lifetime."""
    loop.driver.clock.advance(400.0)


SHOWN = (expired, paused, grown, edited, rewound, instructed, equipped, marked, marked_in_front, far, forgotten)


@pytest.mark.slow
@pytest.mark.parametrize("shown", SHOWN)
def test_what_shows_something_is_decided_anew(shown: Callable[[Loop], None], tmp_path: Path) -> None:
    loop = before_the_last(Loop(tmp_path))
    shown(loop)
    assert not loop.stands
    loop.go(1)  # legal, and billed as the emulator bills it


def test_a_person_after_tools_is_decided_anew(tmp_path: Path) -> None:
    loop = before_the_last(Loop(tmp_path))
    loop.conversation.state = replace(loop.state, awaits="user")
    assert not loop.stands


def test_places_where_sessions_end_or_pause_are_decided_anew(tmp_path: Path) -> None:
    loop = before_the_last(Loop(tmp_path))
    here = loop.state.turns
    for topic in (followed_at_topic(here), short_after_topic(here)):
        for yes, stands in ((5.0, True), (3.0, False)):
            loop.conversation.snapshot = Beliefs().after([Observation(topic or "", yes, 5.0)])
            assert loop.stands is stands, topic


def test_what_an_edit_brought_with_it_does_not_stand(tmp_path: Path) -> None:
    """A marker goes where an edit ended, once."""
    loop = Loop(tmp_path)
    loop.tools, loop.system = [], None  # so that there is room for every place
    loop.go(READY)
    loop.messages[20] = user([{**loop.messages[20]["content"][0], "content": "shorter"}])
    loop.go(1)
    assert any(mark.path[1:2] == (20,) for mark in loop.driver.records[-1].markers)
    assert loop.state.standing is None


def test_where_the_user_leaves_no_room_nothing_stands(tmp_path: Path) -> None:
    """What was left out would have to be weighed anew as it moves."""
    loop = Loop(tmp_path).go(1)
    loop.tools = [{**one, "cache_control": MARK} for one in TOOLS]
    loop.system = [{"type": "text", "text": SYSTEM, "cache_control": MARK}]
    for _ in range(READY):
        marked(loop)
        assert not loop.stands
        loop.go(1)


def test_beside_a_marker_of_the_users_at_the_top_level_nothing_stands(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.more = {"cache_control": MARK}
    for _ in range(READY):
        assert not loop.stands
        loop.go(1)


def test_before_a_pause_was_seen_nothing_is_quiet() -> None:
    observed = Observed(ONLY_GREW, {}, 0, True, pause=(Observation("pause/any/60", 1.0),))
    assert is_quiet(SessionState(), observed, Beliefs())
    assert not is_quiet(SessionState(), observed._replace(in_time=None, pause=()), Beliefs())


UNLIKE: list[Json] = [
    {"ephemeral": 1},
    {"edited": 4},
    {"arranged": frozenset({"system"})},
    {"ttl": "1h"},
    {"implicit": True},
    {"held": "message thread"},
    {"illegal": ("it has no end",)},
]


@pytest.mark.parametrize("unlike", UNLIKE, ids=lambda one: next(iter(one)))
def test_a_request_of_another_kind_is_decided_on_each_time(unlike: Json) -> None:
    facts = cache_facts(MODEL)
    assert facts is not None
    prompt = decode(body(user(prose(40)), *turn(1), *turn(2), system=SYSTEM), facts)
    prefix = prefixes(prompt, facts)
    ends = ends_of(prefix)
    assert asked_of(prefix, SessionState(), ends, "auto", False) is not None
    assert asked_of(replace(prefix, prompt=replace(prompt, **unlike)), SessionState(), ends, "auto", False) is None
    assert asked_of(replace(prefix, dropped=frozenset({2})), SessionState(), ends, "auto", False) is None


def test_a_first_request_has_no_two_ends() -> None:
    facts = cache_facts(MODEL)
    assert facts is not None
    prompt = decode(body(user([{"type": "text", "text": prose(40), "cache_control": MARK}]), system=SYSTEM), facts)
    prefix = prefixes(prompt, facts)
    assert ends_of(prefix) is None
    assert asked_of(prefix, SessionState(), ends_of(prefix), "auto", False) is None


def test_what_is_consented_to_is_part_of_what_is_asked() -> None:
    facts = cache_facts(MODEL)
    assert facts is not None
    prefix = prefixes(decode(body(user(prose(40)), *turn(1)), facts), facts)
    assert (
        len(
            {
                asked_of(prefix, SessionState(), ends_of(prefix), ttl, keeps)
                for ttl in ("auto", "1h")
                for keeps in (False, True)
            }
        )
        == 4
    )


@pytest.mark.slow
def test_a_users_own_marker_may_move_with_the_end(tmp_path: Path) -> None:
    loop, stood = Loop(tmp_path), 0
    for number in range(40):
        loop.go(1)
        marked(loop)
        stood += loop.stands and number > 0
    assert stood > 20
    assert [len(one.markers) for one in loop.driver.records[1:]] == [4] * 39
    assert not any(one.misses for one in loop.driver.records[1:])


def test_another_lifetime_or_the_consent_to_keep_alive_is_decided_anew(tmp_path: Path) -> None:
    loop = before_the_last(Loop(tmp_path))
    other = Policy(strict=True, cache=CachePolicy(ttl="1h"))
    there = Driver(tmp_path, clock=loop.driver.clock, emulator=loop.driver.emulator, policy=other)
    there.ask(loop.request())
    assert STANDS not in there.records[-1].reasons


Act = Callable[[Loop], None]
ACTS = st.lists(
    st.sampled_from([None] * 8 + [paused, away, grown, marked, far, marked_in_front]), min_size=30, max_size=40
)


@pytest.mark.slow
@pytest.mark.parametrize("examples", [3, pytest.param(150, marks=pytest.mark.soak)])
def test_whatever_a_loop_does_its_requests_are_legal_and_cost_no_more(
    examples: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Pauses, bursts, markers of the user's that come, move and go. The driver fails on anything but 200."""

    @settings(max_examples=examples, deadline=None)
    @given(acts=ACTS)
    def stands(acts: list[Act | None]) -> None:
        anew, again = (_paid_for(acts, tmp_path_factory.mktemp("loop"), stands=one) for one in (False, True))
        assert again <= 1.005 * anew

    stands()


def _paid_for(acts: list[Act | None], folder: Path, *, stands: bool) -> float:
    with pytest.MonkeyPatch.context() as patch:
        if not stands:
            patch.setattr(deciding, "is_quiet", lambda *_: False)
        loop = Loop(folder).go(6)
        for act in acts:
            if act is not None:
                act(loop)
            loop.go(1)
        loop.driver.accel.close()
        return paid(loop)
