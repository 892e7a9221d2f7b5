"""Learned patterns as a file: what stands in clear, to be kept, looked at or taken elsewhere."""

from __future__ import annotations

import orjson

from agentaccel.speculate.dumps import VERSION
from agentaccel.speculate.knowledge import Knowledge
from agentaccel.speculate.private import FLEET, News, Parts, news_of
from agentaccel.speculate.shelving import readable
from agentaccel.speculate.stats import Sensitive

_KIND = "agentaccel patterns"


def exported(parts: Parts) -> bytes:
    """A file of `parts`, without what waits for a second session: nobody else could read it."""
    form = {"kind": _KIND, "version": int(VERSION), "parts": readable(parts)}
    return orjson.dumps(form, option=orjson.OPT_INDENT_2) + b"\n"


def imported(data: bytes, key: bytes, sensitive: Sensitive | None = None) -> News:
    """What a file holds, to be added to a store whose hashes are made under `key`. Raises `ValueError`, saying why."""
    form = orjson.loads(data)
    if not isinstance(form, dict) or form.get("kind") != _KIND or not isinstance(form.get("parts"), dict):
        raise ValueError("it holds no exported patterns")
    if form.get("version") != int(VERSION):
        raise ValueError(f"its patterns have format {form.get('version')}, and this agentaccel knows {VERSION}")
    return news_of(loaded(form["parts"], sensitive), key)


def loaded(parts: Parts, sensitive: Sensitive | None = None) -> Knowledge:
    """What stands in clear in `parts`; what all workloads share comes first."""
    knowledge = Knowledge(sensitive=sensitive)
    for name in sorted(parts, key=lambda one: one != FLEET):
        knowledge.merge(parts[name])
    return knowledge
