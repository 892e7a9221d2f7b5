"""A conversation driven through the public API and the emulator's core: no sockets, no event loop, virtual time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from agentaccel import Accel, Policy, ToolCall, TurnRecord, Usage
from agentaccel.facts import cache_facts
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock, assert_prefix_stable
from agentaccel.turn import CallClosed, Finished, FirstByte, Reported, Send, Started
from agentaccel.wire.anthropic import decode, usage_of
from agentaccel_emulator import Behaviour, Emulator, HttpRequest, Tokenizer

MODEL = "claude-sonnet-5"
WORDS = "order lamp desk parcel refund carrier note ticket status policy article customer amount date".split()  # noqa: SIM905
Json = dict[str, Any]


@cache
def prose(words: int, seed: int = 0) -> str:
    """Text of so many words, different for each seed."""
    return " ".join(WORDS[(i * 7 + seed) % len(WORDS)] for i in range(words))


def tool(name: str, words: int = 300) -> Json:
    return {"name": name, "description": prose(words, len(name)), "input_schema": {"type": "object", "properties": {}}}


def body(*messages: Json, system: Any = None, tools: Any = None, **more: Any) -> Json:
    """A request body in the order in which the SDK writes one."""
    made: Json = {"max_tokens": 1024, "messages": list(messages), "model": MODEL, **more}
    if system is not None:
        made["system"] = system
    if tools is not None:
        made["tools"] = tools
    return made


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


def assistant(content: Any) -> Json:
    return {"role": "assistant", "content": content}


class Driver:
    """One process's view: an `Accel` over a store, in front of an emulator that others may share."""

    def __init__(
        self,
        folder: Path,
        *,
        policy: Policy | None = None,
        emulator: Emulator | None = None,
        clock: ManualClock | None = None,
        accel: Accel | None = None,
        arranges: bool = False,
    ) -> None:
        """`arranges` says that the policy consents to sending another prompt than was written."""
        self.arranges = arranges
        self.clock = clock or ManualClock()
        self.store = folder / "trace.db"
        base = policy or Policy(strict=True)
        self.policy = replace(base, store=replace(base.store, path=self.store))
        self.emulator = emulator or Emulator(
            clock=self.clock, behaviour=Behaviour(tokenizer=Tokenizer(bytes_per_token=3.3, hidden=11))
        )
        self.accel = accel or Accel(self.policy, clock=self.clock)
        self.sent: Json = {}

    def ask(
        self,
        request: Mapping[str, Any],
        *,
        gap: float = 5.0,
        seconds: float = 2.0,
        as_model: str | None = None,
        calls: str = "",
    ) -> Usage:
        """Send one request `gap` seconds after the last; returns the provider's usage. Fails on anything but 200.

        `as_model` is the provider's name for the model, where the request uses a deployment's; `calls` the tool that
        the reply is taken to ask for.
        """
        self.clock.advance(gap)
        turn = self.accel.turn(request)
        send = turn.handle(Started(self.clock.monotonic()))[-1]
        assert isinstance(send, Send)
        if not self.arranges:
            self._check_prompt(request, send.request)
        self.sent = dict(send.request)
        status, reply = self.post({**self.sent, "model": as_model} if as_model else self.sent)
        assert status == 200, reply
        self.clock.advance(seconds / 2)
        turn.handle(FirstByte(self.clock.monotonic()))
        if calls:
            turn.handle(CallClosed(ToolCall(name=calls, arguments={}), self.clock.monotonic()))
        self.clock.advance(seconds / 2)
        usage = usage_of(reply["usage"])
        turn.handle(Reported(usage=usage, stop=reply["stop_reason"], message_id=reply["id"]))
        turn.handle(Finished(self.clock.monotonic()))
        return usage

    def _check_prompt(self, written: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
        """The product's promise, on every conversation of the suite: what is sent is the prompt that was written. So it
        begins with what was sent before wherever what was written does."""
        if _prompt(written) != _prompt(sent):
            assert_prefix_stable([written, sent], model=MODEL)  # says where
            assert_prefix_stable([sent, written], model=MODEL)
            raise AssertionError("what was sent is another prompt than what was written")

    def post(self, request: Mapping[str, Any]) -> tuple[int, Json]:
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        wire = HttpRequest(method="POST", path="/v1/messages", headers=headers, body=json.dumps(request).encode())
        reply = self.emulator.handle(wire, self.clock.now)
        return reply.status, json.loads(reply.body)

    @property
    def records(self) -> list[TurnRecord]:
        """Every turn in the store, oldest first."""
        with open_reader(self.store) as reader:
            return list(reader.turns())

    @property
    def marks(self) -> list[str]:
        """Where the last request carried markers, as sent."""
        found: list[str] = []

        def walk(value: Any, path: str) -> None:
            if isinstance(value, dict):
                if "cache_control" in value:
                    found.append(path)
                for name, item in value.items():
                    walk(item, f"{path}.{name}" if path else name)
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    walk(item, f"{path}[{i}]")

        walk(self.sent, "")
        return found


def _prompt(request: Mapping[str, Any]) -> tuple[Any, ...]:
    """Everything that the provider's cache tells prompts apart by; not the markers."""
    prompt = decode(request, cache_facts(MODEL))
    segments = [(one.level, one.kind, one.role, one.name, one.digest) for one in prompt.segments]
    return prompt.model, segments, dict(prompt.parameters), prompt.messages


def loop(driver: Driver, turns: int, **fixed: Any) -> list[Usage]:
    """An append-only conversation of so many turns."""
    messages = [user(prose(40))]
    usages = []
    for turn in range(turns):
        usages.append(driver.ask(body(*messages, **fixed)))
        messages += [assistant([{"type": "text", "text": prose(30, turn)}]), user(prose(25, turn + 100))]
    return usages
