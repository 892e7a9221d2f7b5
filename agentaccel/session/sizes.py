"""How large a result is, as far as that can be told quickly and without asking it anything."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from types import FunctionType, ModuleType
from typing import Any

from agentaccel.canonical import wire_bytes
from agentaccel.speculate.keys import is_plain

WITHIN = 2
"""Objects within objects that are looked into: a result of MCP is a list of parts, and each part has a text. What lies
deeper may be the whole program."""
_MOST_PARTS = 10_000
"""Parts that are looked at: the event loop stands still meanwhile. What has more is as large as what was seen of it."""


def size_of(result: Any, most: int) -> int:
    """Bytes of a result: of its JSON; where it has none, of the texts and bytes in its lists and attributes, up to
    about `most`, beyond which nobody needs to know.

    >>> size_of("é", 100), size_of({"a": 1}, 100), size_of((b"abc", "d"), 100)
    (2, 7, 4)
    """
    if isinstance(result, str):
        return len(result) if result.isascii() else len(result.encode("utf-8", "replace"))
    if isinstance(result, bytes | bytearray):
        return len(result)
    return len(wire_bytes(result)) if is_plain(result) else _within(result, most)


def _within(result: Any, most: int) -> int:
    total, parts, seen = 0, 0, set[int]()
    left: list[tuple[Any, int]] = [(result, WITHIN)]
    while left and parts < _MOST_PARTS and total <= most:
        parts += 1
        one, deep = left.pop()
        if isinstance(one, str | bytes | bytearray):
            total += len(one)
        elif id(one) not in seen:  # an object that holds itself, or the same one twice over
            seen.add(id(one))
            if isinstance(one, dict):
                left += [(part, deep) for part in islice(chain(one.values(), one), _MOST_PARTS)]
            elif isinstance(one, list | tuple | set | frozenset):
                left += [(part, deep) for part in islice(one, _MOST_PARTS)]
            elif deep and not isinstance(one, type | ModuleType | FunctionType):
                left += [(part, deep - 1) for part in _attributes(one)]
    return total


def _attributes(one: object) -> Iterable[Any]:
    """What it holds by a public name; another may lead to what it merely refers to, such as the session of a database.
    Nothing of the user's is run for that, but what a class does to be asked for a name."""
    try:
        named = [value for name, value in getattr(one, "__dict__", {}).items() if not name.startswith("_")]
        slots = [kind.__dict__.get("__slots__", ()) for kind in type(one).__mro__]
        names = [name for given in slots for name in ((given,) if isinstance(given, str) else given)]
        return named + [getattr(one, name) for name in names if not name.startswith("_") and hasattr(one, name)]
    except Exception:  # noqa: BLE001 - an object of the user's that tells nothing has no size that we know
        return ()
