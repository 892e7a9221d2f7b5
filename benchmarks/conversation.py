"""A tool loop of any length, the same each time, for measuring what our own work costs."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from agentaccel import Accel, ToolCall, Usage
from agentaccel.testing import ManualClock
from agentaccel.turn import CallClosed, Finished, FirstByte, Reported, Started, Turn

Json = dict[str, Any]

BLOCK_BYTES = 780
"""Text of a block: about 200 tokens, so that 1,000 blocks are 200,000."""
BYTES_PER_TOKEN = 3.9
BLOCKS_A_TURN = 3
_WORDS = "order lamp desk parcel refund carrier note ticket status policy article customer amount date".split()  # noqa: SIM905
MODEL = "claude-sonnet-5"
CHAT_MODEL = "gpt-6.1-sol"


def text(seed: int, size: int = BLOCK_BYTES) -> str:
    """So many bytes of words, other ones for each seed."""
    chance = random.Random(seed)
    return " ".join(chance.choice(_WORDS) for _ in range(size // 4))[:size]


def turn_of(number: int, size: int = BLOCK_BYTES) -> list[Json]:
    """What one turn adds: a reply with a call of a tool, and its result, blocks of about `size` bytes."""
    arguments = {"query": text(3 * number, size - 120), "limit": 3, "filter": {"status": "open", "tags": [1, 2]}}
    call = {"type": "tool_use", "id": f"toolu_{number:06}", "name": "search", "input": arguments}
    result = {
        "type": "tool_result",
        "tool_use_id": f"toolu_{number:06}",
        "content": [{"type": "text", "text": text(3 * number + 2, size)}],
    }
    return [
        {"role": "assistant", "content": [{"type": "text", "text": text(3 * number + 1, size)}, call]},
        {"role": "user", "content": [result]},
    ]


def opening(number: int = 0) -> Json:
    """The first request: ten tools, a system prompt, question `number`."""
    schema = {"type": "object", "properties": {"query": {"type": "string", "description": text(7, 80)}}}
    return {
        "model": MODEL,
        "max_tokens": 1024,
        "system": [{"type": "text", "text": text(1, 4000)}],
        "tools": [{"name": f"tool_{i}", "description": text(i, 600), "input_schema": schema} for i in range(10)],
        "messages": [{"role": "user", "content": f"Question {number}: {text(2)}"}],
    }


def chat_of(body: Json) -> Json:
    """A request of the Messages API in the form of Chat Completions; made anew, but for the texts."""
    messages: list[Json] = [{"role": "developer", "content": body["system"]}]
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, str):
            messages.append(message)
        elif message["role"] == "assistant":
            messages.append(chat_reply(message))
        else:
            messages += [
                {"role": "tool", "tool_call_id": one["tool_use_id"], "content": one["content"]} for one in content
            ]
    tools = [
        {
            "type": "function",
            "function": {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]},
        }
        for tool in body["tools"]
    ]
    return {"model": CHAT_MODEL, "messages": messages, "tools": tools}


def chat_reply(message: Json) -> Json:
    """A reply of `turn_of` in the form of Chat Completions."""
    said, call = message["content"]
    function = {"name": call["name"], "arguments": json.dumps(call["input"])}
    called = {"id": call["id"], "type": "function", "function": function}
    return {"role": "assistant", "content": said["text"], "tool_calls": [called]}


@dataclass
class Conversation:
    """A conversation as an agent holds it: each turn adds to the same objects."""

    turns: int
    marked: bool = False
    """Whether the agent marks its own tail, and moves the marker each turn."""
    block_bytes: int = BLOCK_BYTES
    number: int = 0
    """Which one: conversations of different numbers share tools and system alone."""
    body: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.body = opening(self.number)
        turns, self.turns = self.turns, 0
        for _ in range(turns):
            self.grow()

    def grow(self) -> Json:
        """One turn more; returns the request."""
        messages = self.body["messages"]
        if self.marked and self.turns:
            messages[-1]["content"][-1].pop("cache_control", None)
        messages.extend(turn_of(self.number * 100_000 + self.turns, self.block_bytes))
        self.turns += 1
        if self.marked:
            messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        return self.body

    def fresh(self) -> Json:
        """An equal request that shares no object with this one."""
        made: Json = json.loads(json.dumps(self.body))
        return made

    @property
    def blocks(self) -> int:
        """Content blocks, system blocks and tools."""
        return 12 + BLOCKS_A_TURN * self.turns

    @property
    def tokens(self) -> int:
        """About how many tokens the request has."""
        return round(len(json.dumps(self.body)) / BYTES_PER_TOKEN)


def answer(turn: Turn, clock: ManualClock, tokens: int) -> None:
    """The provider's reply to `turn`, up to its last event: all but the end of the prompt was read."""
    turn.handle(Started(clock.monotonic()))
    clock.advance(2.0)
    turn.handle(FirstByte(clock.monotonic()))
    turn.handle(CallClosed(ToolCall(name="search", arguments={"query": text(tokens, 300)}), clock.monotonic()))
    turn.handle(
        Reported(usage=Usage(input=tokens, read=max(tokens - 600, 0), write={"5m": min(tokens, 600)}, output=80))
    )


def finish(turn: Turn, clock: ManualClock) -> None:
    """The end of the reply, at which the turn is settled and recorded; then the pause before the next request."""
    turn.handle(Finished(clock.monotonic()))
    clock.advance(5.0)


def run(accel: Accel, clock: ManualClock, conversation: Conversation, turns: int) -> None:
    """So many turns of `conversation`, each planned, answered and settled."""
    for _ in range(turns):
        turn = accel.turn(conversation.grow())
        answer(turn, clock, conversation.tokens)
        finish(turn, clock)
