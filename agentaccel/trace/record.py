"""Records as JSON: what the trace store keeps of a turn and a tool call.

The forms are versioned with the store's schema; a field that a form lacks has its default, so older rows stay readable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from agentaccel.cache.beliefs import Beliefs, Observation
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.types import BilledPart, Cause, Drift, Expected, Marker, Miss, Segment, Usage

if TYPE_CHECKING:
    from agentaccel.cache.waiting import Waiting


class SessionRow(NamedTuple):
    """What the store keeps of a session; its state and its head are left as JSON."""

    id: str
    agent: str | None
    tenant: str | None
    parent: str | None
    workload: str
    created: float
    turns: int
    snapshot: Beliefs
    """Beliefs about the workload at the session's start: they stay as its first turn has them."""
    state: str
    head: str | None


class Routed(NamedTuple):
    """A session that was heard of lately, and the route that its requests take."""

    route: str
    requests: int
    """So many lately."""
    created: float


class TurnWrite(NamedTuple):
    """Everything that one turn adds, written in one transaction."""

    record: TurnRecord
    session: SessionRow | None = None
    """The session after the turn; None where the turn taught nothing (it failed)."""
    segments: tuple[Segment, ...] = ()
    content: Callable[[Segment], bytes] | None = None
    """How to get a segment's wire bytes, where content is to be kept."""
    lineage: tuple[bytes, ...] = ()
    """Hashes by which the next request of the conversation is recognised."""
    messages: int = 0
    """Messages of the request."""
    learned: tuple[Observation, ...] = ()
    beginnings: tuple[bytes, ...] = ()
    """Hashes of what other sessions may begin with, to tell whether they do."""
    waiting: Waiting | None = None
    """The session's last request, while nothing has followed it: its row says so, where there is a store."""
    ends: Callable[[tuple[int, int, int]], str | None] | None = None
    """Given the ends of the three chains, the session's head as JSON."""
    once: int | None = None
    """A number below 0 that this turn and no other has: where the store has it, nothing is added; None for a turn that
    is written once in any case."""


R = TypeVar("R", TurnRecord, ToolRecord)

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError)
"""What reading a row raises that is not what this package writes."""

_TURN_FIELDS = tuple(field.name for field in fields(TurnRecord))
_ALWAYS = frozenset(field.name for field in fields(TurnRecord) if field.default is field.default_factory is MISSING)
"""Fields that have no default."""
NOT_REPORTED = ("markers", "reasons", "consents", "calls", "expected")
"""Fields that take most of the time to read, and that no report looks at."""
_turn_values = attrgetter(*_TURN_FIELDS)
_TOOL_FIELDS = {field.name for field in fields(ToolRecord)}


def text(value: object) -> str:
    """`value` as text that can be UTF-8, which is all that a database takes."""
    if type(value) is str and value.isascii():
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()


def dump_json(value: object) -> str:
    """`value` as JSON that reads back, whatever it holds: what cannot be UTF-8 is replaced."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return json.dumps(value, ensure_ascii=False, default=_plain).encode("utf-8", "replace").decode()


def _plain(value: object) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else repr(value)


_TOLD = b',"told":true,'
"""Stands in a turn's JSON between what reports read and the rest, and nowhere else: quotes in texts are escaped."""


def dump_turn(record: TurnRecord) -> str:
    """`record` as JSON, without what it does not say; but for what every record has, though it be empty."""
    said = zip(_TURN_FIELDS, _turn_values(record), strict=True)
    whole = {name: value for name, value in said if value or value == 0 or name in _ALWAYS}
    rest = {name: whole.pop(name) for name in NOT_REPORTED if name in whole}
    return dump_json({**whole, "told": True, **rest} if rest else whole)


def load_turn(data: bytes | str) -> TurnRecord:
    """The record that `dump_turn` wrote; fields of a newer version are left out."""
    raw = orjson.loads(data)
    raw.pop("told", None)
    return _turn(raw)


def load_told(data: bytes) -> TurnRecord:
    """The record that `dump_turn` wrote, without what no report looks at."""
    head, told, _ = data.partition(_TOLD)
    if told:
        return _turn(orjson.loads(head + b"}"))
    raw = orjson.loads(data)
    return _turn({name: value for name, value in raw.items() if name not in NOT_REPORTED})


def _turn(raw: dict[str, Any]) -> TurnRecord:
    for name in _NESTED.keys() & raw.keys():
        raw[name] = _NESTED[name](raw[name])
    _check_counts(raw.get("first_byte"), raw.get("finished"), raw.get("reusable"), raw.get("waited"))
    try:
        return _placed(TurnRecord(**raw))
    except TypeError:
        return _placed(TurnRecord(**{name: value for name, value in raw.items() if name in _TURN_FIELDS}))


def dump_tool(record: ToolRecord) -> str:
    """`record` as JSON."""
    return dump_json(asdict(record))


def load_tool(data: bytes | str) -> ToolRecord:
    """The record that `dump_tool` wrote."""
    return _placed(ToolRecord(**{name: value for name, value in orjson.loads(data).items() if name in _TOOL_FIELDS}))


def _placed(record: R) -> R:
    """`record`, if it says where it belongs; reports sort by that. Raises `TypeError`."""
    if not isinstance(record.session, str) or not isinstance(record.started, int | float):
        raise TypeError("a record without a session or a time")
    return record


def _marker(raw: Mapping[str, Any]) -> Marker:
    return Marker(**{**raw, "path": tuple(raw["path"])})


def _miss(raw: Mapping[str, Any]) -> Miss:
    _check_counts(raw["tokens"])
    return Miss(**{**raw, "cause": _CAUSES[raw["cause"]]})


def _usage(raw: Mapping[str, Any]) -> Usage:
    usage = Usage(**raw)
    written = usage.write.values() if usage.write else ()
    _check_counts(usage.input, usage.read, usage.output, *written)
    return usage


def _part(raw: Mapping[str, Any]) -> BilledPart:
    return BilledPart(**{**raw, "usage": _usage(raw["usage"])})


def _terms(raw: Mapping[str, Any]) -> Mapping[str, str]:
    if not all(isinstance(value, str) for value in raw.values()):
        raise TypeError("terms that are no texts")
    return raw


def _check_counts(*values: object) -> None:
    """Raises `TypeError` for what no sum can be made of."""
    if not _COUNTS.issuperset(map(type, values)):
        raise TypeError("a count that is no number")


_COUNTS = frozenset({int, float, bool, type(None)})
"""What a count can be in JSON."""
_CAUSES = {str(cause): cause for cause in Cause}
"""By name. Like the set above: in less time than asking the class, for what a store has a million of."""


_NESTED: dict[str, Any] = {
    "usage": _usage,
    "as_written": _usage,
    "besides": lambda raw: tuple(_part(one) for one in raw),
    "doubts": tuple,
    "expected": lambda raw: Expected(**raw),
    "drift": lambda raw: Drift(**raw),
    "markers": lambda raw: tuple(_marker(one) for one in raw),
    "misses": lambda raw: tuple(_miss(one) for one in raw),
    "terms": _terms,
    "reasons": tuple,
    "consents": tuple,
    "calls": tuple,
}


def load_beliefs(raw: Mapping[str, Any]) -> Beliefs:
    return Beliefs({topic: (float(yes), float(n)) for topic, (yes, n) in raw.items()})
