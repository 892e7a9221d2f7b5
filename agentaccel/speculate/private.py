"""What was learned, as it may lie on a disk: counts by name, and templates that nobody's own data can be read from.

A template (where an argument comes from, a record, a pattern) is counted under a keyed hash, `#` before it. Its text
takes the place of the hash once it was right in `TWO` sessions, of whichever processes, and only if it looks harmless
(`literals`); until then its counts come together unread. Values of sensitive arguments stay hashes for good. In clear
from the beginning stand names: of tools, of their arguments, and of programs in command lines.

The form is that of `dumps`, cut into one part a workload and one, with the name `FLEET`, of what is the same for all:
each part can be loaded, and leaves out what is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from agentaccel.canonical import digest
from agentaccel.speculate.dumps import added
from agentaccel.speculate.knowledge import Knowledge
from agentaccel.speculate.literals import may_be_kept, value_may_be_kept
from agentaccel.speculate.scene import value_of
from agentaccel.speculate.stats import Sensitive
from agentaccel.speculate.symbols import tool_of

TWO = 2
"""Sessions that must have shown a template to be right before it is written in clear."""
FLEET = ""
"""The name of the part that holds what is the same for all workloads."""
MOST_BYTES = 2 << 20
"""Of one part, unless the store is small; what was met least goes first."""
OFTEN = 0.05
"""Of the calls since a value was first seen: one that is right more seldom is not what calls have in common."""
_MOST_HIDDEN = 64
"""Templates of one argument that wait for a second session; the oldest go first."""
_HIDDEN = "#"

Part = dict[str, Any]
Parts = dict[str, Part]


class News(NamedTuple):
    """What was learned, every template under its hash."""

    parts: Parts
    """By workload."""
    texts: Mapping[str, str]
    """By hash, the texts that may be written once enough sessions have shown them."""


def news_of(knowledge: Knowledge, key: bytes) -> News:
    """All that `knowledge` holds; hashes are made under `key`."""
    dump = knowledge.dump(shared=0)
    veil = _Veil(key, knowledge.sensitive)
    parts: Parts = {
        name: {"version": dump["version"], "workloads": {name: _tree(tree)}}
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


def shelved(parts: Parts, news: News, sensitive: Sensitive | None = None, most: int = MOST_BYTES) -> Parts:
    """The parts that `news` change, as they are to be written where `parts` stand now, of at most `most` bytes each.

    A part whose form is not ours, as where somebody has edited it, is left out: it stays as it is.
    """
    found: Parts = {}
    for name, part in news.parts.items():
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            found[name] = _shelved(parts.get(name, {}), part, news.texts, sensitive)
            _bound(found[name], most)
    return found


def _shelved(there: Part, news: Part, texts: Mapping[str, str], sensitive: Sensitive | None) -> Part:
    both: Part = orjson.loads(orjson.dumps(there))
    _grow(both, news)
    for symbol, known in news.get("calls", {}).items():
        of_symbol = both["calls"][symbol]
        for argument in known.get("sources", ()):
            secret = _is_secret(sensitive, symbol, argument)
            table = of_symbol["sources"][argument]
            of_symbol["sources"][argument] = _revealed(table, texts, _has_no_literal if secret else None)
        if "records" in known:
            of_symbol["records"] = _revealed(of_symbol["records"], texts)
    if rules := [hash_ for hash_ in news.get("rules", ()) if hash_ in texts]:
        words = _words(both)
        said = {hash_: texts[hash_] for hash_ in rules if words.issuperset(_split(texts[hash_]))}
        both["rules"] = _renamed(both["rules"], said)
    return both


def _grow(part: Part, news: Mapping[str, Any]) -> None:
    """Add `news` to `part`, in place."""
    for name, value in news.items():
        if isinstance(value, dict):
            below = part.setdefault(name, {})
            _grow(below, value)
        elif isinstance(value, str):
            part.setdefault(name, value)
        else:
            part[name] = part.get(name, 0) + value


def readable(parts: Parts) -> Parts:
    """What stands in clear in `parts`: what is of use to anybody, whoever's key the hashes were made under."""
    return {name: _without_hidden(part) for name, part in parts.items()}


def _without_hidden(part: Part) -> Part:
    return {
        name: _without_hidden(value) if isinstance(value, dict) else value
        for name, value in part.items()
        if not name.startswith(_HIDDEN)
    }


# --- templates and their hashes ---------------------------------------------------------------------------------------


