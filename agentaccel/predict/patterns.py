"""What was learned as JSON values: objects of objects with numbers at the leaves, all of which add up.

So two dumps are merged by adding them, and what a process has learned since it began is its dump less the one that it
began with. Names stand in keys, sequences of names as JSON text. What cannot be read is left out, never a reason to
fail: a dump may come from another version, or from a file that somebody has edited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import orjson

from agentaccel.predict.calibrate import BINS, Calibration
from agentaccel.predict.context import Kind, Place, value_of
from agentaccel.predict.offers import CLASSES, Stat
from agentaccel.predict.rank import NAMES, Logistic
from agentaccel.predict.resources import FEATURES
from agentaccel.predict.sources import Pick, ValueSource
from agentaccel.predict.tables import FromRecord, SymbolTables
from agentaccel.predict.tree import Tree

if TYPE_CHECKING:
    from agentaccel.predict.knowledge import Knowledge

VERSION = "1"
"""Of the form; what another version wrote under a name that it shares with this one means the same."""
SHARED = 2
"""Sessions that have had a constant before it outlasts the process."""

T = TypeVar("T")
_KINDS, _PICKS = frozenset(get_args(Kind)), frozenset(get_args(Pick))


def added(one: Mapping[str, Any], other: Mapping[str, Any], less: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The sum of two dumps, without a third.

    >>> added({"a": {"n": 1}}, {"a": {"n": 2}, "b": 5}, {"b": 2})
    {'a': {'n': 3}, 'b': 3}
    """
    less = less or {}
    both: dict[str, Any] = {}
    for name in dict.fromkeys((*one, *other)):
        here, there, gone = one.get(name), other.get(name), less.get(name)
        if isinstance(here, Mapping) or isinstance(there, Mapping):
            both[name] = added(_object(here), _object(there), _object(gone))
        elif isinstance(here, str) or isinstance(there, str):  # the version
            both[name] = there if here is None else here
        else:
            both[name] = _number(here) + _number(there) - _number(gone)
    return both


# --- writing ----------------------------------------------------------------------------------------------------------


def dump_of(knowledge: Knowledge, shared: int = SHARED) -> dict[str, Any]:
    """All that was learned; of constants, those that `shared` sessions have had."""
    return {
        "version": VERSION,
        "fleet": _tree(knowledge.fleet),
        "workloads": {name: _tree(tree) for name, tree in knowledge.workloads.items()},
        "again": {name: _tree(tree) for name, tree in knowledge.again.items()},
        "openings": dict(knowledge.openings),
        "calls": {symbol: _known(known, shared) for symbol, known in knowledge.tables.known.items()},
        "rules": {
            name: {"met": rule.met, "right": rule.right, "soon": rule.soon, "expected": rule.expected}
            for name, rule in knowledge.rules.items()
        },
        "models": {name: _model(model, names) for name, model, names in _models(knowledge)},
        "stated": {
            name: {str(at): _numbered(counts) for at, counts in enumerate(one.bins) if counts[0]}
            for name, one in knowledge.stated.items()
        },
    }


def _tree(tree: Tree) -> dict[str, Any]:
    nodes = {_text(path): {"odds": node.odds, "counts": dict(node.counts)} for path, node in tree.walk()}
    return {"symbols": dict.fromkeys(tree.symbols, 1), "nodes": nodes}


def _known(known: SymbolTables, shared: int) -> dict[str, Any]:
    return {
        "forms": {_text(names): count for names, count in known.forms.items()},
        "sources": {
            name: {
                _text((*(source.place or ("", "", "")), source.pick, source.change, source.constant)): _stat(stat)
                for source, stat in table.items()
                if source.place is not None or stat.sessions >= shared
            }
            for name, table in known.sources.items()
        },
        "records": {
            _text((*source.place, source.fresh, source.fields)): _stat(stat) for source, stat in known.records.items()
        },
        "again": _stat(known.again),
    }


def _stat(stat: Stat) -> dict[str, Any]:
    after = {before: _numbered(counts) for before, counts in stat.after.items()}
    return {"all": _numbered(stat.all), "after": after, "sessions": stat.sessions, "openings": stat.openings}


def _models(knowledge: Knowledge) -> Iterator[tuple[str, Logistic, Sequence[str]]]:
    """Every model, its name, and the names of its features."""
    yield from ((name, model, NAMES) for name, model in knowledge.models.items())
    yield "resources", knowledge.resources, FEATURES


def _model(model: Logistic, names: Sequence[str]) -> dict[str, Any]:
    """Weights times what they were learned from: so the sum of two models is their weighted mean."""
    weights = {name: weight * model.seen for name, weight in zip(names, model.weights, strict=True)}
    return {"seen": model.seen, "weights": weights, "squares": dict(zip(names, model.squares, strict=True))}


def _numbered(counts: Iterable[float]) -> dict[str, float]:
    return {str(at): count for at, count in enumerate(counts) if count}


def _text(names: object) -> str:
    return orjson.dumps(names).decode()


# --- reading ----------------------------------------------------------------------------------------------------------


