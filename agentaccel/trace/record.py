"""Records and session state as JSON: what the trace store keeps of a turn, a tool call and a session.

The forms are versioned with the store's schema; a field that a form lacks has its default, so older rows stay readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import orjson

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.ledger import Entry, Ledger
from agentaccel.cache.state import State
from agentaccel.canonical import wire_bytes
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.types import Cause, Drift, Expected, Marker, Miss, Usage

_TURN_FIELDS = {field.name for field in fields(TurnRecord)}
_TOOL_FIELDS = {field.name for field in fields(ToolRecord)}


def dump_turn(record: TurnRecord) -> str:
    """`record` as JSON, without what it does not say."""
    return wire_bytes(
        {name: value for name, value in asdict(record).items() if value not in (None, (), "", {})}
    ).decode()


def load_turn(data: bytes | str) -> TurnRecord:
    """The record that `dump_turn` wrote; fields of a newer version are left out."""
    raw: dict[str, Any] = {name: value for name, value in orjson.loads(data).items() if name in _TURN_FIELDS}
    for name, load in _NESTED.items():
        if name in raw:
            raw[name] = load(raw[name])
    return TurnRecord(**raw)


def dump_tool(record: ToolRecord) -> str:
    """`record` as JSON."""
    return wire_bytes(asdict(record)).decode()


def load_tool(data: bytes | str) -> ToolRecord:
    """The record that `dump_tool` wrote."""
    return ToolRecord(**{name: value for name, value in orjson.loads(data).items() if name in _TOOL_FIELDS})


def _marker(raw: Mapping[str, Any]) -> Marker:
    return Marker(**{**raw, "path": tuple(raw["path"])})


def _miss(raw: Mapping[str, Any]) -> Miss:
    return Miss(**{**raw, "cause": Cause(raw["cause"])})


_NESTED: dict[str, Any] = {
    "usage": lambda raw: Usage(**raw),
    "as_written": lambda raw: Usage(**raw),
    "expected": lambda raw: Expected(**raw),
    "drift": lambda raw: Drift(**raw),
    "markers": lambda raw: tuple(_marker(one) for one in raw),
    "misses": lambda raw: tuple(_miss(one) for one in raw),
    "reasons": tuple,
    "calls": tuple,
}


def dump_state(state: State) -> str:
    """A session's state as JSON; hashes in hexadecimal."""
    return wire_bytes(
        {
            "turns": state.turns,
            "ledger": _dump_ledger(state.ledger),
            "shadow": _dump_ledger(state.shadow) if state.ours else None,
            "seen": state.seen.counts,
            "variants": {
                name: {digest.hex(): at for digest, at in variants.items()} for name, variants in state.variants.items()
            },
            "cut": state.cut,
            "ours": state.ours,
            "last_started": state.last_started,
            "born": state.born,
        }
    ).decode()


def load_state(data: bytes | str) -> State:
    """The state that `dump_state` wrote."""
    raw = orjson.loads(data)
    ledger = _load_ledger(raw["ledger"])
    return State(
        turns=raw["turns"],
        ledger=ledger,
        shadow=_load_ledger(raw["shadow"]) if raw["shadow"] is not None else ledger,
        seen=load_beliefs(raw["seen"]),
        variants={
            name: {bytes.fromhex(digest): at for digest, at in variants.items()}
            for name, variants in raw["variants"].items()
        },
        cut=raw["cut"],
        ours=raw["ours"],
        last_started=raw["last_started"],
        born=raw["born"],
    )


def load_beliefs(raw: Mapping[str, Any]) -> Beliefs:
    return Beliefs({topic: (float(yes), float(n)) for topic, (yes, n) in raw.items()})


def _dump_ledger(ledger: Ledger) -> list[tuple[str, str, float, float, int | None]]:
    return [(hash_.hex(), one.ttl, one.expires, one.visible, one.tokens) for hash_, one in ledger.entries.items()]


def _load_ledger(raw: list[list[Any]]) -> Ledger:
    return Ledger({bytes.fromhex(row[0]): Entry(row[1], row[2], row[3], row[4]) for row in raw})
