"""A named session that goes on from another, where something is otherwise: what the policy consents to, its rules and
tools, how it was announced, whose key it has.

What it costs is measured against the same requests sent as they are, and what is said that these cost against that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agentaccel import CachePolicy, HistoryPolicy, Policy, StorePolicy
from agentaccel.cache.ledger import Entry, Ledger
from agentaccel.records import PREWARM, TurnRecord
from agentaccel.store.store import open_reader
from agentaccel.types import Cause
from tests.driver import Driver, assistant, body, prose, user
from tests.engine import talking as talks
from tests.engine.talking import HELLO, RULES, Talk, main_session, more, renamed
from tests.mutants import Mutant, running, survives

pytestmark = pytest.mark.slow

TOOLS = ("look", "book")
played, costs = partial(talks.played, tools=TOOLS), partial(talks.costs, tools=TOOLS)


def worked(messages: list[Any], number: int) -> list[Any]:
    """The same with a call of a tool, and its long result."""
    call = {"type": "tool_use", "id": f"call-{number}", "name": "look", "input": {"page": number}}
    result = {"type": "tool_result", "tool_use_id": f"call-{number}", "content": f"line {number} " * 1200}
    return [*messages, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def short(given: object) -> str:
    return "short"


CONSENTS: dict[str, dict[str, Any]] = {
    "freeze_tools": {"cache": CachePolicy(freeze_tools=True)},
    "move_volatile": {"cache": CachePolicy(move_volatile=True)},
    "clear_results": {"history": HistoryPolicy(clear_results=True)},
    "distil": {"history": HistoryPolicy(distil=short)},
    "summarise": {"history": HistoryPolicy(summarise=short)},
}


@pytest.mark.parametrize("api", ["anthropic", "openai"])
@pytest.mark.parametrize("consent", CONSENTS)
def test_a_consent_of_which_nothing_is_used_changes_nothing(consent: str, api: str, tmp_path: Path) -> None:
    with_it = costs(renamed, api, tmp_path / "with.db", **CONSENTS[consent])
    without = costs(renamed, api, tmp_path / "without.db")
    assert with_it == without


def work(talk: Talk, names: Callable[[int], str], turns: int) -> list[Any]:
    """A loop with long results of tools, the session of each request called by one of `names`; what the next request
    would begin with."""
    history: list[Any] = [HELLO]
    for turn in range(turns):
        with talk.session(names(turn)):
            talk.ask(history)
        history = worked(history, turn)
    return history


CLEARS = CONSENTS["clear_results"]


def edits_of(sent: list[Mapping[str, Any]]) -> int:
    """In how many requests something of what had been sent before is another."""

    def bare(request: Mapping[str, Any]) -> list[Any]:
        return [
            [{name: value for name, value in block.items() if name != "cache_control"} for block in message["content"]]
            if isinstance(message["content"], list)
            else message["content"]
            for message in request["messages"]
        ]

    messages = [bare(request)[1:] for request in sent]  # a string and its block are one: the first question has both
    return sum(after[: len(before)] != before for before, after in pairwise(messages))


@pytest.mark.parametrize("processes", [False, True], ids=["one process", "a process each"])
def test_what_was_cleared_stays_so_under_another_name(processes: bool, tmp_path: Path) -> None:
    """It is cleared as seldom as under one name, it costs less than to send it all, and no more is claimed than that
    this would have cost."""

    def each(talk: Talk) -> None:
        work(talk, "request {}".format, 36)

    def one(talk: Talk) -> None:
        work(talk, "one".format, 36)

    ours, turns, sent = played(each, "anthropic", tmp_path / "each.db", processes=processes, **CLEARS)
    same, _, sent_as_one = played(one, "anthropic", tmp_path / "one.db", **CLEARS)
    written = costs(each, "anthropic", tmp_path / "written.db", mode="observe")
    assert 1 <= edits_of(sent) <= edits_of(sent_as_one) + 1
    assert any("clear_results" in turn.consents for turn in turns)
    assert ours.paid is not None
    assert same.paid is not None
    assert written.paid is not None
    assert ours.paid < 0.9 * written.paid
    assert ours.paid == pytest.approx(same.paid, rel=0.05)
    assert ours.as_written == pytest.approx(written.paid, rel=0.02)


def test_no_saving_is_claimed_where_what_was_edited_may_have_been_held_whole(tmp_path: Path) -> None:
    """By programs that nobody knows of here: each of these has a store of its own."""

    def loop(talk: Talk) -> None:
        def another(turn: int) -> str:
            talk.policy = Policy(strict=True, store=StorePolicy(path=tmp_path / f"{turn}.db"), **CLEARS)
            return "one"

        work(talk, another, 24)

    played(loop, "anthropic", tmp_path / "first.db", processes=True)
    turns: list[TurnRecord] = []
    for turn in range(24):
        with open_reader(tmp_path / f"{turn}.db") as store:
            turns += [one for one in store.turns() if isinstance(one, TurnRecord)]
    edited = [turn for turn in turns if turn.consents]
    assert edited
    assert all(turn.as_written is None for turn in edited)


def test_what_is_sent_as_it_was_written_does_not_go_on_from_what_was_edited(tmp_path: Path) -> None:
    """What it does not read has neither expired, nor would it have been read."""

    def loop(talk: Talk) -> None:
        history = work(talk, "main".format, 30)
        with talk.session("fork"), talk.accel.bypass():
            talk.ask(history)

    _, turns, _ = played(loop, "anthropic", tmp_path / "on.db", **CLEARS)
    assert any(turn.consents for turn in turns)
    assert turns[-1].mode == "bypass"
    assert {miss.cause for miss in turns[-1].misses} == {Cause.FIRST}


def test_what_was_edited_once_and_is_sent_whole_again_is_no_edited_history(tmp_path: Path) -> None:
    """As by another process, which has no consent: what goes on from it goes on from all of it."""

    def loop(talk: Talk) -> None:
        history = work(talk, "one".format, 30)
        with talk.session("one") as session:
            assert session.conversation.state.edited_of is not None
        talk.policy = Policy(strict=True, store=talk.policy.store)
        talk.processes = True
        with talk.session("one") as session:
            talk.ask(history)
            state = session.conversation.state
        assert state.turns == 31
        assert state.edited_of is None

    played(loop, "anthropic", tmp_path / "on.db", **CLEARS)


OWN = {
    "rules": ("own", TOOLS, True),
    "rules and tools": ("own", ("look",), True),
    "rules and tools, as the same agent": ("own", ("look",), False),
    "tools": ("", ("look",), True),
}


@pytest.mark.parametrize("api", ["anthropic", "openai"])
@pytest.mark.parametrize("own", OWN)
def test_a_sub_agent_that_is_told_everything_may_have_rules_and_tools_of_its_own(
    own: str, api: str, tmp_path: Path
) -> None:
    """They are another agent's, and nothing that has changed: it costs what it costs as it is written."""
    rules, tools, by_name = OWN[own]

    def loop(talk: Talk) -> None:
        history = main_session(talk, 6, 300)
        for part in range(4):
            with talk.session(f"part {part}", f"reviewer {part}" if by_name else "desk"):
                mine = more(history, f"you do part {part}", 50)
                for turn in range(3):
                    talk.ask(mine, f"{rules} {part} " * 900 if rules else RULES, tools)
                    mine = more(mine, f"next {part} {turn}", 50)

    ours, turns, _ = played(loop, api, tmp_path / "on.db")
    written = costs(loop, api, tmp_path / "observe.db", mode="observe")
    assert ours.paid is not None
    assert ours.as_written is not None
    assert written.paid is not None
    assert ours.paid <= 1.002 * written.paid
    assert ours.as_written <= 1.01 * max(written.paid, ours.paid)
    assert Cause.CHANGED not in {miss.cause for turn in turns for miss in turn.misses}


