"""Several requests that share a cold prefix, at once: written once, read by the others, and nobody waits in vain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.lib.credentials import AccessToken

from agentaccel import Accel, CachePolicy, Policy, StorePolicy
from agentaccel.report import render_text, report
from agentaccel.testing.virtual import EmulatedTransport
from agentaccel_emulator import Behaviour, Tokenizer, serve
from tests.clients.branches import COUNT, EXACT, SYSTEM, TWENTY, Branches, all_asked, asked, request
from tests.driver import prose

OFF = {"max_wait": 0.0}


# --- it is written once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_twenty_branches_write_their_prefix_once(stream: bool) -> None:
    """The issue's case, from tasks: 50,000 cold tokens in common."""
    branches = Branches()
    assert branches.run(partial(all_asked, count=TWENTY, stream=stream)) == [None] * TWENTY
    [whole] = branches.written
    assert 49_000 < whole < 51_000
    assert len(branches.held) == TWENTY - 1
    leader, *others = sorted(branches.records, key=lambda record: record.started)
    for record in others:
        assert record.waited is not None
        assert record.started == pytest.approx(leader.started + record.waited)
        assert record.usage.read is not None
        assert record.usage.read > 49_000


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_without_waiting_each_of_them_writes_it(stream: bool) -> None:
    """The twin: the policy's 0 is never."""
    branches = Branches(**OFF)
    assert branches.run(partial(all_asked, count=TWENTY, stream=stream)) == [None] * TWENTY
    assert len(branches.written) == TWENTY
    assert branches.held == []


class Tokens:
    """Gives one customer's tokens."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, **options: Any) -> AccessToken:
        return AccessToken(token=self.key, expires_at=None)


HOW: dict[str, Callable[[str], dict[str, Any]]] = {
    "copies": lambda key: {"api_key": key},
    "copies with a header": lambda key: {"default_headers": {"X-Api-Key": key}},
    "copies with a token": lambda key: {"default_headers": {"Authorization": f"Bearer {key}"}},
    "copies that ask for tokens": lambda key: {"credentials": Tokens(key)},
    "headers": lambda key: {},
    "copies behind a middleware": lambda key: {"api_key": key},
}


async def handed_on(request: Any, call_next: Any) -> Any:
    return await call_next(request)


@pytest.mark.parametrize("how", HOW)
def test_customers_with_keys_of_their_own_do_not_wait_for_one_another(how: str) -> None:
    """What is written for one key, another cannot read; whether a copy of the client has it, or the call."""
    branches = Branches()

    async def main(scene: Branches) -> None:
        client = scene.client()
        if how == "copies behind a middleware":
            client = client.with_middleware(handed_on)
        async with asyncio.TaskGroup() as group:
            for number in range(COUNT):
                key = f"k{number}"
                one = client.with_options(**HOW[how](key)) if how != "headers" else client
                more = {} if how != "headers" else {"extra_headers": {"X-Api-Key": key}}
                group.create_task(one.messages.create(**request(number), **more))

    branches.run(main)
    assert branches.held == []


def test_waiting_takes_little_longer_than_writing_it_oneself() -> None:
    """By the emulator's timing: a prefix that is read costs no time, so what is added is the first byte of a warm
    prompt."""
    ends = []
    for cache in ({}, OFF):
        branches = Branches(**cache)
        began = branches.clock.now
        branches.run(all_asked)
        ends.append(max(record.first_byte or 0.0 for record in branches.records) - began)
    held, free = ends
    assert free == pytest.approx(5.3, abs=0.1)
    assert held - free == pytest.approx(0.3, abs=0.01)


def test_what_is_recorded_expects_what_was_read() -> None:
    """Of another session's prefix the record says that it was to be read, to the token; it is no surprise."""
    branches = Branches()
    branches.run(all_asked)
    for record in branches.records:
        assert record.expected is not None
        if record.waited is not None:
            assert record.expected.read == record.usage.read
            assert record.expected.write == record.usage.write


def test_branches_from_threads_write_their_prefix_once() -> None:
    """The issue's case, from threads: the sync SDK over sockets. Only the leader has arrived when all others wait."""
    with serve(script=["Done."], behaviour=EXACT) as server:
        policy = Policy(strict=True, store=StorePolicy(enabled=False), cache=CachePolicy(max_wait=60.0))
        accel = Accel(policy, clock=server.clock)
        bare = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
        failed = _in_threads(accel.wrap(bare), server)
        bare.close()
        assert failed == []
        assert [entry.usage.write_5m > 1000 for entry in server.log if entry.usage].count(True) == 1
        assert len(server.log) == COUNT


