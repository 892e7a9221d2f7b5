"""Reading replies of OpenAI Responses, streamed or not.

The terminal event (completed, incomplete, failed) holds usage and status; servers differ in whether it repeats the
output, so calls are told from the events of their items as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentaccel.canonical import wire_bytes
from agentaccel.providers.openai.calls import Slot, call_of
from agentaccel.providers.openai.tap import Tap
from agentaccel.providers.values import is_object, items, name_of, name_or_none, text_or_none
from agentaccel.types import ToolCall

_INPUT = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that ask the caller to run a tool, and where their input stands."""

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_BROKEN = _TERMINAL - {"response.completed"}
"""Ends of a response that was cut: what it lists may be cut as well, unless it says that it is not."""
_CUT = "incomplete"
"""The status of a call whose input is not whole."""
_UNDER_WAY = ("queued", "in_progress")
"""Statuses of a response that is still being made."""


@dataclass(slots=True)
class ResponsesTap(Tap):
    """Watches one response go by. `stop` is its status."""

    @property
    def pending(self) -> bool:
        """True if the status says so: of a response in the background, or of a stream that has not ended."""
        return self.stop in _UNDER_WAY

    def event(self, kind: str, event: Mapping[str, Any]) -> Iterator[ToolCall]:
        slot, item = _slot(event), _call(event.get("item"))
        match kind:
            case "response.output_item.added" if item is not None:
                self._start(slot, item, begun=_text(item))
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                yield from self.calls.delta(slot, text_or_none(event.get("delta")) or "")
            case "response.function_call_arguments.done":
                yield from self.calls.stop(slot, text_or_none(event.get("arguments")))
            case "response.custom_tool_call_input.done":
                yield from self.calls.stop(slot, text_or_none(event.get("input")))
            case "response.output_item.done" if item is not None and item.get("status") != _CUT:
                self._start(slot, item)
                yield from self.calls.stop(slot, _text(item))
            case "error":
                self.error = name_of(event.get("code") or "error")
            case _ if is_object(event.get("response")):
                yield from self._so_far(kind, event["response"])

    def _so_far(self, kind: str, response: Mapping[str, Any]) -> Iterator[ToolCall]:
        """The response as it is when it begins, or ends: it may list what no event told of."""
        self._response(response)
        for place, item in enumerate(map(_call, items(response.get("output")))):
            whole = item is not None and item.get("status") == "completed"
            if item is not None and (whole or (kind not in _BROKEN and item.get("status") != _CUT)):
                at = self.calls.place_of(_named(item)[0]) or (0, place)
                self._start(at, item, begun=_text(item))
                if kind in _TERMINAL:
                    yield from self.calls.stop(at, _text(item))
        if kind in _TERMINAL:
            yield from self.calls.end(cut=kind != "response.completed")
            self.complete = self.error is None

    def whole(self, body: Mapping[str, Any]) -> Iterator[ToolCall]:
        self._response(body)
        self.complete = isinstance(body.get("output"), list) and self.error is None
        for item in map(_call, items(body.get("output"))):
            whole = item is not None and item.get("status") != _CUT and not self.pending
            if item is not None and whole:
                yield from call_of(*_named(item), _text(item), plain=_plain(item))

    def _start(self, slot: Slot, item: Mapping[str, Any], begun: str = "") -> None:
        self.calls.start(slot, *_named(item), begun, plain=_plain(item))

    def _response(self, response: Mapping[str, Any]) -> None:
        self.take_name(response)
        self.take_usage(response.get("usage"))
        self.stop = name_or_none(response.get("status")) or self.stop
        self.take_error(response.get("error"))
        if self.stop == "failed" and self.error is None:
            self.error = "failed"
        diagnosis = response.get("prompt_cache_diagnostics")
        if is_object(diagnosis):
            self.diagnosis = name_or_none(diagnosis.get("reason") or diagnosis.get("type"))


def _slot(event: Mapping[str, Any]) -> Slot:
    """Where in the output an event belongs; some servers say it by the item's id alone."""
    item = event.get("item")
    for place in (event.get("output_index"), event.get("item_id"), item.get("id") if is_object(item) else None):
        if isinstance(place, int | str):
            return 0, place
    return 0, None


def _call(item: Any) -> Mapping[str, Any] | None:
    """`item` where it asks the caller to run a tool."""
    kind = item.get("type") if is_object(item) else None
    if not isinstance(kind, str) or kind not in _INPUT:
        return None
    return item if item.get("name") or item.get(_INPUT[kind]) else None


def _named(item: Mapping[str, Any]) -> tuple[str | None, str]:
    return name_or_none(item.get("call_id")) or None, name_of(item.get("name") or "")


def _text(item: Mapping[str, Any]) -> str:
    """Its input; a server that does not write arguments as text has them as they are."""
    given = item.get(_INPUT[item["type"]])
    return wire_bytes(given).decode() if is_object(given) else text_or_none(given) or ""


def _plain(item: Mapping[str, Any]) -> bool:
    return bool(item["type"] == "custom_tool_call")
