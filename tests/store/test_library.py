"""What was learned outlasts the process, and nobody's learning is lost, nor anybody's secret written."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sqlite3
from pathlib import Path

import orjson
import pytest

from agentaccel.clock import ManualClock
from agentaccel.policy import StorePolicy
from agentaccel.predict.events import Asked
from agentaccel.predict.knowledge import MOST_WORKLOADS, Knowledge
from agentaccel.predict.offers import Sensitive
from agentaccel.predict.predictor import Predictor
from agentaccel.store.patterns import TURNS, Library, clear_shelf, read_shelf
from agentaccel.store.recorder import Recorder
from agentaccel.store.store import Store
from tests.predict.agent import WORKLOAD, Case, call, cases, foreseen, foresees, teach


class Process:
    """A process of a user's, as far as learning goes."""

    def __init__(
        self,
        path: Path,
        *,
        strict: bool = True,
        values: bool = True,
        sensitive: Sensitive | None = None,
        max_bytes: int = 2**28,
    ) -> None:
        self.recorder = Recorder(StorePolicy(path=path, max_bytes=max_bytes), strict=strict)
        self.library = Library(self.recorder, ManualClock(), sensitive=sensitive, values=values, strict=strict)

    @property
    def knowledge(self) -> Knowledge:
        return self.library.knowledge

    def end(self) -> None:
        self.library.save()
        self.recorder.close()


def learn(path: Path, sessions: list[Case], sensitive: Sensitive | None = None, *, values: bool = True) -> None:
    """A process that lives for so many sessions."""
    process = Process(path, sensitive=sensitive, values=values)
    teach(process.knowledge, sessions)
    process.end()


def known(path: Path) -> Knowledge:
    """What a process that begins now knows."""
    process = Process(path)
    try:
        return process.knowledge
    finally:
        process.recorder.close()


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_what_one_process_learned_the_next_one_foresees(tmp_path: Path) -> None:
    """And one that has learned nothing foresees nothing."""
    assert not foresees(Knowledge())
    learn(tmp_path / "t.db", cases(12))
    assert foresees(known(tmp_path / "t.db"))


@pytest.mark.slow
def test_two_processes_that_learn_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each writes what it has learned since it wrote last, whoever came in between."""
    one, other = Process(tmp_path / "t.db"), Process(tmp_path / "t.db")
    for round_ in range(3):
        teach(one.knowledge, cases(4, 8 * round_))
        teach(other.knowledge, cases(4, 8 * round_ + 4))
        one.library.save()
        other.library.save()
    one.end()
    other.end()
    alone = Knowledge()
    teach(alone, cases(24))
    assert known(tmp_path / "t.db").fleet.root.total == alone.fleet.root.total
    assert known(tmp_path / "t.db").workloads[WORKLOAD].root.total == alone.fleet.root.total


def test_a_process_takes_in_what_others_have_written_when_it_writes(tmp_path: Path) -> None:
    """So it need not be started anew."""
    one = Process(tmp_path / "t.db")
    assert not foresees(one.knowledge)
    learn(tmp_path / "t.db", cases(12))
    teach(one.knowledge, cases(1, 20))
    one.end()
    assert foresees(one.knowledge)


def test_what_was_written_is_not_written_again(tmp_path: Path) -> None:
    """Saving twice counts once; so does taking in what others have."""
    one, other = Process(tmp_path / "t.db"), Process(tmp_path / "t.db")
    teach(one.knowledge, cases(4))
    teach(other.knowledge, cases(4, 4))
    for process in (one, other, one, other):
        teach(process.knowledge, [])
        process.library.save()
    one.end()
    other.end()
    alone = Knowledge()
    teach(alone, cases(8))
    assert known(tmp_path / "t.db").fleet.root.total == alone.fleet.root.total


def in_a_process(path: Path, start: int) -> None:
    process = Process(path)
    for at in range(6):
        teach(process.knowledge, cases(1, start + at))
        process.library.save()
    process.end()


@pytest.mark.soak
def test_processes_of_the_system_lose_nothing_either(tmp_path: Path) -> None:
    """Four at once, a write for each session."""
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=in_a_process, args=(tmp_path / "t.db", 100 * at)) for at in range(4)]
    for process in running:
        process.start()
    for process in running:
        process.join(100)
        assert process.exitcode == 0
    alone = Knowledge()
    for at in range(4):
        teach(alone, cases(6, 100 * at))
    assert known(tmp_path / "t.db").fleet.root.total == alone.fleet.root.total


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_a_parent_had_learned_its_child_does_not_write_again(tmp_path: Path) -> None:
    """Each writes its own; what was learned before the fork, the parent writes."""
    process = Process(tmp_path / "t.db")
    teach(process.knowledge, cases(4))
    child = os.fork()
    if child == 0:
        try:
            teach(process.knowledge, cases(4, 4))
            process.end()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    process.end()
    alone = Knowledge()
    teach(alone, cases(8))
    assert known(tmp_path / "t.db").fleet.root.total == alone.fleet.root.total


def test_it_says_after_so_many_turns_that_it_is_time_to_write(tmp_path: Path) -> None:
    """A process that is killed loses the last of them, and no more."""
    process = Process(tmp_path / "t.db")
    teach(process.knowledge, cases(12))
    for _ in range(TURNS - 1):
        assert not process.library.learned()
    assert process.library.learned()
    process.library.save()
    assert foresees(known(tmp_path / "t.db"))
    process.recorder.close()


@pytest.mark.slow
def test_a_store_that_was_locked_gets_everything_later(tmp_path: Path) -> None:
    """What could not be written stays new."""
    process = Process(tmp_path / "t.db", strict=False)
    teach(process.knowledge, cases(12))
    other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    process.library.save()
    other.close()
    assert not foresees(known(tmp_path / "t.db"))
    process.end()
    assert foresees(known(tmp_path / "t.db"))


@pytest.mark.many(2)
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE patterns SET version = 99",
        "UPDATE patterns SET known = 'no JSON'",
        "UPDATE patterns SET known = '[1, 2]'",
        "UPDATE patterns SET known = x'ff00'",
    ],
)
def test_patterns_that_cannot_be_read_stay_as_they_are(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer version's, or spoiled ones: one line in the log, and learning goes on in memory."""
    path = tmp_path / "t.db"
    learn(path, cases(12))
    rows = changed(path, damage)
    process = Process(path, strict=False)
    with caplog.at_level(logging.WARNING, "agentaccel"):
        teach(process.knowledge, cases(12, 20))
        process.library.save()
        teach(process.knowledge, cases(1, 40))
        process.end()
    assert foresees(process.knowledge)
    assert changed(path, "SELECT 1") == rows
    assert 1 <= len({record.message for record in caplog.records}) == len(caplog.records) <= 2


