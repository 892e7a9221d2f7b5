"""`agentaccel effects`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from agentaccel.cli.options import read_text, say, write
from agentaccel.effects.cases import judge, read_case
from agentaccel.effects.mcp import declared
from agentaccel.effects.places import Surroundings
from agentaccel.effects.sql import looks_like_sql
from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused, Verdict, analysed, weigh
from agentaccel.errors import ConfigError, TraceError
from agentaccel.types import Effect


@click.command("effects")
@click.argument("subject", metavar="[TOOLS|COMMAND|SQL]", required=False)
@click.option("--jsonl", is_flag=True, help="Read one case a line from standard input, write one verdict a line.")
@click.option("--dialect", help="Of the SQL; by default the strictest of postgres, mysql and sqlite.")
@click.option("--trust", is_flag=True, help="Believe the hints of TOOLS, as of a server that you trust.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def effects_command(subject: str | None, jsonl: bool, dialect: str | None, trust: bool, as_json: bool) -> None:
    """Say what a call would do to the world, by which evidence, and whether it could ever be run early.

    COMMAND is a shell command line, SQL one statement, TOOLS a JSON file of tools as an MCP server lists them.
    Nothing is run; a repository's settings are read where git would read them.
    """
    if dialect is not None and dialect.lower() not in (known := table("sql")["dialects"]):
        raise ConfigError(f"--dialect is {dialect!r}; known are {', '.join(sorted(known))}")
    here = Surroundings(cwd=Path.cwd(), home=Path.home())
    if jsonl:
        _lines(here)
    elif subject is None:
        raise ConfigError("name a command line, a statement or a file of tools, or give --jsonl")
    else:
        found = dict(_verdicts(subject, dialect, trust, here))
        _show(found, as_json)


def _lines(here: Surroundings) -> None:
    for line in sys.stdin.buffer:
        try:
            verdict = judge(read_case(line.decode()), here)
        except (Refused, UnicodeDecodeError) as failure:
            verdict = analysed(Effect.UNKNOWN, f"case: {failure if isinstance(failure, Refused) else 'no UTF-8'}")
        say(json.dumps(verdict.as_json()))
        sys.stdout.flush()


def _verdicts(subject: str, dialect: str | None, trust: bool, here: Surroundings) -> Iterator[tuple[str, Verdict]]:
    if subject.endswith(".json"):
        for tool in _tools(Path(subject)):
            yield str(tool.get("name", "?") if isinstance(tool, Mapping) else "?"), _declared(tool, trust)
    elif dialect is not None or looks_like_sql(subject):
        case: dict[str, Any] = {"kind": "sql", "input": {"sql": subject}}
        yield subject, judge({**case, "dialect": dialect} if dialect else case, here)
    else:
        yield subject, judge({"kind": "shell", "input": {"command": subject}}, here)


def _declared(tool: object, trust: bool) -> Verdict:
    try:
        return weigh([declared({"name": "the server", "trusted": trust}, tool)])
    except Refused as refusal:
        return analysed(Effect.UNKNOWN, f"mcp: {refusal}")


def _tools(path: Path) -> list[object]:
    try:
        listed = read_case(read_text(path))
    except Refused as error:
        raise TraceError(f"{path} cannot be read as a list of tools: {error}") from error
    tools = listed.get("tools") if isinstance(listed, Mapping) else listed
    if not isinstance(tools, list):
        raise TraceError(f'{path} is no list of tools, nor an object with "tools"')
    return tools


def _show(found: Mapping[str, Verdict], as_json: bool) -> None:
    if as_json:
        listed = [{"subject": name, **verdict.as_json()} for name, verdict in found.items()]
        write(json.dumps(listed[0] if len(listed) == 1 else listed, indent=2) + "\n")
        return
    words = {
        "predicted": "may be run on a prediction",
        "asked": "only once the model has asked",
        "never": "never early",
    }
    for name, verdict in found.items():
        say(name, f"  {verdict.effect.value}: {words[verdict.launchable]}")
        say(*(f"  - {one.why} ({one.source}: {one.effect.value})" for one in verdict.evidence))
