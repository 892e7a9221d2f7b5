"""What a reply has to be like, in the fields that its server takes for constrained decoding: pure.

    sent = constrained(Constraint(regex="[0-9]{3}"), server)
    client.chat.completions.create(…, extra_body=sent.fields)

A field that a server ignores leaves the reply as free as it was, and nobody notices. So nothing is sent to a server, or
a version, that is not known to take it: it is said in `unsent`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel.checks import is_names
from agentaccel.errors import ConfigError
from agentaccel.selfhost.hints import Rendered, put
from agentaccel.selfhost.probe import Server
from agentaccel.selfhost.tables import found, has_by, name_of, row


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """What a reply has to be like: one of these. Raises `ConfigError` for anything else."""

    schema: Mapping[str, Any] | None = None
    """JSON that this JSON Schema allows."""
    regex: str | None = None
    """Text that this regular expression matches as a whole."""
    grammar: str | None = None
    """Text of this grammar, in llama.cpp's form of EBNF (GBNF), whose first rule is `root`."""
    choice: Sequence[str] | None = None
    """One of these texts."""
    tools: Sequence[Mapping[str, Any]] | None = None
    """Tools in Chat's form: the arguments of each call are held to the schema of its tool."""

    def __post_init__(self) -> None:
        given = [name for name in self.__dataclass_fields__ if getattr(self, name) is not None]
        if len(given) != 1:
            raise ConfigError(f"Constraint has {', '.join(given) or 'nothing'}; give one of its fields")
        [name] = given
        if not _CHECKS[name](getattr(self, name)):
            raise ConfigError(f"Constraint.{name} is {getattr(self, name)!r}; give {_KINDS[name]}")

    @property
    def kind(self) -> str:
        """Which of them is given."""
        return next(name for name in self.__dataclass_fields__ if getattr(self, name) is not None)


def constrained(constraint: Constraint, server: Server) -> Rendered:
    """What `server` is sent for `constraint`, to be joined with the body of the request."""
    kind, value = constraint.kind, getattr(constraint, constraint.kind)
    ways: Mapping[str, Any] = row(server.dialect).get("output", {})
    if kind == "choice" and kind not in ways:
        kind = next((other for other in _AS if isinstance(ways.get(other), list)), kind)
        value = _AS[kind](value) if kind in _AS else value
    elif kind == "tools":
        value = _strict(value)
    there = ways.get(kind)
    known = [
        way
        for way in (there if isinstance(there, list) else ())
        if has_by(server.version, way.get("since"), way.get("until"))
    ]
    if not known:
        why = _why(server, kind, ways)
        return Rendered({}, {}, {}, {constraint.kind: f"{constraint.kind} is not sent: {why}"})
    [way, *_] = known
    fields: dict[str, Any] = {}
    for place, constant in way.get("beside", {}).items():
        put(fields, place, constant)
    put(fields, way["field"], value)
    name = way["field"].partition(".")[0]
    return Rendered(fields, {}, {name: f"{way['field']} {way['means']}"}, {})


def _why(server: Server, kind: str, ways: Mapping[str, Any]) -> str:
    name = name_of(server.dialect)
    if isinstance(ways.get(kind), str):
        return f"{name} {ways[kind]}"
    if kind not in ways:
        return f"{name} is not known to take it"
    return f"{name} {server.version or 'of a version that is not known'} is not known to take it"


def _strict(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**tool, "function": {**tool["function"], "strict": True}} for tool in tools]


def _as_regex(texts: Sequence[str]) -> str:
    """
    >>> _as_regex(["yes", "no (really)"])
    '(yes|no \\\\(really\\\\))'
    """
    return "(" + "|".join(re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", text) for text in texts) + ")"


def _as_grammar(texts: Sequence[str]) -> str:
    """
    >>> print(_as_grammar(["yes", 'a "word"']))
    root ::= "yes" | "a \\"word\\""
    """
    return "root ::= " + " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)


_AS = {"regex": _as_regex, "grammar": _as_grammar}
"""Other ways to say a choice."""
_KINDS = {
    "schema": "a JSON Schema as a dict",
    "regex": "a regular expression",
    "grammar": "a grammar",
    "choice": "a list of texts",
    "tools": "a list of tools such as {'type': 'function', 'function': {'name': 'look', 'parameters': {…}}}",
}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, Sequence) and is_names(value) and bool(value)


def _are_tools(value: object) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return False
    return bool(value) and all(_is_text(found(one, "function.name")) for one in value)


_CHECKS = {
    "schema": lambda value: isinstance(value, Mapping),
    "regex": _is_text,
    "grammar": _is_text,
    "choice": _are_texts,
    "tools": _are_tools,
}
