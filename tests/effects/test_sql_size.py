"""Queries that end, and queries that do not, or that grow: what a statement makes out of nothing is counted."""

from __future__ import annotations

import sqlite3
import tomllib
from pathlib import Path

import pytest

from agentaccel.effects.sql import judge_sql

TEN = "v(x) as (values (1),(2),(3),(4),(5),(6),(7),(8),(9),(10))"
HUNDREDS = f"{TEN}, a as (select 1 x from v p, v q), b as (select 1 x from a p, a q)"
COUNTED = "with recursive r(n) as (select 1 union all select n + 1 from r where n < 100000)"
FIVE = "values (1), (2), (3), (4), (5)"
SIXTEEN = "a" * 16


def _nested(text: str, times: int) -> str:
    for _ in range(times):
        text = f"replace({text},'a','{SIXTEEN}')"
    return text


def _through(expression: str, times: int) -> str:
    parts = ["c0 as (select 'aaaaaaaaaa' as x)"]
    parts += [f"c{one} as (select {expression} as x from c{one - 1})" for one in range(1, times)]
    return f"with {', '.join(parts)} select length(x) from c{times - 1}"


CASES = tomllib.loads((Path(__file__).parent / "sql_size.toml").read_text(encoding="utf-8"))

ENDS = {
    **CASES["ends"],
    "small tables that multiply": f"with {TEN}, a as (select 1 x from v p, v q) select count(*) from a p, a q",
    "many conditions": "select a from t where " + " or ".join(f"a = {one}" for one in range(150)),
    "many at once": " union all ".join(f"select {one}" for one in range(150)),
}
ENDLESS = {
    **CASES["endless"],
    "multiplies through ctes": f"with {HUNDREDS}, c as (select 1 x from b p, b q) select count(*) from c",
    "multiplies by equal numbers": f"with {HUNDREDS}, c as (select p.x from b p join b q on p.x = q.x) select 1 from c",
    "multiplies within": f"with {HUNDREDS} select (select count(*) from a p, a q) from b",
    "multiplies before a limit": f"with {HUNDREDS} select (select count(*) from b p, b q limit 1)",
    "multiplies by subqueries": "select count(*) from " + ", ".join(f"({FIVE}) x{one}" for one in range(9)),
    "long text in many rows": f"{COUNTED} select '{'a' * 200}' from r",
    "replaces what is replaced": f"select length({_nested(repr(SIXTEEN), 8)})",
    "replaces text of a table": f"select length({_nested('name', 8)}) from t",
    "replaces where it asks": f"select 1 from t where length({_nested('name', 8)}) > 5",
    "joins text through ctes": _through(" || ".join("x" * 10), 7),
    "formats text through ctes": _through(f"printf('{'%s' * 10}', {', '.join('x' * 10)})", 7),
    "escapes text through ctes": _through("hex(hex(hex(hex(x))))", 7),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_query_whose_end_is_seen_is_taken(name: str) -> None:
    assert judge_sql(ENDS[name], "sqlite").launchable == "predicted", judge_sql(ENDS[name], "sqlite").evidence


@pytest.mark.parametrize("name", ENDLESS)
def test_a_query_without_an_end_or_without_bound_is_not_taken(name: str) -> None:
    assert judge_sql(ENDLESS[name], "sqlite").launchable == "never"


@pytest.mark.parametrize("name", [*CASES["taken"], *CASES["refused"]])
def test_other_systems_count_in_their_own_ways(name: str) -> None:
    dialect, sql = (CASES["taken"] | CASES["refused"])[name]
    verdict = judge_sql(sql, dialect)
    assert verdict.launchable == ("asked" if name in CASES["taken"] else "never"), verdict.evidence


TABLES = """
create table staff(id, boss, name); insert into staff values (1, null, 'a'), (2, 1, 'b'), (7, 2, 'c');
create table o(id, day, shop); insert into o values (1, '2026-01-01', 1), (2, '2026-01-09', 1);
create table shops(id, name); insert into shops values (1, 'x'); create table edges(source, target, kind);
insert into edges values ('a', 'b', 1), ('b', 'a', 1);
create table t(x, y, a, phone, first, last, mail, name); insert into t(x, y) values (1, 1), (2, 3);
"""


@pytest.mark.parametrize("name", ENDS)
def test_what_is_taken_does_end(name: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    looks = iter(range(2_000))
    connection.set_progress_handler(lambda: next(looks, None) is None, 10_000)
    connection.execute(ENDS[name]).fetchall()
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
def test_what_is_not_taken_is_understood(name: str) -> None:
    """It is refused for what it would make, and not for a slip of the case."""
    why = judge_sql(ENDLESS[name], "sqlite").evidence[0].why
    assert "without an end" in why or "out of nothing" in why or "multiplies" in why or "it makes" in why, why
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    connection.execute(f"explain {ENDLESS[name]}")
    connection.close()
