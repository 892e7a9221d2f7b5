"""What the vendors' own SDKs make of a stream: the last word on calls, usage and stop reason.

Each stream is handed to the real client through a transport in this process, uncut.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai

from agentaccel.facts import Wire

Json = dict[str, Any]

SDK_ERRORS = (anthropic.AnthropicError, openai.OpenAIError, ValueError, AssertionError, RuntimeError, TypeError)
"""What the accumulators raise on a stream that they cannot read."""

ASKED: Any = [{"role": "user", "content": "x"}]


class Made(NamedTuple):
    """What an accumulator ended with."""

    calls: list[tuple[str | None, str, Any]]
    """Id, name and arguments of each call whose arguments are a JSON object, or text where they are plain."""
    stop: str | None
    usage: Json


def accumulated(wire: Wire, data: bytes) -> Made:
    """What the SDK of `wire` ends with on a stream. Raises one of `SDK_ERRORS` where it cannot read it."""
    with _answering(data, "text/event-stream") as http:
        return _STREAMS[wire](http)


def answered(wire: Wire, data: bytes) -> Made:
    """What the SDK of `wire` makes of a reply that is not streamed."""
    with _answering(data, "application/json") as http:
        return _BODIES[wire](http)


@contextmanager
def _answering(data: bytes, kind: str) -> Iterator[httpx2.Client]:
    def reply(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, content=data)

    with httpx2.Client(transport=httpx2.MockTransport(reply)) as http, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Pydantic serializer warnings")  # items of other vendors, written out again
        yield http


def _anthropic(http: httpx2.Client) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)


def _openai(http: httpx2.Client) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", http_client=http, max_retries=0)


def _messages_stream(http: httpx2.Client) -> Made:
    with _anthropic(http).beta.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream:
        return _message(stream.get_final_message())


def _messages_body(http: httpx2.Client) -> Made:
    return _message(_anthropic(http).beta.messages.create(model="m", max_tokens=9, messages=ASKED))


def _chat_stream(http: httpx2.Client) -> Made:
    with _openai(http).chat.completions.stream(model="m", messages=ASKED) as stream:
        return _completion(stream.until_done().current_completion_snapshot)


def _chat_body(http: httpx2.Client) -> Made:
    return _completion(_openai(http).chat.completions.create(model="m", messages=ASKED))


def _responses_stream(http: httpx2.Client) -> Made:
    with _openai(http).responses.stream(model="m", input="x") as stream:
        return _response(stream.get_final_response())


def _responses_body(http: httpx2.Client) -> Made:
    return _response(_openai(http).responses.create(model="m", input="x"))


def _message(message: Any) -> Made:
    calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
    return Made(calls, message.stop_reason, message.usage.model_dump(exclude_none=True))


def _completion(completion: Any) -> Made:
    calls: list[tuple[str | None, str, Any]] = []
    for choice in [choice for choice in completion.choices or () if choice.message is not None]:
        for call in choice.message.tool_calls or ():
            if call.type == "custom":
                calls.append((call.id, call.custom.name, {"input": call.custom.input}))
            else:
                calls += _parsed(call.id, call.function.name, call.function.arguments)
        if choice.message.function_call:
            calls += _parsed(None, choice.message.function_call.name, choice.message.function_call.arguments)
    stop = completion.choices[0].finish_reason if completion.choices else None
    return Made(calls, stop, completion.usage.model_dump(exclude_unset=True) if completion.usage else {})


def _response(response: Any) -> Made:
    calls: list[tuple[str | None, str, Any]] = []
    for item in response.output:
        if item.type == "function_call":
            calls += _parsed(item.call_id, item.name, item.arguments)
        elif item.type == "custom_tool_call":
            calls.append((item.call_id, item.name, {"input": item.input}))
    return Made(calls, response.status, response.usage.model_dump(exclude_unset=True) if response.usage else {})


def _parsed(id_: str | None, name: str, text: str) -> list[tuple[str | None, str, Any]]:
    """The call, where its arguments are what a loop can pass on; those without any send no text."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return []
    return [(id_, name, value)] if isinstance(value, dict) else []


_STREAMS = {"messages": _messages_stream, "chat": _chat_stream, "responses": _responses_stream}
_BODIES = {"messages": _messages_body, "chat": _chat_body, "responses": _responses_body}
