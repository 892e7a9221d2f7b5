"""Slots of a llama.cpp server: which one each conversation gets, and what is said of one that was kept; pure.

    pins = pins.after("ticket-1", slots=2)      # a request of that conversation goes out
    pins.slot("ticket-1", slots=2)              # 0

A slot holds one chain of tokens. Left alone, the server gives a request to the slot whose chain begins like it, by a
tenth of the prompt: two agents with one system prompt take one slot from each other, and the other stays empty.

Named by number, a slot is not searched for, and what it held is not kept in the server's memory. So nobody is pinned
while more conversations take turns than there are slots: the server's own way is then the better one. Source:
llama.cpp, tools/server/server-context.cpp: `get_available_slot` alone saves and loads, and is not asked for a number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from agentaccel.errors import ConfigError, EngineError
from agentaccel.selfhost.probe import Page, Server
from agentaccel.selfhost.tables import found, name_of, row

_TURNS = 4
"""Changes from one conversation to another, for each slot, that are as they should be until slots are given again."""
_MOST = 256
"""Slots that are given: llama.cpp cannot have more, whatever answers in its place. Source: llama.cpp,
src/llama-cparams.h: `LLAMA_MAX_SEQ`."""


@dataclass(frozen=True, slots=True)
class Pins:
    """The slots that conversations have: those used last, one each."""

    order: tuple[str, ...] = ()
    """Conversations, the one used last at the end; as many again are remembered as there are slots."""
    held: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The slot of each of the last ones."""
    crowded: int = 0
    """Changes to come until slots are given again."""

    def after(self, name: str, slots: int) -> Pins:
        """Once a request of the conversation called `name` goes out: it takes the slot that was used longest ago.

        One that comes back after its slot was another's shows that the slots are too few.
        """
        slots = min(slots, _MOST)
        if self.order[-1:] == (name,) and self.held[name] < slots:
            return self
        order = (*(one for one in self.order if one != name), name)[-2 * slots :]
        crowded = _TURNS * slots if name in self.order and name not in self.held else max(self.crowded - 1, 0)
        last = set(order[-slots:])
        held = {one: slot for one, slot in self.held.items() if one in last and slot < slots}
        if name not in held:
            taken = set(held.values())
            held[name] = next(slot for slot in range(slots) if slot not in taken)
        return Pins(order, MappingProxyType(held), crowded)

    def slot(self, name: str, slots: int) -> int | None:
        """The slot that the next request of the conversation goes to; None where the server is to choose.

        >>> pins = Pins().after("a", 2).after("b", 2)
        >>> pins.slot("a", 2), pins.slot("b", 2), pins.slot("c", 2)
        (0, 1, 0)
        >>> pins.after("c", 2).slot("a", 2) is None
        True
        """
        pins = self.after(name, slots)
        return None if pins.crowded else pins.held[name]


# --- kept in a file, and brought back ---------------------------------------------------------------------------------

Action = Literal["save", "restore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSlot:
    """What a server has put into a file, or taken from one. None where it does not say."""

    name: str
    """The file's, in the folder that the server was started with."""
    slot: int
    tokens: int | None
    bytes: int | None


def path_of(server: Server, action: Action, name: object, slot: object) -> str:
    """Where a slot of `server` is saved or restored. Raises `ConfigError` for what cannot be meant, `EngineError`
    where the server has no slots to keep."""
    known = row(server.dialect).get("slot")
    if known is None:
        raise EngineError(f"no slot can be kept: {name_of(server.dialect)} is not known to save slots")
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST or not name.isprintable() or set(name) & set("/\\:"):
        raise ConfigError(f"Backend.{action}_slot: name is {name!r}; give the name of a file, without a folder")
    most = (server.slots or 0) - 1
    if isinstance(slot, bool) or not isinstance(slot, int) or not 0 <= slot <= most:
        raise ConfigError(f"Backend.{action}_slot: slot is {slot!r}; this server has the slots 0 to {most}")
    return str(known["path"]).format(slot=slot, action=action)


def kept(server: Server, action: Action, name: str, slot: int, said: Page | str) -> KeptSlot:
    """What the server has said. Raises `EngineError` where it has not done it."""
    known, what = row(server.dialect)["slot"], f"slot {slot} was not {action}d"
    if isinstance(said, str):
        raise EngineError(f"{what}: {said}")
    if said.status == known["off"]:
        raise EngineError(f"{what}: the server was started without --slot-save-path")
    body = _json(said.body)
    if said.status != 200:
        why = found(body, "error.message")
        raise EngineError(f"{what}: {name!r}: {why if isinstance(why, str) else f'status {said.status}'}")
    tokens, size = (_count(found(body, known[one][action])) for one in ("tokens", "bytes"))
    return KeptSlot(name=name, slot=slot, tokens=tokens, bytes=size)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_LONGEST = 200
"""Characters of the name of a file."""
