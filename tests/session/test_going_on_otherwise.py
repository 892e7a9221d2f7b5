"""A named session that goes on from another, where something is otherwise: what the policy consents to, its rules and
tools, how it was announced, whose key it has.

What it costs is measured against the same requests sent as they are, and what is said that these cost against that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from agentaccel import Accel, CachePolicy, HistoryPolicy, ManualClock, Policy, StorePolicy
from agentaccel.cache.ledger import Entry, Ledger
from agentaccel.emulator import serve
from agentaccel.records import PREWARM, TurnRecord
from agentaccel.report.aggregate import report
from agentaccel.report.figures import Costs
from agentaccel.trace.store import open_reader
from agentaccel.types import Cause
from tests.driver import Driver, assistant, body, prose, user
from tests.mutants import Mutant, running, survives

RULES = "Be kind. " * 1500
TOOLS = ("look", "book")


@dataclass
class Talk:
    """Sessions of one program, or with `processes` of one each, with one provider."""

    api: str
    policy: Policy
    server: Any
    clock: ManualClock
    processes: bool = False
    accel: Accel = field(init=False)
    key: str = "k"
    clients: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.accel = Accel(self.policy, clock=self.clock, environ={})

    def session(self, name: str, agent: str = "desk") -> Any:
        if self.processes:
            self.accel.close()
            self.__post_init__()
        return self.accel.session(name, agent=agent)

    def ask(self, messages: list[Any], rules: str = RULES, tools: tuple[str, ...] = TOOLS) -> None:
        self.create(**self.request(messages, rules, tools))
        self.clock.advance(20)

    def request(self, messages: list[Any], rules: str = RULES, tools: tuple[str, ...] = TOOLS) -> dict[str, Any]:
        """A request with a marker of the user's own, where the provider sets none by itself."""
        schema = {"type": "object", "properties": {}}
        if self.api == "anthropic":
            listed = [{"name": name, "description": name * 200, "input_schema": schema} for name in tools]
            own = {"cache_control": {"type": "ephemeral"}} if messages else {}
            return {"model": "claude-sonnet-5", "system": rules, "tools": listed, "messages": messages, **own}
        functions = [{"name": name, "description": name * 200, "parameters": schema} for name in tools]
        listed = [{"type": "function", "function": one} for one in functions]
        return {
            "model": "gpt-6-sol",
            "tools": listed,
            "messages": [{"role": "system", "content": rules}, *messages],
        }

    @property
    def method(self) -> Any:
        bare = (
            anthropic.Anthropic(base_url=self.server.url, api_key=self.key, max_retries=0)
            if self.api == "anthropic"
            else openai.OpenAI(base_url=f"{self.server.url}/v1", api_key=self.key, max_retries=0)
        )
        self.clients.enter_context(bare)
        client: Any = self.accel.wrap(bare, **({} if self.api == "anthropic" else {"platform": "api"}))
        return client.messages.create if self.api == "anthropic" else client.chat.completions.create

    def create(self, **request: Any) -> None:
        self.method(**request, **({"max_tokens": 20} if self.api == "anthropic" else {}))


Loop = Callable[[Talk], None]


@contextmanager
def talking(api: str, policy: Policy, folder: Path, *, processes: bool = False) -> Iterator[Talk]:
    clock = ManualClock(now=1.76e9)
    with serve(script=["ok " * 20] * 99, clock=clock) as server:
        talk = Talk(api, policy, server, clock, processes)
        with talk.clients:
            yield talk
            talk.accel.close()


def played(
    loop: Loop, api: str, folder: Path, name: str, *, processes: bool = False, **policy: Any
) -> tuple[Costs, list[TurnRecord], list[Mapping[str, Any]]]:
    """What it costs, the turns, and the requests as they were sent."""
    path = folder / f"{name}.db"
    with talking(api, Policy(strict=True, store=StorePolicy(path=path), **policy), folder, processes=processes) as talk:
        loop(talk)
        sent = [entry.request for entry in talk.server.log]
    with open_reader(path) as store:
        turns = [turn for turn in store.turns() if isinstance(turn, TurnRecord)]
    return report(turns).total.costs, turns, sent


def costs(loop: Loop, api: str, folder: Path, name: str, **policy: Any) -> Costs:
    return played(loop, api, folder, name, **policy)[0]


def more(messages: list[Any], words: str, size: int = 150) -> list[Any]:
    return [*messages, {"role": "assistant", "content": "ok " * 60}, {"role": "user", "content": f"{words} " * size}]


