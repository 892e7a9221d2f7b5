"""What the Messages API refuses in combinations: calls without results, thinking, pre-warming, versions of the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from agentaccel_emulator.anthropic_candidate import Candidate
from agentaccel_emulator.anthropic_checks import ENVELOPE
from agentaccel_emulator.anthropic_rules import RULES
from agentaccel_emulator.anthropic_threads import message_thread
from agentaccel_emulator.anthropic_tool_rules import TOOL_RULES
from agentaccel_emulator.trial import Check, Problem

_STRICT_VERSION = "2026-10-21"
"""The version of the API that no longer takes what `api_2026_10_21` refuses."""


def tool_results(request: Candidate) -> Problem | None:
    """Every tool call is answered in the next turn, and every result answers a call of the one before.

    Messages of one role in a row are one turn.
    """
    asked: dict[str, int] = {}
    for _, group in groupby(_spoken(request.body["messages"]), key=lambda item: item[1]["role"]):
        turn = list(group)
        answered = {call for _, message in turn for call, _ in _ids(message, "tool_result", "tool_use_id")}
        if (problem := _unanswered(asked, answered)) is not None:
            return problem
        for index, message in turn:
            for call, number in _ids(message, "tool_result", "tool_use_id"):
                if call not in asked:
                    return Problem(
                        f"messages.{index}.content.{number}: unexpected `tool_use_id` found in `tool_result` blocks: "
                        f"{call}. Each `tool_result` block must have a corresponding `tool_use` block in the previous "
                        "message."
                    )
        asked = {call: index for index, message in turn for call, _ in _ids(message, "tool_use", "id")}
    return _unanswered(asked, set())


def _spoken(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    return ((index, message) for index, message in enumerate(messages) if message["role"] != "system")


def _unanswered(asked: Mapping[str, int], answered: set[str]) -> Problem | None:
    missing = [call for call in asked if call not in answered]
    if not missing:
        return None
    return Problem(
        f"messages.{asked[missing[0]]}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message."
    )


def _ids(message: Mapping[str, Any], kind: str, name: str) -> Iterator[tuple[str, int]]:
    content = message.get("content")
    for number, block in enumerate(content if isinstance(content, list) else ()):
        if block["type"] == kind:
            yield block[name], number


def call_ids(request: Candidate) -> Problem | None:
    """Ids of tool calls are unique, and each has one result."""
    ids = [found.block["id"] for found in request.blocks if found.kind == "tool_use"]
    if len(set(ids)) != len(ids):
        return Problem("messages: `tool_use` ids must be unique")
    results = [found.block["tool_use_id"] for found in request.blocks if found.kind == "tool_result"]
    if len(set(results)) != len(results):
        twice = next(call for call in results if results.count(call) > 1)
        return Problem(
            f"messages: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {twice}"
        )
    return None


def thinking(request: Candidate) -> Problem | None:
    """A thinking budget is at least 1024 and below max_tokens, and thinking goes with no forced tool."""
    config = request.body.get("thinking") or {}
    kind = config.get("type")
    if config and kind not in ("enabled", "disabled", "adaptive", "between_tools"):
        tags = "'adaptive', 'between_tools', 'disabled', 'enabled'"
        text = f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
        return Problem(f"thinking: {text}")
    if kind != "enabled":
        return None
    budget = config.get("budget_tokens")
    if not isinstance(budget, int):
        return Problem("thinking.enabled.budget_tokens: Field required")
    if budget < 1024:
        return Problem("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if 0 < request.body.get("max_tokens", 0) <= budget:
        return Problem("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if (request.body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        return Problem("Thinking may not be enabled when tool_choice forces tool use.")
    return None


def pre_warm(request: Candidate) -> Problem | None:
    """max_tokens 0 goes with no stream, no budgeted thinking, no output format and no forced tool (texts invented)."""
    body = request.body
    if request.counting or body["max_tokens"] != 0:
        return None
    conflicts = {
        "stream": body.get("stream") is True,
        "thinking.type 'enabled'": (body.get("thinking") or {}).get("type") == "enabled",
        "output_config.format": (body.get("output_config") or {}).get("format") is not None,
        "tool_choice 'any' or 'tool'": (body.get("tool_choice") or {}).get("type") in ("any", "tool"),
    }
    name = next((name for name, there in conflicts.items() if there), None)
    return Problem(f"max_tokens: 0 is not supported with {name}") if name else None


def sampling(request: Candidate) -> Problem | None:
    """Sampling parameters lie in their ranges."""
    for name in ("temperature", "top_p"):
        value = request.body.get(name)
        if value is not None and not (isinstance(value, (int, float)) and 0 <= value <= 1):
            return Problem(f"{name}: range: 0..1")
    return None


def api_2026_10_21(request: Candidate) -> Problem | None:
    """The newer API takes no sampling parameters, assistant documents or citations on user text (texts invented)."""
    if request.version != _STRICT_VERSION:
        return None
    for name in ("temperature", "top_p", "top_k"):
        if request.body.get(name) is not None:
            return Problem(f"{name}: sampling parameters are not supported in API version {_STRICT_VERSION}")
    for found in request.blocks:
        if found.role == "assistant" and found.kind == "document":
            return Problem(f"{found.path}: document blocks are not permitted in assistant messages")
        if found.role == "user" and found.kind == "text" and found.block.get("citations"):
            return Problem(f"{found.path}.text.citations: citations are not permitted on user text blocks")
    return None


CHECKS: tuple[Check[Candidate], ...] = (
    *ENVELOPE,
    *TOOL_RULES,
    *RULES,
    Check("tool_results", tool_results),
    Check("call_ids", call_ids),
    Check("message_thread", message_thread),
    Check("thinking", thinking),
    Check("pre_warm", pre_warm),
    Check("sampling", sampling),
    Check("api_2026_10_21", api_2026_10_21),
)
"""Every rule of the Messages API that is emulated, in the order in which they are tried."""


def objection(request: Candidate, skipped: frozenset[str]) -> tuple[str, Problem] | None:
    """The first check that objects, by name, and its problem; checks named in `skipped` are left out."""
    for check in CHECKS:
        if check.name not in skipped and (problem := check.objection(request)) is not None:
            return check.name, problem
    return None
