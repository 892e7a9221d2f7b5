"""Agents that leave out the calls of tools once they have answered: the next prompt goes on from the last question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Usage
from agentaccel.cache import observe
from agentaccel.cache.beliefs import LOOP, LOOP_LATE
from agentaccel.cache.breakpoints import loop_start
from agentaccel.facts import cache_facts
from agentaccel.wire.anthropic import decode, usage_of
from agentaccel_emulator import Emulator, HttpRequest
from tests.driver import MODEL, Driver, Json, assistant, body, prose, tool, user

PAUSE = 600.0
"""Seconds until a person writes again: longer than the default lifetime."""
SESSIONS = 4
TOOLS = [tool("look", 400), tool("find", 400)]


def cost(usage: Usage) -> float:
    """In uncached input tokens, at the prices of Claude models."""
    prices = {"5m": 1.25, "1h": 2.0}
    written = usage.write or {}
    plain = (usage.input or 0) - (usage.read or 0) - sum(written.values())
    return plain + 0.1 * (usage.read or 0) + sum(prices[ttl] * tokens for ttl, tokens in written.items())


def called(number: int) -> list[Json]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {"at": number}}
    return [
        assistant([call]),
        user([{"type": "tool_result", "tool_use_id": f"t{number}", "content": prose(300, number)}]),
    ]


def asked(
    session: int, *, person: float = PAUSE, slow: float = 5.0, keeps: bool = False
) -> list[tuple[Json, float, str]]:
    """The requests of a session, the seconds before each, and what its reply asks for."""
    said, made = [user(f"Task {session}. " + prose(50, session))], list[tuple[Json, float, str]]()
    gap = 5_000.0
    for question in range(4):
        messages = list(said)
        for step in range(4):
            asks = "look" if step < 3 else ""
            made.append((body(*messages, system=prose(1500), tools=TOOLS), gap, asks))
            messages += called(10 * question + step) if asks else []
            gap = slow
        said = [*(messages if keeps else said), assistant(prose(60, question)), user(prose(30, question + 7))]
        gap = person
    return made


def with_accel(folder: Path, **more: Any) -> tuple[list[list[Usage]], Driver]:
    """What the requests of each session are billed for."""
    driver, sessions = Driver(folder), list[list[Usage]]()
    for number in range(SESSIONS):
        with driver.accel.session(f"s{number}", agent="desk"):
            sessions.append([driver.ask(one, gap=gap, calls=asks) for one, gap, asks in asked(number, **more)])
    return sessions, driver


def without(ttl: str, **more: Any) -> list[list[Usage]]:
    """The same with the top-level marker in each request."""
    emulator, sessions, now = Emulator(), list[list[Usage]](), 0.0
    mark = {"type": "ephemeral", "ttl": ttl}
    for number in range(SESSIONS):
        usages = []
        for one, gap, _ in asked(number, **more):
            now += gap
            usages.append(sent(emulator, {**one, "cache_control": mark}, now))
            now += 2.0
        sessions.append(usages)
    return sessions


def sent(emulator: Emulator, request: Json, now: float) -> Usage:
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    raw = json.dumps(request).encode()
    reply = emulator.handle(HttpRequest(method="POST", path="/v1/messages", headers=headers, body=raw), now)
    assert reply.status == 200, reply.body
    return usage_of(json.loads(reply.body)["usage"])


def costs(sessions: list[list[Usage]]) -> list[float]:
    return [sum(map(cost, usages)) for usages in sessions]


def written_for(usages: list[Usage], *, in_loop: bool) -> set[str]:
    """The lifetimes that requests in a loop, or those that bring a question, write for."""
    return {ttl for at, one in enumerate(usages) if (at % 4 > 0) is in_loop for ttl in one.write or {}}


@pytest.mark.slow
def test_what_stands_before_calls_that_are_left_out_is_kept_over_peoples_pauses(tmp_path: Path) -> None:
    """From the second session on for a fifth less than by either lifetime everywhere."""
    sessions, _ = with_accel(tmp_path)
    ours, short, long = costs(sessions), costs(without("5m")), costs(without("1h"))
    assert sum(ours[1:]) < 0.8 * min(sum(short[1:]), sum(long[1:]))
    assert ours[0] < 1.2 * min(short[0], long[0])
    assert written_for(sessions[-1], in_loop=False) == {"1h"}
    assert written_for(sessions[-1], in_loop=True) == {"5m"}, "the calls themselves are gone by then"


@pytest.mark.slow
def test_where_nobody_sees_that_calls_are_left_out_it_costs_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    monkeypatch.setattr(observe, "_is_left_out", lambda head, prefix, shared: False)
    sessions, _ = with_accel(tmp_path)
    assert sum(costs(sessions)[1:]) > sum(costs(without("1h"))[1:])


@pytest.mark.slow
def test_where_it_is_the_tools_that_are_slow_the_calls_are_kept_over_their_pauses(tmp_path: Path) -> None:
    """They are left out all the same, but not then."""
    sessions, _ = with_accel(tmp_path, person=20.0, slow=PAUSE)
    assert "1h" in written_for(sessions[-1], in_loop=True)
    assert sum(costs(sessions)[1:]) < 1.02 * sum(costs(without("1h", person=20.0, slow=PAUSE))[1:])


@pytest.mark.slow
def test_it_is_counted_how_often_calls_come_back_once_they_were_left_out(tmp_path: Path) -> None:
    """Calls that stay are no such loop."""
    seen = []
    for keeps in (False, True):
        _, driver = with_accel(tmp_path / str(keeps), keeps=keeps)
        with driver.accel.session(f"s{SESSIONS - 1}", agent="desk") as session:
            seen.append(session.conversation.state.seen.counts)
    came_back, n = seen[0][f"stable/{LOOP}"]
    assert 0.5 < came_back / n < 0.9
    assert seen[0][f"stable/{LOOP_LATE}"][0] == 0.0
    assert not {f"stable/{LOOP}", f"stable/{LOOP_LATE}"} & seen[1].keys()


def test_what_else_is_replaced_behind_the_last_words_of_a_person_is_no_loop(tmp_path: Path) -> None:
    """An answer that was begun for the model, a draft that is asked for anew, a question that is put otherwise."""
    driver = Driver(tmp_path)
    question, on = user("Say it. " + prose(900)), user("Go on.")
    shapes = [
        [[question, assistant("So")], [question, assistant("So it is."), on, assistant("And")]],
        [[question, assistant("So."), user("Anew.")], [question, assistant("Well."), on]],
        [[question, assistant("So."), user("And?")], [question, assistant("So."), user("Why?")]],
    ]
    for number, shape in enumerate(shapes):
        with driver.accel.session(f"s{number}") as session:
            for messages in shape:
                driver.ask(body(*messages))
            assert not session.conversation.state.seen.leaves_out, number


@pytest.mark.parametrize(
    ("messages", "behind"),
    [
        ([user("a")], 1),
        ([user("a"), *called(1)], 1),
        ([user("a"), *called(1), assistant("b"), user("c")], 5),
        ([user("a"), *called(1), assistant("b"), user("c"), *called(2), *called(3)], 5),
        ([assistant("b")], 0),
    ],
)
def test_a_loop_begins_behind_the_last_words_of_a_person(messages: list[Json], behind: int) -> None:
    prompt = decode(body(*messages, system="s"), cache_facts(MODEL))
    assert loop_start(prompt.segments, prompt.starts[2]) == prompt.starts[2] + behind
