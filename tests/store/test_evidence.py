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
from agentaccel.report.advise.reading import talks_of_store
from agentaccel.store import codec as rows
from agentaccel.store import evidence as module
from agentaccel.store.codec import (
    NOT_REPORTED,
    UNREADABLE,
    TurnWrite,
    dump_tool,
    dump_turn,
    load_told,
    load_tool,
    load_turn,
)
from agentaccel.store.evidence import evidence
from agentaccel.store.migrations import MIGRATIONS
from agentaccel.store.store import Store, open_reader
from agentaccel.types import BilledPart, Cause, Drift, Expected, Marker, Miss, Usage
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


def conversations(mode: str) -> list[TurnRecord | ToolRecord]:
    """Five sessions, each with a call and two conversations of two requests that take turns: 1,000 tokens, then 1,000
    of which half are read."""
    return [
        one
        for n in range(5)
        for thread in ("", "9f2c")
        for k in range(2)
        for one in (
            turn(
                10 * n + 2 * k + bool(thread), 1000 - 500 * k, 500 * k, session=f"{mode} {n}", thread=thread, mode=mode
            ),
            *([tool(10 * n + 0.1, 10 * n + 0.2, session=f"{mode} {n}")] if not thread and not k else []),
        )
    ]


@pytest.mark.parametrize("since", [None, 1.0])
@pytest.mark.parametrize("version", [BEFORE, len(MIGRATIONS)])
def test_the_conversations_of_a_session_are_one_session(tmp_path: Path, version: int, since: float | None) -> None:
    """Five of either kind are a control group of five, too few for an interval; and each of them is over once, after
    its two conversations and its call, which come in the order in which they began."""
    path = written(tmp_path / "t.db", [*conversations("on"), *conversations("holdout")], version)
    with open_reader(path) as store:
        found = list(evidence(store, since))
        shown = report(evidence(store, since), prices=PRICES)
    names = [f"{mode} {n}" for mode in ("holdout", "on") for n in range(5)]
    assert [one.session for one in found if isinstance(one, SessionOver)] == names
    assert [group.name for group in sorted(shown.groups, key=lambda group: group.name)] == names
    assert {group.requests for group in shown.groups} == {4}
    control = shown.total.control
    assert control is not None
    assert (shown.total.sessions, control.sessions, control.others) == (10, 5, 5)
    assert (control.low, control.high) == (None, None)
    first = [one for one in found if not isinstance(one, SessionOver) and one.session == "on 0"]
    assert [one.thread if isinstance(one, TurnRecord) else "call" for one in first] == ["", "call", "9f2c", "", "9f2c"]


def test_a_session_of_which_only_another_conversation_is_left_is_told_too(tmp_path: Path) -> None:
    """The first was before the period."""
    path = written(tmp_path / "t.db", [turn(0, 5), turn(9, 6, thread="9f2c"), turn(9, 7, session="t")])
    with open_reader(path) as store:
        found = list(evidence(store, turn(5).started))
    assert [type(one) for one in found] == [TurnRecord, SessionOver] * 2
    assert {one.session for one in found} == {"s", "t"}


