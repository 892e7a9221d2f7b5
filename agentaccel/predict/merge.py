"""How what was learned gets into a store: added to what is there, in clear where sessions agree, within bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import orjson

from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.offers import Sensitive
from agentaccel.predict.patterns import VERSION, added
from agentaccel.predict.redaction import FLEET, HIDDEN, News, Part, Parts, has_no_literal, is_secret, news_of

TWO = 2
"""Sessions that must have shown a template to be right before it is written in clear."""
MOST_BYTES = 2 << 20
"""Of one part, unless the store is small; what was met least goes first."""
OFTEN = 0.05
"""Of the calls since a value was first seen: one that is right more seldom is not what calls have in common."""
_MOST_HIDDEN = 64
"""Templates of one argument that wait for a second session; the oldest go first."""


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
            secret = is_secret(sensitive, symbol, argument)
            table = of_symbol["sources"][argument]
            of_symbol["sources"][argument] = _revealed(table, texts, has_no_literal if secret else None)
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
        if not name.startswith(HIDDEN)
    }


def _revealed(table: Part, texts: Mapping[str, str], may: Callable[[str], bool] | None = None) -> Part:
    """A table of templates, those in clear that enough sessions have shown; `may` says which may be so at all."""
    if may is not None:
        table = {text: row for text, row in table.items() if text.startswith(HIDDEN) or may(text)}
    enough = {hash_: texts[hash_] for hash_, row in table.items() if hash_ in texts and _is_enough(table, hash_, texts)}
    rows = _renamed(table, enough)
    waiting = [name for name in rows if name.startswith(HIDDEN)]
    for name in waiting[:-_MOST_HIDDEN]:
        del rows[name]
    return rows


def _is_enough(table: Part, hash_: str, texts: Mapping[str, str]) -> bool:
    text, row = texts[hash_], table[hash_]
    if text in table:
        return True
    seen = row.get("all", {})
    often = has_no_literal(text) or seen.get("1", 0) >= OFTEN * seen.get("0", 0)
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
    return (text for table in tables for text in table if not text.startswith(HIDDEN))


def _bound(part: Part, most: int) -> None:
    least = 1
    while len(orjson.dumps(part)) > most and least < 1 << 30:
        least *= 2
        for tree in (part.get("fleet", {}), *part.get("workloads", {}).values(), *part.get("again", {}).values()):
            _drop(tree.get("nodes", {}), lambda node: sum(node.get("counts", {}).values()), least)
            met = {symbol for node in tree.get("nodes", {}).values() for symbol in node.get("counts", {})}
            tree["symbols"] = dict.fromkeys(sorted(met), 0)
        _drop(part.get("calls", {}), lambda known: sum(known.get("forms", {}).values()), least)
        for known in part.get("calls", {}).values():
            for table in (*known.get("sources", {}).values(), known.get("records", {})):
                _drop(table, lambda row: row.get("all", {}).get("0", 0), least)
        _drop(part.get("rules", {}), lambda row: row.get("met", 0), least)
        if "openings" in part:
            part["openings"] = {hash_: count for hash_, count in part["openings"].items() if count >= least}


def _drop(rows: Part, met: Callable[[Part], float], least: int) -> None:
    """Drop what was met less than so often."""
    for name in [name for name, row in rows.items() if met(row) < least]:
        del rows[name]


# --- Learned patterns as a file: what stands in clear, to be kept, looked at or taken elsewhere -----------------------

_KIND = "agentaccel patterns"


def exported(parts: Parts) -> bytes:
    """A file of `parts`, without what waits for a second session: nobody else could read it."""
    form = {"kind": _KIND, "version": int(VERSION), "parts": readable(parts)}
    return orjson.dumps(form, option=orjson.OPT_INDENT_2) + b"\n"


def imported(data: bytes, key: bytes, sensitive: Sensitive | None = None) -> News:
    """What a file holds, to be added to a store whose hashes are made under `key`. Raises `ValueError`, saying why."""
    form = orjson.loads(data)
    if not isinstance(form, dict) or form.get("kind") != _KIND or not isinstance(form.get("parts"), dict):
        raise ValueError("it holds no exported patterns")
    if form.get("version") != int(VERSION):
        raise ValueError(f"its patterns have format {form.get('version')}, and this agentaccel knows {VERSION}")
    return news_of(loaded(form["parts"], sensitive), key, values=True)


def loaded(parts: Parts, sensitive: Sensitive | None = None) -> Knowledge:
    """What stands in clear in `parts`; what all workloads share comes first."""
    knowledge = Knowledge(sensitive=sensitive)
    for name in sorted(parts, key=lambda one: one != FLEET):
        knowledge.merge(parts[name])
    return knowledge
