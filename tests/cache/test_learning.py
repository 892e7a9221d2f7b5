"""What sessions teach: soon, of themselves first, and never for good. Costs are in multiples of not caching at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentaccel import Usage
from agentaccel.engine import settlement
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, FirstByte, Reported, Send, Started
from agentaccel_emulator import Behaviour, Emulator, Tokenizer
from tests.driver import Driver, Json, assistant, body, prose, tool, user

SYSTEM, TOOLS = prose(2500), [tool("x", 600)]


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def cost(usages: list[Usage]) -> float:
    """What was paid, over what the same tokens cost uncached: a five-minute write is 1.25, a read 0.1."""
    paid = sum((one.uncached or 0) + 1.25 * (one.written or 0) + 0.1 * (one.read or 0) for one in usages)
    return paid / sum(one.input or 0 for one in usages)


def chat(driver: Driver, turns: int, *, gap: float = 5.0, replies: int = 1, seed: int = 0) -> float:
    messages: list[Json] = [user(prose(400, seed))]
    usages = []
    for turn in range(turns):
        usages.append(driver.ask(body(*messages, system=SYSTEM, tools=TOOLS), gap=gap))
        for number in range(replies):
            messages.append(assistant(prose(100, seed + turn + number)))
            messages.append(user(prose(100, seed + turn + 7 + number)))
    return cost(usages)


@pytest.mark.slow
def test_a_chat_with_long_pauses_stops_being_written_within_a_few_turns(driver: Driver) -> None:
    """A session's own pauses are the best guide to its next one."""
    assert chat(driver, 30, gap=4000) < 1.12
    assert driver.marks == []


@pytest.mark.slow
@pytest.mark.parametrize("gap", [310, *(pytest.param(gap, marks=pytest.mark.soak) for gap in (600, 3000))])
def test_a_chat_with_pauses_beyond_five_minutes_is_written_for_an_hour(driver: Driver, gap: float) -> None:
    """The longer lifetime costs twice the input price to write, and reads ever after."""
    costs = [chat(driver, 12, gap=gap, seed=number) for number in range(3)]
    assert costs[0] < 0.7
    assert max(costs[1:]) < 0.27


@pytest.mark.slow
def test_a_chat_with_short_pauses_is_not_written_for_an_hour(driver: Driver) -> None:
    """Once that many pauses were short, the longer lifetime is a premium for nothing; before, it is a small one."""
    for number in range(3):
        chat(driver, 12, gap=5, seed=number)
    hour = [(turn.usage.write or {}).get("1h", 0) for turn in driver.records]
    first, later = hour[:12], hour[12:]
    assert sum(first) < 0.1 * max(turn.usage.input or 0 for turn in driver.records[:12])
    assert later
    assert not any(later)


@pytest.mark.slow
def test_a_workload_of_chats_with_long_pauses_is_known_from_the_second_on(driver: Driver) -> None:
    """And what it taught lasts."""
    costs = [chat(driver, 12, gap=4000, seed=number) for number in range(4)]
    assert costs[0] < 1.25
    assert max(costs[1:]) < 1.02


def test_a_pause_now_and_then_does_not_end_the_caching(driver: Driver) -> None:
    """One late turn in eight is no reason."""
    messages: list[Json] = [user(prose(400))]
    usages = []
    for turn in range(24):
        gap = 600.0 if turn % 8 == 7 else 5.0
        usages.append(driver.ask(body(*messages, system=SYSTEM, tools=TOOLS), gap=gap))
        messages += [assistant(prose(100, turn)), user(prose(100, turn + 7))]
    assert cost(usages) < 0.4


@pytest.mark.slow
def test_several_replies_a_turn_do_not_confuse_the_count(driver: Driver) -> None:
    """The expectation is settled under the index it was made under, however many messages a turn adds."""
    costs = [chat(driver, 8, replies=2, seed=number) for number in range(8)]
    assert max(costs) < 0.4


