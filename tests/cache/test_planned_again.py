"""The same request is decided on once, until something else is known: it is given what would be decided then."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel import CachePlan, CachePolicy, Policy
from agentaccel.cache.ledger import Ledger
from agentaccel.cache.planner import Latest
from agentaccel.testing.inside import conversations, engine
from tests.driver import Driver, Json, assistant, body, prose, tool, user

CLOCK = "It is {:02}:{:02}."
SYSTEM, TOOLS = prose(1500), [tool("search", 300)]
STEP = st.one_of(
    st.sampled_from(["look", "look", "ask", "edit", "clock"]),
    st.sampled_from([1.0, 61.0, 299.0, 301.0, 400.0, 3601.0]),
)


class Talk:
    """A conversation under way in a session, whose plans are looked at."""

    def __init__(self, folder: Path, **cache: Any) -> None:
        self.driver = Driver(folder, policy=Policy(strict=True, cache=CachePolicy(**cache)))
        self.messages: list[Json] = [user(prose(40))]
        self.minute = 0

    def request(self) -> Json:
        clock = {"type": "text", "text": CLOCK.format(self.minute // 60, self.minute % 60)}
        return body(*self.messages, system=[{"type": "text", "text": SYSTEM}, clock], tools=TOOLS)

    def look(self) -> CachePlan:
        """The plan for the next request, which has to be what is decided where nothing is remembered."""
        accel, request = self.driver.accel, self.request()
        plan = accel.plan(request)
        assert accel.plan(self.request()) == plan
        for known in [*conversations(accel), engine(accel)._nobody]:
            known.latest = None
        assert accel.plan(request) == plan
        return plan

    def walk(self, *steps: str | float) -> None:
        for step in steps:
            self.look()
            self.go(step)
        self.look()

    def go(self, step: str | float) -> None:
        if isinstance(step, float):
            self.driver.clock.advance(step)
        elif step == "look":
            self.look()
        elif step == "clock":
            self.minute += 1
        elif step == "edit":
            self.messages = [user(prose(40, len(self.messages))), *self.messages[1:]]
        else:
            self.driver.ask(self.request(), gap=0.0)
            number = len(self.messages)
            self.messages = [*self.messages, assistant(prose(20, number)), user(prose(60, number))]


@pytest.mark.slow
@given(steps=st.lists(STEP, max_size=14))
@settings(deadline=None)
def test_what_is_given_again_is_what_would_be_decided(steps: list[str | float], tmp_path_factory: Any) -> None:
    talk = Talk(tmp_path_factory.mktemp("talk"))
    talk.walk(*steps)
    talk.driver.accel.close()


def dying(talk: Talk) -> tuple[CachePlan, CachePlan]:
    """What is planned before and after what is held dies, which nothing else shows."""
    talk.go("ask")
    (conversation,) = conversations(talk.driver.accel)
    state, soon = conversation.state, talk.driver.clock.wall() + 10.0
    entries = {hash_: entry._replace(expires=soon) for hash_, entry in state.ledger.entries.items()}
    conversation.state = replace(state, ledger=Ledger(entries))
    before = talk.driver.accel.plan(talk.request())
    talk.driver.clock.advance(11.0)
    return before, talk.driver.accel.plan(talk.request())


def test_what_has_died_meanwhile_is_not_counted_on(tmp_path: Path) -> None:
    before, after = dying(Talk(tmp_path))
    assert before.expected is not None
    assert after.expected is not None
    assert before.expected.read > 0 == after.expected.read


def test_without_looking_at_what_dies_it_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(Latest, "holds", lambda self, given, now: given == self.given)
    before, after = dying(Talk(tmp_path))
    assert before == after


def test_without_looking_at_what_was_learned_it_would_be_out_of_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the walk."""
    monkeypatch.setattr(Latest, "holds", lambda self, given, now: given[2] is self.given[2])
    talk = Talk(tmp_path)
    with pytest.raises(AssertionError):
        talk.walk("ask", "look", 400.0, "ask", 400.0, "ask", 400.0)


def test_a_retry_gets_the_very_plan_of_the_request_before(tmp_path: Path) -> None:
    """And so does what is sent after a look at its plan: nothing is weighed twice."""
    talk = Talk(tmp_path)
    talk.go("ask")
    accel = talk.driver.accel
    looked, first, retried = accel.plan(talk.request()), accel.turn(talk.request()), accel.turn(talk.request())
    assert looked.markers
    assert looked.markers is first.plan.markers is retried.plan.markers


def test_another_form_of_the_same_prompt_has_markers_in_places_of_its_own(tmp_path: Path) -> None:
    """A string and the block that it stands for are one prompt, and two requests."""
    accel = Talk(tmp_path).driver.accel
    as_text, as_block = (
        body(user(prose(40)), system=system) for system in (SYSTEM, [{"type": "text", "text": SYSTEM}])
    )
    for request in (as_text, as_block, as_text):
        sent = accel.plan(request).apply(request)
        assert "cache_control" in sent["system"][0]


def test_nothing_is_remembered_once_a_request_was_answered(tmp_path: Path) -> None:
    """The prompt would be kept for nothing."""
    talk = Talk(tmp_path)
    talk.look()
    talk.go("ask")
    (conversation,) = conversations(talk.driver.accel)
    assert conversation.latest is None


def test_a_session_that_was_left_keeps_no_prompt(tmp_path: Path) -> None:
    """A plan that was looked at and never sent holds a whole one."""
    driver = Driver(tmp_path)
    with driver.accel.session("looked at") as session:
        driver.accel.plan(body(user(prose(40)), system=SYSTEM, tools=TOOLS))
        assert session.conversation.latest is not None
    assert session.conversation.latest is None


def test_the_name_of_a_model_may_be_a_member_of_an_enumeration(tmp_path: Path) -> None:
    """As encoders write it, so are its facts looked up."""
    driver = Driver(tmp_path)

    class Model(str, Enum):  # noqa: UP042 - as before Python 3.11
        SONNET = "claude-sonnet-5"

    request = {**body(user(prose(40)), system=SYSTEM, tools=TOOLS), "model": Model.SONNET}
    assert driver.accel.plan(request).markers == driver.accel.plan({**request, "model": "claude-sonnet-5"}).markers
    assert driver.accel.plan(request).markers
