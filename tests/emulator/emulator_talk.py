"""How these tests speak to an emulator without sockets: requests of blocks whose token counts are known exactly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agentaccel_emulator import Behaviour, Emulator, HttpReply, HttpRequest, Timing, Tokenizer

MODEL = "claude-sonnet-5"
"""Minimum 1024 tokens, keeps thinking."""
EXACT = Tokenizer(bytes_per_token=1.0)
"""One token a byte, nothing hidden."""
BRISK = Timing(base=1.0, prefill=float("inf"), decode=float("inf"))
"""The first byte comes after one second, the last with it."""

Json = dict[str, Any]


def emulator(**options: Any) -> Emulator:
    """An emulator that counts exactly; `behaviour` options and those of `Emulator` may be mixed."""
    outer = {name: options.pop(name) for name in ("model", "script", "faults", "clock", "platform") if name in options}
    return Emulator(behaviour=Behaviour(**{"tokenizer": EXACT, "timing": BRISK, **options}), **outer)


def text(tokens: int, name: str = "", ttl: str | None = None) -> Json:
    """A text block of exactly `tokens` tokens that begins with `name`, marked if `ttl` is given."""
    block: Json = {"type": "text", "text": ""}
    block["text"] = name + "x" * (tokens - len(json.dumps(block, separators=(",", ":"))) - len(name))
    return marked(block, ttl) if ttl else block


def marked(block: Json, ttl: str = "5m") -> Json:
    """`block` with a marker."""
    return {**block, "cache_control": {"type": "ephemeral", "ttl": ttl}}


def blocks(count: int, *marks: int, size: int = 200) -> list[Json]:
    """`count` text blocks of `size` tokens each, those numbered in `marks` (from 1) marked."""
    return [text(size, f"{i} ", "5m" if i in marks else None) for i in range(1, count + 1)]


def request(*content: Json, **fields: Any) -> Json:
    """A request with one user message of `content`, other fields as given."""
    body: Json = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": list(content)}]}
    return {**body, **fields}


def calls(count: int, first: int = 0) -> list[Json]:
    """`count` tool calls in a row."""
    return [{"type": "tool_use", "id": f"t{i}", "name": "f", "input": {"n": i}} for i in range(first, first + count)]


def results(count: int, first: int = 0) -> list[Json]:
    """The results of `calls`."""
    return [{"type": "tool_result", "tool_use_id": f"t{i}", "content": f"r{i}"} for i in range(first, first + count)]


def user(*content: Json) -> Json:
    """A user message."""
    return {"role": "user", "content": list(content)}


def assistant(*content: Json) -> Json:
    """An assistant message."""
    return {"role": "assistant", "content": list(content)}


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
    def error(self) -> str:
        return str(self.json["error"]["message"])

    @property
    def usage(self) -> tuple[int, int, int, int]:
        """Tokens read, written for 5m, written for 1h, and uncached."""
        usage = self.json["usage"]
        split = usage["cache_creation"]
        assert usage["cache_creation_input_tokens"] == sum(split.values())
        return (
            usage["cache_read_input_tokens"],
            split["ephemeral_5m_input_tokens"],
            split["ephemeral_1h_input_tokens"],
            usage["input_tokens"],
        )

    @property
    def read(self) -> int:
        """Tokens read."""
        return self.usage[0]

    @property
    def events(self) -> list[Json]:
        """The data of each server-sent event."""
        lines = self.reply.body.decode().split("\n\n")
        return [json.loads(line.partition("\ndata: ")[2]) for line in lines if line]


def ask(
    to: Emulator,
    body: Json | bytes,
    now: float = 0.0,
    *,
    key: str = "key",
    path: str = "/v1/messages",
    version: str = "2026-10-21",
    **headers: str,
) -> Answer:
    """Send one request that starts at `now`; underscores in header names become dashes."""
    sent = {"x-api-key": key, "anthropic-version": version}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(to.handle(HttpRequest(method="POST", path=path, headers=sent, body=raw), now))
