"""Fields that a plan adds beside markers and ask for what was counted.

Each is one that the data files list for the provider, and each is left out where the sender has set it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentaccel.engine.conversation import Conversation
from agentaccel.facts import CacheFacts, host_platform, known_model, known_place, usage_asked
from agentaccel.types import CachePlan, Prompt, Request


def with_diagnosis(
    plan: CachePlan, request: Request, facts: CacheFacts | None, conversation: Conversation
) -> CachePlan:
    """The plan with the field that asks why a prefix was missed; the very plan where it cannot be asked."""
    if facts is None or plan.expected is None or not can_ask_why(facts):
        return plan
    head = conversation.head
    return asking_why(plan, request, head.message_id if head is not None else None)


def asking_usage(plan: CachePlan, request: Request, prompt: Prompt) -> CachePlan:
    """Asks a chat's stream for its usage, which no chunk holds otherwise; the seam keeps the extra chunk back."""
    own = request.get("stream_options")
    said = "stream_options" in request and (not isinstance(own, Mapping) or not own or "include_usage" in own)
    if said or not prompt.stream:
        return plan
    if prompt.illegal or not (prompt.messages or prompt.opening):
        return plan  # it will be refused as it is, or is none that we understand
    if not usage_asked(prompt.provider, prompt.platform):
        return plan
    return _with(plan, "stream_options", {"include_usage": True}, "asks the stream for its usage")


def unplanned(prompt: Prompt) -> tuple[str, str, str]:
    """Why there are no facts for a request: what it is that is not known, what to say of it once, and the reason."""
    if known_place(prompt.provider, prompt.platform):
        if not prompt.model:
            return "model", "a request that names no model is sent as written", "the request names no model"
        model = f"model {prompt.model!r}"
        if known_model(prompt.model):
            reason = f"{prompt.provider!r} does not serve {model}; name the provider that does"
            return model, reason, reason
        return (
            model,
            f"no cache facts for {model}; map it with Policy(aliases=…)",
            f"no cache facts are known for {model}",
        )
    reason = f"nothing is known of the cache of platform {prompt.platform!r}"
    if (prompt.provider, prompt.platform) != host_platform(""):
        return reason, f"{reason}; requests go out as written, and are recorded", reason
    told = (
        "nothing is known of the server that answers; say what runs there with wrap(client, platform=…) or "
        'AGENTACCEL_PLATFORM: "vllm", "sglang", "llamacpp", …, or "api" for OpenAI\'s own rules'
    )
    return reason, told, reason


def can_ask_why(facts: CacheFacts) -> bool:
    """Whether the provider can be asked: its field may be added here, and the model has a cache with fields at all."""
    return facts.diagnostics and facts.controls and facts.physics != "automatic"


def asking_why(plan: CachePlan, request: Request, previous: str | None) -> CachePlan:
    """Asks the provider why a prefix was missed, against the reply `previous`."""
    reason = "asks the provider why a prefix was missed (CachePolicy.diagnostics)"
    if plan.wire == "messages":
        if "diagnostics" in request:
            return plan
        return _with(plan, "diagnostics", {"previous_message_id": previous}, reason)
    own = request.get("prompt_cache_options")
    if previous is None or not _object_or_none(own) or (own and "comparison_response_id" in own):
        return plan
    options = {**plan.options.get("prompt_cache_options", {}), "comparison_response_id": previous}
    return _with(plan, "prompt_cache_options", options, reason)


def _with(plan: CachePlan, name: str, value: Any, reason: str) -> CachePlan:
    return replace(plan, options={**plan.options, name: value}, reasons=(*plan.reasons, reason))


def _object_or_none(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)
