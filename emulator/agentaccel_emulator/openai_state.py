"""What the Responses API holds on its side: past responses and conversations, with the items that they consist of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentaccel_emulator.openai_candidate import refusal
from agentaccel_emulator.openai_reading import context_of
from agentaccel_emulator.trial import Problem

Json = Mapping[str, Any]
_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Held:
    """A response that is kept."""

    body: Json
    """The response, as it was sent."""
    context: tuple[Json, ...]
    """The whole conversation up to and including its output."""


@dataclass(slots=True)
class HeldState:
    """Responses and conversations by workspace and id. Mutable: it remembers the last ten thousand responses."""

    responses: OrderedDict[tuple[str, str], Held] = field(default_factory=OrderedDict)
    """Responses that were not sent with `store: false`."""
    conversations: dict[tuple[str, str], list[Json]] = field(default_factory=dict)
    """Conversations, with their items."""

    def context(self, workspace: str, body: Json) -> Sequence[Json] | Problem:
        """The whole conversation of a request, or why it cannot be had."""
        items = context_of(body)
        previous = body.get("previous_response_id")
        if previous is not None:
            held = self.responses.get((workspace, previous))
            if held is None:
                text = f"Previous response with id '{previous}' not found."
                return refusal(text, "previous_response_id", "previous_response_not_found")
            return [*held.context, *items]
        name = conversation_of(body)
        if name is not None:
            if (workspace, name) not in self.conversations:
                return refusal(f"Conversation with id '{name}' not found.", status=404)
            return [*self.conversations[workspace, name], *items]
        return self._resolved(workspace, items)

    def _resolved(self, workspace: str, items: Sequence[Json]) -> Sequence[Json] | Problem:
        """The items with references replaced by what they refer to."""
        if not any(item.get("type") == "item_reference" for item in items):
            return items
        known = {
            item["id"]: item
            for (owner, _), held in self.responses.items()
            if owner == workspace
            for item in held.context
            if "id" in item
        }
        resolved = []
        for item in items:
            if item.get("type") == "item_reference" and item.get("id") not in known:
                return refusal(f"Item with id '{item.get('id')}' not found.", "input", status=404)
            resolved.append(known[item["id"]] if item.get("type") == "item_reference" else item)
        return resolved

    def keep(self, workspace: str, body: Json, response: Json, context: Sequence[Json]) -> None:
        """Keep a response and add it to its conversation, as the request wants it."""
        output: Sequence[Json] = response["output"]
        name = conversation_of(body)
        if name is not None:
            self.conversations[workspace, name] += [*context_of(body), *output]
        if body.get("store") is not False:
            self.responses[workspace, str(response["id"])] = Held(response, (*context, *output))
            if len(self.responses) > _KEPT:
                self.responses.popitem(last=False)


def conversation_of(body: Json) -> str | None:
    """The id of the conversation that a request belongs to."""
    given = body.get("conversation")
    if isinstance(given, Mapping):
        given = given.get("id")
    return None if given is None else str(given)
