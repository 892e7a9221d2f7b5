"""When two calls of a tool are the same call: equal names, and arguments that no function could tell apart.

Canonical JSON alone would not do: it writes a date and the text of that date alike. So a call has a key only where its
arguments are plain JSON values, which is all that a model can ask for; any other call is never served early.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

import orjson

from agentaccel.hashing import to_keep, wire_bytes


class Principal(NamedTuple):
    """On whose behalf a tool runs: results of one are never served to another."""

    tenant: str | None
    session: str


class Key(NamedTuple):
    """The identity of a call, under which its early result waits."""

    tool: str
    arguments: bytes
    """As `arguments_key` writes them."""
    principal: Principal
    epoch: int
    """Of what the tools may do: a result of a run that would not be allowed any more is not served either."""


def is_plain(value: Any, depth: int = 100) -> bool:
    """Whether `value` is what reading JSON gives, all through: no subclass, no NaN, no tuple, nothing inside itself.

    What goes deeper than `depth` counts as not plain.

    >>> is_plain({"a": [1, 2.5, None, "x"]}), is_plain((1,)), is_plain({1: 2}), is_plain(float("nan"))
    (True, False, False, False)
    """
    if depth < 0:
        return False
    kind = type(value)
    if kind in _LEAVES:
        return True
    if kind is float:
        return isfinite(value)
    if kind is dict:
        for name, item in value.items():
            if type(name) is not str or (type(item) not in _LEAVES and not is_plain(item, depth - 1)):
                return False
        return True
    if kind is not list:
        return False
    return all(type(item) in _LEAVES or is_plain(item, depth - 1) for item in value)


def plain_bytes(value: Any, most: int) -> bytes | None:
    """`value` as JSON that gives the very same value when it is read; None where there is none of at most `most` bytes.

    Looks no further than that, however large `value` is.

    >>> plain_bytes({"a": [1, None]}, 100), plain_bytes((1,), 100), plain_bytes("long", 4)
    (b'{"a":[1,null]}', None, None)
    """
    left, stack = most, [value]
    while stack and left >= 0:
        one = stack.pop()
        kind = type(one)
        left -= 1 + (len(one) if kind in (str, list, dict) else 0)
        if left < 0:
            break
        if kind is dict:
            if not all(type(name) is str for name in one):
                return None
            stack += one.values()
        elif kind is list:
            stack += one
        elif not (kind in _LEAVES or (kind is float and isfinite(one))):
            return None
    try:
        written = orjson.dumps(value) if left >= 0 else None
    except TypeError:  # too deep, a number of more than 64 bits, half of a surrogate pair
        return None
    return to_keep(written) if written is not None and len(written) <= most else None


_LEAVES = frozenset({str, int, bool, type(None)})


def arguments_key(arguments: Mapping[str, Any], defaults: Mapping[str, Any], *, ordered: bool = False) -> bytes | None:
    """The bytes of `arguments`, with `defaults` where they name nothing; None where they are not plain JSON.

    In which order they are named counts where the function sees it, as one does that takes any (`ordered`); in which
    order a value's own fields stand, every function sees.

    >>> arguments_key({"b": 2}, {"a": 1}) == arguments_key({"a": 1, "b": 2}, {})
    True
    >>> arguments_key({"a": 1}, {}) == arguments_key({"a": 1.0}, {})
    False
    >>> arguments_key({"sort": {"a": 1, "b": 1}}, {}) == arguments_key({"sort": {"b": 1, "a": 1}}, {})
    False
    """
    whole = {**defaults, **arguments}
    if not is_plain(whole):
        return None
    return to_keep(wire_bytes(whole if ordered else dict(sorted(whole.items()))))