class _Veil:
    """Puts hashes in the place of templates, and remembers what they stand for."""

    def __init__(self, key: bytes, sensitive: Sensitive | None) -> None:
        self.texts: dict[str, str] = {}
        self._key, self._sensitive = key, sensitive

    def hidden(self, where: str, text: str, clear: str | None) -> str:
        """The name under which a template is counted; `clear` is what may once be written in its place."""
        hash_ = _HIDDEN + digest(f"{where}\0{text}".encode("utf-8", "surrogatepass"), self._key).hex()
        if clear is not None and clear.isprintable():
            self.texts[hash_] = clear
        return hash_

    def calls(self, symbol: str, known: Part) -> Part:
        """What is known of the calls of one symbol."""
        sources: Part = {}
        for argument, table in known["sources"].items():
            if may_be_kept(argument):
                secret = _is_secret(self._sensitive, symbol, argument)
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


def _is_secret(sensitive: Sensitive | None, symbol: str, argument: str) -> bool:
    return sensitive is not None and sensitive(tool_of(symbol, frozenset()), argument)


def _source_may_be_kept(text: str, secret: bool) -> bool:
    kind, _, path, _, change, constant = orjson.loads(text)
    if not kind:
        return not secret and value_may_be_kept(value_of(constant))
    literal = "" if _has_no_literal(text) else change.partition(" ")[2]
    return _is_path(path) and value_may_be_kept(literal) and not (secret and literal)


def _has_no_literal(text: str) -> bool:
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


# --- what is written --------------------------------------------------------------------------------------------------


def _revealed(table: Part, texts: Mapping[str, str], may: Callable[[str], bool] | None = None) -> Part:
    """A table of templates, those in clear that enough sessions have shown; `may` says which may be so at all."""
    if may is not None:
        table = {text: row for text, row in table.items() if text.startswith(_HIDDEN) or may(text)}
    enough = {hash_: texts[hash_] for hash_, row in table.items() if hash_ in texts and _is_enough(table, hash_, texts)}
    rows = _renamed(table, enough)
    waiting = [name for name in rows if name.startswith(_HIDDEN)]
    for name in waiting[:-_MOST_HIDDEN]:
        del rows[name]
    return rows


def _is_enough(table: Part, hash_: str, texts: Mapping[str, str]) -> bool:
    text, row = texts[hash_], table[hash_]
    if text in table:
        return True
    seen = row.get("all", {})
    often = _has_no_literal(text) or seen.get("1", 0) >= OFTEN * seen.get("0", 0)
    return bool(row.get("sessions", 0) >= TWO and often)


def _renamed(rows: Part, names: Mapping[str, str]) -> Part:
    """`rows` with new names for some; what has that name already is added to."""
    found = {name: row for name, row in rows.items() if name not in names}
    for old, new in names.items():
        found[new] = added(found.get(new, {}), rows[old])
    return found


def _split(text: str) -> list[str]:
    return re.findall(r"[^\s(),=]+", text)


def _words(part: Part) -> set[str]:
    """The words of all that stands in clear: a pattern that is said in them says nothing more."""
    words = {"constant", "as", "before", "one", "record", "of", "fresh", "last", "end", "first", "mentioned", "."}
    for symbol, known in part.get("calls", {}).items():
        words.update(_split(symbol), known.get("sources", ()))
        for text in known.get("forms", ()):
            words.update(orjson.loads(text))
        for text in _in_clear(*known.get("sources", {}).values()):
            kind, tool, path, _, change, _ = orjson.loads(text)
            words.update((kind, change.partition(" ")[0], *_split(f"{tool}{path}"), *_split(path)))
        for text in _in_clear(known.get("records", {})):
            _, tool, path, _, fields = orjson.loads(text)
            words.update((*_split(f"{tool}{path or '.'}"), *(one for pair in fields for one in pair)))
    return words


def _in_clear(*tables: Part) -> Iterator[str]:
    return (text for table in tables for text in table if not text.startswith(_HIDDEN))


def _bound(part: Part, most: int) -> None:
    least = 1
    while len(orjson.dumps(part)) > most and least < 1 << 30:
        least *= 2
        for tree in (part.get("fleet", {}), *part.get("workloads", {}).values()):
            _drop(tree.get("nodes", {}), lambda node: sum(node.get("counts", {}).values()), least)
            met = {symbol for node in tree.get("nodes", {}).values() for symbol in node.get("counts", {})}
            tree["symbols"] = dict.fromkeys(sorted(met), 0)
        _drop(part.get("calls", {}), lambda known: sum(known.get("forms", {}).values()), least)
        for known in part.get("calls", {}).values():
            for table in (*known.get("sources", {}).values(), known.get("records", {})):
                _drop(table, lambda row: row.get("all", {}).get("0", 0), least)
        _drop(part.get("rules", {}), lambda row: row.get("met", 0), least)


def _drop(rows: Part, met: Callable[[Part], float], least: int) -> None:
    """Drop what was met less than so often."""
    for name in [name for name, row in rows.items() if met(row) < least]:
        del rows[name]
