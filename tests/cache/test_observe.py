"""Which places are watched: those that changed in this session, and those that change in most sessions."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.observe import ONLY_GREW
from agentaccel.session.handle import Session
from tests.driver import Driver, Json, assistant, body, prose, tool, user


def talk(driver: Driver, session: Session, seed: int, turns: int = 8) -> None:
    """Turns in which, by chance, a clock ticks, tools are reordered, the history is edited, rewound or replaced."""
    chance, messages = random.Random(seed), [user(prose(300, seed))]
    tools, clock = [tool("look", 200), tool("find", 200)], 0
    for _ in range(turns):
        system = [{"type": "text", "text": prose(300)}, {"type": "text", "text": f"It is {clock} o'clock."}]
        driver.ask(body(*messages, system=system, tools=tools), gap=chance.choice([5.0, 400.0]))
        state = session.conversation.state
        assert [*state.variants] == state.seen.unstable_places()
        messages = [*messages, assistant(prose(40, seed)), user(prose(60, seed + len(messages)))]
        match chance.randrange(7):
            case 0:
                clock += 1
            case 1:
                tools.reverse()
            case 2:
                messages[chance.randrange(len(messages))] = user(prose(30, chance.randrange(99)))
            case 3:
                messages = messages[:1]
            case 4:
                messages[-3:] = [user(prose(50, chance.randrange(99)))]


@given(st.integers(0, 10_000))
def test_the_places_that_changed_in_a_session_are_those_whose_variants_it_knows(seed: int) -> None:
    """So it is known without looking through all that was counted which are to be watched."""
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder))
        for number in range(2):
            with driver.accel.session(f"session {number}", agent="desk") as session:
                talk(driver, session, seed + number)
        driver.accel.close()


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
    assert [(one.topic, one.yes) for one in ONLY_GREW] == [("stable/any", 1.0)]
    assert counts["stable/any"][0] == counts["stable/any"][1] > 0
    assert session.conversation.state.seen.unstable_places() == []
