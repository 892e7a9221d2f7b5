"""What reports read of a store, session by session, is what its records say one by one, in every version of it."""

from __future__ import annotations

import heapq
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.records import Calls, SessionOver, ToolRecord, TurnRecord
from agentaccel.report import By, report, to_json
from agentaccel.trace import evidence as module
from agentaccel.trace.evidence import evidence
from agentaccel.trace.record import NOT_REPORTED, TurnWrite, dump_turn, load_told, load_turn
from agentaccel.trace.schema import MIGRATIONS
from agentaccel.trace.store import Store, open_reader
from agentaccel.types import Expected, Marker, Usage
from tests.report.test_report import ODD, PRICES, TOOLS, close, tool, turn

BEFORE = 5
"""Migrations of a store that has no index by session."""


def written(path: Path, records: list[TurnRecord | ToolRecord], version: int = len(MIGRATIONS)) -> Path:
    """A store of some version that holds `records`, written in this order."""
    with closing(sqlite3.connect(path)) as connection:
        for script in MIGRATIONS[:version]:
            connection.executescript(script)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    if version == len(MIGRATIONS):
        store = Store(path)
        for record in records:
            if isinstance(record, TurnRecord):
                store.write_turn(TurnWrite(record))
            else:
                store.write_tool(record)
        store.close()
        return path
    newest = path.with_suffix(".newest")
    written(newest, records)
    with closing(sqlite3.connect(path)) as old:
        old.execute("ATTACH ? AS new", (str(newest),))
        columns = "id, session, started, tools, system, messages, record"
        old.execute(f"INSERT INTO turns ({columns}) SELECT {columns} FROM new.turns")
        old.execute("INSERT INTO tools SELECT id, session, started, record FROM new.tools")
        old.commit()
    return path


def one_by_one(path: Path) -> Iterator[TurnRecord | ToolRecord]:
    """Every record, oldest first."""
    with open_reader(path) as store:
        yield from heapq.merge(store.turns(), store.tools(), key=lambda record: record.started)


def told(path: Path, by: By = "session", most: int | None = None) -> Any:
    with open_reader(path) as store:
        return to_json(report(evidence(store), by, prices=PRICES, most=most))


@given(
    records=st.lists(ODD | TOOLS, max_size=20),
    by=st.sampled_from(["session", "agent", "model", "tenant", "day"]),
    version=st.sampled_from([BEFORE, len(MIGRATIONS)]),
)
def test_a_report_session_by_session_is_the_one_of_all_records(
    records: list[TurnRecord | ToolRecord], by: By, version: int
) -> None:
    """Whatever it is grouped by, and in a store of an older version, too."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "t.db", records, version)
        whole = to_json(report(one_by_one(path), by, prices=PRICES))
        found = told(path, by)
    for one in (whole, found):
        one["examples"] = sorted(one["examples"], key=json.dumps)  # type: ignore[arg-type]  # equal ones by their order
    close(found, whole)


def test_calls_between_two_requests_are_told_together(tmp_path: Path) -> None:
    """With what is to be added up of them; those that were begun early have records of their own."""
    calls = [tool(1, 2), tool(1.5, 3, outcome="failed"), tool(4, None)]
    early = replace(tool(5, 6), served_from="asked", hidden=0.5)
    records = [turn(0, 5), *calls, early, tool(6, 7), turn(8, 5), tool(1, 2, session="t")]
    with open_reader(written(tmp_path / "t.db", records)) as store:
        found = list(evidence(store))
    kinds = [type(one) for one in found]
    assert kinds == [TurnRecord, Calls, ToolRecord, Calls, TurnRecord, SessionOver, ToolRecord, SessionOver]
    first = found[1]
    assert isinstance(first, Calls)
    began = [one.started for one in calls]
    assert (first.count, first.failed, first.unfinished) == (3, 1, 1)
    assert first.spans == [(began[0], began[0] + 1), (began[1], began[1] + 1.5)]


@pytest.mark.parametrize("version", [BEFORE, len(MIGRATIONS)])
def test_what_was_before_a_time_is_not_read(tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 requests, the last three and the calls after them; an index leads there."""
    records = [one for n in range(40) for one in (turn(n, 5, session=f"s{n}"), tool(n, n + 0.5, session=f"s{n}"))]
    path, read = written(tmp_path / "t.db", records, version), []
    load = module.load_told
    monkeypatch.setattr(module, "load_told", lambda data: read.append(data) or load(data))
    with open_reader(path) as store:
        found = [one for one in evidence(store, since=records[-6].started) if isinstance(one, TurnRecord)]
        plan = store.database._connection.execute(  # type: ignore[union-attr]
            "EXPLAIN QUERY PLAN " + module._query(store.database._connection, 1.0, None),  # type: ignore[arg-type]
            {"since": 1.0, "until": None},
        ).fetchall()
    assert [one.session for one in found] == ["s37", "s38", "s39"]
    assert len(read) == 3
    said = " ".join(row[-1] for row in plan)
    assert "SEARCH turns USING INDEX turns_by_time (started>?)" in said
    assert "SEARCH tools USING INDEX tools_by_time (started>?)" in said


