"""What the trees read and predict: one symbol for each thing that happens in a loop.

A call is its tool's name. Where one tool takes whole commands or statements, its name says little, so the symbol tells
which: `Bash:git.diff`, `query:select`. That is seen by the shape of the argument, never by the name of the tool. A
wrong guess costs accuracy and nothing else: no permission hangs on a symbol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
