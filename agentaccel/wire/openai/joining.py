"""Streams of both OpenAI wires put together into the reply that a call which is not streamed would have got.

A stream of the Responses API ends with the whole response. One of Chat Completions comes in chunks, whose pieces join
by choice and call, as in the SDK's own accumulator (openai 3.57, `lib/streaming/chat`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel.types import Request
from agentaccel.wire.joining import Joined, StreamJoiner, UnclearError, Whole, unknown_fields, written
from agentaccel.wire.json import is_object, items, name_of

ERROR_STATUS: Mapping[str, int] = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "content_filter": 400,
    "content_policy_violation": 400,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "unsupported_country_region_territory": 403,
    "model_not_found": 404,
    "not_found_error": 404,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "requests": 429,
    "tokens": 429,
    "server_error": 500,
    "service_unavailable": 503,
    "server_overloaded": 503,
    "overloaded": 503,
    "slow_down": 503,
}
"""The HTTP status of errors, by code or type (developers.openai.com, Error codes, of 2026-09); any other is a 500."""

_OF_BOTH = {
    "metadata",
    "model",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
}
_KNOWN_IN_CHAT = frozenset(
    {
        *_OF_BOTH,
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "modalities",
        "n",
        "prediction",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "verbosity",
    }
)
_KNOWN_IN_RESPONSES = frozenset(
    {
        *_OF_BOTH,
        "background",
        "context_management",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "previous_response_id",
        "prompt",
        "reasoning",
        "text",
        "truncation",
    }
)
"""Fields of a request that are known to change nothing in how a stream adds up (types of openai 3.57)."""


def chat_stays_whole(request: Request) -> str:
    """Why a chat must not go out streamed; empty where it may.

    >>> chat_stays_whole({"messages": [], "tools": [{}], "n": 2}), chat_stays_whole({"tools": [{}], "store": True})
    ('', 'it is stored, and its reply tells the metadata, which no chunk does')
    """
    if not items(request.get("tools")) and not items(request.get("functions")):
        return "it has no tools"
    if [*items(request.get("modalities"))] not in ([], ["text"]):
        return "its reply is more than text"
    if request.get("store"):
        return "it is stored, and its reply tells the metadata, which no chunk does"
    return unknown_fields(request, _KNOWN_IN_CHAT)


def response_stays_whole(request: Request) -> str:
    """Why a response must not go out streamed; empty where it may.

    >>> response_stays_whole({"input": "Hi", "tools": [{}], "background": True})
    'it is made in the background'
    """
    if not items(request.get("tools")):
        return "it has no tools"
    if request.get("background"):
        return "it is made in the background"
    return unknown_fields(request, _KNOWN_IN_RESPONSES)


def _status(error: Any) -> int:
    names = (error.get("code"), error.get("type")) if is_object(error) else ()
    return next((ERROR_STATUS[name] for name in map(name_of, names) if name in ERROR_STATUS), 500)


@dataclass(slots=True)
class ResponseJoiner(StreamJoiner):
    """Waits for the event that holds the whole response."""

    def event(self, kind: str, event: Mapping[str, Any]) -> Joined | None:
        """Take one event; returns what the stream came to, where that is known by now."""
        if kind in _ENDS and is_object(event["response"]):
            return Whole(200, written(event["response"]))
        if kind != "error":
            return None
        error = event.get("error")
        if not is_object(error):
            told = {name: event.get(name) for name in ("message", "param", "code")}
            error = {**told, "type": name_of(event.get("code") or "error")}
        return Whole(_status(error), written({"error": error}))


_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


@dataclass(slots=True)
class ChatJoiner(StreamJoiner):
    """Puts one chat completion together. It is whole when the stream says that it is over: the usage comes last."""

    _completion: dict[str, Any] = field(default_factory=dict)
    _choices: dict[int, dict[str, Any]] = field(default_factory=dict)

    def event(self, kind: str, event: Mapping[str, Any]) -> Joined | None:
        """Take one event; returns what the stream came to, where that is known by now."""
        if event.get("error"):
            return Whole(_status(event["error"]), written(event))
        for name, value in event.items():
            if name not in _OF_CHUNKS and (value is not None or name not in self._completion):
                self._completion[name] = value
        for choice in items(event.get("choices")):
            self._choice(choice)
        return None

    def done(self) -> Joined | None:
        """The stream has said that it is over."""
        if not self._choices or any(choice["finish_reason"] is None for choice in self._choices.values()):
            return None  # it was broken off, whatever it says
        choices = [_finished(self._choices[index]) for index in sorted(self._choices)]
        return Whole(200, written({**self._completion, "object": "chat.completion", "choices": choices}))

    def _choice(self, told: Mapping[str, Any]) -> None:
        index = told["index"]
        choice = self._choices.setdefault(
            index, {"index": index, "message": {"role": "assistant"}, "logprobs": None, "finish_reason": None}
        )
        for name, value in told.items():
            match name:
                case "index":
                    continue
                case "delta":
                    _grow(choice["message"], value or {})
                case "logprobs":
                    if value is not None:
                        choice[name] = _longer(choice[name] or {}, value)
                case "finish_reason":
                    choice[name] = value if value is not None else choice[name]
                case _:
                    _set(choice, name, value)


_OF_CHUNKS = frozenset({"object", "choices", "obfuscation"})
"""What chunks alone have, or have otherwise."""


def _grow(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Join the next piece of a message to it, in place."""
    for name, value in delta.items():
        was = message.get(name)
        match name:
            case "role":
                message[name] = value or was
            case "tool_calls":
                calls = message.setdefault(name, [])
                for piece in value or ():
                    _call(calls, piece)
            case "function_call":
                if value is not None:
                    message[name] = _pieces(was or {}, value)
            case "annotations":
                message[name] = [*(was or ()), *(value or ())]
            case _ if isinstance(value, str) and isinstance(was, str):
                message[name] = was + value
            case _:
                _set(message, name, value)


def _call(calls: list[dict[str, Any]], piece: Mapping[str, Any]) -> None:
    """The next piece of a call; calls come in their order, and each begins with its id."""
    index = piece["index"]
    if index == len(calls):
        calls.append({})
    call = calls[index]
    for name, value in piece.items():
        if name in ("function", "custom"):
            call[name] = _pieces(call.get(name, {}), value or {})
        elif name != "index":
            _set(call, name, value)


def _pieces(was: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The name and input of a call with their next pieces."""
    joined = {**was}
    for name, value in told.items():
        if isinstance(value, str) and isinstance(was.get(name), str):
            joined[name] = was[name] + value
        else:
            _set(joined, name, value)
    return joined


def _longer(was: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The probabilities of tokens with those of the next ones."""
    joined = {**was}
    for name, value in told.items():
        joined[name] = [*(was.get(name) or ()), *value] if isinstance(value, list) else was.get(name)
    return joined


def _set(thing: dict[str, Any], name: str, value: Any) -> None:
    """What is told once, or again and again; raises `UnclearError` for what is told otherwise."""
    was = thing.get(name)
    if value is None or was == value:
        thing.setdefault(name, value)
    elif was is None:
        thing[name] = value
    else:
        raise UnclearError(f"{name_of(name)} is told twice, and otherwise")


def _finished(choice: dict[str, Any]) -> dict[str, Any]:
    """A choice as a reply has it that is not streamed: with all that such a message has, and without an empty text
    beside a call or a refusal."""
    message = {"content": None, "refusal": None, "annotations": [], **choice["message"]}
    if message["content"] == "" and (message["refusal"] or "tool_calls" in message or "function_call" in message):
        message["content"] = None
    return {**choice, "message": message}
