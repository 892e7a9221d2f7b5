"""A tool list that only grows, with consent: another order, and tools that go, cost no prefix."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentaccel import CachePolicy, Policy, Usage
from agentaccel.engine.engine import Engine
from agentaccel.engine.lineage import Registry
from agentaccel.store.recorder import Recorder
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, Reported, Send, Started
from agentaccel.types import Endpoint
from agentaccel.wire import dialect
from agentaccel_emulator import Emulator, HttpRequest
from tests.driver import Driver, Json, assistant, body, prose, tool, user

CONSENT = Policy(strict=True, cache=CachePolicy(freeze_tools=True))
NAMES = ("search", "book", "cancel", "refund", "notify")
TOOLS = [tool(name, 120) for name in NAMES]
SYSTEM = prose(1500)


def driver(tmp_path: Path, policy: Policy = CONSENT, **more: Any) -> Driver:
    return Driver(tmp_path, policy=policy, arranges=True, **more)


def talk(one: Driver, turns: int, tools: Callable[[int], list[Json]], *, first: int = 0, **more: Any) -> list[Usage]:
    messages = [user(prose(40))]
    usages = []
    for turn in range(turns):
        if turn >= first:
            usages.append(one.ask(body(*messages, system=SYSTEM, tools=tools(turn), **more)))
        messages += [assistant([{"type": "text", "text": prose(30, turn)}]), user(prose(25, turn + 100))]
    return usages


def hits(usages: list[Usage]) -> list[bool]:
    return [(usage.read or 0) > 0.8 * (usage.input or 0) for usage in usages]


def names(sent: Json) -> list[str]:
    return [one["name"] for one in sent["tools"]]


def shuffled(turn: int) -> list[Json]:
    return random.Random(turn).sample(TOOLS, len(TOOLS))


def test_another_order_costs_nothing(tmp_path: Path) -> None:
    """As after a server has reconnected: the first order stays."""
    one = driver(tmp_path)
    assert hits(talk(one, 8, shuffled)) == [False] + [True] * 7
    assert names(one.sent) == [tool["name"] for tool in shuffled(0)]
    assert one.records[-1].consents == ("freeze_tools",)
    assert "tools in the order in which they first came: another order is another prefix" in one.records[-1].reasons


def test_without_consent_another_order_is_another_prompt(tmp_path: Path) -> None:
    """The twin: it is the consent that does it."""
    assert not any(hits(talk(driver(tmp_path, Policy(strict=True)), 5, shuffled)))


def test_a_new_tool_comes_last(tmp_path: Path) -> None:
    """Where the loop lists it first. The rest of the prompt is written once more: it stands behind the tools."""
    one = driver(tmp_path)

    def tools(turn: int) -> list[Json]:
        return TOOLS if turn < 3 else [tool("archive", 120), *TOOLS]

    usages = talk(one, 6, tools)
    assert names(one.sent) == [*NAMES, "archive"]
    assert hits(usages) == [False, True, True, False, True, True]


def test_keys_in_another_order_are_the_same_tool(tmp_path: Path) -> None:
    """Schemas that are written from hash maps: the first bytes are sent again."""
    one = driver(tmp_path)

    def tools(turn: int) -> list[Json]:
        return [dict(random.Random(turn).sample(list(one.items()), len(one))) for one in TOOLS]

    assert hits(talk(one, 5, tools)) == [False] + [True] * 4


def test_a_changed_definition_is_what_the_user_means(tmp_path: Path) -> None:
    """It is sent, in its old place, whatever it costs."""
    one = driver(tmp_path)
    changed = {**TOOLS[2], "description": "Cancels a booking, and says so."}

    def tools(turn: int) -> list[Json]:
        return TOOLS if turn < 2 else [changed, *TOOLS[:2], *TOOLS[3:]]

    usages = talk(one, 4, tools)
    assert names(one.sent) == list(NAMES)
    assert one.sent["tools"][2]["description"] == changed["description"]
    assert hits(usages) == [False, True, False, True]


def test_a_removed_tool_stays_in_the_list_and_is_said_to_be_gone(tmp_path: Path) -> None:
    """Where nothing keeps it from being called without breaking the prefix."""
    one = driver(tmp_path)
    usages = talk(one, 7, lambda turn: TOOLS if turn in (0, 1, 5, 6) else [*TOOLS[3:], *TOOLS[:2]])
    assert hits(usages) == [False] + [True] * 6
    told = [any("no longer has them: cancel" in reason for reason in record.reasons) for record in one.records]
    assert told == [False, False, True, True, True, False, False]
    assert "current value" not in str(one.sent)


def test_what_is_said_of_a_removed_tool_stands_at_the_end(tmp_path: Path) -> None:
    one = driver(tmp_path)
    talk(one, 3, lambda turn: TOOLS if turn < 2 else TOOLS[:-1])
    said = one.sent["messages"][-1]["content"][-1]["text"]
    assert said == "Not available at the moment, and not to be called: notify."
    assert names(one.sent) == list(NAMES)


def test_a_large_tool_that_is_gone_is_not_kept_for_a_small_prompt(tmp_path: Path) -> None:
    """Kept, it would be read in every request to come: dearer than writing the little behind it once more."""
    one = driver(tmp_path)
    large = [tool("giant", 9000), tool("search", 200)]
    messages = [user(prose(20))]
    for tools in (large, large, large[1:]):
        one.ask(body(*messages, system="Be brief.", tools=tools))
        messages += [assistant("Yes."), user("And?")]
    assert names(one.sent) == ["search"]


def test_requests_with_tools_of_their_own_are_left_alone(tmp_path: Path) -> None:
    """A summary without tools, a sub-task with others: neither is a list that has shrunk."""
    one = driver(tmp_path)
    talk(one, 2, lambda turn: TOOLS)
    one.ask(body(user(prose(30)), system=SYSTEM))
    assert "tools" not in one.sent
    one.ask(body(user(prose(30)), system=SYSTEM, tools=[tool("plan")]))
    assert names(one.sent) == ["plan"]


def test_a_users_marker_stays_on_the_last_tool(tmp_path: Path) -> None:
    """It ends the same level as before; which tool it stands on does not matter."""
    one = driver(tmp_path)

    def tools(turn: int) -> list[Json]:
        *first, last = shuffled(turn)
        return [*first, {**last, "cache_control": {"type": "ephemeral"}}]

    assert hits(talk(one, 5, tools)) == [False] + [True] * 4
    assert ["cache_control" in one for one in one.sent["tools"]] == [False] * 4 + [True]


def test_deferred_tools_stand_outside_the_prefix_and_are_left_in_their_order(tmp_path: Path) -> None:
    """Behind the others: where they stand breaks nothing."""
    one = driver(tmp_path)
    later = [{**tool(name, 40), "defer_loading": True} for name in ("x", "y", "z")]

    def tools(turn: int) -> list[Json]:
        return [*random.Random(turn).sample(later, 3), *shuffled(turn)]

    assert hits(talk(one, 4, tools)) == [False] + [True] * 3
    expected = [one["name"] for one in random.Random(3).sample(later, 3)]
    assert names(one.sent)[-3:] == expected


@pytest.mark.parametrize("pinned", ["tools", "tools[0]"])
def test_pinned_tools_keep_the_order_of_the_request(tmp_path: Path, pinned: str) -> None:
    policy = Policy(strict=True, cache=CachePolicy(freeze_tools=True, pinned=(pinned,)))
    one = driver(tmp_path, policy)
    talk(one, 3, shuffled)
    assert names(one.sent) == [one["name"] for one in shuffled(2)]


def test_a_second_process_keeps_the_order(tmp_path: Path) -> None:
    """It is read off the prompt before, of which the store has names and hashes."""
    one = driver(tmp_path)
    with one.accel.session("s"):
        talk(one, 4, shuffled)
    first = names(one.sent)
    other = driver(tmp_path, clock=one.clock, emulator=one.emulator)
    with other.accel.session("s"):
        usages = talk(other, 6, shuffled, first=4)
    assert names(other.sent) == first
    assert hits(usages) == [True, True]


def test_both_consents_at_once(tmp_path: Path) -> None:
    """One note at the end has what was moved and what is gone."""
    both = Policy(strict=True, cache=CachePolicy(freeze_tools=True, move_volatile=True))
    one = driver(tmp_path, both)

    def tools(turn: int) -> list[Json]:
        trace = f"Trace 0f{turn:06x}-1111-4222-8333-444455556666 only."
        made = [{**one, "description": f"{one['description']} {trace}"} for one in shuffled(turn)]
        return made if turn < 4 else [one for one in made if one["name"] != "refund"]

    usages = talk(one, 7, tools)
    assert hits(usages)[2:] == [True] * 5
    said = one.sent["messages"][-1]["content"][-1]["text"]
    assert said.endswith("not to be called: refund.")
    assert one.records[-1].consents == ("move_volatile", "freeze_tools")


# --- OpenAI -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_a_removed_tool_is_masked_where_the_provider_can(wire: Any) -> None:
    """`tool_choice` names those that are allowed, which keeps the prefix: nothing needs to be said."""
    clock = ManualClock()
    recorder = Recorder(CONSENT.store, strict=True)
    engine = Engine(CONSENT, clock, recorder, Registry(recorder))
    emulator = Emulator(clock=clock)
    path, last = {"chat": ("/v1/chat/completions", "messages"), "responses": ("/v1/responses", "input")}[wire]
    functions = [
        {"name": name, "description": prose(90, at), "parameters": {"type": "object", "properties": {}}}
        for at, name in enumerate(NAMES)
    ]
    messages: list[Json] = [{"role": "developer", "content": SYSTEM}, {"role": "user", "content": prose(60)}]
    reads = []
    sent: Any = {}
    for turn in range(4):
        now = random.Random(turn).sample(functions, 5) if turn < 2 else functions[:4]
        tools = [{"type": "function", **({"function": one} if wire == "chat" else one)} for one in now]
        clock.advance(10)
        planned = engine.begin({"model": "gpt-6-sol", last: messages, "tools": tools}, Endpoint("openai", "api", wire))
        send = planned.handle(Started(clock.monotonic()))[-1]
        assert isinstance(send, Send)
        sent = dict(send.request)
        reply = emulator.handle(_post(path, sent), clock.now)
        assert reply.status == 200, reply.body
        usage = _usage(wire, reply.body)
        reads.append((usage.read or 0) > 0.8 * (usage.input or 0))
        planned.handle(Reported(usage=usage))
        planned.handle(Finished(clock.monotonic()))
        messages = [*messages, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": prose(20, turn)}]
    assert reads == [False, True, True, True]
    choice = sent["tool_choice"]
    allowed = choice["allowed_tools"] if wire == "chat" else choice
    assert choice["type"] == "allowed_tools"
    assert allowed["mode"] == "auto"
    named = {(one.get("function") or one)["name"] for one in allowed["tools"]}
    assert named == set(NAMES[:4])
    assert len(sent["tools"]) == 5
    assert len(sent[last]) == len(messages) - 2


def _post(path: str, sent: Json) -> HttpRequest:
    return HttpRequest(method="POST", path=path, headers={"authorization": "Bearer k"}, body=json.dumps(sent).encode())


def _usage(wire: Any, reply: bytes) -> Usage:
    return dialect(wire).usage_of(json.loads(reply)["usage"])
