"""The form of the corpus: rows of plain values, and their digests."""

from __future__ import annotations

import hashlib
import json
import os
import random
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import orjson

from agentaccel import Accel
from agentaccel.types import CachePlan

Json = dict[str, Any]
Rows = list[Json]
Case = Callable[[Path], Rows]
"""Makes the rows of one case in an empty folder."""

_DIGITS = 13
"""Significant digits of a number: the last ones are the machine's."""


def canonical(value: object) -> bytes:
    """`value` as JSON whose keys are sorted."""
    return orjson.dumps(_rounded(value), option=orjson.OPT_SORT_KEYS)


def digest(rows: Sequence[Json]) -> str:
    """What tells the rows of a case from any others."""
    return hashlib.sha256(b"\n".join(map(canonical, rows))).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {str(name): _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


# --- what is looked at ------------------------------------------------------------------------------------------------


def plan_row(plan: CachePlan) -> Json:
    """A plan, by names of this corpus."""
    expected = plan.expected
    return {
        "markers": [[list(one.path), one.ttl, one.reason] for one in plan.markers],
        "without": [[list(one.path), one.ttl] for one in plan.without],
        "options": dict(plan.options),
        "reasons": list(plan.reasons),
        "consents": list(plan.consents),
        "expected": None if expected is None else [expected.read, dict(expected.write), expected.uncached],
        "cost": plan.expected_cost,
        "saving": plan.saving,
    }


def sent_row(request: Mapping[str, Any]) -> Json:
    """A request as it goes out: all of its bytes as a digest, and where it carries markers."""
    data = json.dumps(request, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return {"bytes": len(data), "digest": hashlib.sha256(data).hexdigest()[:16], "markers": sorted(_markers(request))}


def _markers(value: Any, path: str = "") -> Iterator[str]:
    inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inside:
        if name in ("cache_control", "prompt_cache_breakpoint"):
            yield f"{path} {json.dumps(one, sort_keys=True)}"
        else:
            yield from _markers(one, f"{path}.{name}")


def stored_rows(store: Path) -> Rows:
    """All that a trace store holds of requests, of tools and of what was learned."""
    with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as connection:
        rows = [
            {kind: orjson.loads(record)}
            for kind in ("turns", "tools")
            for (record,) in connection.execute(f"SELECT record FROM {kind} ORDER BY id")
        ]
        learned = connection.execute("SELECT workload, topic, yes, n FROM beliefs ORDER BY workload, topic")
        rows += [{"learned": list(one)} for one in learned]
        known = connection.execute("SELECT workload, known FROM patterns ORDER BY workload")
        return rows + [{"patterns": [workload, orjson.loads(text)]} for workload, text in known]


class Heard:
    """Stands in front of an `Accel`, and keeps the turns that it makes."""

    def __init__(self, accel: Accel) -> None:
        self.accel = accel
        self.turns: list[Any] = []

    def turn(self, *arguments: Any, **named: Any) -> Any:
        self.turns.append(self.accel.turn(*arguments, **named))
        return self.turns[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.accel, name)

    def rows(self) -> Rows:
        """Of each turn, what was planned and what is sent."""
        return [{"plan": plan_row(turn.plan), "sent": sent_row(turn.request)} for turn in self.turns]


@contextmanager
def fixed_chance() -> Iterator[None]:
    """What is drawn at random elsewhere is the same in every run: keys of stores, names of sessions without one."""
    chance = random.Random("golden")
    with (
        mock.patch.object(os, "urandom", chance.randbytes),
        mock.patch.object(secrets, "token_hex", lambda size=32: chance.randbytes(size).hex()),
        mock.patch.object(secrets, "randbits", chance.getrandbits),
    ):
        yield
