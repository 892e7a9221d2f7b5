"""What the Messages API refuses in a well-formed request: rules on markers, diagnostics, roles and text.

Sources: providers.md 1.1, 1.4, 1.9. *Invented* marks a text that is not published.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentaccel_emulator.anthropic_candidate import Candidate, Found
from agentaccel_emulator.anthropic_prompt import last_markable, with_lists
from agentaccel_emulator.trial import Check, Problem

SYSTEM_ROLE_MODELS = frozenset(
    {
        "claude-fable-5",
        "claude-fable-5-1",
        "claude-mythos-5",
        "claude-mythos-5-1",
        "claude-opus-5-5",
        "claude-opus-5",
        "claude-opus-4-8",
    }
)
"""Models that take system messages in mid-conversation (providers.md 1.4; sources A5, A7, 2026-08-22)."""
NO_TOP_LEVEL_MARKER = frozenset(
    {
        ("bedrock", model)
        for model in (
            "claude-opus-4-6",
            "claude-sonnet-4-6",
            "claude-opus-4-5",
            "claude-sonnet-4-5",
            "claude-haiku-4-5",
            "claude-opus-4-1",
            "claude-opus-4",
            "claude-sonnet-4",
        )
    }
)
"""Platforms and models that refuse a top-level marker: legacy Bedrock, up to Opus 4.6 (providers.md 1.1)."""
UNMARKABLE = frozenset({"thinking", "redacted_thinking", "fallback", "mcp_tool_listing"})
"""Types of content block that have no cache_control field."""


def marker_shapes(request: Candidate) -> Problem | None:
    """Markers are of the one type, with a known lifetime and no other field, and not on thinking."""
    for found in request.markers:
        path = f"{found.typed_path}.cache_control"
        if found.kind in UNMARKABLE:
            return Problem(f"{path}: Extra inputs are not permitted")
        if (problem := _marker_shape(found.block["cache_control"], path)) is not None:
            return problem
    control = request.body.get("cache_control")
    return None if control is None else _marker_shape(control, "cache_control")


def _marker_shape(control: object, path: str) -> Problem | None:
    if not isinstance(control, dict):
        return Problem(f"{path}: Input should be a valid dictionary or object to extract fields from")
    if "type" not in control:
        return Problem(f"{path}: Unable to extract tag using discriminator 'type'")
    if (kind := control["type"]) != "ephemeral":
        text = f"Input tag '{kind}' found using 'type' does not match any of the expected tags: 'ephemeral'"
        return Problem(f"{path}: {text}")
    if unknown := next((name for name in control if name not in ("type", "ttl")), None):
        return Problem(f"{path}.ephemeral.{unknown}: Extra inputs are not permitted")
    if control.get("ttl", "5m") not in ("5m", "1h"):
        return Problem(f"{path}.ephemeral.ttl: Input should be '5m' or '1h'")
    return None


def marker_count(request: Candidate) -> Problem | None:
    """There are no more explicit markers than the model takes."""
    most = request.known.max_markers
    if (count := len(request.markers)) > most:
        return Problem(f"A maximum of {most} blocks with cache_control may be provided. Found {count}.")
    return None


def marker_order(request: Candidate) -> Problem | None:
    """No 1h marker comes after a 5m one; the top-level marker stands on the last block that can take it."""
    marks = [(f"{found.path}.cache_control.ttl", _ttl(found.block["cache_control"])) for found in request.markers]
    control = request.body.get("cache_control")
    if control is not None:
        marks.append(("cache_control.ttl", _ttl(control)))
    short = False
    for path, ttl in marks:
        if ttl == "1h" and short and not (path == "cache_control.ttl" and _on_marked(request)):
            return Problem(
                f"{path}: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
                "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
            )
        short = short or ttl == "5m"
    return None


def _ttl(control: dict[str, str]) -> str:
    return control.get("ttl") or "5m"


def _on_marked(request: Candidate) -> bool:
    block = last_markable(with_lists(request.body))
    return block is not None and block.get("cache_control") is not None


def marked_text(request: Candidate) -> Problem | None:
    """No marker stands on empty text."""
    for found in request.markers:
        if found.kind == "text" and not found.block.get("text"):
            path = found.path + (".text" if found.level == "messages" else "")
            return Problem(f"{path}: cache_control cannot be set for empty text blocks")
    return None


def top_level_marker(request: Candidate) -> Problem | None:
    """The top-level marker agrees with the explicit ones and has a slot (texts invented)."""
    control = request.body.get("cache_control")
    if control is None:
        return None
    legacy = (request.platform, request.known.model) in NO_TOP_LEVEL_MARKER
    if legacy or not request.known.top_level_marker:
        return Problem("cache_control: Extra inputs are not permitted")
    block = last_markable(with_lists(request.body))
    marked = block.get("cache_control") if block is not None else None
    if marked is not None and _ttl(marked) != _ttl(control):
        return Problem(
            f"cache_control: automatic caching with ttl='{_ttl(control)}' conflicts with the explicit "
            f"ttl='{_ttl(marked)}' on the last cacheable block."
        )
    if len(request.markers) >= request.known.max_markers:
        return Problem(
            f"cache_control: automatic caching needs one of {request.known.max_markers} cache_control slots, "
            f"but {len(request.markers)} are already used."
        )
    return None


def diagnostics(request: Candidate) -> Problem | None:
    """Diagnostics are asked for only where the platform has them, with an id or null."""
    asked = request.body.get("diagnostics")
    if asked is None:
        return None
    if not request.known.diagnostics:
        return Problem("diagnostics: Extra inputs are not permitted")
    if not isinstance(asked.get("previous_message_id"), (str, type(None))):
        return Problem("diagnostics.previous_message_id: Input should be a valid string")
    return None


def first_role(request: Candidate) -> Problem | None:
    """The first message is the user's."""
    if request.body["messages"][0]["role"] == "user":
        return None
    if request.body["messages"][0]["role"] == "system" and not takes_system(request):
        return None  # the next check has the text for it
    return Problem('messages: first message must use the "user" role')


