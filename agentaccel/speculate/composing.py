"""What stands in the store: parts with the clear forms that enough sessions have shown, and within their bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy

import orjson

from agentaccel.speculate.additive import minus, plus
from agentaccel.speculate.reading import record_of, source_of
from agentaccel.speculate.tables import Sensitive
from agentaccel.speculate.writing import Dumped, Part, Parts, is_sensitive

TWO = 2
"""Sessions that must have shown a template to be right before it is written in clear."""
MOST_BYTES = 2 << 20
"""Of one part."""
_MOST_HIDDEN = 64
"""Templates of one argument that wait for a second session; beyond, the oldest go."""
_MOST_CLEAR = 40
_MOST_RULES = 4096
_WORD = re.compile(r"[^\s(),=]+")


def added(parts: Parts, news: Dumped, sensitive: Sensitive | None = None) -> Parts:
    """The parts that `news` change, as they are to be written where `parts` are now.

    Raises `ValueError` where these are not what was written here.
    """
    try:
        return {
            name: composed(plus(parts[name], part) if name in parts else deepcopy(part), news.clear, sensitive)
            for name, part in news.parts.items()
        }
    except (TypeError, KeyError, AttributeError, IndexError) as error:
        raise ValueError(f"no learned patterns: {error!r}") from error


def since(now: Dumped, before: Parts) -> Dumped:
    """What has come to `before`; parts of which nothing has, are left out."""
    changed = {name: part for name, part in now.parts.items() if part != before.get(name)}
    return Dumped({name: minus(part, before.get(name, {})) for name, part in changed.items()}, now.clear)


def readable(parts: Parts) -> Parts:
    """What stands in clear in `parts`: what any process can use, whoever's key the hashes were made under."""

    def rows(table: Part) -> Part:
        return {hash_: row for hash_, row in table.items() if "is" in row}

    found: Parts = {}
    for name, part in parts.items():
        found[name] = dict(part)
        if "calls" in part:
            found[name]["rules"] = rows(part["rules"])
            found[name]["calls"] = {
                symbol: {
                    **known,
                    "sources": {argument: rows(table) for argument, table in known["sources"].items()},
                    "records": rows(known["records"]),
                }
                for symbol, known in part["calls"].items()
            }
    return found


def composed(part: Part, clear: Mapping[str, str], sensitive: Sensitive | None = None) -> Part:
    """`part` as it is written: with the clear forms that enough sessions have shown, and within its bounds."""
    for symbol, known in part.get("calls", {}).items():
        for argument, rows in known["sources"].items():
            secret = is_sensitive(sensitive, symbol, argument)
            known["sources"][argument] = _shown(rows, clear, (lambda text: not _has_literal(text)) if secret else None)
        known["records"] = _shown(known["records"], clear, None)
    if "rules" in part:
        words = _words(part)
        for hash_, row in part["rules"].items():
            name = row.get("is") or clear.get(hash_)
            if name is not None and words.issuperset(_WORD.findall(name)):
                row["is"] = name
        part["rules"] = _most(part["rules"], _MOST_RULES, lambda row: row["n"][0])
    least = 2
    while len(orjson.dumps(part)) > MOST_BYTES:
        _forget(part, least)
        least *= 2
    return part


def _shown(rows: Part, clear: Mapping[str, str], may: Callable[[str], bool] | None) -> Part:
    seen: Part = {}
    waiting: Part = {}
    for hash_, row in rows.items():
        text = row.get("is") or (clear.get(hash_) if row["sessions"] >= TWO else None)
        if text is not None and (may is None or may(text)):
            seen[hash_] = {**row, "is": text}
        else:
            waiting[hash_] = {name: value for name, value in row.items() if name != "is"}
    return {**_most(seen, _MOST_CLEAR, lambda row: row["all"][1]), **dict(list(waiting.items())[-_MOST_HIDDEN:])}


def _most(rows: Part, most: int, worth: Callable[[Part], float]) -> Part:
    if len(rows) <= most:
        return rows
    kept = set(sorted(rows, key=lambda one: -worth(rows[one]))[:most])
    return {hash_: row for hash_, row in rows.items() if hash_ in kept}


def _has_literal(text: str) -> bool:
    place, _, change, _ = orjson.loads(text)
    return place is None or " " in change


def _words(part: Part) -> set[str]:
    """The words of all that stands in clear: what a rule is said in says nothing more then."""
    words = {"constant", "as", "before", "one", "record", "of", "fresh", "last", "as before", "."}
    for symbol, known in part.get("calls", {}).items():
        words.update(_WORD.findall(symbol), known["sources"])
        for name in known["forms"]:
            words.update(orjson.loads(name))
        for row in (row for rows in known["sources"].values() for row in rows.values()):
            if "is" in row:
                words.update(_WORD.findall(str(source_of(row["is"])[0])))
        for row in known["records"].values():
            if "is" in row:
                words.update(_WORD.findall(str(record_of(row["is"]))))
    return words


def _forget(part: Part, least: int) -> None:
    """Drop what was met less than so often."""
    contexts = part["tree"]["contexts"]
    part["tree"]["contexts"] = {path: row for path, row in contexts.items() if sum(row["n"].values()) >= least}
    for known in part.get("calls", {}).values():
        for rows in (*known["sources"].values(), known["records"]):
            for hash_ in [hash_ for hash_, row in rows.items() if row["all"][0] < least]:
                del rows[hash_]
    part["rules"] = {hash_: row for hash_, row in part.get("rules", {}).items() if row["n"][0] >= least}
