"""What the trees read and predict: one symbol for each thing that happens in a loop.

A call is its tool's name. Where one tool takes whole commands or statements, its name says little, so the symbol tells
which: `Bash:git.diff`, `query:select`. That is seen by the shape of the argument, never by the name of the tool. A
wrong guess costs accuracy and nothing else: no permission hangs on a symbol.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import lru_cache
from itertools import islice
from typing import Any

from agentaccel.types import ToolCall

USER = "<user>"
"""The user has spoken. Stands in contexts, is never predicted."""
REPLY = "<reply>"
"""The model answers in text and asks for no tool."""
FAILED = "!"
"""Behind the symbol of a call that failed, in contexts."""

_COMMANDS = ("command", "cmd", "script")
_STATEMENTS = ("sql", "query", "statement")
_VERB = re.compile(r"\s*(select|with|insert|update|delete|create|alter|drop|explain|show|describe|pragma)\b", re.I)
_LEAD = re.compile(
    r"\s*(?:cd\s+[^;&|]+(?:&&|;)\s*|[A-Za-z_]\w*=\S*\s+|(?:sudo|env|time|nohup|exec)\s+|timeout\s+\S+\s+)"
)
_HEAD = re.compile(r"\s*([A-Za-z0-9_.+/\-]{1,80})(?:\s+(-m\s+)?([a-z][a-z0-9_\-]{0,23})(?=[\s;&|:]|$))?")
_WITH_VERBS = frozenset(
    [
        "apt",
        "apt-get",
        "aws",
        "az",
        "brew",
        "bundle",
        "cargo",
        "conda",
        "docker",
        "dotnet",
        "gcloud",
        "gh",
        "git",
        "go",
        "gradle",
        "helm",
        "just",
        "kubectl",
        "make",
        "mvn",
        "npm",
        "npx",
        "pip",
        "pip3",
        "pnpm",
        "poetry",
        "python",
        "python3",
        "rails",
        "systemctl",
        "terraform",
        "uv",
        "yarn",
    ]
)
"""Programs whose second word says what they do."""


def symbol_of(call: ToolCall) -> str:
    """The symbol of `call`.

    >>> symbol_of(ToolCall(name="Bash", arguments={"command": "cd /src && git diff --stat"}))
    'Bash:git.diff'
    >>> symbol_of(ToolCall(name="db", arguments={"query": "SELECT 1"})), symbol_of(ToolCall(name="add", arguments={}))
    ('db:select', 'add')
    """
    arguments = call.arguments
    if not isinstance(arguments, Mapping):
        return call.name
    part = _command(arguments) or _statement(arguments)
    return f"{call.name}:{part}" if part else call.name


def tool_of(symbol: str, tools: Mapping[str, Any] | frozenset[str]) -> str:
    """The tool that a symbol of a call belongs to: one of `tools`, whose names may have colons of their own."""
    if symbol in tools:
        return symbol
    name = symbol.rpartition(":")[0]
    return name if name else symbol


def command_of(call: ToolCall) -> str:
    """The command line that a call carries; empty where it carries none."""
    return _command_in(call.arguments) if isinstance(call.arguments, Mapping) else ""


def _command_in(arguments: Mapping[str, Any]) -> str:
    return next((arguments[name] for name in _COMMANDS if isinstance(arguments.get(name), str)), "")


def _command(arguments: Mapping[str, Any]) -> str:
    text = _command_in(arguments)[:2000]
    for _ in range(8):
        lead = _LEAD.match(text)
        if lead is None:
            break
        text = text[lead.end() :]
    found = _HEAD.match(text)
    if found is None or not any(text[found.end(1) :][:1] == end for end in ("", " ", "\t", "\n", ";", "&", "|")):
        return ""
    head = found[1].rpartition("/")[2][:24]
    return f"{head}.{found[3]}" if found[3] and head in _WITH_VERBS and (found[2] or "python" not in head) else head


def _statement(arguments: Mapping[str, Any]) -> str:
    for name in _STATEMENTS:
        text = arguments.get(name)
        if isinstance(text, str) and (verb := _VERB.match(text[:200])):
            return verb[1].lower()
    return ""


# --- What values look like, and the values that stand in text: tokens by shape, and things with a form of their own ---
# A shape keeps what tells kinds of ids apart and drops what tells one id from another: `mia_li_3668` and
# `omar_rossi_1241` are both `a_a_94`, any airport is `A3`. Of a text at most `MOST_TEXT` characters are read.

MOST_TEXT = 6000
"""Characters of one text that are read: its beginning, and its end where it is longer."""
MOST_TOKENS = 256
MOST_EACH = 12
"""Values of one shape in one text."""
MOST_LENGTH = 60
"""Of a value that is told by shape; paths and URLs may be `MOST_RESOURCE` long."""
MOST_RESOURCE = 300

_CODE = re.compile(r"[A-Z0-9]{5,8}")
_RUN = re.compile(r"[A-Za-z]+|\d+")
_TOKEN = re.compile(r"[A-Za-z0-9_#@.\-]+")
_PART = r"[A-Za-z0-9_#@.\-+=]"
# Parts of which the first colon joins two; where a slash stands behind it, that is a URL.
_JOINED = re.compile(rf"(?<![A-Za-z0-9_#@.\-+=:/]){_PART}+(?:/{_PART}+)*:+{_PART}+(?:(?::+|/){_PART}+)*")
_URL = r"(?:https?://|www\.)[^\s\"'<>()\[\]{}|\\^`]+"
_PATH = r"(?:~|\.{0,2}/)?(?:[\w.@+\-]+/)+[\w.@+\-]*|/[\w.@+\-]+|[\w@+\-][\w.@+\-]*\.[A-Za-z][A-Za-z0-9]{0,5}(?![\w.])"
# Only where a run of such characters begins: from each of its places, one of n characters would be read n times.
_RESOURCE = re.compile(rf"(?P<url>{_URL})|(?<![\w.@+\-])(?P<path>{_PATH})")
_QUOTED = re.compile(r"(?<!\w)'([^'\n]{1,60})'(?!\w)|\"([^\"\n]{1,60})\"|`([^`\n]{1,60})`")
_NUMBER = re.compile(r"(?<![\w.,\-/])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\w/\-]|\.\d)")
_NAME = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+){1,3}\b")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DATE = re.compile(
    r"\b(?:(\d{4})-(\d\d)-(\d\d)|([A-Z][a-z]{2,8})\.? (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?"
    r"|(\d{1,2})(?:st|nd|rd|th)? (?:of )?([A-Z][a-z]{2,8})(?:,? (\d{4}))?)\b"
)


@lru_cache(maxsize=4096)
def shape(value: str) -> str:
    """The shape of a token.

    >>> shape("mia_li_3668"), shape("SFO"), shape("4WQ150"), shape("2024")
    ('a_a_94', 'A3', 'X6', '94')
    """
    if _CODE.fullmatch(value) and any(one.isdigit() for one in value):
        return f"X{len(value)}"
    return _RUN.sub(_collapsed, value)


def _collapsed(match: re.Match[str]) -> str:
    run = match[0]
    if run.isdigit():
        return f"9{len(run)}" if len(run) <= 4 else "9"
    if run.isupper():
        return f"A{len(run)}" if len(run) <= 6 else "A"
    return "a"


def excerpt(text: str) -> str:
    """As much of a text as is read."""
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT * 2 // 3]}\n{text[-MOST_TEXT // 3 :]}"


def values_in(text: str, *, words: bool = True) -> dict[str, list[object]]:
    """The values that stand in a text, by shape or kind, each list in order and without repeats.

    Kinds are written with a tilde. `words` says whether plain words count as values: what a user writes is short and
    names things by them; a result in prose is long and mostly words.

    >>> values_in("Move 3 bags to May 20th, 2024, see https://a.b/c.")["~date"]
    ['2024-05-20']
    """
    text = excerpt(text)
    found: dict[str, list[object]] = {}
    for kind, value in (*_things_in(text), *_tokens_in(text, words=words)):
        values = found.setdefault(kind, [])
        if len(values) < MOST_EACH and value not in values:
            values.append(value)
    return found


def _things_in(text: str) -> Iterator[tuple[str, object]]:
    for kind, resource in resources_in(text):
        yield f"~{kind}", resource
    for quoted in _QUOTED.finditer(text):
        yield "~quoted", quoted[1] or quoted[2] or quoted[3]
    for number in _NUMBER.finditer(text):
        plain = number[0].replace(",", "")
        yield "~number", float(plain) if "." in plain else int(plain[:18])
    for match in _DATE.finditer(text):
        if day := _iso(match):
            yield "~date", day
    for name in _NAME.findall(text):
        yield "~name", name


def _tokens_in(text: str, *, words: bool) -> Iterator[tuple[str, object]]:
    for match in islice(_JOINED.finditer(text), MOST_TOKENS):
        token = match[0].rstrip(".-")
        if len(token) <= MOST_LENGTH:
            yield shape(token), token
    for match in islice(_TOKEN.finditer(text), MOST_TOKENS):
        token = match[0].rstrip(".-")
        if 1 < len(token) <= MOST_LENGTH and (words or not token.isalpha() or token.isupper()):
            yield shape(token), token


def resources_in(text: str) -> list[tuple[str, str]]:
    """The URLs and paths in a text, in order, each with its kind.

    >>> resources_in("see src/a.py, www.example.com/x and and/or 3.14")
    [('path', 'src/a.py'), ('url', 'www.example.com/x'), ('path', 'and/or')]
    """
    found: list[tuple[str, str]] = []
    for match in _RESOURCE.finditer(text):
        kind = "url" if match["url"] else "path"
        value = match[0].rstrip(".,;:!?")
        if 2 < len(value) <= MOST_RESOURCE:
            found.append((kind, value))
            if len(found) >= 4 * MOST_EACH:
                break
    return found


def _iso(match: re.Match[str]) -> str | None:
    year, month, day, name, on, its_year, day_first, name_last, last_year = match.groups()
    try:
        if year:
            return date(int(year), int(month), int(day)).isoformat()
        at = _MONTHS.index((name or name_last)[:3].lower()) + 1
        written = its_year or last_year
        # Without a year it is a day of no year: a source that knows one puts it in front.
        return (
            date(int(written), at, int(on or day_first)).isoformat()
            if written
            else f"-{at:02}-{int(on or day_first):02}"
        )
    except ValueError:
        return None
