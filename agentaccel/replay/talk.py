"""Messages as the events of an agent's loop, whichever of the usual forms they are in.

A result whose call is not known is left out, a call without a result stays one, and the calls of one reply are one
`Asked`. What a client marks for itself, and the model never saw, is no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from agentaccel.speculate.events import Answered, Asked, Event, Returned, Said
from agentaccel.types import ToolCall

Json = Mapping[str, Any]


def events_of(messages: Iterable[Json]) -> Iterator[Event]:
    """What happened, in order; never raises.

    Takes the Messages API's blocks, Chat Completions' `tool_calls` and `tool` messages, and items of the Responses API.
    A result that names no call belongs to the oldest one that has none.

    >>> ask = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}
    >>> tell = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "42"}]}
    >>> [type(event).__name__ for event in events_of([{"role": "user", "content": "hi"}, ask, tell])]
    ['Said', 'Asked', 'Returned']
    """
    waiting: dict[str, ToolCall] = {}
    for number, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            calls, text = _calls(message), text_of(content)
            waiting.update((call.id or f"{number}.{at}", call) for at, call in enumerate(calls))
            if calls or text:
                yield Asked(calls, text) if calls else Answered(text)
        elif role == "tool":
            yield from _returned(waiting, message.get("tool_call_id"), content, message.get("is_error"))
        elif role == "user" and not message.get("compact_boundary"):
            for block in _objects(content):
                if block.get("type") == "tool_result":
                    yield from _returned(waiting, block.get("tool_use_id"), block.get("content"), block.get("is_error"))
            if text := text_of(content):
                yield Said(text)


def text_of(content: object) -> str:
    """The text of a message or a result: its blocks of text on lines of their own; empty where it is blank."""
    if isinstance(content, str):
        return content if content.strip() else ""
    texts = (block["text"] for block in _objects(content) if isinstance(block.get("text"), str))
    return "\n".join(text for text in texts if text)


def _returned(waiting: dict[str, ToolCall], id_: object, content: object, error: object) -> Iterator[Event]:
    name = next(iter(waiting), "") if id_ is None else str(id_)
    call = waiting.pop(name, None)
    if call is not None:
        yield Returned(call, text_of(content), error=error is True)


def _calls(message: Json) -> tuple[ToolCall, ...]:
    used = [block for block in _objects(message.get("content")) if block.get("type") == "tool_use"]
    calls = [_call(block.get("name"), block.get("input"), block.get("id")) for block in used]
    for raw in _objects(message.get("tool_calls")):
        function = raw.get("function") or raw
        if isinstance(function, Mapping):
            calls.append(_call(function.get("name"), function.get("arguments"), raw.get("call_id") or raw.get("id")))
    return tuple(calls)


def _call(name: object, given: object, id_: object) -> ToolCall:
    if isinstance(given, str):
        try:
            given = orjson.loads(given or b"{}")
        except ValueError:
            given = {"arguments": given}
    arguments = given if isinstance(given, dict) else {} if given is None else {"arguments": given}
    return ToolCall(name=str(name or ""), arguments=arguments, id=str(id_) if id_ else None)


def _objects(value: object) -> list[Json]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
