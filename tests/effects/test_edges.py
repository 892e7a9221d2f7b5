"""Texts that an analyser cannot get through: the call is unknown, one log line says so, and it runs as without us."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentaccel.effects import secrets, shell, sql, texts
from agentaccel.effects.cases import judge
from agentaccel.effects.mcp import judge_mcp
from agentaccel.effects.places import Surroundings
from agentaccel.effects.verdict import Refused
from agentaccel.executors import Shell, Sql
from tests.mutants import Mutant, running, survives

DEEP = 100_000
"""Levels: a hundred times what the interpreter lets a function call itself."""
LONG = 1_000_000
"""Characters: at 1 ns a character squared, a quarter of an hour."""


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def mcp(**given: Any) -> dict[str, Any]:
    tool = {"name": "look", "inputSchema": {}, "annotations": {"readOnlyHint": True}}
    return {"server": {"name": "desk", "trusted": True}, "tool": tool, "arguments": {}, **given}


def shell_case(text: str) -> dict[str, Any]:
    return {"kind": "shell", "input": {"command": text}}


def sql_case(text: str) -> dict[str, Any]:
    return {"kind": "sql", "input": {"sql": text}}


DEEP_CASES: dict[str, dict[str, Any]] = {
    "a list of a thousand commands": shell_case(" && ".join(["ls"] * 1000)),
    "four thousand parts": shell_case(";".join(["l"] * 4000)),
    "negations of a test": shell_case("[[ " + "! " * 2000 + "a ]]"),
    "subshells": shell_case("( " * 1500 + "ls" + " )" * 1500),
    "groups": shell_case("{ " * 1200 + "ls;" + " };" * 1200),
    "branches": shell_case("if true; then " * 400 + "ls" + "; fi" * 400),
    "substitutions": shell_case("$(" * 2000 + "ls" + ")" * 2000),
    "parentheses in SQL": sql_case("select " + "(" * 5000 + "1" + ")" * 5000),
    "negations in SQL": sql_case("select " + "not " * 4000 + "a"),
    "signs in SQL": sql_case("select " + "- " * 9000 + "1"),
    "cases in SQL": sql_case("select " + "case when a then " * 600 + "1" + " end" * 600),
    "sums in SQL": sql_case("select 1" + " + 1" * 4500),
    "unions in SQL": sql_case(" union all ".join(["select 1"] * 900)),
    "a body of HTTP": {"kind": "http", "input": {"method": "GET", "url": "https://a.org/", "body": nested(DEEP)}},
    "arguments of MCP": {"kind": "mcp", "input": mcp(arguments={"a": nested(DEEP)})},
    "JSON in an argument of MCP": {"kind": "mcp", "input": mcp(arguments={"a": "[" * 90_000 + "]" * 90_000})},
    "a schema of MCP": {
        "kind": "mcp",
        "input": mcp(
            tool={"name": "look", "inputSchema": nested(DEEP), "annotations": {"readOnlyHint": True}},
            earlier_listing={"name": "look", "inputSchema": nested(DEEP), "annotations": {"readOnlyHint": True}},
        ),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("what", DEEP_CASES)
def test_what_is_nested_too_deep_has_a_verdict(what: str) -> None:
    """Whatever the interpreter says of it, the analyser raises nothing; what it got through may be a read."""
    verdict = judge(DEEP_CASES[what])
    assert verdict.evidence
    if what not in ("sums in SQL", "unions in SQL", "a schema of MCP"):
        assert verdict.launchable == "never", verdict


def test_a_failure_of_an_analyser_is_one_log_line_without_what_the_call_said(caplog: pytest.LogCaptureFixture) -> None:
    """However often the line is judged. Its own words stay out of the log."""
    text = "[[ " + "! " * 1999 + "secret ]]"
    with caplog.at_level(logging.WARNING, logger="agentaccel"):
        found = [shell.judge_shell(text, Surroundings()) for _ in range(3)]
    assert {one.launchable for one in found} == {"never"}
    assert [record.getMessage() for record in caplog.records] == [
        "agentaccel: a shell call is not run early: its analyser failed with RecursionError"
    ]


def test_without_its_guard_an_analyser_raises() -> None:
    """The twin: what is caught is really raised."""
    tools = [{"name": "look", "inputSchema": nested(DEEP)} for _ in range(2)]
    given = mcp(tool=tools[0], earlier_listing=tools[1])
    assert judge_mcp(given, Surroundings()).launchable == "never"
    with pytest.raises(RecursionError):
        judge_mcp.__wrapped__(given, Surroundings())  # type: ignore[attr-defined]


async def test_a_line_of_five_hundred_commands_runs_as_bash_runs_it(tmp_path: Path) -> None:
    """`echo` is the last of 485: bash prints it, and so does the tool."""
    assert await Shell(cwd=tmp_path).run(" && ".join(["true"] * 484 + ["echo done"])) == "done"
    assert await Shell(cwd=tmp_path).run("[[ " + "! " * 2000 + "a ]] && echo even") == "even"


async def test_a_statement_that_no_analyser_gets_through_runs_on_the_database(tmp_path: Path) -> None:
    """A thousand times not: SQLite's own limit on the depth of an expression is 1,000; it says so, and not we."""
    file = tmp_path / "a.db"
    sqlite3.connect(file).close()
    with pytest.raises(sqlite3.OperationalError, match=r"Expression tree is too large|parser stack overflow"):
        await Sql.sqlite(file).query("select " + "not " * 4000 + "1")


