"""Caches that keep whatever they are sent, in steps: what is expected of them is what they count."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, Policy, StorePolicy, TurnRecord
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, Reported, Send, Started
from agentaccel.types import Cause
from agentaccel.wire.openai import usage_of
from agentaccel_emulator import Behaviour, Emulator, HttpRequest, Tokenizer
from tests.driver import Json, assistant, prose, user

pytestmark = pytest.mark.many(6)

PLACES = {
    "gpt-4o": ("openai", "api", "gpt-4o"),
    "gpt-5.5": ("openai", "api", "gpt-5.5"),
    "deepseek": ("compatible", "deepseek", "deepseek-chat"),
    "vllm": ("compatible", "vllm", "meta-llama/Llama-3.1-8B"),
}
"""Provider, platform and model, with steps of 128, 2,048, 64 and 16 tokens."""

BEHIND = ("google/gemini-3-pro", "x-ai/grok-4.6")
GATEWAY = {f"gateway/{model}": ("compatible", "openrouter", model) for model in BEHIND}
"""Models whose rules are not known, behind a gateway."""


@dataclass
class Chats:
    """Chats in front of an emulated automatic cache."""

    folder: Path
    place: str
    tokenizer: Tokenizer | None = None
    eviction: float = 0.0
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.provider, self.platform, self.model = {**PLACES, **GATEWAY}[self.place]
        behaviour = Behaviour(tokenizer=self.tokenizer, eviction=self.eviction)
        self.emulator = Emulator(platform=self.platform, clock=self.clock, behaviour=behaviour)
        self.store = self.folder / "trace.db"
        self.accel = Accel(Policy(strict=True, store=StorePolicy(path=self.store)), clock=self.clock, environ={})

    def ask(self, *messages: Json, gap: float = 20.0, read: int | None = None, **more: Any) -> Json:
        """Send one request; `read` is reported in place of what the provider says. Returns what was sent."""
        self.clock.advance(gap)
        body = {"model": self.model, "messages": list(messages), **more}
        turn = self.accel.turn(body, provider=self.provider, platform=self.platform)
        send = turn.handle(Started(self.clock.monotonic()))[-1]
        assert isinstance(send, Send)
        raw = json.dumps(send.request).encode()
        wire = HttpRequest(method="POST", path="/v1/chat/completions", headers={"authorization": "Bearer k"}, body=raw)
        reply = self.emulator.handle(wire, self.clock.now)
        assert reply.status == 200, reply.body
        self.clock.advance(2.0)
        usage = usage_of(json.loads(reply.body)["usage"])
        turn.handle(Reported(usage=usage if read is None else replace(usage, read=read)))
        turn.handle(Finished(self.clock.monotonic()))
        return dict(send.request)

    def loop(self, turns: int, *, first: int, step: int, system: int) -> None:
        """An append-only chat; sizes in words."""
        messages = [{"role": "system", "content": prose(system)}, user(prose(first, first))]
        for turn in range(turns):
            self.ask(*messages)
            messages += [assistant(prose(step // 3, turn)), user(prose(step, turn + 100))]

    @property
    def records(self) -> list[TurnRecord]:
        with open_reader(self.store) as reader:
            return list(reader.turns())


def causes(chats: Chats) -> list[list[Cause]]:
    return [[miss.cause for miss in record.misses] for record in chats.records]


SIZES = [
    {"first": 40, "step": 25, "system": 1200},
    {"first": 300, "step": 7, "system": 900},
    {"first": 2500, "step": 260, "system": 0},
    {"first": 9000, "step": 61, "system": 400},
    {"first": 1100, "step": 1900, "system": 30},
]


@pytest.mark.parametrize("sizes", SIZES, ids=[f"{it['first']}+{it['step']}" for it in SIZES])
@pytest.mark.parametrize("tokenizer", [None, Tokenizer(bytes_per_token=3.7, hidden=0), Tokenizer(hidden=90)])
@pytest.mark.parametrize("place", PLACES)
def test_a_plain_loop_misses_nothing_but_its_beginning(
    tmp_path: Path, place: str, tokenizer: Tokenizer | None, sizes: dict[str, int]
) -> None:
    """Mandated by the providers: reads come in steps, and what is left of a step was never there to be read."""
    chats = Chats(tmp_path, place, tokenizer)
    chats.loop(9, **sizes)
    assert causes(chats) == [[Cause.FIRST], *[[]] * 8]


@pytest.mark.parametrize("sizes", SIZES, ids=[f"{it['first']}+{it['step']}" for it in SIZES])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_expected_of_a_plain_loop_is_what_is_read(tmp_path: Path, place: str, sizes: dict[str, int]) -> None:
    """Chosen by us: the count of the prompt before tells where it ends, and the facts which steps are kept of it."""
    chats = Chats(tmp_path, place, Tokenizer(bytes_per_token=3.7))
    chats.loop(9, **sizes)
    for record in chats.records:
        assert record.expected is not None
        assert (record.expected.read, record.reusable) == (record.usage.read, record.usage.read)
        assert record.expected.total == record.usage.input


@pytest.mark.parametrize("place", PLACES)
def test_what_was_evicted_is_still_named(tmp_path: Path, place: str) -> None:
    """The twin: room for rounding hides no prefix that is gone."""
    chats = Chats(tmp_path, place, eviction=1.0)
    chats.ask(user(prose(5000)))
    chats.ask(user(prose(5000)), assistant("ok"), user("go on"), gap=80_000.0)
    assert causes(chats)[1] == [Cause.EVICTED]


def test_a_prefix_that_expired_is_named_though_it_was_one_step(tmp_path: Path) -> None:
    """What was not expected, and was not read, needs no room for rounding."""
    chats = Chats(tmp_path, "gpt-5.5", Tokenizer(bytes_per_token=4.0))
    chats.ask(user(prose(1600)))
    chats.ask(user(prose(1600)), assistant("ok"), user("go on"), gap=90_000.0)
    assert [(miss.cause, miss.tokens) for miss in chats.records[1].misses] == [(Cause.EXPIRED, 2048)]


def test_rules_below_the_minimum_are_not_taken_for_evicted(tmp_path: Path) -> None:
    """Mandated by the provider: nothing is read before 1,024 tokens, however long the prompt goes on."""
    chats = Chats(tmp_path, "gpt-4o")
    rules = {"role": "system", "content": prose(400)}
    with chats.accel.session("one"):
        chats.ask(rules, user(prose(40, 1)))
        chats.ask(rules, user(prose(40, 1)), assistant("ok"), user(prose(900, 2)))
        assert causes(chats)[1] == [Cause.BELOW_MINIMUM]
        chats.ask(rules, user(prose(3000, 5)), assistant("ok"), user("go on"))
    assert causes(chats)[2] == [Cause.FIRST]  # another history is a conversation of its own


def test_a_chat_with_functions_of_2023_is_recorded(tmp_path: Path) -> None:
    """What may be called is looked up where the request has it, to tell what became of it."""
    chats = Chats(tmp_path, "gpt-4o")
    question = [user(prose(2000))]
    for names in (["a"], ["a"], ["b"]):
        tools = [{"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}]
        functions = [{"name": name, "parameters": {"type": "object"}} for name in names]
        chats.ask(*question, functions=functions, tools=tools)
        question += [assistant("ok"), user("go on")]
    assert causes(chats) == [[Cause.FIRST], [], [Cause.CHANGED]]
    drift = chats.records[2].drift
    assert drift is not None
    assert (drift.where, drift.detail) == ("tools", "added b; removed a")


@pytest.mark.parametrize("place", GATEWAY)
def test_a_gateway_is_told_the_conversation_whoever_it_asks(tmp_path: Path, place: str) -> None:
    """Documented: it keeps to one upstream by it, which is what makes a cache of that one's be found."""
    chats = Chats(tmp_path, place)
    first, second = chats.ask(user("a")), chats.ask(user("a"), assistant("b"), user("c"))
    assert set(first) == {"model", "messages", "session_id"}
    assert first["session_id"] == second["session_id"]
    assert "session_id" not in chats.ask(user("d"), provider={"order": ["x"]})
    assert chats.ask(user("e"), session_id="mine")["session_id"] == "mine"


@pytest.mark.parametrize("read", [0, 1500])
def test_nothing_is_claimed_of_a_cache_that_may_be_none(tmp_path: Path, read: int) -> None:
    """Chosen by us: who answers behind a gateway may or may not keep prefixes; what was read is recorded."""
    chats = Chats(tmp_path, "gateway/google/gemini-3-pro")
    chats.ask(user(prose(2000)), read=0)
    chats.ask(user(prose(2000)), assistant("ok"), user("go on"), read=read)
    record = chats.records[1]
    assert (record.misses, record.reusable, record.usage.read) == ((), 0, read)
    assert record.expected is not None
    assert record.expected.read == 0