def test_threads_that_do_not_wait_all_write_it() -> None:
    """The twin: all are in flight before any is answered."""
    with serve(script=["Done."], behaviour=EXACT) as server:
        policy = Policy(strict=True, store=StorePolicy(enabled=False), cache=CachePolicy(**OFF))
        accel = Accel(policy, clock=server.clock)
        bare = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
        failed = _in_threads(accel.wrap(bare), server, arrive=COUNT)
        bare.close()
        assert failed == []
        assert [entry.usage.write_5m > 1000 for entry in server.log if entry.usage].count(True) == COUNT


def _in_threads(client: anthropic.Anthropic, server: Any, arrive: int = 1) -> list[Exception]:
    """Every branch in a thread of its own; the server answers once `arrive` have come."""
    failed: list[Exception] = []
    ready = threading.Barrier(COUNT)

    def branch(number: int) -> None:
        try:
            ready.wait(30)
            client.messages.create(**request(number))
        except Exception as error:  # noqa: BLE001  # handed to the test
            failed.append(error)

    with server.held():
        threads = [threading.Thread(target=branch, args=(number,)) for number in range(COUNT)]
        for thread in threads:
            thread.start()
        server.wait_for_calls(arrive, timeout=60)
    for thread in threads:
        thread.join(60)
    return failed


@pytest.mark.slow
@pytest.mark.parametrize(("model", "cold"), [("gpt-6.1-sol", 1), ("gpt-5.2", 4)], ids=["breakpoints", "automatic"])
def test_branches_of_the_openai_sdk_wait_too(model: str, cold: int) -> None:
    """With breakpoints, and where the provider keeps every prefix by itself: a machine of its stands fifteen requests a
    minute, so the twenty are put on four, and on each they wait for the first."""

    async def ask(branches: Branches) -> None:
        async with branches.gpt() as client:
            await asyncio.gather(*(_gpt_asked(client, model, number) for number in range(TWENTY)))

    found = []
    for cache in ({}, OFF):
        branches = Branches(**cache)
        branches.run(ask)
        found.append(sum(record.usage.read == 0 for record in branches.records))
    assert found == [cold, TWENTY]


async def _gpt_asked(client: Any, model: str, number: int) -> None:
    messages = [{"role": "developer", "content": SYSTEM}, {"role": "user", "content": f"Look into part {number}."}]
    reply = await client.chat.completions.create(model=model, messages=messages, stream=True)
    async for _ in reply:
        pass


@pytest.mark.soak
def test_the_report_says_how_many_were_held_and_for_how_long() -> None:
    """In all and for each group; the twin has no such line."""
    shown = []
    for cache in ({}, OFF):
        branches = Branches(**cache)
        branches.run(all_asked)
        found = report(branches.records)
        assert found.total.holds.count == len(branches.held)
        assert found.total.holds.seconds == pytest.approx(sum(branches.held))
        shown.append("held back" in render_text(found))
    assert shown == [True, False]


# --- the first one fails, or never answers ----------------------------------------------------------------------------


