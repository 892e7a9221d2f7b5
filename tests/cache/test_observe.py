"""Which places are watched: those that changed in this session, and those that change in most sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentaccel import Usage
from agentaccel.cache.beliefs import Beliefs
from agentaccel.engine.scope import Session
from agentaccel.turn import Finished, FirstByte, Reported, Started
from tests.driver import Driver, Json, assistant, body, prose, user


def test_a_place_that_changed_in_one_of_two_requests_side_by_side_is_watched(tmp_path: Path) -> None:
    """And known to stay once it does, although the request that is settled last has seen nothing of the change."""
    driver, messages = Driver(tmp_path), [user(prose(300))]

    def request(seed: int) -> Json:
        return body(*messages, system=[{"type": "text", "text": prose(1500, one)} for one in (seed, 3)])

    with driver.accel.session("s") as session:
        driver.ask(request(1))
        messages += [assistant("So."), user("On.")]
        other, same = driver.accel.turn(request(2)), driver.accel.turn(request(1))
        for turn, read in ((other, 0), (same, 4000)):
            driver.clock.advance(1)
            turn.handle(Started(driver.clock.monotonic()))
            turn.handle(FirstByte(driver.clock.monotonic()))
            turn.handle(Reported(usage=Usage(input=6000, read=read, write={"5m": 6000 - read}, output=5)))
            turn.handle(Finished(driver.clock.monotonic()))
        counts = [session.conversation.state.seen.counts["stable/system[0]"]]
        for number in range(4):
            messages += [assistant("So."), user(f"On {number}.")]
            driver.ask(request(1))
            counts.append(session.conversation.state.seen.counts["stable/system[0]"])
    assert [yes for yes, _ in counts] == sorted({yes for yes, _ in counts}), "each time it stays is counted"


def test_a_place_that_changes_in_most_sessions_is_watched_from_the_second_request_on(tmp_path: Path) -> None:
    """What stands behind it is hardly cached then; a session in which it stays must be able to show that."""
    driver = Driver(tmp_path)

    def once(name: str, ticks: bool) -> Session:
        with driver.accel.session(name, agent="desk") as session:
            messages: list[Json] = [user(prose(300))]
            for turn in range(6):
                driver.ask(body(*messages, system=f"It is {turn if ticks else 0} o'clock. " + prose(600)))
                messages += [assistant("So."), user(prose(20, turn))]
        return session

    for number in range(3):
        once(f"ticking {number}", ticks=True)
    still = once("still", ticks=False)
    assert still.conversation.snapshot.doubted_places == ["system"]
    yes, n = still.conversation.state.seen.counts["stable/system"]
    assert yes == n > 0


@pytest.mark.parametrize(
    ("counts", "doubted"),
    [
        ({"stable/system[0]": (0.0, 4.0)}, ["system[0]"]),
        ({"stable/system[0]": (3.0, 4.0)}, []),
        ({"stable/messages[0].content": (0.0, 4.0)}, []),
        ({"stable/any": (0.0, 4.0), "stable/tail": (0.0, 4.0)}, []),
    ],
)
def test_doubted_are_places_outside_the_history_that_change_in_most_requests(
    counts: dict[str, tuple[float, float]], doubted: list[str]
) -> None:
    assert Beliefs(counts).doubted_places == doubted


def test_a_request_that_only_adds_shows_just_that(tmp_path: Path) -> None:
    driver, messages = Driver(tmp_path), [user(prose(300))]
    with driver.accel.session("s") as session:
        for turn in range(4):
            driver.ask(body(*messages, system=prose(600)))
            messages += [assistant("So."), user(prose(20, turn))]
    counts = session.conversation.state.seen.counts
    assert counts["stable/any"][0] == counts["stable/any"][1] > 0
    assert session.conversation.state.seen.unstable_places() == []


def test_a_draft_that_is_dropped_is_an_end_that_is_replaced(tmp_path: Path) -> None:
    """Not a place of its own in each round, which would all seem to change for ever: so each round is read by the
    next."""
    driver, messages, read = Driver(tmp_path), [user(prose(1500))], list[bool]()
    with driver.accel.session("s") as session:
        for turn in range(6):
            usage = driver.ask(body(*messages))
            read.append((usage.read or 0) > 0.8 * (usage.input or 0))
            driver.ask(body(*messages, assistant(prose(30, turn)), user("Not quite. Answer anew.")))
            messages += [assistant(prose(30, turn + 9)), user(prose(200, turn))]
    state = session.conversation.state
    assert (state.seen.unstable_places(), state.cut) == ([], 2)
    assert read == [False, *[True] * 5]


def test_what_is_replaced_far_ahead_of_the_end_is_a_place_each_time(tmp_path: Path) -> None:
    """The twin: a prompt that left the one before there has no longer tail for it."""
    driver, later = Driver(tmp_path), list[Json]()
    with driver.accel.session("s") as session:
        for turn in range(5):
            driver.ask(body(user(prose(600)), assistant("So."), user(f"Memory {turn}."), *later))
            later += [assistant("So."), user(f"On {turn}.")]
    assert session.conversation.state.seen.unstable_places() == ["messages[2].content"]
