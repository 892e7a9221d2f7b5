"""A stream of the Messages API put together into the message that a call which is not streamed would have got.

The rules are those of the SDK's own accumulator (anthropic 2.14, `lib/streaming`), for every block alike: text,
thinking and its signature, citations, arguments, compactions; a block that comes whole, such as a result of a server's
tool, is taken as it came. What the last events tell replaces what the first one told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel.types import Request
from agentaccel.wire.joining import Joined, StreamJoiner, UnclearError, Whole, unknown_fields, written
from agentaccel.wire.json import exactly, is_object, items, name_of

ERROR_STATUS: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of each type of error (platform.claude.com/docs/en/api/errors, as of 2026-09); any other is a 500."""

_KNOWN = frozenset(
    {
        "cache_control",
        "container",
        "context_management",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
        "user_profile_id",
        "workspace_id",
    }
)
"""Fields of a request that are known to change nothing in how a stream adds up (types of anthropic 2.14)."""


def stays_whole(request: Request) -> str:
    """Why a call must not go out streamed; empty where it may.

    >>> stays_whole({"model": "m", "max_tokens": 9, "messages": [], "tools": [{"name": "f"}]})
    ''
    >>> stays_whole({"model": "m", "max_tokens": 9, "messages": []})
    'it has no tools'
    """
    if not items(request.get("tools")):
        return "it has no tools"
    if not request.get("max_tokens"):
        return "it asks for no reply"
    return unknown_fields(request, _KNOWN)


@dataclass(slots=True)
class MessageJoiner(StreamJoiner):
    """Puts one message together."""

    _message: dict[str, Any] = field(default_factory=dict)
    _pieces: dict[int, list[str]] = field(default_factory=dict)
    """Arguments as they come, by the index of their block."""

    def event(self, kind: str, event: Mapping[str, Any]) -> Joined | None:
        """Take one event; returns what the stream came to, where that is known by now."""
        match kind:
            case "ping":
                return None
            case "error":
                return Whole(_status(event.get("error")), written(event))
            case "message_start":
                self._message = {**event["message"]}
                self._message["content"] = list(self._message.get("content") or ())
                return None
        if not self._message:
            raise UnclearError(f"{kind} came before message_start")
        match kind:
            case "content_block_start":
                self._starts(event["index"], {**event["content_block"]})
            case "content_block_delta":
                self._grows(event["index"], event["delta"])
            case "content_block_stop":
                self._stops(event["index"])
            case "message_delta":
                self._ends(event)
            case "message_stop":
                return Whole(200, written(self._message))
            case _:
                raise UnclearError(f"nothing is known of the event {kind}")
        return None

    def _starts(self, index: int, block: dict[str, Any]) -> None:
        content = self._message["content"]
        if index != len(content):
            raise UnclearError("blocks do not begin in their order")
        content.append(block)
        if block.get("type") == "fallback":  # as in a reply that is not streamed, which names who answered
            self._message["model"] = block["to"]["model"]

    def _grows(self, index: int, delta: Mapping[str, Any]) -> None:
        block, kind = self._message["content"][index], delta["type"]
        match kind:
            case "text_delta":
                block["text"] += delta["text"]
            case "thinking_delta":
                block["thinking"] += delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            case "input_json_delta":
                self._pieces.setdefault(index, []).append(delta["partial_json"])
            case "compaction_delta":
                block |= {name: value for name, value in delta.items() if name != "type"}
            case _:
                raise UnclearError(f"nothing is known of {name_of(kind)}")

    def _stops(self, index: int) -> None:
        """Arguments are read once, when their block has closed; a call without any sends no piece that holds one."""
        text = "".join(self._pieces.pop(index, ()))
        if not text:
            return
        arguments = exactly(text)
        if arguments is None:
            raise UnclearError("the arguments of a call were cut")
        self._message["content"][index]["input"] = arguments

    def _ends(self, event: Mapping[str, Any]) -> None:
        told = {name: value for name, value in event.items() if name not in ("type", "delta", "usage")}
        _over(self._message, {**told, **event["delta"]})
        usage = event.get("usage")
        if is_object(usage):
            self._message["usage"] = _over({**(self._message.get("usage") or {})}, usage)


def _over(before: dict[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """`before` with what was told later, in place; null says nothing of what was told before."""
    before |= {name: value for name, value in told.items() if value is not None or name not in before}
    return before


def _status(error: Any) -> int:
    return ERROR_STATUS.get(name_of(error.get("type")), 500) if is_object(error) else 500
