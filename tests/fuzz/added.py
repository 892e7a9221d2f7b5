"""What was added to a request, and where its static part ends, told from the bodies alone."""

from __future__ import annotations

import json
from typing import Any

from agentaccel.facts import Wire, cache_facts
from agentaccel_emulator.behaviour import Behaviour
from tests.fuzz.conversations import Json

MARK = "prompt_cache_breakpoint"


def added(bare: Any, ours: Any) -> set[str]:
    """The names of the fields that stand in `ours` alone; "changed" where anything else differs."""
    if isinstance(bare, str) and isinstance(ours, list) and len(ours) == 1 and isinstance(ours[0], dict):
        kind = ours[0].get("type")
        bare = [{"type": kind if kind in ("text", "input_text") else "text", "text": bare}]
    if bare is None:  # which is the same as nothing
        return set(ours) if isinstance(ours, dict) else set()
    if isinstance(bare, dict) and isinstance(ours, dict):
        if [name for name in ours if name in bare] != list(bare):
            return {"changed"}
        return set(ours).difference(bare).union(*(added(bare[name], ours[name]) for name in bare))
    if isinstance(bare, list) and isinstance(ours, list) and len(bare) == len(ours):
        return set().union(*(added(one, other) for one, other in zip(bare, ours, strict=True)))
    return set() if bare == ours else {"changed"}


def static_end(body: Json, wire: Wire, *, marked: bool = False) -> int | None:
    """The last of the operator's messages that a request begins with, where a breakpoint there is worth its while and
    none is there yet; with `marked`, where one is.

    Worth it is a first request to a model with breakpoints, whose opening is well above the minimum and ends in text.
    """
    facts = cache_facts(body["model"], provider="openai", wire=wire)
    said = body["messages" if wire == "chat" else "input"]
    if facts is None or facts.physics != "breakpoints" or not isinstance(said, list):
        return None
    end = next((i for i, one in enumerate(said) if one.get("role") not in ("system", "developer")), len(said)) - 1
    if end < 0:
        return None
    content = said[end]["content"]
    has = isinstance(content, list) and isinstance(content[-1].get(MARK), dict)
    if marked:
        return end if has else None
    plain = MARK not in json.dumps(body) and (body.get("prompt_cache_options") or {}).get("mode") != "explicit"
    text = content if isinstance(content, str) else content[-1]["text"]
    parts = [*body.get("tools", ()), body.get("instructions"), *said[: end + 1]]
    size = Behaviour().tokenizer_of(body["model"]).count(len(json.dumps(parts)))
    first = not any(one.get("role") == "assistant" or "call" in one.get("type", "") for one in said)
    return end if plain and first and text.strip() and size > 2 * facts.min_tokens else None