def worked(messages: list[Any], number: int, size: int) -> list[Any]:
    """The same with a call of a tool, and its result."""
    call = {"type": "tool_use", "id": f"call-{number}", "name": "look", "input": {"page": number}}
    result = {"type": "tool_result", "tool_use_id": f"call-{number}", "content": f"line {number} " * size}
    return [*messages, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def renamed(talk: Talk) -> None:
    """One conversation under another name in each request."""
    history = [{"role": "user", "content": "Hello " * 300}]
    for turn in range(12):
        with talk.session(f"request {turn}"):
            talk.ask(history)
        history = more(history, f"next {turn}")


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
    with_it = costs(renamed, api, tmp_path, "with", **CONSENTS[consent])
    without = costs(renamed, api, tmp_path, "without")
    assert with_it == without


def renamed_work(names: Callable[[int], str]) -> Loop:
    """A loop with long results of tools, the session of each request called by one of `names`."""

    def loop(talk: Talk) -> None:
        history = [{"role": "user", "content": "Hello " * 300}]
        for turn in range(36):
            with talk.session(names(turn)):
                talk.ask(history)
            history = worked(history, turn, 1200)

    return loop


each, one = renamed_work(lambda turn: f"request {turn}"), renamed_work(lambda turn: "one")
CLEARS: dict[str, Any] = {"history": HistoryPolicy(clear_results=True)}


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
    ours, turns, sent = played(each, "anthropic", tmp_path, "each", processes=processes, **CLEARS)
    same, _, sent_as_one = played(one, "anthropic", tmp_path, "one", **CLEARS)
    written = costs(each, "anthropic", tmp_path, "written", mode="observe")
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
        history = [{"role": "user", "content": "Hello " * 300}]
        for turn in range(24):
            store = StorePolicy(path=tmp_path / f"{turn}.db")
            talk.policy = Policy(strict=True, store=store, **CLEARS)
            with talk.session("one"):
                talk.ask(history)
            history = worked(history, turn, 1200)

    played(loop, "anthropic", tmp_path, "first", processes=True)
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
        history = [{"role": "user", "content": "Hello " * 300}]
        for turn in range(30):
            with talk.session("main"):
                talk.ask(history)
            history = worked(history, turn, 1200)
        with talk.session("fork"), talk.accel.bypass():
            talk.ask(history)

    _, turns, _ = played(loop, "anthropic", tmp_path, "on", **CLEARS)
    assert any(turn.consents for turn in turns)
    assert turns[-1].mode == "bypass"
    assert {miss.cause for miss in turns[-1].misses} == {Cause.FIRST}


def test_what_was_edited_once_and_is_sent_whole_again_is_no_edited_history(tmp_path: Path) -> None:
    """As by another process, which has no consent: what goes on from it goes on from all of it."""

    def loop(talk: Talk) -> None:
        history = [{"role": "user", "content": "Hello " * 300}]
        for turn in range(30):
            with talk.session("one") as session:
                talk.ask(history)
            history = worked(history, turn, 1200)
        assert session.conversation.state.edited_of is not None
        talk.policy = Policy(strict=True, store=talk.policy.store)
        talk.processes = True
        with talk.session("one") as session:
            talk.ask(history)
            state = session.conversation.state
        assert state.turns == 31
        assert state.edited_of is None

    played(loop, "anthropic", tmp_path, "on", **CLEARS)


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
        history = [{"role": "user", "content": "Hello " * 300}]
        with talk.session("main"):
            for turn in range(6):
                talk.ask(history)
                history = more(history, f"next {turn}", 300)
        for part in range(4):
            with talk.session(f"part {part}", f"reviewer {part}" if by_name else "desk"):
                mine = more(history, f"you do part {part}", 50)
                for turn in range(3):
                    talk.ask(mine, f"{rules} {part} " * 900 if rules else RULES, tools)
                    mine = more(mine, f"next {part} {turn}", 50)

    ours, turns, _ = played(loop, api, tmp_path, "on")
    written = costs(loop, api, tmp_path, "observe", mode="observe")
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
        history = [{"role": "user", "content": "Hello " * 300}]
        for turn in range(12):
            with talk.session(f"request {turn}") as session:
                announced(talk, session)
                talk.ask(history)
            history = more(history, f"next {turn}", 300)

    ours, turns, _ = played(loop, "anthropic", tmp_path, "on", cache=CachePolicy(prewarm=True, second_costs=0.0))
    plain = costs(loop, "anthropic", tmp_path, "observe", mode="observe")
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
        history = [{"role": "user", "content": "Hello " * 300}]
        with talk.session("main"):
            for turn in range(6):
                talk.ask(history)
                history = more(history, f"next {turn}", 300)
        for part in range(2):
            talk.key = f"key {part}"
            with talk.session(f"part {part}"):
                talk.ask(more(history, f"you do part {part}"))

    ours, turns, _ = played(loop, api, tmp_path, "on")
    written = costs(loop, api, tmp_path, "observe", mode="observe")
    assert ours.as_written == pytest.approx(written.paid, rel=0.01)
    assert Cause.EVICTED not in {miss.cause for turn in turns for miss in turn.misses}
    assert [turn.expected.read for turn in turns[-2:] if turn.expected is not None] == [0, 0]


GUARDS = (
    Mutant(
        guard="what is sent as it was written",
        file="session/opening.py",
        old="        if (edits or source.state.edited_of is None) and _goes_on(prompt, source):",
        new="        if _goes_on(prompt, source):",
    ),
    Mutant(
        guard="which history was edited",
        file="session/opening.py",
        old="    if edited_of is not None:",
        new="    if False:",
    ),
    Mutant(
        guard="which history another process has edited",
        file="trace/record.py",
        old='if "edited_of" in raw else None',
        new='if "" in raw else None',
    ),
    Mutant(
        guard="rules and tools of its own",
        file="session/opening.py",
        old="    if _begins_alike(conversation, source, prompt):",
        new="    if True:",
    ),
    Mutant(
        guard="another key",
        file="session/opening.py",
        old="    if source.account != conversation.account and",
        new="    if False and",
    ),
    Mutant(
        guard="a first request that was announced",
        file="session/compose.py",
        old="        if not conversation.state.turns:\n            edits, named",
        new="        if conversation.created is None:\n            edits, named",
    ),
    Mutant(
        guard="what was written ahead",
        file="session/opening.py",
        old="    if ahead:",
        new="    if False:",
    ),
    Mutant(
        guard="what may have been held whole",
        file="cache/settle.py",
        old="        return turn_of(sent.written.prompt) > 0",
        new="        return False",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_the_tests_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    tests = running("tests/session/test_going_on_otherwise.py", "tests/session/test_going_on.py")
    assert survives(mutant, tmp_path, [*tests, "-m", "not soak"]) is None