@pytest.mark.parametrize(
    ("version", "since", "sorts"), [(BEFORE, None, 1), (len(MIGRATIONS), 1.0, 1), (len(MIGRATIONS), None, 0)]
)
def test_only_keys_are_sorted_and_where_an_index_leads_nothing_is(
    tmp_path: Path, version: int, since: float | None, sorts: int
) -> None:
    """Records are looked up behind the sort: a store of a million turns would be written to disk anew."""
    with open_reader(written(tmp_path / "t.db", [turn(0, 5), tool(1, 2)], version)) as store:
        query = module._query(store.database._connection, since, None)  # type: ignore[arg-type]
        connection = store.database._connection
        assert connection is not None
        plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", {"since": since, "until": None})]
    assert ("USE TEMP B-TREE FOR ORDER BY" in plan) == bool(sorts)
    assert plan.count("SEARCH t USING INTEGER PRIMARY KEY (rowid=?)") == (2 if sorts else 0)


def test_reports_read_the_first_half_of_a_record(tmp_path: Path) -> None:
    """Without what no report looks at; a text that quotes the place between the halves changes nothing."""
    marker = Marker(path=("system", 0), ttl="5m", reason='said ,"told":true, there')
    record = turn(
        0, 5, agent='an ,"told":true, agent', markers=(marker,), reasons=("a", "b"), calls=("t",), consents=("c",),
        expected=Expected(read=1, write={}, uncached=2), as_written=Usage(input=5, read=0, write={}),
    )  # fmt: skip
    data = dump_turn(record).encode()
    assert load_turn(data) == record
    lean = replace(record, markers=(), reasons=(), calls=(), consents=(), expected=None)
    assert load_told(data) == lean
    older = json.dumps({name: value for name, value in json.loads(data).items() if name != "told"}).encode()
    assert load_told(older) == lean
    assert len(data.partition(b',"told":true,')[0]) < len(data)
    assert set(NOT_REPORTED) <= set(json.loads(data))


def test_rows_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    """Also where they stand behind a request: no index holds anything of them."""
    path = written(tmp_path / "t.db", [turn(0, 5), tool(1, 2), tool(3, 4), tool(5, 6)])
    with closing(sqlite3.connect(path)) as connection:
        for number, record in ((2, "{"), (3, '{"session": "s", "started": "soon"}')):
            connection.execute("UPDATE tools SET record = ? WHERE id = ?", (record, number))
        connection.commit()
    with open_reader(path) as store:
        found = report(evidence(store)).total
        assert (found.tools.calls, store.skipped) == (1, 2)


def test_an_older_store_gets_its_index_when_it_is_written(tmp_path: Path) -> None:
    """Rows that were there count as well."""
    path = written(tmp_path / "t.db", [turn(0, 5), tool(1, 2), tool(3, None)], BEFORE)
    before = told(path)
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert connection.execute("SELECT simply FROM tools").fetchall() == [(0,), (0,)]
    assert told(path) == before


def test_groups_that_are_not_wanted_are_part_of_the_total_alone(tmp_path: Path) -> None:
    """The largest of 100 are kept, and the number of the others."""
    records = [turn(n, 10 + n, session=f"s{n:03}") for n in range(100)]
    with open_reader(written(tmp_path / "t.db", records)) as store:
        found = report(evidence(store), most=3)
    assert ([group.name for group in found.groups], found.more) == (["s099", "s098", "s097"], 97)
    assert (found.total.requests, found.total.sessions) == (100, 100)
    assert found.total.tokens.input == sum(range(10, 110))
