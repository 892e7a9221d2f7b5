"""What was learned, as JSON: templates and counts, in parts that add up across processes and outlast them.

One part holds what is the same for all workloads, one more each the context tree of a workload. Everything in a part is
a count, or adds up like one (weights are written as sums over what they have seen), so that what a process has learned
is a difference (`additive`), and what several have learned is their sum.

**Privacy.** A template is written under a keyed hash. Its clear form, `is`, stands beside it only once it was right in
two sessions, of whichever processes, and only if it `may_be_kept` by its look; before that nothing can be read from it,
and it waits for its counts to come together. Values that are sensitive have no clear form, ever. What stands in clear
from the beginning: names of tools, of arguments, and of programs in command lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from agentaccel.canonical import digest, identity_bytes
from agentaccel.speculate import rank
from agentaccel.speculate.calibrate import Calibration
from agentaccel.speculate.ctw import Tree
from agentaccel.speculate.knowledge import Knowledge
from agentaccel.speculate.literals import may_be_kept, value_may_be_kept
from agentaccel.speculate.sources import Source
from agentaccel.speculate.symbols import tool_of
from agentaccel.speculate.tables import Known, Sensitive, Stat

VERSION = 1
"""Of the form. A change that an older version would misread raises it."""
FLEET = ""
"""The name of the part that holds what is the same for all workloads."""
Part = dict[str, Any]
Parts = dict[str, Part]


class Dumped(NamedTuple):
    """What is to be written."""

    parts: Parts
    """By workload; `FLEET` for all."""
    clear: dict[str, str]
    """By hash, the clear forms that may be written once enough sessions have shown them."""


def dump(knowledge: Knowledge, key: bytes, sensitive: Sensitive | None = None) -> Dumped:
    """What `knowledge` holds; hashes are made under `key`."""
    writer = _Writer(key, sensitive or knowledge.sensitive)
    with knowledge.lock:
        parts: Parts = {name: {"tree": _tree(tree)} for name, tree in knowledge.workloads.items() if tree.root.total}
        calls = {
            symbol: writer.known(symbol, known, knowledge.tables.constants)
            for symbol, known in knowledge.tables.known.items()
            if _is_name(symbol)
        }
        parts[FLEET] = {
            "tree": _tree(knowledge.fleet),
            "calls": calls,
            "rules": {
                writer.hidden(name, name): {"n": [one.met, one.right, one.soon]}
                for name, one in knowledge.rules.items()
            },
            "ranks": {"next": _rank(knowledge.next), "soon": _rank(knowledge.soon)},
            "said": {"next": _said(knowledge.next_said), "soon": _said(knowledge.soon_said)},
        }
    return Dumped(parts, writer.clear)


class _Writer:
    """Writes templates under hashes, and remembers what these stand for."""

    def __init__(self, key: bytes, sensitive: Sensitive | None) -> None:
        self.clear: dict[str, str] = {}
        self._key, self._sensitive = key, sensitive

    def hidden(self, text: str, clear: str | None) -> str:
        """The hash of a template; `clear` is what may once be written in its place."""
        hash_ = digest(text.encode("utf-8", "surrogatepass"), self._key).hex()
        if clear is not None:
            self.clear[hash_] = clear
        return hash_

    def known(self, symbol: str, known: Known, constants: Mapping[str, Any]) -> Part:
        sources: dict[str, Part] = {}
        for argument, table in known.sources.items():
            if may_be_kept(argument):
                secret = is_sensitive(self._sensitive, symbol, argument)
                rows = sources[argument] = {}
                for source, stat in table.items():
                    text, clear = source_text(source, constants, secret)
                    rows[self.hidden(f"{symbol}\0{argument}\0{text}", clear)] = _stat(stat)
        records: Part = {}
        for record, stat in known.records.items():
            text = _text([*record.place, record.fields, record.fresh])
            kept = all(map(_is_path, (record.place.path, *(field for _, field in record.fields))))
            records[self.hidden(f"{symbol}\0{text}", text if kept else None)] = _stat(stat)
        forms = {orjson.dumps(form).decode(): n for form, n in known.forms.items() if all(map(may_be_kept, form))}
        return {"forms": forms, "again": _stat(known.again), "sources": sources, "records": records}


def source_text(source: Source, constants: Mapping[str, Any], secret: bool) -> tuple[str, str | None]:
    """A source as text, and as the text that may be written of it: None where that holds what may be anybody's own."""
    place = None if source.place is None else list(source.place)
    value = constants.get(source.constant) if place is None else None
    operand = source.change.partition(" ")[2]
    if source.place is None:
        kept = source.constant in constants and not secret and value_may_be_kept(value)
    else:
        kept = _is_path(source.place.path) and may_be_kept(operand) and not (secret and operand)
    text = _text([place, source.pick, source.change, source.constant])
    return text, _text([place, source.pick, source.change, value]) if kept else None


def _text(form: list[Any]) -> str:
    return identity_bytes(form).decode("utf-8", "replace")


def is_sensitive(sensitive: Sensitive | None, symbol: str, argument: str) -> bool:
    """Whether values of an argument must not be written, by the tool's name or by the symbol of the call."""
    return sensitive is not None and any(sensitive(one, argument) for one in (symbol, tool_of(symbol, frozenset())))


def _is_path(path: str) -> bool:
    return all(map(may_be_kept, re.split(r"[.\[\]^]+", path)))


def _is_name(symbol: str) -> bool:
    """Whether a symbol may be written: the name of a tool may always, that of a program if it looks like one."""
    program = symbol.rpartition(":")[2] if ":" in symbol else ""
    return symbol.isprintable() and may_be_kept(program)


def _stat(stat: Stat) -> Part:
    after = {symbol: list(counts) for symbol, counts in stat.after.items() if _is_name(symbol)}
    return {"sessions": stat.sessions, "all": list(stat.all), "after": after}


def _tree(tree: Tree) -> Part:
    contexts: Part = {}
    for path, node in tree.walk():
        counts = {symbol: n for symbol, n in node.counts.items() if _is_name(symbol)}
        if counts and all(map(_is_name, path)):
            contexts[orjson.dumps(path).decode()] = {"n": counts, "odds": node.odds}
    return {"symbols": dict.fromkeys(filter(_is_name, tree.symbols), 0), "contexts": contexts}


def _rank(model: rank.Logistic) -> Part:
    rows = zip(rank.NAMES, model.weights, model.squares, strict=True)
    return {"seen": model.seen, "by": {name: [weight * model.seen, squares - 1.0] for name, weight, squares in rows}}


def _said(calibration: Calibration) -> Part:
    return {str(at): list(counts) for at, counts in enumerate(calibration.bins) if counts[0]}