def announced(talk: Talk, session: Any) -> None:
    """The rules and tools of a request are known, and not yet what they are followed by."""
    request = talk.request([])
    del request["messages"]
    session.prewarm(talk.method, **request)


def test_what_was_announced_without_its_history_goes_on_all_the_same(tmp_path: Path) -> None:
    """It costs what it costs unannounced, where nothing is worth writing ahead."""

    def loop(talk: Talk) -> None:
        history: list[Any] = [HELLO]
        for turn in range(12):
            with talk.session(f"request {turn}") as session:
                announced(talk, session)
                talk.ask(history)
            history = more(history, f"next {turn}", 300)

    ours, turns, _ = played(loop, "anthropic", tmp_path / "on.db", cache=CachePolicy(prewarm=True, cost_per_second=0.0))
    plain = costs(loop, "anthropic", tmp_path / "observe.db", mode="observe")
    assert PREWARM not in {turn.mode for turn in turns}
    assert ours.paid is not None
    assert plain.paid is not None
    assert ours.paid <= 1.002 * plain.paid
    assert [turn.misses == () for turn in turns] == [turn is not turns[0] for turn in turns]


def test_what_was_written_ahead_is_held_beside_what_is_gone_on_from(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    history: list[Any] = [user(prose(1500))]
    with driver.accel.session("main") as main:
        driver.ask(body(*history))
    ahead = Ledger({b"ahead": Entry("5m", driver.clock.wall() + 300, 0.0)})
    with driver.accel.session("fork") as fork:
        fork.conversation.state = replace(fork.conversation.state, ledger=ahead)
        driver.accel.turn(body(*history, assistant("ok"), user("go on")))
    assert main.conversation.state.ledger.entries
    assert fork.conversation.state.ledger.entries == main.conversation.state.ledger.entries | ahead.entries


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_what_another_key_reads_is_another_cache(api: str, tmp_path: Path) -> None:
    """What it goes on from is known, and is not expected to be held there: nobody has evicted it."""

    def loop(talk: Talk) -> None:
        history = main_session(talk, 6, 300)
        for part in range(2):
            talk.key = f"key {part}"
            with talk.session(f"part {part}"):
                talk.ask(more(history, f"you do part {part}"))

    ours, turns, _ = played(loop, api, tmp_path / "on.db")
    written = costs(loop, api, tmp_path / "observe.db", mode="observe")
    assert ours.as_written == pytest.approx(written.paid, rel=0.01)
    assert Cause.EVICTED not in {miss.cause for turn in turns for miss in turn.misses}
    assert [turn.expected.read for turn in turns[-2:] if turn.expected is not None] == [0, 0]


GUARDS = (
    Mutant(
        guard="what is sent as it was written",
        at="agentaccel.engine.fork:open_with",
        old="        if (edits or source.state.edited_of is None) and _goes_on(prompt, source):",
        new="        if _goes_on(prompt, source):",
    ),
    Mutant(
        guard="which history was edited",
        at="agentaccel.engine.fork:_goes_on",
        old="    if edited_of is not None:",
        new="    if False:",
    ),
    Mutant(
        guard="a history that was sent whole again",
        at="agentaccel.cache.settle:settle",
        old="            cleared=state.cleared,\n",
        new="            cleared=state.cleared,\n            edited_of=state.edited_of,\n",
    ),
    Mutant(
        guard="which history another process has edited",
        at="agentaccel.store.states:load_state",
        old='if "edited_of" in raw else None',
        new='if "" in raw else None',
    ),
    Mutant(
        guard="rules and tools of its own",
        at="agentaccel.engine.fork:_inherit",
        old="    if _begins_alike(conversation, source, prompt):",
        new="    if True:",
    ),
    Mutant(
        guard="another key",
        at="agentaccel.engine.fork:_inherit",
        old="    if source.account != conversation.account and",
        new="    if False and",
    ),
    Mutant(
        guard="a first request that was announced",
        at="agentaccel.engine.engine:Engine._open",
        old="        if conversation.state.turns:\n            return ()",
        new="        if conversation.created is not None:\n            return ()",
    ),
    Mutant(
        guard="what was written ahead",
        at="agentaccel.engine.fork:_inherit",
        old="    if ahead:",
        new="    if False:",
    ),
    Mutant(
        guard="what may have been held whole",
        at="agentaccel.cache.settle:_may_be_others",
        old="        return turn_of(sent.written.prompt) > 0",
        new="        return False",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_the_tests_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    tests = running("tests/engine/test_going_on_otherwise.py", "tests/engine/test_going_on.py")
    assert survives(mutant, tmp_path, [*tests, "-m", "not soak"]) is None
