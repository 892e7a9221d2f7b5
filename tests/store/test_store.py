"""The trace store keeps what it promises, keeps no content, and never disturbs the agent's call."""

from __future__ import annotations

import importlib.util
import logging
import os
import sqlite3
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from agentaccel import Accel, ConfigError, Policy, StorePolicy, ToolCall, TraceError
from agentaccel.store import database
from agentaccel.store.migrations import MIGRATIONS
from agentaccel.store.states import dump_state, load_state
from agentaccel.store.store import Store, open_reader
from agentaccel.testing import ManualClock
from agentaccel.testing.inside import engine
from tests.driver import Driver, assistant, body, loop, prose, tool, user

LENIENT = Policy(strict=False)
GARBAGE = b"SQLite format 3\0" + b"and then nothing that is a database" * 500


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_only_its_owner_may_read_the_store_and_its_key(tmp_path: Path) -> None:
    """Mode 0600 from the first byte on."""
    Driver(tmp_path).ask(body(user("a")))
    for name in ("trace.db", "trace.db.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_no_content_is_kept_by_default(tmp_path: Path) -> None:
    """Contract line 9: hashes, sizes, names, usage and times."""
    driver = Driver(tmp_path)
    driver.ask(body(user("my secret wish"), system="the hidden rule", tools=[tool("named_tool")]))
    driver.accel.tools({"named_tool": lambda query: query})["named_tool"](query="a private question")
    driver.accel.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for content in (b"secret wish", b"hidden rule", b"private question"):
        assert content not in kept
    assert b"named_tool" in kept


def test_content_is_kept_where_the_user_turns_that_on(tmp_path: Path) -> None:
    """The twin: the guard above can fail."""
    driver = Driver(tmp_path, policy=Policy(strict=True, store=StorePolicy(content=True)))
    driver.ask(body(user("my secret wish")))
    driver.accel.close()
    assert any(b"secret wish" in path.read_bytes() for path in tmp_path.iterdir())


def test_hashes_are_keyed_so_that_two_stores_cannot_be_compared(tmp_path: Path) -> None:
    """Without the key nobody can test whether a text was in a prompt."""
    digests = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        Driver(tmp_path / name).ask(body(user("the same text")))
        digests.append(rows(tmp_path / name / "trace.db", "SELECT digest FROM segments"))
    assert digests[0] != digests[1]


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Every field, through JSON and back."""
    driver = Driver(tmp_path)
    with driver.accel.session("s", agent="a", tenant="t", parent="p"):
        loop(driver, 3, system=prose(1200), tools=[tool("x", 900)])
    record = driver.records[-1]
    assert (record.session, record.agent, record.tenant, record.parent) == ("@t/s", "a", "t", "@t/p")
    assert record.expected is not None
    assert record.usage.read == record.expected.read
    assert record.started < (record.first_byte or 0) < (record.finished or 0)
    assert [marker.ours for marker in record.markers] == [True] * 4
    assert record.markers[0].path == ("tools", 0)


def test_a_sessions_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Another process plans from this."""
    driver = Driver(tmp_path)
    with driver.accel.session("s") as session:
        for turn in range(4):
            driver.ask(body(user("a"), *[assistant("b"), user("c")] * turn, system=f"{prose(900)} {turn}"))
        state = session.conversation.state
    assert load_state(dump_state(state)) == state


@pytest.mark.slow
def test_a_locked_store_costs_one_log_line_and_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Recording waits in memory until the lock is gone."""
    driver = Driver(tmp_path, policy=LENIENT)
    driver.ask(body(user("before")))
    other = sqlite3.connect(tmp_path / "trace.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with caplog.at_level(logging.WARNING, "agentaccel"):
        driver.ask(body(user("while locked")))
        driver.ask(body(user("still locked")))
    other.execute("ROLLBACK")
    other.close()
    driver.ask(body(user("after")))
    assert len(driver.records) == 4
    assert [record.message.count("locked") for record in caplog.records] == [1]


@pytest.mark.parametrize("damage", ["garbage", "truncated", "table gone"])
def test_a_corrupt_store_costs_one_log_line_and_never_the_call(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before or in the middle of a run."""
    path = tmp_path / "trace.db"
    if damage == "garbage":
        path.write_bytes(GARBAGE)
    elif damage == "truncated":
        Driver(tmp_path).accel.close()
        path.write_bytes(path.read_bytes()[:5000])
    with caplog.at_level(logging.WARNING, "agentaccel"):
        driver = Driver(tmp_path, policy=LENIENT)
        if damage == "table gone":
            connection = sqlite3.connect(path)
            connection.execute("DROP TABLE turns")
            connection.close()
        usages = loop(driver, 3, system=prose(1200))
    assert [usage.read for usage in usages[1:]] == [usage.input for usage in usages[:-1]]
    assert 1 <= len(caplog.records) <= 2


@pytest.mark.parametrize("strict", [True, False])
def test_a_path_that_can_never_be_a_store_is_told_where_it_is_given(strict: bool, tmp_path: Path) -> None:
    """In the policy or in the environment; without logging nobody would find out. The file stays as it is."""
    (tmp_path / "notes.txt").write_text("Buy milk.\n")
    for path, says in ((tmp_path, "is a folder"), (tmp_path / "notes.txt", "is no SQLite database")):
        with pytest.raises(ConfigError, match=says):
            Accel(Policy(strict=strict, store=StorePolicy(path=path)), environ={})
        with pytest.raises(ConfigError, match=says):
            Accel(Policy(strict=strict), environ={"AGENTACCEL_STORE": str(path)})
        Accel(Policy(mode="off", store=StorePolicy(path=path)), environ={}).close()
    assert (tmp_path / "notes.txt").read_text() == "Buy milk.\n"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_written_costs_one_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Here the folder is a file."""
    (tmp_path / "blocked").write_text("a file")
    with caplog.at_level(logging.WARNING, "agentaccel"):
        driver = Driver(tmp_path / "blocked", policy=LENIENT)
        loop(driver, 3)
    assert len(caplog.records) == 1


def test_a_full_disk_stops_the_recording_and_not_the_agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SQLite's own page limit stands in for the disk's end."""
    driver = Driver(tmp_path, policy=LENIENT)
    store = engine(driver.accel).recorder.store
    assert store is not None
    with store.database.using() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with caplog.at_level(logging.WARNING, "agentaccel"):
        usages = loop(driver, 30, system=prose(1200))
    assert len(usages) == 30
    assert any("full" in record.getMessage() for record in caplog.records)
    assert len(caplog.records) == 1


def test_strict_mode_raises_what_is_logged_otherwise(tmp_path: Path) -> None:
    """The twin of the tests above: without the guard the failure reaches the caller."""
    (tmp_path / "trace.db").write_bytes(GARBAGE)
    with pytest.raises(TraceError, match="not a database"):
        Driver(tmp_path)


def test_a_newer_store_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """To the reader as an error, to the agent as a log line."""
    Driver(tmp_path).accel.close()
    connection = sqlite3.connect(tmp_path / "trace.db")
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(TraceError, match="upgrade"), open_reader(tmp_path / "trace.db"):
        pass
    with pytest.raises(TraceError, match="upgrade"):
        Driver(tmp_path)


def test_a_store_of_an_older_version_goes_on_with_what_it_holds(tmp_path: Path) -> None:
    """A session that was begun in it as well: one row, and the new request reads what the old one wrote."""
    path = tmp_path / "trace.db"
    old = sqlite3.connect(path, isolation_level=None)
    for statement in filter(str.strip, MIGRATIONS[0].split(";")):
        old.execute(statement)
    old.execute("PRAGMA user_version = 1")
    old.execute("INSERT INTO sessions VALUES ('s', 'ada', NULL, NULL, 'w', 1.0, 3, '{}', '{}', NULL, 7)")
    old.execute("INSERT INTO lineage VALUES (x'00', 's', 1.0, 0, 2)")
    old.close()
    store = Store(path)
    row = store.session("s")
    assert row is not None
    assert (row.agent, row.turns, store.turns_of("s"), store.session_of([b"\0"], 3)) == ("ada", 3, 3, "s")
    store.close()
    assert rows(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]


def foreign(path: Path, *statements: str) -> bytes:
    """The bytes of another program's database."""
    other = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        other.execute(statement)
    other.close()
    return path.read_bytes()


FOREIGN = {
    "tables": ("CREATE TABLE invoices (n)", "INSERT INTO invoices VALUES (7)"),
    "a name of ours": ("CREATE TABLE turns (n)",),
    "a version of ours": ("CREATE TABLE sessions (id)", "PRAGMA user_version = 3"),
    "a version above ours": ("CREATE TABLE invoices (n)", "PRAGMA user_version = 42"),
    "a version alone": ("PRAGMA user_version = 2",),
}


@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN)
def test_a_database_of_another_program_is_refused_and_left_as_it_is(
    statements: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """To the agent as one log line; nothing is written, beside it neither."""
    path = tmp_path / "trace.db"
    before = foreign(path, *statements)
    for opens in (lambda path: nullcontext(Store(path)), open_reader):
        with pytest.raises(TraceError, match=r"trace\.db is an SQLite database but not a trace store"):
            opens(path).__enter__()
    with caplog.at_level(logging.WARNING, "agentaccel"):
        driver = Driver(tmp_path, policy=LENIENT)
        usages = loop(driver, 3, system=prose(1200))
        driver.accel.close()
    assert usages[-1].read
    assert ["recording to it stops" in record.message for record in caplog.records] == [True]
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["trace.db"]


@pytest.mark.parametrize("made", [(), ("CREATE TABLE t (n)", "DROP TABLE t")], ids=["no bytes", "no tables"])
def test_an_empty_database_becomes_a_store(made: tuple[str, ...], tmp_path: Path) -> None:
    """It is nobody's."""
    foreign(tmp_path / "trace.db", *made)
    driver = Driver(tmp_path)
    driver.ask(body(user("a")))
    assert len(driver.records) == 1


def test_reading_a_store_that_is_not_there_says_so(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(TraceError, match=r"nowhere\.db"), open_reader(tmp_path / "nowhere.db"):
        pass


def test_purge_removes_old_turns_and_what_only_they_needed(tmp_path: Path) -> None:
    """And nothing that younger ones need."""
    driver = Driver(tmp_path)
    driver.ask(body(user("old"), system="old rules"))
    driver.clock.advance(86_400)
    driver.ask(body(user("young"), system="young rules"))
    store = engine(driver.accel).recorder.store
    assert store is not None
    assert store.purge(driver.clock.now - 3600) == 1
    assert [record.usage.input for record in driver.records] == [driver.records[0].usage.input]
    assert len(rows(tmp_path / "trace.db", "SELECT * FROM segments")) == 2
    assert len(rows(tmp_path / "trace.db", "SELECT * FROM sessions")) == 1
    driver.ask(body(user("young"), assistant("x"), user("y"), system="young rules"))
    assert len(rows(tmp_path / "trace.db", "SELECT * FROM sessions")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("requests", [100, pytest.param(200, marks=pytest.mark.soak)])
def test_the_store_stays_under_its_size(tmp_path: Path, requests: int) -> None:
    """The oldest turns go first."""
    driver = Driver(tmp_path, policy=Policy(strict=True, store=StorePolicy(content=True, max_bytes=1024 * 1024)))
    for number in range(requests):
        driver.ask(body(user(f"{number} {prose(2000, number)}")))
    driver.accel.close()
    assert (tmp_path / "trace.db").stat().st_size < 2.2 * 1024 * 1024
    newest = driver.records[-1]
    assert 20 < len(driver.records) < requests
    assert newest.started > driver.clock.now - 60


def test_tool_runs_are_kept_with_a_keyed_hash_of_their_arguments(tmp_path: Path) -> None:
    """Equal calls have equal keys, whatever the order of their arguments."""
    driver = Driver(tmp_path)
    run = driver.accel.tools({"t": lambda **arguments: 1})["t"]
    run(a=1, b=2)
    run(b=2, a=1)
    run(a=1, b=3)
    with open_reader(tmp_path / "trace.db") as reader:
        keys = [record.key for record in reader.tools()]
    assert keys[0] == keys[1] != keys[2]


def test_a_tool_run_belongs_to_the_session_whose_model_asked_for_it(tmp_path: Path) -> None:
    """Without an open session, the call itself tells."""
    from agentaccel.turn import CallClosed, Finished, Started

    driver = Driver(tmp_path)
    turn = driver.accel.turn(body(user("a")))
    turn.handle(Started(driver.clock.monotonic()))
    turn.handle(CallClosed(ToolCall(name="look", arguments={"x": 1}), driver.clock.monotonic()))
    turn.handle(Finished(driver.clock.monotonic()))
    look = driver.accel.tools({"look": lambda x: x})["look"]
    look(x=1)
    look(x=2)
    with open_reader(tmp_path / "trace.db") as reader:
        asked, unasked = reader.tools()
    assert asked.session == driver.records[0].session
    assert unasked.session == ""


def test_lone_surrogates_anywhere_are_recorded_and_never_raise(tmp_path: Path) -> None:
    """They cannot be UTF-8, and still they occur."""
    driver = Driver(tmp_path)
    bad = "\ud800"
    named = {**tool("x"), "name": f"tool{bad}"}
    turn = driver.accel.turn(body(user(f"a {bad}"), system=f"s {bad}", tools=[named], metadata={"user_id": bad}))
    from agentaccel.turn import Finished, Started

    turn.handle(Started(0.0))
    turn.handle(Finished(1.0))
    assert len(driver.records) == 1


def test_what_one_workload_teaches_does_not_reach_another(tmp_path: Path) -> None:
    """Statistics are learned per agent."""
    driver = Driver(tmp_path)
    for number in range(12):
        with driver.accel.session(f"one-shot {number}", agent="classifier"):
            driver.ask(body(user(prose(1500, number))), gap=400)
    store = engine(driver.accel).recorder.store
    assert store is not None
    assert store.beliefs("agent classifier", driver.clock.now, tools=True).followed(0, tools=True) < 0.25
    assert store.beliefs("agent other", driver.clock.now, tools=True).counts == {}


def test_the_clock_of_the_store_is_the_injected_one(tmp_path: Path) -> None:
    """No decision reads a clock by itself."""
    driver = Driver(tmp_path, clock=ManualClock(now=1_000_000_000.0))
    driver.ask(body(user("a")))
    assert driver.records[0].started == 1_000_000_005.0


def test_outside_of_tests_a_store_waits_for_the_disk_as_sqlite_advises() -> None:
    """The suite does not wait for it (`conftest`): so the module is read once more, as it is by everybody else."""
    spec = importlib.util.spec_from_file_location("agentaccel.store.database_as_it_is", database.__file__)
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    assert fresh.SYNCHRONOUS == "NORMAL"