def changed(path: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute(statement)
        return connection.execute("SELECT workload, version, known FROM patterns ORDER BY workload").fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "odd",
    [
        '{"fleet": 7, "calls": [], "rules": {"x": 1}, "models": null}',
        '{"fleet": {"nodes": {"nonsense": {"counts": {"a": -5}}}}, "calls": {"f": {"sources": {"a": {"[]": 1}}}}}',
    ],
)
def test_patterns_of_odd_shapes_never_reach_the_agent(odd: str, tmp_path: Path) -> None:
    """Somebody has edited the file."""
    path = tmp_path / "t.db"
    learn(path, cases(2))
    changed(path, f"UPDATE patterns SET known = '{odd}'")
    process = Process(path, strict=False)
    teach(process.knowledge, cases(12))
    process.end()
    assert foresees(process.knowledge)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anything")
def test_a_file_that_only_may_be_read_disturbs_nobody(tmp_path: Path) -> None:
    """One log line, and learning in memory."""
    path = tmp_path / "t.db"
    learn(path, cases(2))
    path.chmod(0o400)
    process = Process(path, strict=False)
    teach(process.knowledge, cases(12))
    process.end()
    assert foresees(process.knowledge)


def test_a_store_that_fails_in_the_middle_disturbs_nobody(tmp_path: Path) -> None:
    """Its table is gone, as nobody would expect."""
    process = Process(tmp_path / "t.db", strict=False)
    teach(process.knowledge, cases(12))
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("DROP TABLE patterns")
    connection.close()
    process.end()
    assert foresees(process.knowledge)


def test_without_a_store_learning_goes_on_in_memory() -> None:
    """`StorePolicy(enabled=False)`."""
    recorder = Recorder(StorePolicy(enabled=False), strict=True)
    library = Library(recorder, ManualClock(), strict=True)
    teach(library.knowledge, cases(12))
    library.save()
    assert foresees(library.knowledge)


def test_what_was_cleared_a_running_process_does_not_bring_back(tmp_path: Path) -> None:
    """It writes what it learns from then on, and no more."""
    process = Process(tmp_path / "t.db")
    teach(process.knowledge, cases(12))
    process.library.save()
    store = Store(tmp_path / "t.db")
    assert clear_shelf(store) == 2
    teach(process.knowledge, cases(1, 20))
    process.end()
    alone = Knowledge()
    teach(alone, cases(1))
    assert known(tmp_path / "t.db").fleet.root.total == alone.fleet.root.total
    store.close()


