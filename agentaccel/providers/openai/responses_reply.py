"""Reading replies of OpenAI Responses, streamed or not.

The terminal event (completed, incomplete, failed) holds usage and status; servers differ in whether it repeats the
output, so calls are told from the events of their items as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentaccel.providers.openai.calls import call_of
from agentaccel.providers.openai.tap import Tap
from agentaccel.providers.values import is_object, items, text_or_none
from agentaccel.types import ToolCall

_INPUT = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that ask the caller to run a tool, and where their input stands."""

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


@dataclass(slots=True)
class ResponsesTap(Tap):
    """Watches one response go by. `stop` is its status."""

    def event(self, kind: str, event: Mapping[str, Any]) -> Iterator[ToolCall]:
        slot, item = event.get("output_index"), event.get("item")
        match kind:
            case "response.output_item.added" if is_object(item) and item.get("type") in _INPUT:
                plain = item["type"] == "custom_tool_call"
                self.calls.start(slot, text_or_none(item.get("call_id")), str(item.get("name") or ""), plain=plain)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                yield from self.calls.delta(slot, text_or_none(event.get("delta")) or "")
            case "response.function_call_arguments.done":
                yield from self.calls.stop(slot, text_or_none(event.get("arguments")))
            case "response.custom_tool_call_input.done":
                yield from self.calls.stop(slot, text_or_none(event.get("input")))
            case "response.output_item.done" if is_object(item) and item.get("type") in _INPUT:
                if not self.calls.told(slot):
                    self.calls.start(slot, text_or_none(item.get("call_id")), str(item.get("name") or ""))
                    yield from self.calls.stop(slot, text_or_none(item.get(_INPUT[item["type"]])))
            case "error":
                self.error = str(event.get("code") or "error")
            case _ if is_object(event.get("response")):
                self._response(event["response"])
                if kind in _TERMINAL:
                    yield from self.calls.stop_all()
                    self.complete = True

    def whole(self, body: Mapping[str, Any]) -> Iterator[ToolCall]:
        self._response(body)
        self.complete = isinstance(body.get("output"), list)
        for item in items(body.get("output")):
            if is_object(item) and item.get("type") in _INPUT:
                text = text_or_none(item.get(_INPUT[item["type"]])) or ""
                plain = item["type"] == "custom_tool_call"
                yield from call_of(text_or_none(item.get("call_id")), str(item.get("name") or ""), text, plain=plain)

    def ended(self) -> Iterator[ToolCall]:
        yield from self.calls.stop_all()

    def _response(self, response: Mapping[str, Any]) -> None:
        self.take_name(response)
        self.take_usage(response.get("usage"))
        self.stop = text_or_none(response.get("status")) or self.stop
        self.take_error(response.get("error"))
        diagnosis = response.get("prompt_cache_diagnostics")
        if is_object(diagnosis):
            self.diagnosis = text_or_none(diagnosis.get("reason") or diagnosis.get("type"))
