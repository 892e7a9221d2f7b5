"""Where sessions end: at a place of their own, or anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.forecast import followed_there, snapshot
from tests.driver import Driver, assistant, body, prose, user


def sessions(*lengths: int) -> Beliefs:
    """What sessions of so many requests leave for the one that begins."""
    counts: dict[str, tuple[float, float]] = {}
    for length in lengths:
        for place in range(length):
            for topic in (f"followed/{place}", f"goes_on/{min(place, 3)}"):
                yes, n = counts.get(topic, (0.0, 0.0))
                counts[topic] = (yes + (place < length - 1), n + 1.0)
    return snapshot(Beliefs(counts))


def test_an_end_that_sessions_share_is_known_by_its_place() -> None:
    """Chosen: at the twelfth request, after five sessions of twelve, an end is likely, and nowhere else."""
    beliefs = sessions(*[12] * 5)
    likely = [followed_there(beliefs, 3, place, tools=True) for place in range(3, 12)]
    assert likely[-1] < 0.2
    assert min(likely[:-1]) > 0.9


def test_an_end_anywhere_is_expected_anywhere() -> None:
    """The twin: where they end at random, no place is taken for the end because one session ended there."""
    beliefs = sessions(4, 9, 14, 6, 21, 11, 30, 8)
    assert min(followed_there(beliefs, 3, place, tools=True) for place in range(3, 30)) > 0.6


def test_what_was_seen_at_a_place_counts_once() -> None:
    """Chosen: twelve sessions that ended with their fourth request say as much as twelve may, and no more."""
    beliefs = sessions(*[4] * 12)
    assert 0.01 < followed_there(beliefs, 3, 3, tools=True) < 0.1


@pytest.mark.slow
def test_the_last_request_of_a_workload_that_ends_there_writes_nothing(tmp_path: Path) -> None:
    """Promised: after five sessions of a workload its last write is left out, also of long ones."""
    driver = Driver(tmp_path)
    written = []
    for session in range(6):
        messages, marked = [user(f"{session} {prose(200, session)}")], []
        with driver.accel.session(f"s{session}", agent="ada"):
            for number in range(14):
                driver.ask(body(*messages, system=prose(1500)))
                usage = driver.records[-1].usage
                marked.append(bool(usage.written))
                messages += [assistant(prose(100, number)), user(prose(100, 50 + number))]
                driver.clock.advance(10)
        driver.clock.advance(20_000)
        written.append(marked)
    assert all(written[0])
    assert written[-1] == [*[True] * 13, False]


def test_examples_in_a_first_request_say_nothing_of_how_far_its_session_has_come(tmp_path: Path) -> None:
    """Single questions behind a few examples, hours apart: nobody reads what they write; soon they write nothing."""
    driver = Driver(tmp_path)
    examples = [make(f"example {n} {prose(200, n)}") for n in range(4) for make in (user, assistant)]
    for session in range(6):
        with driver.accel.session(f"s{session}", agent="ada"):
            driver.ask(body(*examples, user(f"question {session}"), system=prose(1500)))
        driver.clock.advance(20_000)
    assert driver.records[0].usage.written
    assert not driver.records[-1].usage.written