def test_the_same_prompt_asked_again_in_one_session_goes_on(driver: Driver) -> None:
    """No reply in the history does not mean that nothing follows."""
    costs = []
    for number in range(6):
        request = body(user(prose(3000, number)))
        with driver.accel.session(f"samples {number}", agent="sampler"):
            costs.append(cost([driver.ask(request) for _ in range(5)]))
    assert max(costs) < 0.4


def test_the_same_first_prompt_in_session_after_session_is_shared(driver: Driver) -> None:
    """Samples and evaluations repeat a whole prompt without naming a session; nothing else of it goes on."""
    for number in range(4):
        usages = [driver.ask(body(user(prose(3000, number)))) for _ in range(8)]
        driver.clock.advance(400)
    assert cost(usages) < 0.4


def one_shots(driver: Driver, *, tools: bool, gap: float) -> list[Usage]:
    """Ten sessions of one request each, to which nothing is common but the tools, and they only where `tools` says."""
    usages = []
    for number in range(10):
        system = f"You serve customer {number}. {prose(900, number)}"
        listed = [tool("search" if tools else f"search {number}", 1500)]
        with driver.accel.session(f"customer {number}", agent="desk"):
            usages.append(driver.ask(body(user(prose(60, number)), system=system, tools=listed), gap=gap))
    return usages


@pytest.mark.parametrize(("gap", "ttl"), [(100.0, "5m"), (700.0, "1h")])
def test_tools_that_sessions_share_are_kept_whatever_their_instructions_say(
    driver: Driver, gap: float, ttl: str
) -> None:
    """Each session names its customer in the system prompt: the tools before it are read in all of them, and nothing is
    paid for keeping the rest."""
    usages = one_shots(driver, tools=True, gap=gap)
    assert all(one.read for one in usages[4:])
    assert [one.written for one in usages[6:]] == [0] * 4
    assert [marker.ttl for marker in driver.records[-1].markers] == [ttl]
    assert cost(usages[5:]) < 0.65


def test_tools_of_their_own_are_not_paid_for_in_sessions_of_one_request(driver: Driver) -> None:
    """The twin: where each session has other tools, keeping them stops."""
    usages = one_shots(driver, tools=False, gap=100.0)
    assert [one.written for one in usages[6:]] == [0] * 4


def test_sessions_that_begin_soon_after_others_do_not_make_pauses_of_hours_pay(driver: Driver) -> None:
    """Each reads what the last request of the one before wrote. That is one request in five: the others are not written
    for an hour in which nobody comes."""
    usages = []
    for number in range(6):
        for turn in range(5):
            messages = [user(prose(60, number)), *[assistant("Ok."), user(prose(20, number))] * turn]
            with driver.accel.session(f"long {number}", agent="desk"):
                request = body(*messages, system=SYSTEM, tools=TOOLS)
                usages.append(driver.ask(request, gap=9000.0 if turn else 900.0))
    paid = sum((one.uncached or 0) + 2 * (one.written or 0) + 0.1 * (one.read or 0) for one in usages[15:])
    assert paid / sum(one.input or 0 for one in usages[15:]) < 1.02


@pytest.mark.parametrize("place", ["system", "tools"])
def test_one_change_at_the_end_of_a_session_does_not_end_the_caching_of_all_others(driver: Driver, place: str) -> None:
    """What another session saw change is watched in this one: that it comes back is learned, too."""
    usages = []
    for number in range(4):
        messages: list[Json] = [user(prose(400, number))]
        for turn in range(6):
            changed = number == 0 and turn == 5
            system = f"{'New' if changed and place == 'system' else 'Old'} rules. {SYSTEM}"
            listed = [tool("y" if changed and place == "tools" else "x", 600)]
            with driver.accel.session(f"chat {number}", agent="desk"):
                usages.append(driver.ask(body(*messages, system=system, tools=listed), gap=400.0 if not turn else 5.0))
            messages += [assistant(prose(100, turn)), user(prose(100, turn + 7))]
    assert cost(usages[6:12]) < 0.7
    assert cost(usages[12:]) < 0.45


