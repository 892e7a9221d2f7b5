"""What sessions have in common in front of their own part: a document, examples, instructions with a profile behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel import Accel, Policy, StorePolicy, Usage
from agentaccel.cache import expectation as scene
from agentaccel.cache import sharing as beginnings
from agentaccel.cache.beliefs import SHARED, SHARED_OPENING
from agentaccel.cache.prefix import prefixes
from agentaccel.cache.sharing import beginning_ends
from agentaccel.facts import cache_facts
from agentaccel.turn import Started, Wait
from agentaccel.wire.anthropic import decode
from tests.driver import MODEL, Driver, Json, assistant, body, prose, tool, user

DOCUMENT = prose(6_000)
FORMS = ("a block", "a message", "examples")


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def first_messages(form: str, document: str, question: str) -> list[Json]:
    """The same in front of each question."""
    if form == "a block":
        return [user([_said(document), _said(question)])]
    if form == "a message":
        return [user(document), assistant("I have read it."), user(question)]
    return [*(one for i in range(4) for one in (user(document[i::4]), assistant(f"Answer {i}."))), user(question)]


def _said(text: str, **more: Any) -> Json:
    return {"type": "text", "text": text, **more}


def cost(usages: list[Usage]) -> float:
    """In uncached tokens."""
    return sum((one.uncached or 0) + 0.1 * (one.read or 0) + 1.25 * (one.written or 0) for one in usages)


def ask(driver: Driver, number: int, messages: list[Json], turns: int = 1, **fixed: Any) -> list[Usage]:
    """Session `number`, a minute after the one before."""
    usages = []
    with driver.accel.session(f"session {number}", agent="reader"):
        for turn in range(turns):
            usages.append(driver.ask(body(*messages, **fixed), gap=20))
            messages = [*messages, assistant(prose(30, turn)), user(prose(25, number + turn))]
    driver.clock.advance(60)
    return usages


@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_what_stands_before_each_question_is_written_once(driver: Driver, form: str, turns: int) -> None:
    """Also where each session is one question, whose own end nobody reads again."""
    sessions = [
        ask(driver, n, first_messages(form, DOCUMENT, f"Question {n}?"), turns, system="Be brief.") for n in range(6)
    ]
    written = [sum(one.written or 0 for one in usages) for usages in sessions]
    assert written[0] > 9_000
    assert max(written[1:]) < 500
    for usages in sessions[1:]:
        assert cost(usages) < 0.12 * sum(one.input or 0 for one in usages)


def test_without_the_opening_each_session_pays_for_all_of_it(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""

    def without(*given: Any) -> dict[str, int]:
        return {name: end for name, end in beginning_ends(*given).items() if name != SHARED_OPENING}

    for module in (scene, beginnings):
        monkeypatch.setattr(module, "beginning_ends", without)
    sessions = [ask(driver, n, first_messages("a block", DOCUMENT, f"Question {n}?"), 3) for n in range(4)]
    assert all(sum(one.written or 0 for one in usages) > 9_000 for usages in sessions)


def test_documents_that_nobody_asks_about_again_are_soon_not_written(driver: Driver) -> None:
    """Contract line 3: of one-shot sessions the first two may be wrong; the rest costs what it costs as written."""
    sessions = [
        ask(driver, n, first_messages("a block", prose(6_000, n) + f"{n}" * 9, f"Question {n}?")) for n in range(8)
    ]
    assert all(usages[0].written == 0 == usages[0].read for usages in sessions[2:])


def test_a_document_that_comes_back_within_the_hour_is_kept_for_it(driver: Driver) -> None:
    """Twenty minutes between two questions about it: too long for the default lifetime, which is learned."""
    sessions = []
    for n in range(10):
        sessions.append(ask(driver, n, first_messages("a block", DOCUMENT, f"Question {n}?")))
        driver.clock.advance(20 * 60)
    assert all((usages[0].read or 0) > 9_000 for usages in sessions[6:])
    assert "1h" in {ttl for usages in sessions for one in usages for ttl, tokens in (one.write or {}).items() if tokens}


@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_instructions_are_shared_where_each_session_has_a_block_of_its_own_behind_them(
    driver: Driver, blocks: int, turns: int
) -> None:
    """What is known of a user, say: it is written for its session, and what stands before it once for all."""
    rules = [_said(prose(6_000 // blocks, n)) for n in range(blocks)]
    sessions = [
        ask(driver, n, [user(f"Question {n}?")], turns, system=[*rules, _said(f"User {n}: {prose(200, n)}")])
        for n in range(6)
    ]
    assert sum(one.written or 0 for one in sessions[0]) > 9_000
    assert max(sum(one.written or 0 for one in usages) for usages in sessions[2:]) < 1_500
    assert min(one.read or 0 for usages in sessions[1:] for one in usages) > 9_000


def test_sub_agents_wait_for_the_one_that_writes_the_document() -> None:
    """They begin at once, with a task of their own behind it."""
    accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False)))
    document = prose(30_200)
    turns = [
        accel.turn(body(*first_messages("a block", document, f"Do part {n}."), tools=[tool("search")], stream=True))
        for n in range(3)
    ]
    turns[0].handle(Started(0.0))
    for turn in turns[1:]:
        [wait] = turn.handle(Started(0.0, can_wait=True))
        assert isinstance(wait, Wait)


def test_the_marker_is_free_and_takes_the_place_of_no_other() -> None:
    """Four places, four markers; and the sender's own is there already."""
    accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False)))
    fixed = {"system": [_said(prose(3_000))], "tools": [tool("search", 2_000), tool("book", 2_000)]}
    request = body(*first_messages("a block", DOCUMENT, "Question?"), **fixed)
    paths = [marker.path for marker in accel.plan(request).markers]
    assert paths == [("tools", 1), ("system", 0), ("messages", 0, "content", 0), ("messages", 0, "content", 1)]
    marked = body(user([_said(DOCUMENT, cache_control={"type": "ephemeral"}), _said("Question?")]), **fixed)
    sent = accel.plan(marked).apply(marked)
    assert sent["messages"][0]["content"][0] == marked["messages"][0]["content"][0]
    assert len(accel.plan(marked).markers) == 3


_BLOCKS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3)


@given(
    st.lists(_BLOCKS, min_size=1, max_size=4),
    st.lists(_BLOCKS, max_size=6),
    st.sampled_from([None, "Be brief."]),
    st.booleans(),
)
def test_the_opening_of_a_session_is_the_same_in_all_of_its_requests(
    first: list[list[str]], later: list[list[str]], system: str | None, has_tools: bool
) -> None:
    """However its first request was made of messages, and whatever followed: by its hash it can be found again."""
    facts = cache_facts(MODEL)
    assert facts is not None

    def hashes(rows: list[list[str]], born: int) -> dict[str, bytes]:
        messages = [
            {"role": ("user", "assistant")[i % 2], "content": [_said(text) for text in row]}
            for i, row in enumerate(rows)
        ]
        request = body(*messages, system=system, tools=[tool("search")] if has_tools else None)
        prefix = prefixes(decode(request, facts), facts)
        ends = beginning_ends(prefix, born)
        assert list(ends.values()) == sorted(set(ends.values()))
        assert all(0 < end <= len(prefix.hashes) for end in ends.values())
        return {name: prefix.hashes[end - 1] for name, end in ends.items()}

    at_first, then = hashes(first, 0), hashes([*first, *later], len(first))
    assert at_first == then
    assert (SHARED_OPENING in at_first) == (sum(map(len, first)) > 1)
    assert (SHARED in at_first) == (system is not None or has_tools)
