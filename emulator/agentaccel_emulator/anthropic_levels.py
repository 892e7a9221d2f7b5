"""What a Messages request renders at each level besides the blocks themselves, and what it does not render.

A change of a seed breaks the level that it belongs to and those after it (providers.md, 1.4). The table is written
here on its own, not taken from `agentaccel.facts`, so that the emulator and the planner cannot share a mistake in it;
a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

Json = Mapping[str, Any]

SYSTEM_PARAMETERS = frozenset({"speed", "output_format"})
"""Request parameters rendered where the system prompt begins (with `output_config.format` and citations)."""
MESSAGE_PARAMETERS = frozenset({"thinking", "tool_choice", "output_config", "context_management", "container"})
"""Request parameters rendered where the messages begin (with the presence of images)."""
UNRENDERED = frozenset(
    {
        "thread",
        "max_tokens",
        "stop_sequences",
        "metadata",
        "stream",
        "service_tier",
        "temperature",
        "top_p",
        "top_k",
        "diagnostics",
        "user_profile_id",
        "workspace_id",
        "billing_policy",
        "fallbacks",
        "fallback_credit_token",
        "fallback_credit",
        "compaction",
    }
)
"""Request parameters that the prompt does not show."""
PROMPT_FIELDS = frozenset({"model", "tools", "system", "messages", "cache_control", "inference_geo"})
"""Fields that are read on their own."""

DEFAULTS: Mapping[str, tuple[object, ...]] = {
    "speed": (None, "standard"),
    "tool_choice": (None, {"type": "auto"}, {"type": "auto", "disable_parallel_tool_use": False}),
    "effort": (None, "high"),
}
"""Values that render as if the parameter had been left out."""


def canonical(value: object) -> bytes:
    """`value` as compact JSON in the sender's key order: another order is another prompt."""
    return orjson.dumps(value)


def as_blocks(content: object) -> Sequence[Json]:
    """Content as a list of blocks; a string is one text block.

    >>> as_blocks("hi") == as_blocks([{"type": "text", "text": "hi"}])
    True
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [] if content is None else content  # type: ignore[return-value]  # checked by the shape checks


def rendered(body: Json, name: str) -> object:
    """The value of the parameter `name`, with the provider's explicit default as None."""
    value = body.get(name)
    return None if value in DEFAULTS.get(name, (None,)) else value


def system_seed(body: Json) -> object:
    """What is rendered where the system prompt begins."""
    config = body.get("output_config") or {}
    return [
        {name: rendered(body, name) for name in sorted(SYSTEM_PARAMETERS)},
        config.get("format"),
        any(_cites(block) for message in body["messages"] for block in as_blocks(message.get("content"))),
    ]


def messages_seed(body: Json) -> object:
    """What is rendered where the messages begin."""
    config = dict(body.get("output_config") or {})
    config.pop("format", None)
    if config.get("effort") in DEFAULTS["effort"]:
        config.pop("effort", None)
    parameters = {name: rendered(body, name) for name in sorted(MESSAGE_PARAMETERS) if name != "output_config"}
    return [
        parameters,
        config,
        any(_pictures(block) for message in body["messages"] for block in as_blocks(message.get("content"))),
    ]


def root_seed(body: Json, betas: str) -> object:
    """What is rendered ahead of everything: unlisted parameters, and beta features, which diagnostics cannot see."""
    known = UNRENDERED | SYSTEM_PARAMETERS | MESSAGE_PARAMETERS | PROMPT_FIELDS
    rest = {name: body[name] for name in sorted(body) if name not in known}
    return [body.get("inference_geo") or "global", sorted({beta.strip() for beta in betas.split(",")} - {""}), rest]


def _cites(block: Json) -> bool:
    citations = block.get("citations")
    if isinstance(citations, Mapping) and citations.get("enabled"):
        return True
    return block["type"] == "tool_result" and any(_cites(part) for part in as_blocks(block.get("content")))


def _pictures(block: Json) -> bool:
    if block["type"] == "tool_result":
        return any(_pictures(part) for part in as_blocks(block.get("content")))
    return bool(block["type"] == "image")
