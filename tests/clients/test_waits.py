"""Waiting for a gate before sending: one command for event loops and threads alike."""

from __future__ import annotations

import asyncio
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import httpx2
import openai
import pytest

from agentaccel import Accel, CachePolicy, Policy, StorePolicy
from agentaccel.clients.attempt import wait, wait_async
from agentaccel.turn import Wait
from tests.driver import prose, user

Gate = Future[None]
SOON, LONG = 0.001, 60.0


def _set(gate: Gate) -> None:
    gate.set_result(None)


def _fail(gate: Gate) -> None:
    gate.set_exception(RuntimeError("the one who was waited for failed"))


def _cancel(gate: Gate) -> None:
    gate.cancel()


OPENED = [_set, _fail, _cancel]


@pytest.mark.parametrize("opens", OPENED)
def test_a_gate_that_is_open_holds_nobody(opens: Callable[[Gate], None]) -> None:
    """Chosen by us: whatever came of what was waited for, the request goes out."""
    gate = Gate()
    opens(gate)
    wait(Wait(gate, LONG))
    asyncio.run(wait_async(Wait(gate, LONG)))


@pytest.mark.parametrize("opens", OPENED)
def test_opening_a_gate_lets_threads_and_loops_go(opens: Callable[[Gate], None]) -> None:
    """Chosen by us: all parties wait before the gate opens, and all go on after it; `LONG` only bounds a hang."""
    gate, ready = Gate(), threading.Barrier(4, timeout=5)
    gone: list[str] = []

    def in_thread() -> None:
        ready.wait()
        wait(Wait(gate, LONG))
        gone.append("thread")

    def in_loop() -> None:
        async def several() -> None:
            waits = [asyncio.create_task(wait_async(Wait(gate, LONG))) for _ in range(3)]
            await asyncio.sleep(0)  # each has begun to wait
            ready.wait()
            await asyncio.gather(*waits)

        asyncio.run(several())
        gone.append("loop")

    threads = [threading.Thread(target=work) for work in (in_thread, in_thread, in_loop)]
    for thread in threads:
        thread.start()
    ready.wait()
    assert gone == []
    opens(gate)
    for thread in threads:
        thread.join(5)
    assert sorted(gone) == ["loop", "thread", "thread"]


def test_nobody_waits_longer_than_told() -> None:
    """Chosen by us: a gate that nobody opens is passed in the end, and stays as it was."""
    gate = Gate()
    wait(Wait(gate, SOON))
    asyncio.run(wait_async(Wait(gate, SOON)))
    assert not gate.done()


async def test_a_cancelled_waiter_leaves_the_gate_to_the_others() -> None:
    """Chosen by us: cancelling one waiter cancels that waiter."""
    gate = Gate()
    one, other = (asyncio.create_task(wait_async(Wait(gate, LONG))) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    assert not gate.cancelled()
    assert not other.done()
    gate.set_result(None)
    await other
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_waiting_lets_other_tasks_run() -> None:
    """Chosen by us: the one who opens the gate may live on the same loop."""
    gate = Gate()
    waiting = asyncio.create_task(wait_async(Wait(gate, LONG)))
    await asyncio.sleep(0)
    gate.set_result(None)
    await waiting


def test_a_gate_may_outlive_the_loop_that_waited() -> None:
    """Chosen by us: a loop that has ended meanwhile is no error of whoever opens the gate."""
    gate = Gate()
    asyncio.run(wait_async(Wait(gate, SOON)))
    gate.set_result(None)
    assert gate.result() is None


@pytest.mark.parametrize("policy", [CachePolicy(), CachePolicy(keep_alive=True)])
def test_a_loop_that_is_not_asyncios_sends_as_ever(policy: CachePolicy) -> None:
    """A coroutine may be driven by anybody, as trio drives the SDKs'. What needs asyncio is left out there: two that
    write the same long prefix do not wait for one another."""
    reply = httpx2.Response(200, json={"usage": {"prompt_tokens": 1, "completion_tokens": 1}})

    @types.coroutine
    def the_wire() -> Iterator[None]:
        yield

    class Answers(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            await the_wire()
            return reply

    http = httpx2.AsyncClient(transport=Answers())
    accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False), cache=policy))
    client: Any = accel.wrap(openai.AsyncOpenAI(base_url="http://api.openai.com/v1", api_key="k", http_client=http))
    asked = {"model": "gpt-6.1-sol", "messages": [{"role": "developer", "content": prose(30_000)}, user("Hello.")]}
    request = httpx2.Request("POST", "http://api.openai.com/v1/chat/completions", json=asked)
    sending = [client._client._transport.handle_async_request(request) for _ in range(2)]
    for one in sending:
        one.send(None)  # is on the wire
    for one in sending:
        with pytest.raises(StopIteration) as done:
            one.send(None)
        assert done.value.value is reply
