"""Conversations in every dialect: two at once, retries, and long ones."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentaccel_emulator import Fault
from tests.clients.dialects import DIALECTS, Dialect
from tests.clients.places import Line
from tests.clients.test_what_changes import MAY_CHANGE
from tests.clients.wire import an_accel, records
from tests.driver import Json, prose, user
from tests.fuzz.added import added

pytestmark = pytest.mark.many(4)

EACH = pytest.mark.parametrize("name", DIALECTS)


def said_in(dialect: Dialect) -> str:
    return "input" if dialect.wire == "responses" else "messages"


def turn_of(dialect: Dialect, name: str, turn: int) -> Json:
    """The request of one turn of the conversation called so; its text tells whose it is."""
    field = said_in(dialect)
    said = [*dialect.ask[field][:-1], user(f"{name} {prose(300, len(name))}")]
    for earlier in range(turn):
        said += [{"role": "assistant", "content": f"{name} reply {earlier}"}, user(f"{name} {prose(200, earlier)}")]
    return {**dialect.ask, field: said}


@EACH
async def test_two_sessions_at_once_do_not_mix(tmp_path: Path, name: str) -> None:
    """Contract line 7: turns that overlap are recorded where they belong, and planned from their own history."""
    dialect = DIALECTS[name]
    line, accel = Line(dialect), an_accel(tmp_path)
    client = dialect.wrapped(accel)(line.async_client())
    together = asyncio.Barrier(2)

    async def agent(who: str, turns: int) -> None:
        async with accel.session(who, agent=who):
            for turn in range(3):
                await together.wait()  # both are about to send
                streamed = {"stream": True} if (turn + turns) % 2 else {}
                reply = await dialect.calls(client).create(**turn_of(dialect, who, turn), **streamed)
                await together.wait()  # both have replies, one of which has yet to be read
                if streamed:
                    assert [event async for event in reply]

    async with asyncio.TaskGroup() as group:
        group.create_task(agent("left", 0))
        group.create_task(agent("right", 1))
    found = sorted((one.session, one.agent, one.outcome, one.streamed) for one in records(tmp_path))
    assert [one[:3] for one in found] == [("left", "left", "ok")] * 3 + [("right", "right", "ok")] * 3
    assert [one[3] for one in found] == [False, False, True, False, True, True]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@EACH
def test_two_threads_at_once_do_not_mix(tmp_path: Path, name: str) -> None:
    """Contract line 7, as above: one wrapped client, two threads, a session in each."""
    dialect = DIALECTS[name]
    line, accel = Line(dialect), an_accel(tmp_path)
    client = dialect.wrapped(accel)(line.client())
    together = threading.Barrier(2, timeout=5)

    def agent(who: str) -> None:
        with accel.session(who, agent=who):
            for turn in range(3):
                together.wait()
                with dialect.calls(client).create(**turn_of(dialect, who, turn), stream=True) as events:
                    assert next(iter(events))
                    together.wait()  # both are reading
                    assert list(events)

    threads = [threading.Thread(target=agent, args=(who,)) for who in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    found = sorted((one.session, one.agent, one.outcome) for one in records(tmp_path))
    assert found == [("left", "left", "ok")] * 3 + [("right", "right", "ok")] * 3


@pytest.mark.slow
@EACH
async def test_two_conversations_that_nobody_named_are_told_apart(tmp_path: Path, name: str) -> None:
    """Chosen by us: they are known again by how their prompts begin, whoever's turn comes first."""
    dialect = DIALECTS[name]
    line = Line(dialect)
    client = dialect.wrapped(an_accel(tmp_path))(line.async_client())
    for turn in range(3):
        await asyncio.gather(
            *(dialect.calls(client).create(**turn_of(dialect, who, turn)) for who in ("left", "right"))
        )
    found = [one.session for one in records(tmp_path)]
    assert len(set(found)) == 2
    assert sorted(map(found.count, set(found))) == [3, 3]


@EACH
@pytest.mark.parametrize("kind", ["429", "500", "529", "disconnect_mid_stream"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_every_attempt_is_sent_with_one_plan(tmp_path: Path, name: str, kind: Any, asynchronous: bool) -> None:
    """Chosen by us: a retry plans the same, to the byte, so that what the first attempt wrote is read by the next."""
    dialect = DIALECTS[name]
    line = Line(dialect)
    line.emulator.use_faults([Fault(kind=kind, times=2, headers={"retry-after-ms": "1"} if kind.isdigit() else {})])
    client_of: Callable[..., Any] = line.async_client if asynchronous else line.client
    client = dialect.wrapped(an_accel(tmp_path))(client_of(max_retries=2))

    async def asks() -> None:
        await dialect.calls(client).create(**turn_of(dialect, "one", 1))

    if asynchronous:
        asyncio.run(asks())
    else:
        dialect.calls(client).create(**turn_of(dialect, "one", 1))
    bodies = [request.content for request in line.requests]
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    found = records(tmp_path)
    assert [(one.attempt, one.outcome) for one in found] == [(0, "failed"), (1, "failed"), (2, "ok")]
    assert len({one.session for one in found}) == len({one.markers for one in found}) == 1
    assert any(marker.ours for marker in found[0].markers)
    assert [one.usage.input is None for one in found] == [True, True, False]


@pytest.mark.slow
@pytest.mark.many(9)
@EACH
def test_a_chat_of_two_hundred_thousand_tokens_is_planned_like_any_other(tmp_path: Path, name: str) -> None:
    """Chosen by us: a long history costs no promise; each turn is sent with nothing but listed fields."""
    dialect = DIALECTS[name]
    line = Line(dialect)
    client = dialect.wrapped(an_accel(tmp_path))(line.client())
    field = said_in(dialect)
    said = list(dialect.ask[field])
    for turn in range(1000):
        said += [{"role": "assistant", "content": prose(60, turn)}, user(prose(100, turn))]
    for _ in range(2):
        asked = {**dialect.ask, field: said}
        dialect.calls(client).create(**asked)
        sent = json.loads(line.requests[-1].content)
        assert added(asked[field], sent[field]) <= MAY_CHANGE[name]
        said = [*said, {"role": "assistant", "content": "Noted."}, user(prose(100))]
    found = records(tmp_path)
    assert len({one.session for one in found}) == 1
    tokens = [one.usage.input for one in found]
    assert min(one or 0 for one in tokens) > 200_000
    assert [(one.usage.read or 0) > 200_000 for one in found] == [False, True]
