"""What one process has learned serves the next one; and a store that fails costs nothing but that."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from agentaccel import Accel, Policy
from agentaccel.clock import SystemClock
from agentaccel.policy import StorePolicy
from agentaccel.predict.breaker import UNLIMITED
from agentaccel.predict.experience import Experience
from agentaccel.store.experience import MOST_LESSONS, TrackRecord
from agentaccel.store.patterns import TURNS, clear_shelf, read_shelf
from agentaccel.store.recorder import Recorder
from agentaccel.store.store import Store
from agentaccel.testing import ManualClock
from agentaccel.testing.inside import engine, speculator
from agentaccel.types import Prediction
from tests.mutants import ROOT
from tests.predict.scripted import call
from tests.predict.test_learning import tickets


@pytest.mark.slow
def test_what_one_process_learned_serves_the_first_session_of_the_next_one(tmp_path: Path) -> None:
    """Where nothing was learned it takes until the session repeats itself."""
    [slower], fresh = tickets(tmp_path / "new.db", 300, 1)
    assert fresh.ledger.predicted.served <= 2
    tickets(tmp_path / "t.db", 100, 12)
    [seconds], agent = tickets(tmp_path / "t.db", 300, 1)
    assert agent.ledger.predicted.served >= 3
    assert seconds <= min(slower - 2.0, 5 * 3.0 + 2.0)


@pytest.mark.slow
def test_what_two_at_once_learned_serves_a_third(tmp_path: Path) -> None:
    """Each alone has seen too little, or the other's would be lost."""
    _, one = tickets(tmp_path / "t.db", 100, 6, close=False)
    _, other = tickets(tmp_path / "t.db", 200, 6, close=False)
    one.accel.close()
    other.accel.close()
    assert speculator(one.accel).learning.library.knowledge.fleet.root.total > 0
    _, agent = tickets(tmp_path / "t.db", 300, 1)
    together = speculator(agent.accel).learning.library.knowledge.fleet.root.total
    _, alone = tickets(tmp_path / "alone.db", 100, 6)
    assert together >= 2 * speculator(alone.accel).learning.library.knowledge.fleet.root.total
    assert agent.ledger.predicted.served >= 3


@pytest.mark.slow
def test_it_is_written_while_the_process_lives(tmp_path: Path) -> None:
    """One that is killed has lost no more than the last `TURNS` turns."""
    count = TURNS // 5 + 1
    _, agent = tickets(tmp_path / "t.db", 100, count, close=False)
    assert count * 5 >= TURNS
    engine(agent.accel).runs.leave("")
    store = Store(tmp_path / "t.db")
    assert read_shelf(store).parts
    store.close()


@pytest.mark.slow
def test_where_it_is_only_watched_it_is_learned_all_the_same(tmp_path: Path) -> None:
    """Observing runs nothing early, and what it has learned serves a process that may."""
    _, watched = tickets(tmp_path / "t.db", 100, 12, mode="observe")
    assert watched.ledger.predicted.launched == 0
    assert watched.ledger.withheld > 0
    _, agent = tickets(tmp_path / "t.db", 300, 1)
    assert agent.ledger.predicted.served >= 3


def test_where_it_is_off_nothing_is_learned(tmp_path: Path) -> None:
    """Not even a file is there."""
    tickets(tmp_path / "t.db", 100, 4, mode="off")
    assert not (tmp_path / "t.db").exists()