async def test_a_look_of_the_owner_that_fails_keeps_the_query_from_being_run_early_and_no_more(tmp_path: Path) -> None:
    """`Sql.obstacle` is the user's: whatever it raises, the statement runs."""

    def fails() -> str:
        raise OSError("the disk is gone")

    file = tmp_path / "a.db"
    sqlite3.connect(file).close()
    tool = Sql(connect=lambda: sqlite3.connect(file), read_only=lambda: sqlite3.connect(file), dialect="sqlite",
               obstacle=fails)  # fmt: skip
    assert tool.judge("select 1").launchable == "never"
    assert await tool.query("select 1 as one") == '{"columns": ["one"], "rows": [[1]]}'


BLANK = {name: filler * (LONG // len(filler)) for name, filler in {
    "blanks": " ", "tabs": "\t", "lines": "\n", "parentheses": "(", "dots": ".", "letters": "a", "words": "a ",
    "comments": "--\n", "opened comments": "/* ", "semicolons": ";", "slashes": "/", "blank lines": " \n",
}.items()}  # fmt: skip
HEADS = ("", "explain ", "truncate t", "exec x", "execute x", "with a as", "select ", "insert ", "create ", "set a")


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", BLANK)
def test_a_million_characters_are_looked_at_in_a_time_that_grows_as_they_do(what: str) -> None:
    """A reader that goes back over what it has read would need minutes; here each ends in a fraction of a second."""
    for head in HEADS:
        for tail in ("", "x"):
            text = head + BLANK[what] + tail
            sql.looks_like_sql(text)
            sql.surely_sql(text)
            texts.writes(text[: texts.MOST_READ - 1] + tail)
            judge(sql_case(text))
            judge(shell_case(text))
            judge({"kind": "mcp", "input": mcp(arguments={"query": text})})
            judge({"kind": "http", "input": {"method": "GET", "url": "https://a.org/" + text}})


TOLD = ("a=", "a:", "key=", "eyJ", "ghp_", "12,", "&#65;", "%41", "https://a.org/", "q8Zk1v", "\u200b")
"""Beginnings of settings, keys, packings and addresses, which a reader may go on from at every place."""


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("filler", TOLD)
def test_as_much_as_is_looked_at_for_credentials_is_looked_at_in_a_time_that_grows_as_it_does(filler: str) -> None:
    """Ten texts of 100,000 characters each, and one more character is too long. Each begins and ends otherwise."""
    for number in range(10):
        with suppress(Refused):
            secrets.parameter(None, "text", (str(number) + filler * secrets.MOST_READ)[: secrets.MOST_READ])
    with pytest.raises(Refused, match="too long"):
        secrets.parameter(None, "text", "a" * (secrets.MOST_READ + 1))


GUARDS = (
    Mutant(
        guard="blanks that are gone over again and again",
        at="agentaccel.effects.sql",
        old=r"\s*+\(*+\s*+",
        new=r"\s*\(*\s*",
    ),
    Mutant(
        guard="words that are gone over again behind a command",
        at="agentaccel/effects/mcp.toml",
        old=r"explain\s++",
        new=r"explain\s+",
    ),
    Mutant(
        guard="failures of a reader of shell lines",
        at="agentaccel.effects.verdict:worked_out_once",
        old="            except Exception as failure:  # noqa: BLE001 - as in `judged`\n",
        new="            except AssertionError as failure:\n",
    ),
    Mutant(
        guard="failures of a look of the owner",
        at="agentaccel.executors.sql:Sql.judge",
        old='    @judged("sql")\n',
        new="",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_these_tests_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    """Chosen by us: a test that passes without what it tests is none."""
    assert survives(mutant, tmp_path, [*running("tests/effects/test_edges.py"), "-m", "not soak"]) is None
