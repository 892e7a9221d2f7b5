"""Why a prefix was missed, as the provider's `diagnostics` field tells it: two requests compared by fingerprint.

The order is that of the prompt as the provider names it: model, tools, system, messages, and last the parameters
that have no fingerprint, for which the answer is `unavailable` (providers.md, 1.8).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from agentaccel_emulator.anthropic_levels import PROMPT_FIELDS, UNRENDERED, as_blocks, canonical
from agentaccel_emulator.anthropic_prompt import unmarked

Json = Mapping[str, Any]
_KEPT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What is remembered of a request: hashes only."""

    model: bytes
    """Model and speed."""
    tools: bytes
    """All tools."""
    system: bytes
    """The system prompt."""
    messages: tuple[bytes, ...]
    """Each message."""
    sizes: tuple[int, ...]
    """Bytes of each message."""
    lead: int
    """Bytes ahead of the messages."""
    other: bytes
    """Every other parameter that the prompt shows."""
    tokens: int
    """Tokens of the whole prompt."""


def fingerprint(body: Json, tokens: int) -> Fingerprint:
    """The fingerprint of a request of `tokens` tokens."""
    messages = [canonical([message["role"], *_plain(message.get("content"))]) for message in body["messages"]]
    hidden = (UNRENDERED | PROMPT_FIELDS | {"speed"}) - {"inference_geo"}
    return Fingerprint(
        model=_hash([body["model"], body.get("speed") or "standard"]),
        tools=_hash([unmarked(tool) for tool in body.get("tools") or ()]),
        system=_hash(_plain(body.get("system"))),
        messages=tuple(blake2b(message, digest_size=16).digest() for message in messages),
        sizes=tuple(len(message) for message in messages),
        lead=len(canonical(body.get("tools"))) + len(canonical(body.get("system"))),
        other=_hash({name: body[name] for name in sorted(body) if name not in hidden}),
        tokens=tokens,
    )


def _plain(content: object) -> list[Json]:
    blocks = []
    for block in as_blocks(content):
        plain = unmarked(block)
        if block.get("type") == "tool_result":
            plain = {**plain, "content": _plain(block.get("content"))}
        blocks.append(plain)
    return blocks


def _hash(value: object) -> bytes:
    return blake2b(canonical(value), digest_size=16).digest()


@dataclass(slots=True)
class Diagnoser:
    """The fingerprints of past requests by workspace and message id. Mutable: it remembers the last ten thousand."""

    _seen: OrderedDict[tuple[str, str], Fingerprint] = field(default_factory=OrderedDict)

    def diagnose(self, workspace: str, body: Json, print_: Fingerprint) -> dict[str, object] | None:
        """The reply's `diagnostics`: None where it was not asked for, starts a chain, or nothing diverged."""
        asked = body.get("diagnostics") or {}
        previous_id = asked.get("previous_message_id")
        if previous_id is None:
            return None
        previous = self._seen.get((workspace, previous_id))
        if previous is None:
            return {"cache_miss_reason": {"type": "previous_message_not_found"}}
        reason = _reason(previous, print_)
        return None if reason is None else {"cache_miss_reason": reason}

    def remember(self, workspace: str, message_id: str, print_: Fingerprint) -> None:
        """Keep the fingerprint of an answered request."""
        self._seen[(workspace, message_id)] = print_
        if len(self._seen) > _KEPT:
            self._seen.popitem(last=False)


def _reason(old: Fingerprint, new: Fingerprint) -> dict[str, object] | None:
    if old.model != new.model:
        return {"type": "model_changed", "cache_missed_input_tokens": old.tokens}
    if old.tools != new.tools:
        return {"type": "tools_changed", "cache_missed_input_tokens": old.tokens}
    if old.system != new.system:
        return {"type": "system_changed", "cache_missed_input_tokens": old.tokens}
    same = _common(old.messages, new.messages)
    if same < len(old.messages):
        return {"type": "messages_changed", "cache_missed_input_tokens": _tail(old, same)}
    return None if old.other == new.other else {"type": "unavailable"}


def _common(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    return next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _tail(print_: Fingerprint, start: int) -> int:
    """Tokens of the messages from `start` on, estimated from their bytes."""
    return round(sum(print_.sizes[start:]) / (print_.lead + sum(print_.sizes)) * print_.tokens)
