"""One case in, one verdict out, whatever the case holds: what cannot be understood is never run early."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentaccel.effects.http import judge_http
from agentaccel.effects.mcp import judge_mcp
from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import judge_shell
from agentaccel.effects.sql import judge_sql
from agentaccel.effects.verdict import Refused, Verdict, judged

FIELDS = {
    "shell": ({"kind", "input", "cwd", "home"}, {"command"}),
    "sql": ({"kind", "input", "dialect"}, {"sql"}),
    "http": ({"kind", "input"}, {"method", "url", "headers", "body"}),
    "mcp": ({"kind", "input"}, {"server", "tool", "arguments", "earlier_listing"}),
}
"""Fields of a case, and of its input, by kind. An input with another field is not understood."""


@judged("case")
def judge(case: object, here: Surroundings | None = None) -> Verdict:
    """The verdict about one case; `here` are the folders of a case that names none. Raises nothing.

    >>> judge({"kind": "shell", "input": {"command": "grep -rn TODO src"}}).launchable
    'predicted'
    >>> judge({"kind": "shell", "input": {"command": "grep -rn TODO src > found"}}).launchable
    'never'
    """
    here = here or Surroundings()
    if not isinstance(case, Mapping):
        raise Refused("it is no object")
    kind, given = case.get("kind"), case.get("input")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise Refused(f"its kind is none of {', '.join(FIELDS)}")
    if not isinstance(given, Mapping) or not set(given) <= FIELDS[kind][1]:
        raise Refused("its input is no object with the fields of its kind")
    if kind == "http":
        return judge_http(given)
    there = Surroundings(cwd=_folder(case, "cwd") or here.cwd, home=_folder(case, "home") or here.home)
    if kind == "mcp":
        return judge_mcp(given, there)
    text = given.get("sql" if kind == "sql" else "command")
    if not isinstance(text, str):
        raise Refused("what it would run is no text")
    if kind == "shell":
        return judge_shell(text, there)
    dialect = case.get("dialect")
    if dialect is not None and not isinstance(dialect, str):
        raise Refused("its dialect is no name")
    return judge_sql(text, dialect)


def read_case(line: str) -> object:
    """One line of JSON. Raises `Refused` for what is no JSON, or names a field twice."""
    try:
        return json.loads(line, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refused("the line is not JSON") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused("a field is given twice")
    return found


def _no_number(name: str) -> float:
    raise Refused(f"{name} is no JSON number")


def _folder(case: Mapping[str, Any], name: str) -> Path | None:
    value = case.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise Refused(f"its {name} is no absolute path")
    return Path(value)
