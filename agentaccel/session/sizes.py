"""How large a result is, as far as that can be told without asking it anything."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

from agentaccel.canonical import wire_bytes
from agentaccel.speculate.keys import is_plain

WITHIN = 2
"""Objects within objects that are looked into: a result of MCP is a list of parts, and each part has a text. What lies
deeper may be the whole program."""


def size_of(result: Any) -> int:
    """Bytes of a result: of its JSON; where it has none, of the texts and bytes in its lists and attributes.

    >>> size_of("é"), size_of({"a": 1}), size_of((b"abc", "d"))
    (2, 7, 4)
    """
    if isinstance(result, str):
        return len(result) if result.isascii() else len(result.encode("utf-8", "replace"))
    if isinstance(result, bytes | bytearray):
        return len(result)
    return len(wire_bytes(result)) if is_plain(result) else _within(result)


def _within(result: Any) -> int:
    total, seen, left = 0, set[int](), [(result, WITHIN)]
    while left:
        one, deep = left.pop()
        if isinstance(one, str | bytes | bytearray):
            total += len(one)
        elif id(one) not in seen:  # an object that holds itself, or the same one twice over
            seen.add(id(one))
            if isinstance(one, dict):
                left += [(part, deep) for pair in one.items() for part in pair]
            elif isinstance(one, list | tuple | set | frozenset):
                left += [(part, deep) for part in one]
            elif deep and not isinstance(one, type | ModuleType | FunctionType):
                left += [(part, deep - 1) for part in _attributes(one)]
    return total


def _attributes(one: object) -> Iterable[Any]:
    """What it holds by name; nothing of the user's is run for that, but what a class does to be asked for a name."""
    try:
        named = list(getattr(one, "__dict__", {}).values())
        slots = [kind.__dict__.get("__slots__", ()) for kind in type(one).__mro__]
        names = [name for given in slots for name in ((given,) if isinstance(given, str) else given)]
        return named + [getattr(one, name) for name in names if not name.startswith("__") and hasattr(one, name)]
    except Exception:  # noqa: BLE001 - an object of the user's that tells nothing has no size that we know
        return ()
