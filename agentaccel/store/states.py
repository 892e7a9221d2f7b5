"""A session's state as JSON, as the trace store keeps it; apart from records, which are read without all this."""

from __future__ import annotations

from typing import Any

import orjson

from agentaccel.cache.ledger import Entry, Ledger
from agentaccel.cache.standing import dump_standing, load_standing
from agentaccel.cache.state import SessionState, Static
from agentaccel.store.codec import dump_json, load_beliefs


def dump_state(state: SessionState) -> str:
    """A session's state as JSON; hashes in hexadecimal."""
    return dump_json(
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
            "last_visible": state.last_visible,
            "last_lifetime": state.last_lifetime,
            "last_turn": state.last_turn,
            "awaits": state.awaits,
            "born": state.born,
            **({"cleared": [one.hex() for one in state.cleared]} if state.cleared else {}),
            **({"edited_of": (state.edited_of[0], state.edited_of[1].hex())} if state.edited_of is not None else {}),
            **({"route": state.route} if state.route else {}),
            **({"standing": dump_standing(state.standing)} if state.standing is not None else {}),
            **({"static": _dump_static(state.static)} if state.static is not None else {}),
            **({"replied": state.replied} if state.replied is not None else {}),
        }
    )


def load_state(data: bytes | str) -> SessionState:
    """The state that `dump_state` wrote."""
    raw = orjson.loads(data)
    ledger = _load_ledger(raw["ledger"])
    return SessionState(
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
        last_visible=raw["last_visible"],
        last_lifetime=raw["last_lifetime"],
        last_turn=raw["last_turn"],
        awaits=raw.get("awaits", ""),
        born=raw["born"],
        cleared=tuple(bytes.fromhex(one) for one in raw.get("cleared", ())),
        edited_of=(raw["edited_of"][0], bytes.fromhex(raw["edited_of"][1])) if "edited_of" in raw else None,
        route=raw.get("route", ""),
        standing=load_standing(raw["standing"]) if "standing" in raw else None,
        static=_load_static(*raw["static"]) if "static" in raw else None,
        replied=raw.get("replied"),
    )


def _dump_static(static: Static) -> tuple[str, int, str, str]:
    return static.system.hex(), static.size, static.tools.hex(), static.model


def _load_static(system: str, size: int, tools: str, model: str) -> Static:
    return Static(bytes.fromhex(system), int(size), bytes.fromhex(tools), str(model))


def _dump_ledger(ledger: Ledger) -> list[tuple[Any, ...]]:
    return [(hash_.hex(), *one) if one.own else (hash_.hex(), *one[:-1]) for hash_, one in ledger.entries.items()]


def _load_ledger(raw: list[list[Any]]) -> Ledger:
    return Ledger({bytes.fromhex(row[0]): Entry(*row[1:]) for row in raw})