def test_without_tools_nothing_is_read_or_written(tmp_path: Path) -> None:
    accel = Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "t.db")), clock=ManualClock())
    accel.turn({"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]})
    learning = speculator(accel).learning
    assert not learning.begun
    assert learning.library._knowledge is None
    accel.close()


@pytest.mark.slow
@pytest.mark.many(4)
@pytest.mark.parametrize("damage", ["version = 99", "known = 'x'", "known = '[]'"])
def test_a_broken_store_is_a_miss_and_one_log_line(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tickets are answered as without it, and what is learned in this process serves it."""
    tickets(tmp_path / "t.db", 100, 2)
    connection = sqlite3.connect(tmp_path / "t.db")
    with connection:
        connection.execute(f"UPDATE experience SET {damage}")
    connection.close()
    with caplog.at_level(logging.WARNING, "agentaccel"):
        _, agent = tickets(tmp_path / "t.db", 100, 9, strict=False)
    assert agent.ledger.predicted.served >= 3
    assert len([one for one in caplog.records if "trace store" in one.message]) == 1


# --- what came of early runs ------------------------------------------------------------------------------------------


def track(path: Path) -> tuple[TrackRecord, Recorder]:
    recorder = Recorder(StorePolicy(path=path), strict=True)
    record = TrackRecord(recorder, SystemClock())
    record.open()
    return record, recorder


def wasted(record: TrackRecord, count: int, rule: str = "r") -> None:
    """So many launches of a pattern that nobody asked for."""
    guess = Prediction(call=call("look", key="a"), probability=0.5, soon=0.5, rule=record.named(rule))
    for at in range(count):
        record.learn(lambda experience, at=at: experience.launched(guess, float(at)))  # type: ignore[misc]
        record.learn(lambda experience, at=at: experience.settled(guess, used=False, now=float(at)))  # type: ignore[misc]


def is_open(record: TrackRecord, rule: str = "r") -> bool:
    return record.experience.breakers.room(record.named(rule), 21.0) < UNLIMITED


def test_a_breaker_that_opened_is_open_in_the_next_process(tmp_path: Path) -> None:
    """One that nothing was launched for is not."""
    one, _ = track(tmp_path / "t.db")
    wasted(one, 20)
    assert is_open(one)
    one.save()
    other, _ = track(tmp_path / "t.db")
    assert is_open(other)
    assert not is_open(other, "another")
    assert other.experience.dump() == one.experience.dump()


def test_two_processes_learn_as_one_that_saw_everything(tmp_path: Path) -> None:
    """Neither has seen enough for its breaker to open; together they have."""
    one, _ = track(tmp_path / "t.db")
    other, _ = track(tmp_path / "t.db")
    alone = TrackRecord(one._recorder, SystemClock())
    half = next(n for n in range(1, 100) if _opens_after(alone, 2 * n))
    for record in (one, other):
        wasted(record, half)
        record.learn(lambda experience: experience.ran("look", 2.0))
    assert not is_open(one)
    assert not is_open(other)
    one.save()
    other.save()
    assert is_open(other)
    third, _ = track(tmp_path / "t.db")
    assert is_open(third)
    assert sum(third.experience.dump()["tools"]["look"].values()) == 2.0
    wasted(one, 1)
    one.save()
    assert is_open(one), "it has taken in what the other one wrote"


def _opens_after(record: TrackRecord, count: int) -> bool:
    record.experience = Experience()
    wasted(record, count)
    return is_open(record)


def test_saving_twice_counts_once(tmp_path: Path) -> None:
    record, _ = track(tmp_path / "t.db")
    wasted(record, 5)
    record.save()
    record.save()
    assert track(tmp_path / "t.db")[0].experience.dump() == record.experience.dump()


def test_what_was_learned_before_the_store_was_read_is_not_lost(tmp_path: Path) -> None:
    """Reading waits until a request needs it; a tool may have been called before."""
    record, recorder = track(tmp_path / "t.db")
    wasted(record, 20)
    record.save()
    late = TrackRecord(recorder, SystemClock())
    late.learn(lambda experience: experience.ran("look", 2.0))
    late.open()
    assert is_open(late)
    assert late.experience.dump()["tools"]["look"]


@pytest.mark.slow
def test_a_locked_store_gets_it_later(tmp_path: Path) -> None:
    recorder = Recorder(StorePolicy(path=tmp_path / "t.db"), strict=False)
    record = TrackRecord(recorder, SystemClock())
    wasted(record, 20)
    other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    record.save()
    other.close()
    assert not is_open(track(tmp_path / "t.db")[0])
    record.save()
    assert is_open(track(tmp_path / "t.db")[0])


def test_a_newer_version_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record, recorder = track(tmp_path / "t.db")
    wasted(record, 20)
    record.save()
    recorder.close()
    connection = sqlite3.connect(tmp_path / "t.db")
    with connection:
        connection.execute("UPDATE experience SET version = 99, known = 'newer'")
    older, _ = track(tmp_path / "t.db")
    wasted(older, 20)
    older.save()
    older.save()
    assert is_open(older), "it goes on in memory"
    assert connection.execute("SELECT version, known FROM experience").fetchall() == [(99, "newer")]
    assert len([one for one in caplog.records if "format 99" in one.message]) == 1


def test_it_holds_names_of_tools_and_numbers_and_nothing_of_a_pattern(tmp_path: Path) -> None:
    """A pattern may tell of a value that calls have in common."""
    record, recorder = track(tmp_path / "t.db")
    wasted(record, 3, "look(key=constant 'hunter2')")
    record.save()
    recorder.close()
    assert not any(b"hunter2" in path.read_bytes() for path in tmp_path.iterdir())


def test_it_stays_small_in_memory_and_in_the_store(tmp_path: Path) -> None:
    recorder = Recorder(StorePolicy(path=tmp_path / "t.db", max_bytes=1 << 20), strict=True)
    record = TrackRecord(recorder, SystemClock())
    for at in range(600):
        wasted(record, 2, f"pattern {at}")
        record.learn(lambda experience, at=at: experience.ran(f"tool {at}", 1.0))  # type: ignore[misc]
    assert len(record._news) == MOST_LESSONS
    record.save()
    [(known,)] = sqlite3.connect(tmp_path / "t.db").execute("SELECT known FROM experience").fetchall()
    assert len(known) <= (1 << 20) // 64
    assert "tool 599" in orjson.loads(known)["tools"], "what was met last is kept"


def test_clearing_what_was_learned_and_the_purge_take_it_too(tmp_path: Path) -> None:
    record, _ = track(tmp_path / "t.db")
    store = Store(tmp_path / "t.db")
    for remove in (clear_shelf, lambda store: store.purge(SystemClock().wall() + 10)):
        wasted(record, 20)
        record.save()
        assert is_open(track(tmp_path / "t.db")[0])
        remove(store)
        assert not is_open(track(tmp_path / "t.db")[0])
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_a_parent_had_not_written_its_child_does_not_write(tmp_path: Path) -> None:
    record, _ = track(tmp_path / "t.db")
    record.learn(lambda experience: experience.ran("look", 2.0))
    child = os.fork()
    if child == 0:
        try:
            record.learn(lambda experience: experience.ran("look", 2.0))
            record.save()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    record.save()
    assert sum(track(tmp_path / "t.db")[0].experience.dump()["tools"]["look"].values()) == 2.0


@pytest.mark.slow
def test_a_process_that_ends_without_closing_has_written_what_it_learned(tmp_path: Path) -> None:
    """Scripts seldom close anything."""
    script = (
        "import sys, pathlib; from tests.predict.test_learning import tickets; "
        "lives = tickets(pathlib.Path(sys.argv[1]), 100, 4, close=False)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "t.db")], cwd=ROOT, check=True, timeout=60)
    store = Store(tmp_path / "t.db")
    assert read_shelf(store).parts
    store.close()
