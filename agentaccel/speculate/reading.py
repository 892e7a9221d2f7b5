"""What was written, back: parts are added to what is known already, and checked, because they come from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

import orjson

from agentaccel.speculate import rank
from agentaccel.speculate.calibrate import BINS, Calibration
from agentaccel.speculate.ctw import Tree
from agentaccel.speculate.knowledge import Knowledge
from agentaccel.speculate.scene import Place, key_of
from agentaccel.speculate.sources import PICKS, Source
from agentaccel.speculate.tables import FromRecord, Known, Sensitive, Stat
from agentaccel.speculate.writing import Part

M = TypeVar("M")

_KINDS = ("result", "argument", "user", "model")
"""Of a `Place`."""


def absorb(knowledge: Knowledge, parts: Mapping[str, Part]) -> None:
    """Add what `parts` hold to `knowledge`. Raises `ValueError` where they are not what `composed` gives.

    What has no clear form stays where it is. On an error, `knowledge` may have taken in a part of it.
    """
    try:
        with knowledge.lock:
            for name, part in parts.items():
                _absorb_tree(knowledge.tree_of(name) if name else knowledge.fleet, part["tree"])
                for symbol, known in part.get("calls", {}).items():
                    _absorb_known(knowledge, symbol, known)
                for row in part.get("rules", {}).values():
                    if "is" in row:
                        met, right, soon = row["n"]
                        rule = knowledge.rule(str(row["is"]))
                        rule.met, rule.right, rule.soon = rule.met + met, rule.right + right, rule.soon + soon
                for row, model in _pairs(part.get("ranks", {}), knowledge.next, knowledge.soon):
                    _absorb_rank(model, row)
                for row, calibration in _pairs(part.get("said", {}), knowledge.next_said, knowledge.soon_said):
                    _absorb_said(calibration, row)
    except (TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"no learned patterns: {error!r}") from error


def load(parts: Mapping[str, Part], sensitive: Sensitive | None = None) -> Knowledge:
    """What `parts` hold. Raises `ValueError` where they are not what `composed` gives."""
    knowledge = Knowledge(sensitive=sensitive)
    absorb(knowledge, parts)
    return knowledge


def source_of(text: str) -> tuple[Source, Any]:
    """The source that a clear form is of, and its value where it is a constant. Raises what reading it raises."""
    place, pick, change, value = orjson.loads(text)
    if pick not in PICKS or not isinstance(change, str):
        raise ValueError(f"no source: {text}")
    if place is None:
        return Source(None, "last", "", key_of(value)), value
    return Source(_place(place), pick, change), None


def record_of(text: str) -> FromRecord:
    """The record that a clear form is of. Raises what reading it raises."""
    *place, fields, fresh = orjson.loads(text)
    return FromRecord(_place(place), tuple((str(name), str(field)) for name, field in fields), fresh is True)


def _place(raw: list[Any]) -> Place:
    kind, tool, path = raw
    if kind not in _KINDS or not isinstance(tool, str) or not isinstance(path, str):
        raise ValueError(f"no place: {raw}")
    return Place(kind, tool, path)


def _absorb_tree(tree: Tree, part: Part) -> None:
    tree.knows(part["symbols"])
    rows = [(orjson.loads(path), row) for path, row in part["contexts"].items()]
    for path, row in sorted(rows, key=lambda one: len(one[0])):
        tree.add(path, {symbol: count for symbol, n in row["n"].items() if (count := _count(n))}, float(row["odds"]))


def _absorb_known(knowledge: Knowledge, symbol: str, part: Part) -> None:
    tables = knowledge.tables
    known = tables.known.get(symbol)
    if known is None:
        known = tables.known[symbol] = Known()
    for text, n in part["forms"].items():
        form = tuple(map(str, orjson.loads(text)))
        known.forms[form] = known.forms.get(form, 0.0) + _count(n)
    _absorb_stat(known.again, part["again"])
    for argument, rows in part["sources"].items():
        table = known.sources.setdefault(argument, {})
        for row in rows.values():
            if "is" in row:
                source, value = source_of(row["is"])
                if source.place is None:
                    tables.constants[source.constant] = value
                _absorb_stat(table.setdefault(source, Stat(str(source), source.kind)), row)
        known.sources[argument] = dict(sorted(table.items(), key=lambda one: -one[1].worth))
    for row in part["records"].values():
        if "is" in row:
            record = record_of(row["is"])
            _absorb_stat(known.records.setdefault(record, Stat(str(record), "record")), row)


def _absorb_stat(stat: Stat, row: Part) -> None:
    stat.sessions += _count(row["sessions"])
    _add(stat.all, row["all"])
    for symbol, counts in row["after"].items():
        _add(stat.after.setdefault(symbol, [0.0] * len(stat.all)), counts)
    stat.weigh()


def _add(counts: list[float], more: list[Any]) -> None:
    for at, (one, other) in enumerate(zip(counts, more, strict=True)):
        counts[at] = max(one + float(other), 0.0)


def _absorb_rank(model: rank.Logistic, row: Part) -> None:
    seen, by = float(row["seen"]), row["by"]
    total = model.seen + seen
    if seen == 0 or total <= 0:
        return
    for at, name in enumerate(rank.NAMES):
        if name in by:  # a feature that the other version did not have keeps its own weight
            summed, squares = map(float, by[name])
            model.weights[at] = (model.weights[at] * model.seen + summed) / total
            model.squares[at] = max(model.squares[at] + squares, 1.0)
    model.seen = total


def _absorb_said(calibration: Calibration, row: Part) -> None:
    for at, counts in row.items():
        if 0 <= int(at) < BINS:
            _add(calibration.bins[int(at)], counts)
    calibration.refit()


def _pairs(part: Part, following: M, later: M) -> Iterator[tuple[Part, M]]:
    for name, one in (("next", following), ("soon", later)):
        if name in part:
            yield part[name], one


def _count(value: object) -> int:
    """A number of times; never below none."""
    return max(int(cast("float", value)), 0)