def test_the_purge_takes_patterns_that_are_old(tmp_path: Path) -> None:
    """Those that nothing was added to since then."""
    learn(tmp_path / "t.db", cases(12))
    store = Store(tmp_path / "t.db")
    store.purge(ManualClock().wall() - 10)
    assert read_shelf(store).parts
    store.purge(ManualClock().wall() + 10)
    assert not read_shelf(store).parts
    store.close()


SECRETS = (
    "swordfish holiday",  # in results, and in the replies
    "mia_li_1000",  # of one customer
    "K0QX0A",
    "quietly",  # looks harmless, and was said once
)


def test_no_words_results_or_values_of_a_single_session_are_written(tmp_path: Path) -> None:
    """Contract line 9: what is written of them are hashes under the key of the store."""
    learn(tmp_path / "t.db", [Case(user="mia_li_1000", trips=("K0QX0A",), note=SECRETS[0], language=SECRETS[3])])
    kept = bytes_of(tmp_path)
    assert b"get_user" in kept
    for secret in SECRETS:
        assert secret.encode() not in kept


@pytest.mark.parametrize("secret", ["mia@example.com", "sk-proj-8Aq2Lx", "4111111111111111", "1987-05-20", "Mia Li"])
def test_what_looks_like_somebodys_own_is_not_written_however_often_it_is_seen(secret: str, tmp_path: Path) -> None:
    """Though every session has it."""
    learn(tmp_path / "t.db", [Case(user=f"u{at}", trips=("A1",), language=secret) for at in range(12)])
    assert secret.encode() not in bytes_of(tmp_path)


@pytest.mark.parametrize("values", [True, False])
def test_what_all_sessions_have_in_common_is_written_with_consent_alone(values: bool, tmp_path: Path) -> None:
    """Contract line 9, and the twin of the tests above: constants are templates, and those guards can fail."""
    sessions = [Case(user=f"u{at}", trips=("A1",), language="plain") for at in range(12)]
    learn(tmp_path / "t.db", sessions, values=values)
    assert (b"plain" in bytes_of(tmp_path)) is values
    assert b"get_trip" in bytes_of(tmp_path)


def test_a_value_that_is_marked_sensitive_is_not_written(tmp_path: Path) -> None:
    """By tool and argument; what was written before it was marked goes, too."""
    sessions = [Case(user=f"u{at}", trips=("A1",), language="plain") for at in range(12)]
    learn(tmp_path / "t.db", sessions)

    def sensitive(tool: str, argument: str) -> bool:
        return (tool, argument) == ("get_trip", "language")

    learn(tmp_path / "t.db", sessions, sensitive)
    store = Store(tmp_path / "t.db")
    store.purge(0.0)  # gives up what lies in free pages
    parts = str(read_shelf(store))
    store.close()
    assert "plain" not in parts
    assert "get_trip" in parts


@pytest.mark.slow
def test_single_sessions_of_several_processes_come_together(tmp_path: Path) -> None:
    """What each has shown but once waits under a hash, until the second one shows it."""
    learn(tmp_path / "t.db", cases(1))
    assert not foresees(known(tmp_path / "t.db"))
    for at in range(1, 8):
        learn(tmp_path / "t.db", cases(1, at))
    assert foresees(known(tmp_path / "t.db"))


def test_reading_twice_gives_the_same_guesses(tmp_path: Path) -> None:
    """Nothing hangs on the order of things in memory."""
    learn(tmp_path / "t.db", cases(12))
    assert foreseen(known(tmp_path / "t.db")) == foreseen(known(tmp_path / "t.db"))


@pytest.mark.slow
def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    """As many parts as there may be leave most of the store to its records; what was met least goes first."""
    process = Process(tmp_path / "t.db", max_bytes=1024 * 1024)
    teach(process.knowledge, cases(12))
    predictor = Predictor(process.knowledge)
    for at in range(400):
        history = predictor.session(WORKLOAD)
        history.take(Asked((call(f"tool_{at}", **{f"argument_{at}": "plain"}),)))
        history.close()
    process.end()
    store = Store(tmp_path / "t.db")
    sizes = [len(orjson.dumps(part)) for part in read_shelf(store).parts.values()]
    store.close()
    assert len(sizes) == 2
    assert max(sizes) * (MOST_WORKLOADS + 1) <= 1024 * 1024 / 4
    assert known(tmp_path / "t.db").fleet.root.total > 0
