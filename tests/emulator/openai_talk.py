"""How these tests speak to the OpenAI side of an emulator without sockets: parts of an exact size in tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from emulator_talk import emulator

from agentaccel_emulator import Emulator, HttpReply, HttpRequest

MODEL = "gpt-6-sol"
"""Breakpoints; minimum 1024 tokens."""
OLD = "gpt-4o"
"""An automatic cache in steps of 128 tokens; minimum 1024."""

Json = dict[str, Any]

__all__ = ["MODEL", "OLD", "Answer", "Json", "ask", "chat", "emulator", "marked", "message", "part", "responses"]


def part(size: int, name: str = "", wire: str = "chat") -> Json:
    """A text part of exactly `size` tokens that begins with `name`."""
    return {"type": "text" if wire == "chat" else "input_text", "text": name + "x" * (size - len(name))}


def marked(one: Json, ttl: str | None = None) -> Json:
    """`one` with an explicit breakpoint."""
    return {**one, "prompt_cache_breakpoint": {"mode": "explicit"} | ({"ttl": ttl} if ttl else {})}


def message(role: str, *content: Json | str) -> Json:
    """A message of parts, or of one string."""
    return {"role": role, "content": content[0] if isinstance(content[0], str) else list(content)}


def chat(*messages: Json, **fields: Any) -> Json:
    """A Chat Completions request."""
    return {"model": MODEL, "messages": list(messages), **fields}


def responses(*items: Json, **fields: Any) -> Json:
    """A Responses request."""
    return {"model": MODEL, "input": list(items), **fields}


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, decoded."""

    reply: HttpReply

    @property
    def status(self) -> int:
        return self.reply.status

    @property
    def json(self) -> Json:
        value: Json = json.loads(self.reply.body)
        return value

    @property
    def error(self) -> Json:
        error: Json = self.json["error"]
        return error

    @property
    def usage(self) -> tuple[int, int, int]:
        """Tokens read, written and neither; they add up to the whole input."""
        usage = self.json["usage"]
        whole = usage.get("prompt_tokens", usage.get("input_tokens"))
        details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
        read, written = details.get("cached_tokens", 0), details.get("cache_write_tokens", 0)
        return read, written, whole - read - written

    @property
    def read(self) -> int:
        """Tokens read."""
        return self.usage[0]

    @property
    def events(self) -> list[Json]:
        """The data of each server-sent event but [DONE]."""
        found = [event.partition("data: ")[2] for event in self.reply.body.decode().split("\n\n") if event]
        return [json.loads(data) for data in found if data != "[DONE]"]


def ask(to: Emulator, body: Json | None, now: float = 0.0, *, path: str = "", key: str = "key", **more: str) -> Answer:
    """Send one request that starts at `now`; what it is decides its path."""
    path = path or ("/v1/chat/completions" if body is not None and "messages" in body else "/v1/responses")
    sent = {"authorization": f"Bearer {key}"} | {name.replace("_", "-"): value for name, value in more.items()}
    raw = b"" if body is None else json.dumps(body).encode()
    method = "POST" if body is not None else "GET"
    return Answer(to.handle(HttpRequest(method=method, path=path, headers=sent, body=raw), now))