def takes_system(request: Candidate) -> bool:
    """Whether the model takes system messages in mid-conversation."""
    return request.known.model in SYSTEM_ROLE_MODELS


def system_role(request: Candidate) -> Problem | None:
    """System messages go to models that take them, after a user turn, last or before an assistant turn, text only."""
    messages = request.body["messages"]
    for index, message in enumerate(messages):
        if message["role"] != "system":
            continue
        path = f"messages.{index}"
        if not takes_system(request):
            return Problem("role 'system' is not supported on this model")
        before = messages[index - 1]
        content = before.get("content")
        served = isinstance(content, list) and content and "tool" in content[-1]["type"]
        if not (before["role"] == "user" or (before["role"] == "assistant" and served)):
            return Problem(f"{path}: a system message must follow a user message")  # invented
        if index + 1 < len(messages) and messages[index + 1]["role"] != "assistant":
            return Problem(f"{path}: a system message must be last or be followed by an assistant message")  # invented
        allowed = ("text", "tool_addition", "tool_removal")
        if isinstance(message.get("content"), list) and any(b["type"] not in allowed for b in message["content"]):
            return Problem(f"{path}.content: a system message may contain text only")  # invented
    return None


def text_content(request: Candidate) -> Problem | None:
    """Messages have content, and text is not blank."""
    messages = request.body["messages"]
    for index, message in enumerate(messages):
        content, last = message.get("content"), index == len(messages) - 1
        if not content and not (last and message["role"] == "assistant") and message["role"] != "system":
            return Problem(
                f"messages.{index}: all messages must have non-empty content except for the optional final "
                "assistant message"
            )
        if isinstance(content, str) and content and not content.strip():
            return Problem("messages: text content blocks must contain non-whitespace text")
    return next(_blank_blocks(request.blocks), None) or _trailing_space(request)


def _blank_blocks(blocks: tuple[Found, ...]) -> Iterator[Problem]:
    for found in blocks:
        if found.kind != "text" or found.nested:
            continue
        if not found.block["text"]:
            yield Problem(f"{found.level}: text content blocks must be non-empty")
        elif not found.block["text"].strip():
            yield Problem(f"{found.level}: text content blocks must contain non-whitespace text")


def _trailing_space(request: Candidate) -> Problem | None:
    message = request.body["messages"][-1]
    content = message.get("content")
    if isinstance(content, list):
        content = content[-1].get("text") if content else None
    if message["role"] == "assistant" and isinstance(content, str) and content != content.rstrip():
        return Problem("messages: final assistant content cannot end with trailing whitespace")
    return None


RULES: tuple[Check[Candidate], ...] = (
    Check("marker_shapes", marker_shapes),
    Check("diagnostics", diagnostics),
    Check("marker_count", marker_count),
    Check("marked_text", marked_text),
    Check("marker_order", marker_order),
    Check("top_level_marker", top_level_marker),
    Check("first_role", first_role),
    Check("system_role", system_role),
    Check("text_content", text_content),
)
