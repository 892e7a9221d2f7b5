"""Two states of a conversation, compared: everything but ids, what was billed, and when it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_IDS = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|"
    r"127\.0\.0\.1:\d+|"
    r"\b(?:msg|toolu|call|fc|resp|chatcmpl|req|run|lc_run|rs|gen)[_-]+[\w-]{6,}"
)
"""What providers and frameworks call messages, calls and runs, and where the emulator is."""
_LEFT_OUT = ("usage", "usage_metadata", "token_usage", "created", "created_at", "timestamp", "completed_at")
"""Fields that cannot be equal: what was billed, and when it was."""


def same_but_ids(state: Any) -> Any:
    """A state with its ids numbered in the order in which they stand, and without usage and times."""
    numbers: dict[str, str] = {}

    def text(value: str) -> str:
        return _IDS.sub(lambda found: numbers.setdefault(found[0], f"id-{len(numbers)}"), value)

    def walk(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {text(str(name)): walk(one) for name, one in value.items() if name not in _LEFT_OUT}
        if isinstance(value, list | tuple):
            return [walk(one) for one in value]
        return text(value) if isinstance(value, str) else value

    return walk(state)


def differences(bare: Any, ours: Any, path: str = "state") -> Iterator[str]:
    """The places where two states differ, in words."""
    if isinstance(bare, dict) and isinstance(ours, dict):
        for name in sorted({*bare, *ours}):
            yield from differences(bare.get(name, "(nothing)"), ours.get(name, "(nothing)"), f"{path}.{name}")
    elif isinstance(bare, list) and isinstance(ours, list) and len(bare) == len(ours):
        for i, (one, other) in enumerate(zip(bare, ours, strict=True)):
            yield from differences(one, other, f"{path}[{i}]")
    elif bare != ours:
        yield f"{path} is {_short(ours)}, and was {_short(bare)}"


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 200 else f"{said[:200]}…"
