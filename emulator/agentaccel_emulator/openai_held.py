"""The operations on what the Responses API holds: responses are looked up and deleted, conversations begun."""

from __future__ import annotations

from agentaccel_emulator.calls import Call, Outcome, decoded, entry_of
from agentaccel_emulator.exchange import json_reply
from agentaccel_emulator.openai_candidate import refusal
from agentaccel_emulator.openai_paths import Place
from agentaccel_emulator.openai_state import HeldState
from agentaccel_emulator.openai_wire import error_body


def answer_held(call: Call, place: Place, state: HeldState, workspace: str) -> Outcome:
    """Answer a call that generates nothing."""
    status, body = _answered(call, place, state, workspace)
    reply = json_reply(status, body, {"x-request-id": call.request_id})
    return Outcome(reply=reply, entry=entry_of(call, status=status))


def _answered(call: Call, place: Place, state: HeldState, workspace: str) -> tuple[int, object]:
    key = (workspace, place.name)
    if place.operation == "conversations":
        request = decoded(call.body) or {}
        name = f"conv_emulated{call.number:012d}"
        state.conversations[workspace, name] = list(request.get("items") or ())
        return 200, _conversation(call, name, request.get("metadata"))
    if place.operation == "conversation":
        if key not in state.conversations:
            return _missing("Conversation", place.name)
        if call.method == "DELETE":
            del state.conversations[key]
            return 200, {"id": place.name, "object": "conversation.deleted", "deleted": True}
        return 200, _conversation(call, place.name, None)
    if key not in state.responses:
        return _missing("Response", place.name)
    if call.method == "DELETE":
        del state.responses[key]
        return 200, {"id": place.name, "object": "response", "deleted": True}
    return 200, state.responses[key].body


def _conversation(call: Call, name: str, metadata: object) -> dict[str, object]:
    return {"id": name, "object": "conversation", "created_at": int(call.now), "metadata": metadata or {}}


def _missing(what: str, name: str) -> tuple[int, object]:
    return 404, error_body(refusal(f"{what} with id '{name}' not found.", status=404))
