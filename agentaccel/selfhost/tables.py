"""What is known of engines, as `facts/engines.toml` says it: by dialect, and by version where versions differ."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from agentaccel.facts import table

UNKNOWN = "unknown"
"""The dialect of a server that no sign names, or that signs contradict of: it is sent standard fields only."""


def dialects() -> tuple[str, ...]:
    """Every dialect that has a row.

    >>> dialects()[:3]
    ('vllm', 'sglang', 'llamacpp')
    """
    return tuple(table("engines")["dialects"])


def row(dialect: str) -> Mapping[str, Any]:
    """What is known of a dialect; empty for one that is not known."""
    known: Mapping[str, Any] = table("engines")["dialects"].get(dialect, {})
    return known


def name_of(dialect: str) -> str:
    """The name of its product, for people."""
    return str(row(dialect).get("name", "a server that is not known"))


def found(body: object, place: str) -> Any:
    """What stands at `place` of a JSON value, a dotted path; None where there is nothing.

    >>> found({"data": [{"id": "m"}]}, "data.0.id"), found({"data": []}, "data.0.id"), found([], "data")
    ('m', None, None)
    """
    for part in place.split("."):
        if isinstance(body, Mapping):
            body = body.get(part)
        elif isinstance(body, list) and part.isdecimal() and int(part) < len(body):
            body = body[int(part)]
        else:
            return None
    return body


@functools.lru_cache(maxsize=256)
def numbered(version: str | None) -> tuple[int, ...] | None:
    """A version as numbers, to be compared; None for one that has none, such as that of a build of one's own.

    >>> numbered("0.32.0"), numbered("v1.3.0rc27"), numbered("b11549-0c1e570"), numbered("b1-0c1e570"), numbered(None)
    ((0, 32, 0), (1, 3, 0), (11549,), None, None)
    """
    match = re.match(r"(?:v?(\d+(?:\.\d+)+)|b(\d{3,})\b)", version or "")  # llama.cpp counts its builds
    return tuple(map(int, (match[1] or match[2]).split("."))) if match is not None else None


def has_by(version: str | None, since: str | None, until: str | None) -> bool | None:
    """True if a version has what came with `since` and was last there in `until`; None where that cannot be told.

    >>> has_by("0.32.1", None, "0.32"), has_by("0.33.0", None, "0.32"), has_by(None, "0.9", None)
    (True, False, None)
    """
    if since is None and until is None:
        return True
    own = numbered(version)
    if own is None:
        return None
    first, last = numbered(since), numbered(until)
    return (first is None or own >= first) and (last is None or own[: len(last)] <= last)