def test_a_provider_that_reports_no_cache_fields_teaches_nothing_about_sharing(driver: Driver) -> None:
    """Not reported is never zero, in what is learned either: only the pause counts."""
    with driver.accel.session("silent") as session:
        for turn in range(3):
            driver.clock.advance(600)
            begun = driver.accel.turn(body(user("a"), *[assistant("b"), user("c")] * turn, system=SYSTEM))
            begun.handle(Started(driver.clock.monotonic()))
            begun.handle(Reported(usage=Usage(input=3000)))
            begun.handle(Finished(driver.clock.monotonic()))
        seen = session.conversation.state.seen.counts
    assert "shared" not in seen
    assert seen["pause/any/300"][0] == 0.0


def fan_out(driver: Driver, requests: list[Json], gap: float) -> list[Usage]:
    """Requests that are all on their way before any is answered."""
    driver.clock.advance(gap)
    turns = [driver.accel.turn(request) for request in requests]
    usages = []
    for turn in turns:
        send = turn.handle(Started(driver.clock.monotonic()))[-1]
        assert isinstance(send, Send)
        _, reply = driver.post(send.request)
        raw: Any = reply["usage"]
        written = {"5m": raw["cache_creation_input_tokens"]}
        read = raw["cache_read_input_tokens"]
        usages.append(Usage(input=raw["input_tokens"] + read + written["5m"], read=read, write=written))
    driver.clock.advance(2)
    for turn, usage in zip(turns, usages, strict=True):
        turn.handle(FirstByte(driver.clock.monotonic()))
        turn.handle(Reported(usage=usage))
        turn.handle(Finished(driver.clock.monotonic()))
    return usages


@pytest.mark.slow
def test_requests_side_by_side_are_no_sign_that_a_conversation_goes_on(driver: Driver) -> None:
    """Hours after others: none of them can read what another is writing, so paying for the writes has to stop."""
    costs = [
        cost(fan_out(driver, [body(user(prose(2000, number)), system=SYSTEM)] * 8, gap=20_000)) for number in range(8)
    ]
    assert costs[-1] == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [240.0, 400.0])
