"""Why a prefix was not read, as `prompt_cache_diagnostics` of the Responses API tells it (providers.md, 2.5).

Something read is a hit. Otherwise two requests are compared: what is rendered ahead of the prompt first, in the order
of the documented reasons, then the conversation. What differs without having a reason of its own is `unavailable`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentaccel.facts import plain_name
from agentaccel_emulator.openai_prompt import rendered

Json = Mapping[str, Any]
_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is remembered of a request."""

    parameters: Mapping[str, object]
    """What is compared, by the reason that a difference gives."""
    sizes: Sequence[int]
    """Tokens up to and including each piece of the prompt."""
    hashes: Sequence[bytes]
    """Hash of each piece and what stands before it, as if nothing but the prompt counted."""


def remembered(body: Json, context: Sequence[Json], sizes: Sequence[int], hashes: Sequence[bytes]) -> Remembered:
    """What is remembered of a request with this conversation."""
    text, reasoning = body.get("text") or {}, body.get("reasoning") or {}
    parameters: dict[str, object] = {
        "model_changed": plain_name(body["model"]),
        "prompt_cache_key_changed": body.get("prompt_cache_key"),
        "tools_changed": [body.get("tools") or [], rendered(body, "parallel_tool_calls")],
        "text_format_changed": rendered({"response_format": text.get("format")}, "response_format"),
        "reasoning_effort_changed": reasoning.get("effort"),
        "verbosity_changed": rendered(text, "verbosity"),
        "service_tier_changed": rendered(body, "service_tier"),
        "context_compacted": [item for item in context if item.get("type") == "compaction"],
    }
    return Remembered(parameters, sizes, hashes)


@dataclass(slots=True)
class CacheDiagnoser:
    """Past requests by workspace and response id. Mutable: it remembers the last ten thousand."""

    _seen: OrderedDict[tuple[str, str], Remembered] = field(default_factory=OrderedDict)

    def diagnose(self, workspace: str, compared: str, request: Remembered, read: int) -> dict[str, object]:
        """The diagnosis of a request that read `read` tokens."""
        if read:
            return {"type": "cache_hit"}
        other = self._seen.get((workspace, compared))
        if other is None:
            return {"type": "comparison_response_not_found"}
        total = request.sizes[-1] if request.sizes else 0
        for reason, value in request.parameters.items():
            if other.parameters[reason] != value:
                return {"type": "cache_miss", "reason": reason, "cache_missed_tokens": total}
        same = next(
            (i for i, (a, b) in enumerate(zip(other.hashes, request.hashes, strict=False)) if a != b),
            min(len(other.hashes), len(request.hashes)),
        )
        if same == len(other.hashes):
            return {"type": "unavailable"}
        kept = request.sizes[same - 1] if same else 0
        return {
            "type": "cache_miss",
            "reason": "input_changed",
            "cache_missed_tokens": total - kept,
            "comparison_reusable_tokens": kept,
        }

    def remember(self, workspace: str, response_id: str, request: Remembered) -> None:
        """Keep an answered request."""
        self._seen[workspace, response_id] = request
        if len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
