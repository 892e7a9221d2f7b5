"""What the Messages API refuses before it reads the prompt: authentication, JSON, fields and their types.

The rules on markers, tools, thinking and caching are in `anthropic_rules`, with the list of all checks in order. Texts
marked *invented* are not published (providers.md, 1.9 and 9).
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from agentaccel_emulator.anthropic_candidate import Candidate
from agentaccel_emulator.trial import Check, Problem

VERSIONS = ("2023-06-01", "2026-10-21")
"""Values of the anthropic-version header that are accepted."""
PARAMETERS = frozenset(
    {
        "model",
        "max_tokens",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "cache_control",
        "container",
        "context_management",
        "diagnostics",
        "inference_geo",
        "mcp_servers",
        "metadata",
        "output_config",
        "output_format",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "temperature",
        "top_p",
        "top_k",
        "thinking",
        "thread",
        "user_profile_id",
        "workspace_id",
        "billing_policy",
        "compaction",
        "fallbacks",
        "fallback_credit_token",
    }
)
"""Fields that a request may have."""
_TEXT, _OBJECT = ((str,), "string"), ((dict,), "dictionary")
BLOCK_FIELDS: Mapping[str, Mapping[str, tuple[tuple[type, ...], str]]] = {
    "text": {"text": _TEXT},
    "thinking": {"thinking": _TEXT, "signature": _TEXT},
    "redacted_thinking": {"data": _TEXT},
    "tool_use": {"id": _TEXT, "name": _TEXT, "input": _OBJECT},
    "tool_result": {"tool_use_id": _TEXT},
    "image": {"source": _OBJECT},
    "document": {"source": _OBJECT},
}
"""Fields that a content block of a type must have, with their types."""
BLOCK_TYPES = frozenset(BLOCK_FIELDS) | frozenset(
    {
        "search_result",
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "container_upload",
        "tool_reference",
        "browser_state",
        "compaction",
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_listing",
        "advisor_tool_result",
        "tool_addition",
        "tool_removal",
        "fallback",
    }
)
"""Types of content block that are accepted."""


def authentication(request: Candidate) -> Problem | None:
    """A key is given, and accepted."""
    if request.api_key is None:
        return Problem("x-api-key header is required", "authentication_error", 401)
    if request.api_keys is not None and request.api_key not in request.api_keys:
        return Problem("invalid x-api-key", "authentication_error", 401)
    return None


def api_version(request: Candidate) -> Problem | None:
    """The version of the API is given, and known."""
    if not request.version:
        return Problem("anthropic-version: header is required")
    if request.version not in VERSIONS:
        return Problem(f'anthropic-version: "{request.version}" is not a valid version')
    return None


def body_is_json(request: Candidate) -> Problem | None:
    """The body is JSON."""
    try:
        request.decoded  # noqa: B018  # decoding is the check
    except orjson.JSONDecodeError as error:
        return Problem(f"The request body is not valid JSON: {error}")
    return None


def body_is_object(request: Candidate) -> Problem | None:
    """The body is an object (text invented)."""
    return None if isinstance(request.decoded, dict) else Problem("Input should be a valid dictionary")


def required_fields(request: Candidate) -> Problem | None:
    """model, max_tokens and messages are there."""
    names = ("model", "messages") if request.counting else ("model", "max_tokens", "messages")
    missing = next((name for name in names if name not in request.body), None)
    return Problem(f"{missing}: Field required") if missing else None


def known_fields(request: Candidate) -> Problem | None:
    """No field is unknown; those of features that the platform lacks are."""
    unknown = next((name for name in request.body if name not in PARAMETERS), None)
    return Problem(f"{unknown}: Extra inputs are not permitted") if unknown else None


_FIELD_TYPES: tuple[tuple[str, type, str], ...] = (
    ("model", str, "string"),
    ("messages", list, "list"),
    ("max_tokens", int, "integer"),
    ("tools", list, "list"),
    ("stream", bool, "boolean"),
    ("tool_choice", dict, "dictionary"),
    ("thinking", dict, "dictionary"),
    ("output_config", dict, "dictionary"),
    ("cache_control", dict, "dictionary"),
    ("diagnostics", dict, "dictionary"),
)


def field_types(request: Candidate) -> Problem | None:
    """Fields of the request have their types."""
    for name, kind, word in _FIELD_TYPES:
        value = request.body.get(name)
        if value is None and name not in ("model", "messages", "max_tokens"):
            continue
        if name == "max_tokens" and request.counting:
            continue
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return Problem(f"{name}: Input should be a valid {word}")
    if not isinstance(request.body.get("system"), (str, list, type(None))):
        return Problem("system: Input should be a valid list")
    return None


def model_is_known(request: Candidate) -> Problem | None:
    """The model exists."""
    return None if request.facts is not None else Problem(f"model: {request.body['model']}", "not_found_error", 404)


def max_tokens_range(request: Candidate) -> Problem | None:
    """max_tokens is not negative; 0 warms the cache."""
    if request.body.get("max_tokens", 0) < 0:
        return Problem("max_tokens: Input should be greater than or equal to 0")
    return None


def some_messages(request: Candidate) -> Problem | None:
    """There is a message."""
    return None if request.body["messages"] else Problem("messages: at least one message is required")


def message_shapes(request: Candidate) -> Problem | None:
    """Messages are objects with a role and content."""
    for index, message in enumerate(request.body["messages"]):
        path = f"messages.{index}"
        if not isinstance(message, dict):
            return Problem(f"{path}: Input should be a valid dictionary")
        if "role" not in message:
            return Problem(f"{path}.role: Field required")
        if message["role"] not in ("user", "assistant", "system"):
            return Problem(f"{path}.role: Input should be 'user' or 'assistant'")
        if "content" not in message:
            if message["role"] == "system" and message.get("output_config"):
                continue
            return Problem(f"{path}.content: Field required")
        if not isinstance(message["content"], (str, list)):
            return Problem(f"{path}.content: Input should be a valid list")
        if (problem := _content_shape(message["content"], f"{path}.content")) is not None:
            return problem
    return None


def system_shapes(request: Candidate) -> Problem | None:
    """System blocks are text blocks."""
    system = request.body.get("system")
    for number, block in enumerate(system if isinstance(system, list) else ()):
        path = f"system.{number}"
        if not isinstance(block, dict) or "type" not in block:
            return Problem(f"{path}.type: Field required")
        if block["type"] != "text":
            return Problem(f"{path}.type: Input should be 'text'")
        if not isinstance(block.get("text"), str):
            return Problem(f"{path}.text: Field required")
    return None


def _content_shape(content: object, path: str) -> Problem | None:
    for number, block in enumerate(content if isinstance(content, list) else ()):
        problem = _block_shape(block, f"{path}.{number}")
        if problem is None and block["type"] == "tool_result":
            problem = _content_shape(block.get("content"), f"{path}.{number}.tool_result.content")
        if problem is not None:
            return problem
    return None


def _block_shape(block: object, path: str) -> Problem | None:
    if not isinstance(block, dict):
        return Problem(f"{path}: Input should be a valid dictionary")
    if "type" not in block:
        return Problem(f"{path}.type: Field required")
    kind = block["type"]
    if not isinstance(kind, str) or kind not in BLOCK_TYPES:
        tags = ", ".join(f"'{tag}'" for tag in sorted(BLOCK_TYPES))
        text = f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
        return Problem(f"{path}: {text}")
    for name, (types, word) in BLOCK_FIELDS.get(kind, {}).items():
        if name not in block:
            return Problem(f"{path}.{kind}.{name}: Field required")
        if not isinstance(block[name], types):
            return Problem(f"{path}.{kind}.{name}: Input should be a valid {word}")
    if kind == "tool_result" and not isinstance(block.get("content"), (str, list, type(None))):
        return Problem(f"{path}.tool_result.content: Input should be a valid list")
    return None


ENVELOPE: tuple[Check[Candidate], ...] = (
    Check("authentication", authentication),
    Check("api_version", api_version),
    Check("body_is_json", body_is_json),
    Check("body_is_object", body_is_object),
    Check("required_fields", required_fields),
    Check("known_fields", known_fields),
    Check("field_types", field_types),
    Check("model_is_known", model_is_known),
    Check("max_tokens_range", max_tokens_range),
    Check("some_messages", some_messages),
    Check("message_shapes", message_shapes),
    Check("system_shapes", system_shapes),
)
"""The checks on what encloses the prompt; the rules presuppose them."""
