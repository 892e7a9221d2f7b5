"""Records as JSON: what the trace store keeps of a turn and a tool call.

The forms are versioned with the store's schema; a field that a form lacks has its default, so older rows stay readable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from agentaccel.cache.beliefs import Beliefs, Observation
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.types import MOST_TOKENS, BilledPart, Cause, Drift, EngineWork, Expected, Marker, Miss, Segment, Usage

if TYPE_CHECKING:
    from agentaccel.cache.waiting import OpenEnd


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


LastUsed = Callable[[bytes], float | None]
"""When a session with this beginning was last answered; None if none is known."""


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
    waiting: OpenEnd | None = None
    """The session's last request, while nothing has followed it: its row says so, where there is a store."""
    ends: Callable[[tuple[int, int, int]], str | None] | None = None
    """Given the ends of the three chains, the session's head as JSON."""
    once: int | None = None
    """A number below 0 that this turn and no other has: where the store has it, nothing is added; None for a turn that
    is written once in any case."""
    begun: Callable[[LastUsed], Sequence[Observation]] | None = None
    """What the turn teaches by when others with its beginnings were last answered; None if it teaches nothing so."""

    def completed(self, last_used: LastUsed) -> TurnWrite:
        """The turn with all that it teaches."""
        if self.begun is None:
            return self
        return self._replace(learned=(*self.learned, *self.begun(last_used)), begun=None)


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
    _check(raw, _TURN)
    for name in _NESTED.keys() & raw.keys():
        if raw[name] is not None:
            raw[name] = _NESTED[name](raw[name])
    try:
        return TurnRecord(**raw)
    except TypeError:
        return TurnRecord(**{name: value for name, value in raw.items() if name in _TURN_FIELDS})


def dump_tool(record: ToolRecord) -> str:
    """`record` as JSON."""
    return dump_json(asdict(record))


def load_tool(data: bytes | str) -> ToolRecord:
    """The record that `dump_tool` wrote."""
    raw = orjson.loads(data)
    _check(raw, _TOOL)
    return ToolRecord(**{name: value for name, value in raw.items() if name in _TOOL_FIELDS})


_NONE = type(None)
_FORMS: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "float": (float, int), "bool": (bool,), "None": (_NONE,), "Mapping": (dict,),
    "tuple": (list,), "Path": (list,), "Usage": (dict,), "Expected": (dict,), "Drift": (dict,), "EngineWork": (dict,),
    "Outcome": (str,), "Cause": (str,), "Level": (str,), "Literal": (str,), "ServedFrom": (str,),
}  # fmt: skip
"""What JSON has for what a field is annotated with."""


def _types_of(noun: type) -> frozenset[tuple[str, type]]:
    """Every field of a dataclass with each type that its value may have in JSON."""
    kinds = ((field.name, kind.partition("[")[0]) for field in fields(noun) for kind in str(field.type).split(" | "))
    return frozenset((name, form) for name, kind in kinds for form in _FORMS[kind])


_TURN, _TOOL = _types_of(TurnRecord), _types_of(ToolRecord)
_MISS, _PART, _WORK = _types_of(Miss), _types_of(BilledPart), _types_of(EngineWork)
_DRIFT, _MARKER, _EXPECTED = _types_of(Drift), _types_of(Marker), _types_of(Expected)


def _check(raw: Mapping[str, Any], types: frozenset[tuple[str, type]]) -> None:
    """Raises `TypeError` for a value of a type that its field cannot have; fields of a newer version may be there.

    Rows that have the same fields with values of the same types are looked at once: a store has a million.
    """
    form = (types, *raw, *map(type, raw.values()))
    if form in _checked:
        return
    names = {name for name, _ in types}
    wrong = [name for name, value in raw.items() if name in names and (name, type(value)) not in types]
    if wrong:
        raise TypeError(f"of another type than a record has: {', '.join(wrong)}")
    if len(_checked) < _MOST_FORMS:
        _checked.add(form)


_checked: set[tuple[object, ...]] = set()
_MOST_FORMS = 4096
"""More are those of a store that is not ours, each another one."""


def _marker(raw: Mapping[str, Any]) -> Marker:
    _check(raw, _MARKER)
    return Marker(**{**raw, "path": tuple(raw["path"])})


def _miss(raw: Mapping[str, Any]) -> Miss:
    _check(raw, _MISS)
    _check_count(raw["tokens"])
    return Miss(**{**raw, "cause": _CAUSES[raw["cause"]]})


def _usage(raw: Mapping[str, Any]) -> Usage:
    usage = Usage(**raw)
    for count in (usage.input, usage.read, usage.output):
        if count is not None:
            _check_count(count)
    if usage.write is not None:
        for count in usage.write.values():
            _check_count(count)
    return usage


def _part(raw: Mapping[str, Any]) -> BilledPart:
    _check(raw, _PART)
    return BilledPart(**{**raw, "usage": _usage(raw["usage"])})


def _work(raw: Mapping[str, Any]) -> EngineWork:
    _check(raw, _WORK)
    for name in _COUNTS_OF_WORK & raw.keys():
        if raw[name] is not None:
            _check_count(raw[name])
    return EngineWork(**{name: value for name, value in raw.items() if name in EngineWork.__slots__})


_COUNTS_OF_WORK = frozenset({"computed", "steps", "drafted", "accepted"})


def _drift(raw: Mapping[str, Any]) -> Drift:
    _check(raw, _DRIFT)
    return Drift(**raw)


def _expected(raw: Mapping[str, Any]) -> Expected:
    _check(raw, _EXPECTED)
    return Expected(**raw)


def _texts(raw: Iterable[object]) -> tuple[str, ...]:
    found = tuple(raw)
    "".join(found)  # type: ignore[arg-type]  # raises TypeError for what is no text
    return found  # type: ignore[return-value]


def _terms(raw: Mapping[str, Any]) -> Mapping[str, str]:
    _texts(raw.values())
    return raw


def _check_count(value: object) -> None:
    """Raises `TypeError` for what is no count of tokens."""
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise TypeError("no count of tokens")


_CAUSES = {str(cause): cause for cause in Cause}
"""By name: in less time than asking the class, for what a store has a million of."""


_NESTED: dict[str, Any] = {
    "usage": _usage,
    "as_written": _usage,
    "besides": lambda raw: tuple(_part(one) for one in raw),
    "doubts": _texts,
    "expected": _expected,
    "drift": _drift,
    "work": _work,
    "markers": lambda raw: tuple(_marker(one) for one in raw),
    "misses": lambda raw: tuple(_miss(one) for one in raw),
    "terms": _terms,
    "reasons": _texts,
    "consents": _texts,
    "calls": _texts,
    "beside": _texts,
}


def load_beliefs(raw: Mapping[str, Any]) -> Beliefs:
    return Beliefs({topic: (float(yes), float(n)) for topic, (yes, n) in raw.items()})
