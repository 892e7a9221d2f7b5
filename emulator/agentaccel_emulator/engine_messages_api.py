"""Anthropic's Messages API of a server that people run: every request becomes a chat, and has the chat's cache.

As vLLM does it (`facts/compatible.toml`, V2): system blocks are one text, each result of a tool is a message of its
own, in front of the texts beside it, and markers are not looked at. llama.cpp puts these texts in front, which is not
modelled. Usage leaves out what was read, and says it where the server reports it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from agentaccel_emulator.anthropic_wire import Message, message_body, stream_chunks
from agentaccel_emulator.calls import Call, Outcome, decoded, entry_of, hung
from agentaccel_emulator.exchange import Chunk, Ending, HttpReply, json_reply
from agentaccel_emulator.openai_api import OpenAiApi
from agentaccel_emulator.script import Script
from agentaccel_emulator.usage import Usage

Json = Mapping[str, Any]

_PATH, _COUNT, _CHAT = "/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"
_STOPS: Mapping[str, str] = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_CHOICES: Mapping[str, str] = {"auto": "auto", "any": "required", "tool": "required", "none": "none"}
_OF_ANTHROPIC = frozenset({"system", "messages", "tools", "tool_choice", "stop_sequences", "cache_control", "stream"})
"""Fields that a chat has in another form, or not."""


class EngineMessagesApi:
    """The Messages API in front of a server's own engine. Not thread-safe: its owner takes turns."""

    def __init__(self, engine: OpenAiApi) -> None:
        """Answer from `engine`, which has the cache."""
        self._engine = engine

    def takes(self, path: str) -> bool:
        return path in (_PATH, _COUNT)

    def methods(self, path: str) -> tuple[str, ...]:
        return ("POST",)

    def generates(self, path: str) -> bool:
        return path == _PATH

    def serves(self, model: str) -> bool:
        return self._engine.serves(model)

    def reset(self) -> None:
        """Nothing is held here."""

    def answer(self, call: Call, script: Script) -> Outcome:
        body = decoded(call.body)
        if call.goes_wrong("timeout"):
            return hung(call)
        chat = None if body is None else chat_request(body)
        if call.path == _COUNT and chat is not None:
            reply = json_reply(200, {"input_tokens": self._engine.tokens(chat)}, {})
            return Outcome(reply=reply, entry=entry_of(call, status=200, request=body))
        fault = call.fault if call.goes_wrong("slow_first_token") or (call.fault and call.fault.status) else None
        raw = call.body if chat is None else orjson.dumps({**chat, "stream": False})
        inner = self._engine.answer(dataclasses.replace(call, path=_CHAT, body=raw, fault=fault), script)
        entry = dataclasses.replace(
            inner.entry,
            path=call.path,
            request=body,
            streamed=bool(body and body.get("stream")),
            fault=call.fault.kind if call.fault is not None else None,
        )
        if entry.status != 200 or entry.usage is None or body is None:
            return Outcome(reply=inner.reply, entry=entry)
        message = _message(orjson.loads(inner.reply.body), entry.usage, call)
        return Outcome(
            reply=_rendered(call, message, body, (entry.first_byte, entry.seconds)),
            entry=dataclasses.replace(entry, message_id=message.id),
        )


def chat_request(body: Json) -> dict[str, Any]:
    """The chat that a Messages request becomes.

    >>> result = {"type": "tool_result", "tool_use_id": "1", "content": "Sunny."}
    >>> said = {"role": "user", "content": [result, {"type": "text", "text": "So?"}]}
    >>> [one["role"] for one in chat_request({"system": "Be brief.", "messages": [said]})["messages"]]
    ['system', 'tool', 'user']
    """
    system = body.get("system")
    messages: list[Json] = [{"role": "system", "content": _joined(system)}] if system else []
    for message in body.get("messages") or ():
        messages += _chat_messages(message)
    chat = {name: value for name, value in body.items() if name not in _OF_ANTHROPIC} | {"messages": messages}
    if body.get("tools"):
        chat["tools"] = [_function(tool) for tool in body["tools"]]
    if isinstance(choice := body.get("tool_choice"), Mapping):
        chat["tool_choice"] = _CHOICES.get(str(choice.get("type")), "auto")
    if body.get("stop_sequences"):
        chat["stop"] = body["stop_sequences"]
    return chat


def _chat_messages(message: Any) -> list[Json]:
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, list):
        return [message]
    said = [{"type": "text", "text": one.get("text", "")} for one in content if one.get("type") == "text"]
    calls = [_call(one) for one in content if one.get("type") == "tool_use"]
    own = {"role": message["role"], "content": said or None, **({"tool_calls": calls} if calls else {})}
    results: list[Json] = [
        {"role": "tool", "tool_call_id": one.get("tool_use_id"), "content": _joined(one.get("content"))}
        for one in content
        if one.get("type") == "tool_result"
    ]
    return [*results, own] if said or calls else results


def _joined(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(one.get("text", "") for one in content or () if isinstance(one, Mapping))


def _call(block: Json) -> Json:
    arguments = orjson.dumps(block.get("input") or {}).decode()
    return {"id": block.get("id"), "type": "function", "function": {"name": block.get("name"), "arguments": arguments}}


def _function(tool: Json) -> Json:
    described = {"description": tool["description"]} if tool.get("description") else {}
    schema = tool.get("input_schema") or {"type": "object"}
    return {"type": "function", "function": {"name": tool.get("name"), **described, "parameters": schema}}


def _message(reply: Json, usage: Usage, call: Call) -> Message:
    """The message that a chat's reply is."""
    [choice] = reply["choices"]
    told = reply.get("usage")
    return Message(
        id=reply["id"],
        model=reply["model"],
        content=tuple(_blocks(choice["message"])),
        stop_reason=_STOPS.get(choice["finish_reason"], choice["finish_reason"]),
        usage=usage,
        shows_usage=told is not None and not call.goes_wrong("missing_usage"),
        reports=_reported(told or {}),
    )


def _blocks(message: Json) -> Iterator[Json]:
    if message.get("content"):
        yield {"type": "text", "text": message["content"]}
    for one in message.get("tool_calls") or ():
        function = one["function"]
        yield {
            "type": "tool_use",
            "id": one["id"],
            "name": function["name"],
            "input": orjson.loads(function["arguments"]),
        }


def _reported(usage: Json) -> Mapping[str, int]:
    """Input in Anthropic's convention: what was read stands beside the rest, where the server says it."""
    read = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    said = {} if read is None else {"cache_read_input_tokens": read}
    return {"input_tokens": usage.get("prompt_tokens", 0) - (read or 0), **said}


def _rendered(call: Call, message: Message, body: Json, seconds: Sequence[float]) -> HttpReply:
    first, last = seconds
    cut = call.goes_wrong("disconnect_mid_stream")
    ending: Ending = "disconnect" if cut else "complete"
    if body.get("stream") is True:
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        chunks = stream_chunks(message, first=first, last=last, fault=call.fault)
        return HttpReply(status=200, headers=headers, chunks=chunks, streamed=True, ending=ending)
    data = orjson.dumps(message_body(message))
    if cut or call.goes_wrong("malformed_sse"):
        data = data[: len(data) // 2]
    return HttpReply(
        status=200, headers={"content-type": "application/json"}, chunks=(Chunk(last, data),), ending=ending
    )
