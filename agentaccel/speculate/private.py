"""What was learned, as it may lie on a disk: counts by name, and templates that nobody's own data can be read from.

A template (where an argument comes from, a record, a pattern) is counted under a keyed hash, `#` before it. Its text
takes the place of the hash once it was right in two sessions, of whichever processes, and only if it looks harmless
(`literals`); until then its counts come together unread. Values but true, false and null stay hashes for good unless
the user wants them kept, and those of sensitive arguments in any case. In clear from the beginning stand names: of
tools, of their arguments, and of programs in command lines.

The form is that of `dumps`, cut into one part a workload and one, with the name `FLEET`, of what is the same for all:
each part can be loaded, and leaves out what is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from agentaccel.canonical import digest
from agentaccel.speculate.knowledge import Knowledge
from agentaccel.speculate.literals import may_be_kept, value_may_be_kept
from agentaccel.speculate.scene import value_of
from agentaccel.speculate.stats import Sensitive
from agentaccel.speculate.symbols import tool_of
from agentaccel.values import MOST_NAMED

FLEET = ""
"""The name of the part that holds what is the same for all workloads."""
HIDDEN = "#"
"""In front of a hash."""

Part = dict[str, Any]
Parts = dict[str, Part]


class News(NamedTuple):
    """What was learned, every template under its hash."""

    parts: Parts
    """By workload."""
    texts: Mapping[str, str]
    """By hash, the texts that may be written once enough sessions have shown them."""


def news_of(knowledge: Knowledge, key: bytes, *, values: bool = False) -> News:
    """All that `knowledge` holds; hashes are made under `key`. `values`: the user wants those of arguments kept."""
    dump = knowledge.dump(shared=0)
    veil = _Veil(key, knowledge.sensitive, values)
    again = dump.pop("again")
    parts: Parts = {
        name: {
            "version": dump["version"],
            "workloads": {name: _tree(tree)},
            "again": {name: _tree(again[name])} if name in again else {},
        }
        for name, tree in dump.pop("workloads").items()
        if name and tree["nodes"]
    }
    calls = {symbol: veil.calls(symbol, known) for symbol, known in dump["calls"].items() if _is_name(symbol)}
    rules = {veil.hidden("", name, name): counts for name, counts in dump["rules"].items()}
    parts[FLEET] = {**dump, "fleet": _tree(dump["fleet"]), "calls": calls, "rules": rules}
    return News(parts, veil.texts)


def since(now: News, before: Parts) -> News:
    """What has come to `before`, and nothing else. What is there no more was forgotten, not unlearned."""
    return News(_gained(now.parts, before), now.texts)


def _gained(now: Part, before: Mapping[str, Any]) -> Part:
    gained: Part = {}
    for name, value in now.items():
        old = before.get(name)
        if isinstance(value, dict):
            more = _gained(value, old) if isinstance(old, dict) else value
            if more or old is None:
                gained[name] = more
        elif old is None:
            gained[name] = value
        elif value != old:
            gained[name] = value - old
    return gained


# --- templates and their hashes ---------------------------------------------------------------------------------------


class _Veil:
    """Puts hashes in the place of templates, and remembers what they stand for."""

    def __init__(self, key: bytes, sensitive: Sensitive | None, values: bool) -> None:
        self.texts: dict[str, str] = {}
        self._key, self._sensitive, self._values = key, sensitive, values

    def hidden(self, where: str, text: str, clear: str | None) -> str:
        """The name under which a template is counted; `clear` is what may once be written in its place."""
        hash_ = HIDDEN + digest(f"{where}\0{text}".encode("utf-8", "surrogatepass"), self._key).hex()
        if clear is not None and clear.isprintable():
            self.texts[hash_] = clear
        return hash_

    def calls(self, symbol: str, known: Part) -> Part:
        """What is known of the calls of one symbol."""
        sources: Part = {}
        for argument, table in known["sources"].items():
            if may_be_kept(argument):
                secret = not self._values or is_secret(self._sensitive, symbol, argument)
                where = f"{symbol}\0{argument}"
                sources[argument] = {
                    self.hidden(where, text, text if _source_may_be_kept(text, secret) else None): _stat(stat)
                    for text, stat in table.items()
                }
        records = {
            self.hidden(symbol, text, text if _record_may_be_kept(text) else None): _stat(stat)
            for text, stat in known["records"].items()
        }
        forms = {text: n for text, n in known["forms"].items() if all(map(may_be_kept, orjson.loads(text)))}
        return {"forms": forms, "sources": sources, "records": records, "again": _stat(known["again"])}


def is_secret(sensitive: Sensitive | None, symbol: str, argument: str) -> bool:
    """Whether values of an argument of a symbol's calls must not be written."""
    return sensitive is not None and sensitive(tool_of(symbol, frozenset()), argument)


def _source_may_be_kept(text: str, secret: bool) -> bool:
    kind, _, path, _, change, constant = orjson.loads(text)
    if not kind:
        value = value_of(constant)
        return value is None or isinstance(value, bool) or (not secret and value_may_be_kept(value))
    literal = "" if has_no_literal(text) else change.partition(" ")[2]
    return _is_path(path) and value_may_be_kept(literal) and not (secret and literal)


def has_no_literal(text: str) -> bool:
    """Whether a template holds nothing of a value: it is no constant, and puts nothing in front of or behind one."""
    kind, _, _, _, change, *_ = orjson.loads(text)
    return bool(kind) and not str(change).startswith(("prefix ", "suffix "))


def _record_may_be_kept(text: str) -> bool:
    _, _, path, _, fields = orjson.loads(text)
    return _is_path(path) and all(_is_path(field) for _, field in fields)


def _is_path(path: str) -> bool:
    return all(map(may_be_kept, re.split(r"[.\[\]^]+", path)))


def _is_name(symbol: str) -> bool:
    """Whether a symbol may be written: a tool's name may always, a program's if it looks like one."""
    if len(symbol) > MOST_NAMED:
        return False  # no tool is called so: the model made it up
    return symbol.isprintable() and may_be_kept(symbol.rpartition(":")[2] if ":" in symbol else "")


def _stat(stat: Part) -> Part:
    return {**stat, "after": {symbol: counts for symbol, counts in stat["after"].items() if _is_name(symbol)}}


def _tree(tree: Part) -> Part:
    nodes: Part = {}
    for text, node in tree["nodes"].items():
        counts = {symbol: n for symbol, n in node["counts"].items() if _is_name(symbol)}
        if counts and all(map(_is_name, orjson.loads(text))):
            nodes[text] = {**node, "counts": counts}
    # That a symbol is known is no count: it must not add up.
    return {"symbols": dict.fromkeys(filter(_is_name, tree["symbols"]), 0), "nodes": nodes}
