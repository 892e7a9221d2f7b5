"""Which segment a marker stands on, whatever the order that segments stand in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.cache.breakpoints import marks_of
from agentaccel.cache.prefix import prefixes
from agentaccel.facts import cache_facts
from agentaccel.testing import ManualClock
from agentaccel.types import Marker
from agentaccel.wire.anthropic import decode

FACTS = cache_facts("claude-sonnet-5")
BIG = "order lamp desk parcel " * 400


def test_markers_on_tools_in_another_order_are_found() -> None:
    """As a replay has them where it asks what sorted tools would cost: they keep their paths."""
    assert FACTS is not None
    tools = [{"name": f"t{i}", "input_schema": {"type": "object"}} for i in range(4)]
    body = {
        "model": "claude-sonnet-5",
        "tools": tools,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi"}],
    }
    prompt = decode(body, FACTS)
    moved = [prompt.segments[i] for i in (2, 0, 3, 1)]
    prompt = replace(prompt, segments=(*moved, *prompt.segments[4:]))
    for i, segment in enumerate(prompt.segments):
        markers = [Marker(path=segment.path, ttl="5m"), Marker(path=(*segment.path, "within", 0), ttl="5m")]
        for marker in markers:
            assert [mark.at for mark in marks_of(prefixes(prompt, FACTS), [marker])] == [i]
    assert marks_of(prefixes(prompt, FACTS), [Marker(path=("tools", 9), ttl="5m")]) == ()


def test_a_marker_in_the_input_is_seen_behind_instructions() -> None:
    """Whose path comes after that of the input: none is added where the user's stands."""

    def said(text: str, **more: Any) -> dict[str, Any]:
        return {"role": "developer", "content": [{"type": "input_text", "text": text, **more}]}

    marked = said(BIG + "2", prompt_cache_breakpoint={"mode": "explicit"})
    body = {
        "model": "gpt-6-sol",
        "instructions": [said(BIG), said(BIG + "1")],
        "input": [marked, {"role": "user", "content": "q"}],
    }
    with Accel(Policy(strict=True, store=StorePolicy(enabled=False)), clock=ManualClock()) as accel:
        plan = accel.plan(body, provider="openai")
    assert ("input", 0, "content", 0) not in [marker.path for marker in plan.markers]