def read_into(knowledge: Knowledge, dump: object) -> None:
    """Add what a dump holds."""
    dump = _object(dump)
    _read_tree(knowledge.fleet, _object(dump.get("fleet")))
    for name, tree in _objects(dump.get("workloads")):
        _read_tree(knowledge.tree_of(name), tree)
    for name, tree in _objects(dump.get("again")):
        _read_tree(knowledge.tree_again(name), tree)
    for opening, count in _object(dump.get("openings")).items():
        if isinstance(opening, str) and _count(count):
            knowledge.began(opening, _count(count))
    for symbol, known in _objects(dump.get("calls")):
        _read_known(knowledge.tables.of(symbol), known)
    for name, counts in _objects(dump.get("rules")):
        rule = knowledge.rule(name)
        rule.met += _count(counts.get("met"))
        rule.right += _count(counts.get("right"))
        rule.soon += _count(counts.get("soon"))
        rule.expected += _count(counts.get("expected", counts.get("right")))
    models, stated = _object(dump.get("models")), _object(dump.get("stated"))
    for name, model, features in _models(knowledge):
        _read_model(model, features, _object(models.get(name)))
    for name, calibration in knowledge.stated.items():
        _read_bins(calibration, _object(stated.get(name)))


def _read_tree(tree: Tree, dump: Mapping[str, Any]) -> None:
    tree.knows(name for name in _object(dump.get("symbols")) if isinstance(name, str))
    for path, node in sorted(_objects(dump.get("nodes")), key=lambda one: len(one[0])):
        names = _parsed(path, lambda one: tuple(map(_name, one)))
        counts = {one: int(_count(count)) for one, count in _object(node.get("counts")).items() if _count(count) >= 1}
        if names is not None and counts:
            tree.add(names, counts, _number(node.get("odds")))


def _read_known(known: SymbolTables, dump: Mapping[str, Any]) -> None:
    for text, count in _object(dump.get("forms")).items():
        names = _parsed(text, lambda one: tuple(map(_name, one)))
        if names is not None and _count(count):
            known.forms[names] = known.forms.get(names, 0.0) + _count(count)
    for argument, table in _objects(dump.get("sources")):
        for text, stat in _objects(table):
            source = _parsed(text, _source)
            if source is not None:
                own = known.sources.setdefault(argument, {})
                _read_stat(own.setdefault(source, Stat(str(source), source.kind)), stat)
    for text, stat in _objects(dump.get("records")):
        record = _parsed(text, _record)
        if record is not None:
            _read_stat(known.records.setdefault(record, Stat(str(record), "record")), stat)
    _read_stat(known.again, _object(dump.get("again")))
    known.limit()


def _source(parts: Any) -> ValueSource:
    kind, tool, path, pick, change, constant = map(_name, parts)
    value_of(constant)
    if pick not in _PICKS or (kind and kind not in _KINDS):
        raise ValueError(pick)
    return ValueSource(Place(kind, tool, path) if kind else None, pick, change, constant)  # type: ignore[arg-type]


def _record(parts: Any) -> FromRecord:
    kind, tool, path, fresh, fields = parts
    if kind != "result":
        raise ValueError(kind)
    pairs = tuple((_name(name), _name(field)) for name, field in fields)
    return FromRecord(Place("result", _name(tool), _name(path)), pairs, fresh is True)


def _read_stat(stat: Stat, dump: Mapping[str, Any]) -> None:
    _add(stat.all, dump.get("all"))
    for before, counts in _objects(dump.get("after")):
        _add(stat.after.setdefault(before, [0.0] * (2 * CLASSES)), counts)
    stat.sessions += int(_count(dump.get("sessions")))
    stat.openings += int(_count(dump.get("openings", dump.get("sessions"))))
    stat.limit()


def _read_model(model: Logistic, features: Sequence[str], dump: Mapping[str, Any]) -> None:
    seen = _count(dump.get("seen"))
    if not seen:
        return
    weights, squares = _object(dump.get("weights")), _object(dump.get("squares"))
    both = model.seen + seen
    for at, name in enumerate(features):
        if name in weights:
            model.weights[at] = (model.weights[at] * model.seen + _number(weights[name])) / both
            model.squares[at] = max(model.squares[at], 1.0) + max(_number(squares.get(name)) - 1.0, 0.0)
    model.seen = both
    model.resume()


def _read_bins(calibration: Calibration, dump: Mapping[str, Any]) -> None:
    for at, counts in enumerate(calibration.bins[:BINS]):
        _add(counts, dump.get(str(at)))


def _add(counts: list[float], dump: object) -> None:
    for at, count in _object(dump).items():
        if at.isdecimal() and int(at) < len(counts):
            counts[int(at)] += _count(count)


def _parsed(text: str, read: Callable[[Any], T]) -> T | None:
    try:
        return read(orjson.loads(text))
    except (ValueError, TypeError):
        return None


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((name, one) for name, one in _object(value).items() if isinstance(name, str) and isinstance(one, Mapping))


def _number(value: object) -> float:
    return value if isinstance(value, int | float) and math.isfinite(value) else 0


def _count(value: object) -> float:
    return max(_number(value), 0.0)