def test_bursts_of_requests_read_what_the_burst_before_them_wrote(
    gap: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that begin at once, the first to be answered says nothing of how long ago others began so; the twin
    takes it for all there is to know."""

    def bursts(folder: str) -> list[float]:
        driver, costs = Driver(tmp_path / folder), []
        for number in range(8):
            burst = [body(user(prose(150, 8 * number + one)), system=SYSTEM) for one in range(8)]
            costs.append(cost(fan_out(driver, burst, gap)))
        return costs

    assert max(bursts("ours")[4:]) < 0.3
    monkeypatch.setattr(settlement, "used_earlier", lambda *_: {})
    assert min(bursts("twin")[4:]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(20, 8), pytest.param(200, 30, marks=pytest.mark.soak)])
def test_a_workload_that_changes_its_ways_is_learned_anew(driver: Driver, before: int, after: int) -> None:
    """Up to two hundred one-shot sessions, then conversations: what was learned fades."""
    for number in range(before):
        driver.ask(body(user(prose(1500, number)), system=SYSTEM, tools=TOOLS), gap=400)
    costs = [chat(driver, 8, seed=number) for number in range(after)]
    assert costs[-1] < 0.3


@pytest.mark.slow
@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("sessions", "turns", "gap", "lifetime"),
    [
        (12, 2, 5.0, "5m"),
        (12, 1, 5.0, "5m"),
        (3, 20, 5.0, "5m"),
        pytest.param(12, 20, 5.0, "5m", marks=pytest.mark.soak),
        (12, 2, 480.0, "1h"),
    ],
)
def test_the_bill_as_written_is_what_the_request_as_written_would_have_cost(
    sessions: int, turns: int, gap: float, lifetime: str, tmp_path: Path
) -> None:
    """Contract line 8, over sessions that share what the user marked: against a second provider that gets the user's
    requests untouched."""
    clock = ManualClock()
    behaviour = Behaviour(tokenizer=Tokenizer(bytes_per_token=3.3))
    ours = Driver(tmp_path, clock=clock, emulator=Emulator(clock=clock, behaviour=behaviour))
    bare = Emulator(clock=clock, behaviour=behaviour)
    mark = {"type": "ephemeral"} if lifetime == "5m" else {"type": "ephemeral", "ttl": lifetime}
    system = [{"type": "text", "text": SYSTEM, "cache_control": mark}]
    really = []
    for session in range(sessions):
        messages: list[Json] = [user(f"{session} {prose(300, session)}")]
        for turn in range(turns):
            request = body(*messages, system=system, tools=TOOLS)
            clock.advance(gap)
            twin = Driver.__new__(Driver)
            twin.emulator, twin.clock = bare, clock
            _, reply = twin.post(request)
            raw = reply["usage"]
            really.append((raw["cache_read_input_tokens"], raw["cache_creation_input_tokens"], raw["input_tokens"]))
            ours.ask(request, gap=0.0)
            messages += [assistant(prose(50, turn)), user(prose(60, turn + session))]
    modelled = [record.as_written for record in ours.records]
    assert all(one is not None for one in modelled)
    claimed = [(one.read, one.written, one.uncached) for one in modelled if one is not None]
    for said, true in zip(claimed, really, strict=True):
        assert said == pytest.approx(true, abs=2)


def begun_at_once(driver: Driver, sessions: int) -> list[bool]:
    """Sessions that begin a second after one another, before any has gone on: whether each was written for its next
    request. Each then goes on."""
    openings = [user(prose(1500, number)) for number in range(sessions)]
    usages = [driver.ask(body(opening, tools=[tool("look")]), gap=0.5, seconds=0.5) for opening in openings]
    for number, opening in enumerate(openings):
        driver.ask(body(opening, assistant(prose(20, number)), user(prose(20)), tools=[tool("look")]), gap=1.0)
    return [usage.written > 0 for usage in usages if usage.written is not None]


def test_sessions_that_have_not_gone_on_yet_are_not_taken_to_have_ended(driver: Driver) -> None:
    """Else, after a start of the service, the first requests of most would be left unwritten and paid for twice."""
    assert begun_at_once(driver, 12) == [True] * 12


@pytest.mark.slow
def test_questions_that_nobody_goes_on_from_are_known_at_any_rate(driver: Driver) -> None:
    """One a second, of which each may still go on for a minute: that none does tells."""
    for number in range(40):
        driver.ask(body(user(f"{number} {prose(1500)}"), tools=[tool("look")]), gap=0.5, seconds=0.5)
    assert driver.marks == []


def test_a_tail_that_was_always_kept_is_still_written_when_it_was_replaced_once(driver: Driver) -> None:
    """One message taken back after four turns is no sign of a history whose end is always another one."""
    messages: list[Json] = [user(prose(1500))]
    for number in range(4):
        driver.ask(body(*messages, system=SYSTEM))
        messages += [assistant(prose(60, number)), user(prose(60, number + 50))]
    last = driver.marks[-2]
    assert last == "messages[6].content[0]"
    messages[6] = user("Something else.")
    driver.ask(body(*messages, system=SYSTEM))
    assert "messages[8].content[0]" in driver.marks


def test_a_tail_that_is_always_another_one_is_no_longer_written(driver: Driver) -> None:
    """A state of the world behind each message: from the third request on, only what stays is written."""
    messages: list[Json] = []
    for number in range(3):
        messages.append(user(prose(700, number)))
        driver.ask(body(*messages, user([{"type": "text", "text": prose(300, number + 60)}]), system=SYSTEM))
        messages.append(assistant(prose(60, number)))
    assert "messages[4].content[0]" in driver.marks
    assert not any(mark.startswith("messages[5]") for mark in driver.marks)