def test_without_a_look_at_the_other_conversations_each_is_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: ten and ten, and an interval that the sessions do not give."""
    path = written(tmp_path / "t.db", [*conversations("on"), *conversations("holdout")])
    monkeypatch.setattr(module, "_other_conversations", lambda store: {})
    with open_reader(path) as store:
        control = report(evidence(store), prices=PRICES).total.control
    assert control is not None
    assert (control.sessions, control.others) == (10, 10)
    assert control.low is not None


def test_a_call_is_of_the_conversation_that_asked_for_it(tmp_path: Path) -> None:
    """For advice: the last request before it that asked for such a tool, else the last one."""
    records = [
        turn(0, 5, calls=("t",)), tool(1, 2), turn(3, 5, thread="9f2c"), tool(4, 5), replace(tool(6, 7), name="u"),
        tool(0.5, 1, session="other"), turn(1, 5, session="other"),
    ]  # fmt: skip
    with open_reader(written(tmp_path / "t.db", records)) as store:
        talks = {talk.id: [one.name for one in talk.tools] for talk in talks_of_store(store)}
    assert talks == {"s": ["t", "t"], "@/s/9f2c": ["u"], "other": ["t"]}


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


TEXTS = ("session", "provider", "model", "platform", "thread", "outcome", "mode", "held")
NAMES = ("agent", "tenant", "parent", "known_as", "answered_by", "error", "stop", "diagnosis")
TIMES = ("first_byte", "finished", "waited")
WRONG: list[tuple[str, list[Any]]] = [
    *((name, [None, 1, 1.5, True, [], {}, ["x"]]) for name in TEXTS),
    *((name, [1, 1.5, True, [], {}, ["x"]]) for name in NAMES),
    ("started", [None, "x", True, [], {}]),
    *((name, ["x", True, [], {}]) for name in TIMES),
    *((name, ["x", 1.5, True, [], {}]) for name in ("status", "reusable")),
    ("streamed", [None, 1, "x", []]),
    ("usage", [None, 1, "x", [], {"new": 1}]),
    ("as_written", [1, "x", []]),
    *((f"usage.{name}", ["x", 1.5, True, -1, 2**41, [], {}]) for name in ("input", "read", "output")),
    ("usage.write", ["x", 1, [], [1], {"5m": None}, {"5m": 1.5}, {"5m": "x"}, {"5m": -1}]),
    ("doubts", [None, "x", 1, {}, [1], [[]]]),
    ("terms", [None, "x", [], {"x": 1}, {"x": []}]),
    ("drift", [1, "x", [], {"level": "tools"}]),
    ("drift.where", [None, 1, []]),
    ("misses", [None, "x", 1, {}, ["x"], [1], [{}]]),
    ("misses.cause", [None, "of no kind", 1, []]),
    ("misses.tokens", [None, "x", 1.5, -1]),
    ("misses.detail", [None, 1, []]),
    ("besides", [None, "x", {}, ["x"], [{}]]),
    ("besides.model", [1, []]),
    ("besides.usage", [None, "x", []]),
]


def with_value(row: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    name, _, inner = place.partition(".")
    if not inner:
        return {**row, name: value}
    if isinstance(row[name], list):
        return {**row, name: [{**row[name][0], inner: value}]}
    return {**row, name: {**row[name], inner: value}}


@pytest.mark.parametrize(
    ("place", "value"), [(place, value) for place, values in WRONG for value in values], ids=lambda one: json.dumps(one)
)
def test_a_value_that_no_record_has_makes_its_row_unreadable(place: str, value: object) -> None:
    """Whatever field it is of: a report would fail over it, or show what cannot be. The twin: the row as it was."""
    usage = Usage(input=9, read=4, write={"5m": 1}, output=2)
    record = turn(
        0, 9, usage=usage, as_written=usage, besides=(BilledPart(kind="compaction", usage=usage),),
        misses=(Miss(cause=Cause.EXPIRED, tokens=5),), drift=Drift(level="system", where="system", likely="clock"),
    )  # fmt: skip
    row = json.loads(dump_turn(record))
    assert load_told(json.dumps(row).encode()) == record
    with pytest.raises(UNREADABLE):
        load_told(json.dumps(with_value(row, place, value)).encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session", None), ("name", 1), ("agent", []), ("started", "x"), ("finished", "x"), ("finished", []),
        ("outcome", None), ("outcome", {}), ("fate", []), ("served_from", {}), ("hidden", "x"), ("wasted", []),
        ("speculative", "x"),
    ],
)  # fmt: skip
def test_a_value_that_no_call_has_makes_its_row_unreadable(name: str, value: object) -> None:
    """The same for tools."""
    row = json.loads(dump_tool(tool(1, 2)))
    assert load_tool(json.dumps(row)) == tool(1, 2)
    with pytest.raises(UNREADABLE):
        load_tool(json.dumps({**row, name: value}))


def test_a_report_is_over_the_rows_that_can_be_read(tmp_path: Path) -> None:
    """Of three requests of 10, 20 and 30 tokens the second has a list for a mode: two requests, 40 tokens, one row."""
    path = written(tmp_path / "t.db", [turn(n, 10 * (n + 1)) for n in range(3)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE turns SET record = json_set(record, '$.mode', json('[]')) WHERE id = 2")
        connection.commit()
    for load in (evidence, Store.turns):
        with open_reader(path) as store:
            found = report(load(store)).total
            assert (found.requests, found.tokens.input, store.skipped) == (2, 40, 1)


def test_without_the_look_at_its_types_such_a_row_ends_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    path = written(tmp_path / "t.db", [turn(0, 10)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE turns SET record = json_set(record, '$.mode', json('[]'))")
        connection.commit()
    monkeypatch.setattr(rows, "_check", lambda raw, types: None)
    with open_reader(path) as store, pytest.raises(TypeError, match="unhashable"):
        report(evidence(store))


def test_a_field_of_a_newer_version_makes_no_row_unreadable() -> None:
    """Nor does a value that is of an unlisted kind, where a text can be anything."""
    record = turn(0, 9)
    row = json.loads(dump_turn(record))
    assert load_told(json.dumps({**row, "newer": [1]}).encode()) == record
    assert load_told(json.dumps({**row, "mode": "newer"}).encode()).mode == "newer"


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
