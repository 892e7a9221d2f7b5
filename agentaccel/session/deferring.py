"""Where the provider edits the history itself, we do not; and what its edits cost is said."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from agentaccel.facts import CacheFacts, Wire
from agentaccel.loop.edits import batch
from agentaccel.providers.history import results_of
from agentaccel.types import Prompt, Request

_KEPT = 3
"""Results that the provider keeps where the request does not say (context editing guide, 2026-08)."""

_CLEARS = "clear_tool_uses"


def edits_itself(request: Request, prompt: Prompt) -> str:
    """The part of the request that has the provider edit the history; empty where none does."""
    if request.get("context_management"):
        return "context_management"
    if request.get("truncation") == "auto":
        return "truncation"
    return "compaction" if any(segment.kind == "compaction" for segment in prompt.segments) else ""


def left_alone(request: Request, prompt: Prompt, facts: CacheFacts) -> str | None:
    """Why the history is not edited; empty where another part of the plan says it, None where it may be."""
    if prompt.held or prompt.illegal or not prompt.messages:
        return ""
    if not facts.assured:
        return f"history left as it is: nothing is known of what is cached behind {facts.platform}"
    own = edits_itself(request, prompt)
    return f"history left as it is: the request has the provider edit it ({own})" if own else None


def what_it_costs(request: Request, prompt: Prompt, facts: CacheFacts, wire: Wire) -> tuple[str, ...]:
    """What the provider's clearing costs where nobody has told it to clear so much at once that it pays."""
    managed = request.get("context_management")
    edits = managed.get("edits") if isinstance(managed, Mapping) else None
    for edit in edits if isinstance(edits, list) else ():
        if isinstance(edit, Mapping) and str(edit.get("type")).startswith(_CLEARS) and not edit.get("clear_at_least"):
            return _clearing(edit, request, prompt, facts, wire)
    return ()


def _clearing(
    edit: Mapping[str, Any], request: Request, prompt: Prompt, facts: CacheFacts, wire: Wire
) -> tuple[str, ...]:
    keep = edit.get("keep")
    value = keep.get("value") if isinstance(keep, Mapping) else _KEPT
    kept = value if isinstance(value, int) and value >= 0 else _KEPT
    results = results_of(request, prompt, wire)
    if len(results) <= kept:
        return ()
    sizes = [sum(one.size for one in prompt.segments[it.first : it.last + 1]) for it in results]
    begin = results[-kept - 1].last + 1
    behind = sum(one.size for one in prompt.segments[begin:]) / facts.bytes_per_token
    each = fmean(sizes) / facts.bytes_per_token
    at_once = batch((facts.ttls[0].write - facts.read) * behind, each, facts.read) * each
    return (
        f"{edit['type']} has no clear_at_least: once it has begun it clears a result a turn, and each time the "
        f"{behind:,.0f} tokens behind are made anew; clearing at least {at_once:,.0f} at once would pay",
    )
