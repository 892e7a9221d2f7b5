"""Both corpora as cases: what must never be run early, by trick, and ordinary reads. All written for this suite."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from agentaccel.predict.events import Asked
from agentaccel.replay.events import events_of
from agentaccel.sources.lines import Meter, parse, raw_lines
from agentaccel.sources.tally import ImportTally

HERE = Path(__file__).parent
KINDS = ("shell", "sql", "http", "mcp")
READ_LIKE = re.compile(
    r"\s*(?:cd \S+ && )?(?:ls|cat|head|tail|grep|egrep|rg|find|wc|stat|tree|which|pwd|echo|jq|sed -n|diff|sort|file|du"
    r"|git (?:--no-pager )?(?:-C \S+ )?(?:status|log|diff|show|branch|rev-parse|ls-files|ls-tree"
    r"|blame|remote|merge-base)"
    r"|gh (?:pr|issue|run) (?:view|list|diff|checks))\b"
)
"""Calls that a person would call reads at first sight, whatever follows: the denominator on real traces."""


class Case(NamedTuple):
    """One case with where it comes from."""

    trick: str
    """What it tries; "" for a read."""
    case: dict[str, Any]

    @property
    def text(self) -> str:
        return json.dumps(self.case, sort_keys=True)


def lines(name: str) -> Iterator[tuple[str, str]]:
    """Heading and line of a text file in which `## ` begins a heading."""
    heading = ""
    for line in (HERE / f"{name}.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("## "):
            heading = line[3:]
        elif line:
            yield heading, line


def unescaped(line: str) -> str:
    """Control characters and others that a text file would hide are written as escapes."""
    return re.sub(
        r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), line.replace("\\n", "\n").replace("\\r", "\r")
    )


def shell(name: str, escapes: bool) -> Iterator[Case]:
    for heading, line in lines(name):
        text = unescaped(line) if escapes else line
        yield Case(heading, {"kind": "shell", "input": {"command": text}})


def sql(name: str) -> Iterator[Case]:
    """The dialect stands before a colon."""
    for heading, line in lines(name):
        dialect, _, text = line.partition(": ")
        yield Case(heading, {"kind": "sql", "dialect": dialect, "input": {"sql": unescaped(text)}})


def http(name: str) -> Iterator[Case]:
    """Method, address, and perhaps more fields of the input as JSON."""
    for heading, line in lines(name):
        method, url, rest = (*line.split(" ", 2), "")[:3]
        given = {"method": method, "url": unescaped(url), **(json.loads(rest) if rest else {})}
        yield Case(heading, {"kind": "http", "input": given})


def mcp(name: str) -> Iterator[Case]:
    """An input as JSON, or changes to one that is a read."""
    for heading, line in lines(name):
        yield Case(heading, {"kind": "mcp", "input": json.loads(line)})


def adversarial() -> list[Case]:
    return [
        *shell("adversarial_shell", escapes=True),
        *sql("adversarial_sql"),
        *http("adversarial_http"),
        *mcp("adversarial_mcp"),
    ]


def reads() -> list[Case]:
    return [*shell("reads_shell", escapes=False), *sql("reads_sql"), *http("reads_http"), *mcp("reads_mcp")]


def commands_of(source: Path) -> list[str]:
    """Every command line that the agents of recorded sessions asked a shell for, under whatever name the tool had.

    What cannot be read is left out.
    """
    texts, tally = list[str](), ImportTally()
    for line in raw_lines(source, tally, Meter(0, None)):
        messages = (parse(line, tally) or {}).get("messages")
        for event in events_of(messages if isinstance(messages, list) else ()):
            calls = event.calls if isinstance(event, Asked) else ()
            texts += [text for call in calls if isinstance(text := call.arguments.get("command"), str)]
    return texts