@pytest.mark.many(3)
@pytest.mark.parametrize("kind", ["429", "500", "529"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_when_the_first_is_refused_one_other_writes(kind: str, stream: bool) -> None:
    """Not all of them at once: the others wait for that one."""
    branches = Branches(faults=[{"kind": kind, "at": 1}])
    first, *others = branches.run(partial(all_asked, stream=stream))
    assert isinstance(first, anthropic.APIStatusError)
    assert others == [None] * (COUNT - 1)
    assert len(branches.written) == 1


def test_when_the_first_is_no_legal_request_one_other_writes() -> None:
    """A refusal of that very request says nothing of the others."""

    async def ask(branches: Branches) -> list[object]:
        async with branches.client() as client:
            tasks = [asked(client, 0, max_tokens=-1), *(asked(client, number) for number in range(1, COUNT))]
            return list(await asyncio.gather(*tasks, return_exceptions=True))

    branches = Branches()
    first, *others = branches.run(ask)
    assert isinstance(first, anthropic.BadRequestError)
    assert others == [None] * (COUNT - 1)
    assert len(branches.written) == 1


def test_when_connections_break_one_after_another_leads() -> None:
    """Each is a second in vain, for all that wait."""
    branches = Branches(breaks=(1, 2, 3))
    results = branches.run(all_asked)
    assert sum(isinstance(one, anthropic.APIConnectionError) for one in results) == 3
    assert len(branches.written) == 1
    assert len(branches.transport.sent) == COUNT


def test_a_retry_of_the_first_writes_nothing_again() -> None:
    """The SDK tries again while another one leads: that attempt waits, or finds the prefix there."""

    async def ask(branches: Branches) -> None:
        async with branches.client(max_retries=2) as client:
            await asyncio.gather(*(asked(client, number) for number in range(COUNT)))

    branches = Branches(faults=[{"kind": "529", "at": 1}])
    branches.run(ask)
    assert len(branches.written) == 1
    assert branches.outcomes == {"failed": 1, "ok": COUNT}


def test_attempts_of_one_request_share_its_bound() -> None:
    """Whatever fails in between: held for ten seconds in all."""

    async def ask(branches: Branches) -> None:
        async with branches.client(max_retries=3) as client:
            await asyncio.gather(*(asked(client, number) for number in range(3)), return_exceptions=True)

    slow = {"kind": "slow_first_token", "seconds": 3.0}
    branches = Branches(faults=[{"kind": "529", "at": n} for n in range(1, 8)] + [slow], max_wait=4.0)
    branches.run(ask)
    waited: dict[str, float] = {}
    for record in branches.records:
        waited[record.session] = waited.get(record.session, 0.0) + (record.waited or 0.0)
    assert max(waited.values()) <= 4.0 + 1e-6


@pytest.mark.many(2)
@pytest.mark.parametrize("after", [0.5, 5.0])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_when_the_first_is_cancelled_one_other_writes(after: float, stream: bool) -> None:
    """Whenever that is, before its first byte."""

    async def ask(branches: Branches) -> list[object]:
        async with branches.client() as client:
            tasks = [asyncio.create_task(asked(client, number, stream=stream)) for number in range(COUNT)]
            await asyncio.sleep(after)
            tasks[0].cancel()
            return list(await asyncio.gather(*tasks, return_exceptions=True))

    branches = Branches(max_wait=20.0)
    first, *others = branches.run(ask)
    assert isinstance(first, asyncio.CancelledError)
    assert others == [None] * (COUNT - 1)
    assert len(branches.written) == 2  # the provider has written the cancelled one's, too
    assert branches.outcomes == {"cancelled": 1, "ok": COUNT - 1}
    assert max(branches.held) <= 20.0


def test_one_that_waits_and_is_cancelled_is_recorded_and_holds_nobody_up() -> None:
    """It was never sent; its turn ends as any other."""

    async def ask(branches: Branches) -> None:
        async with branches.client() as client:
            tasks = [asyncio.create_task(asked(client, number)) for number in range(4)]
            await asyncio.sleep(1.0)
            tasks[1].cancel()
            tasks[2].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    branches = Branches()
    branches.run(ask)
    assert branches.outcomes == {"cancelled": 2, "ok": 2}
    assert sorted(branches.held) == [1.0, 1.0, pytest.approx(5.3, abs=0.1)]
    assert len(branches.transport.sent) == 2


@pytest.mark.many(2)
@pytest.mark.parametrize("bound", [1.0, 7.5, 10.0, 60.0])
def test_nobody_waits_beyond_the_bound_for_one_that_never_answers(bound: float) -> None:
    """All others are answered, and none was held for longer than the policy says, nor forever for a lost one."""

    async def ask(branches: Branches) -> list[object]:
        async with branches.client() as client:
            lost = asyncio.create_task(asked(client, 0))
            await asyncio.sleep(0)
            results = await asyncio.gather(*(asked(client, n) for n in range(1, COUNT)), return_exceptions=True)
            lost.cancel()
            await asyncio.gather(lost, return_exceptions=True)
            return list(results)

    branches = Branches(faults=[{"kind": "timeout", "at": 1}], max_wait=bound)
    assert branches.run(ask) == [None] * (COUNT - 1)
    assert max(branches.held, default=0.0) <= bound + 1e-6
    if bound == 60.0:  # there is time for another one to lead
        assert len(branches.written) == 1
        assert max(branches.held) < 18


def test_a_stream_that_is_opened_and_not_read_holds_nobody() -> None:
    """Its headers are the beginning of the reply."""

    async def ask(branches: Branches) -> None:
        async with branches.client() as client:
            opened = await client.messages.create(**request(0), stream=True)
            await asyncio.gather(*(asked(client, number) for number in range(1, 4)))
            await opened.close()

    branches = Branches()
    branches.run(ask)
    assert branches.held == []
    assert len(branches.written) == 1


def test_branches_started_by_a_tool_of_the_first_one_go_out() -> None:
    """While its stream is still open: it has begun, so its prefix is there."""

    async def ask(branches: Branches) -> None:
        async with branches.client() as client, client.messages.stream(**request(0)) as reply:
            async for _ in reply:
                await asyncio.gather(*(asked(client, number) for number in range(1, 4)))
                break

    branches = Branches()
    branches.run(ask)
    assert len(branches.written) == 1


# --- who does not wait ------------------------------------------------------------------------------------------------


def _free(branches: Branches, **more: Any) -> bool:
    """Whether a few branches all go out at once."""
    branches.run(partial(all_asked, count=4, **more))
    assert branches.outcomes == {"ok": 4}
    return branches.held == []


def test_without_a_known_price_nobody_waits() -> None:
    """What it would save cannot be said. The twin: the same model under its own name."""
    served = Behaviour(tokenizer=Tokenizer(bytes_per_token=4.0), aliases={"claude-sonnet-9": "claude-sonnet-5"})
    assert _free(Branches(behaviour=served), model="claude-sonnet-9")
    assert not _free(Branches(behaviour=served))


def test_for_a_small_prefix_nobody_waits() -> None:
    """It saves less than the seconds cost. The twin: where seconds cost nothing, they do."""
    system = prose(1500)
    assert _free(Branches(), system=system, tools=[])
    assert not _free(Branches(cost_per_second=0.0), system=system, tools=[])


def test_where_seconds_are_dear_nobody_waits() -> None:
    """50,000 tokens save 17 cents at most."""
    assert _free(Branches(cost_per_second=0.1))


@pytest.mark.parametrize("mode", ["observe"])
def test_requests_that_go_out_as_written_do_not_wait(mode: str) -> None:
    """Observing changes nothing, not even when a request goes out."""
    assert _free(Branches(mode=mode))


def test_bypassed_requests_do_not_wait_and_are_waited_for() -> None:
    """What the user's own marker writes is as good as ours."""
    marked = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]

    async def ask(branches: Branches) -> None:
        async with branches.client() as client:

            async def bypassed(number: int) -> None:
                with branches.accel.bypass():
                    await asked(client, number, system=marked)

            await asyncio.gather(bypassed(0), bypassed(1), asked(client, 2, system=marked))

    branches = Branches()
    branches.run(ask)
    assert [(record.mode, record.waited is not None) for record in branches.records] == [
        ("bypass", False),
        ("bypass", False),
        ("on", True),
    ]


def test_other_models_and_other_keys_do_not_wait_for_one_another() -> None:
    """Caches are kept per model, and per organization, which a key stands for."""

    async def ask(branches: Branches) -> None:
        async with branches.client() as one, branches.client(api_key="other") as other:
            await asyncio.gather(asked(one, 0), asked(one, 1, model="claude-opus-5"), asked(other, 2), asked(one, 3))

    branches = Branches()
    branches.run(ask)
    assert len(branches.held) == 1
    assert len(branches.written) == 3


def test_what_is_warm_is_waited_for_by_nobody_until_it_has_expired() -> None:
    """A later branch reads at once, whichever session wrote; and its record expects that."""
    branches = Branches()
    branches.run(partial(all_asked, count=2))
    branches.clock.advance(100)
    branches.run(partial(all_asked, count=3))
    assert len(branches.held) == 1
    assert [record.expected.read > 49_000 for record in branches.records if record.expected] == [False, *[True] * 4]
    branches.clock.advance(301)
    branches.run(partial(all_asked, count=3))
    assert len(branches.held) == 3
    assert len(branches.written) == 2


@dataclass
class Stripping(EmulatedTransport):
    """A gateway that takes no markers: nothing is ever written."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        bare = (await request.aread()).replace(b',"cache_control":{"type":"ephemeral"}', b"")
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        return await super().handle_async_request(
            httpx2.Request(request.method, request.url, headers=headers, content=bare)
        )


@pytest.mark.slow
@pytest.mark.parametrize("strips", [True, False])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_where_nothing_gets_written_it_is_waited_for_once(stream: bool, strips: bool) -> None:
    """A first reply tells that there is nothing to be had by waiting. The twin: where it is written, all but one wait
    each time it has expired."""

    async def workers(branches: Branches) -> None:
        async def worker(client: anthropic.AsyncAnthropic, number: int) -> None:
            for again in range(4):
                await asked(client, 10 * again + number, stream=stream)
                await asyncio.sleep(400.0 if again == 1 else 0.0)

        async with branches.client() as client:
            await asyncio.gather(*[worker(client, number) for number in range(COUNT)])

    branches = Branches()
    if strips:
        branches.transport = Stripping(branches.emulator, branches.clock)
    branches.run(workers)
    assert len(branches.records) == 4 * COUNT
    assert bool(branches.written) is not strips
    assert len(branches.held) == (COUNT - 1) * (1 if strips else 2)


@pytest.mark.slow
def test_a_prefix_that_was_longer_read_is_waited_for_again() -> None:
    """Of what stands before the place that another process had written up to, the counts tell nothing."""
    one, other = Branches(), Branches()
    other.emulator, other.clock, other.transport = one.emulator, one.clock, one.transport
    other.accel = Accel(one.accel.policy, clock=one.clock)
    other.accel.add_hook(other)
    for branches in (one, other):
        branches.run(partial(all_asked, count=1))
    one.clock.advance(400)
    other.run(partial(all_asked, count=TWENTY))
    assert len(other.held) == TWENTY - 1
