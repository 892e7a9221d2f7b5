"""Entries are kept alive while an open session pauses: with consent, where it pays, and never after it is left.

The real SDKs against the emulator, in virtual time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel import Accel, CachePolicy, Policy, StorePolicy, TurnRecord
from agentaccel.cache.price import price_card
from agentaccel.records import KEEP_ALIVE, OURS, PREWARM
from agentaccel.replay.read import runs_of_store
from agentaccel.report import render_text, report
from agentaccel.report.advise.reading import talks_of_store
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.testing.inside import engine
from agentaccel.types import NO_USAGE
from agentaccel_emulator import Behaviour, RunningServer, Tokenizer, serve
from tests.driver import Json, assistant, prose, tool, user

TEA = 720.0
"""Seconds of a pause that outlasts an entry, and ends."""
STATIC: Json = {"system": prose(9_000), "tools": [tool("search", 600)]}
BOTH: Json = {"ttl": "5m", "keep_alive": True, "prewarm": True, "cost_per_second": 0.1}
"""Consent to both kinds of requests of our own; the second that a pre-warm wins here is worth what it costs."""


class Desk:
    """One process: a server, a wrapped client and the records."""

    def __init__(self, server: RunningServer, folder: Path, **cache: Any) -> None:
        self.server, self.clock, self.path = server, server.clock, folder / "trace.db"
        policy = Policy(
            strict=True,
            store=StorePolicy(path=self.path),
            cache=CachePolicy(**{"ttl": "5m", "keep_alive": True, **cache}),
        )
        self.accel = Accel(policy, clock=self.clock)
        self.bare = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
        self.client = self.accel.wrap(self.bare)

    def ask(self, messages: list[Json], **more: Any) -> Any:
        asked = {"model": "claude-sonnet-5", "max_tokens": 200, **STATIC, **more}
        return self.client.messages.create(messages=messages, **asked)

    def talk(self, name: str, pauses: list[float], **more: Any) -> list[int]:
        """A session with these pauses between its requests; what each of them read."""
        messages, read = [user(prose(50))], []
        with self.accel.session(name, agent="clerk"):
            for pause in [0.0, *pauses]:
                self.clock.advance(pause)
                reply = self.ask(messages, **more)
                read.append(reply.usage.cache_read_input_tokens)
                messages += [assistant(prose(40, len(messages))), user(prose(40, len(messages)))]
        return read

    def learn(self) -> int:
        """Days with such a pause; how many requests of our own there were."""
        for day in range(3):
            self.talk(f"day {day}", [5.0, TEA, 5.0])
        return len(self.kept)

    @property
    def kept(self) -> list[TurnRecord]:
        """Requests of our own."""
        with open_reader(self.path) as store:
            return [turn for turn in store.turns() if turn.mode == KEEP_ALIVE]


@contextmanager
def desk(folder: Path, *, faults: Any = None, **cache: Any) -> Iterator[Desk]:
    exact = Behaviour(tokenizer=Tokenizer(bytes_per_token=4.0))
    with serve(clock=ManualClock(), behaviour=exact, faults=faults) as server:
        made = Desk(server, folder, **cache)
        with made.accel, made.bare:
            yield made


@pytest.fixture
def clerk(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path) as made:
        yield made


THINKING: Json = {"max_tokens": 2048, "thinking": {"type": "enabled", "budget_tokens": 1024}}
"""With this the API refuses a request that asks for no reply."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "cache"), [(THINKING, {}), ({}, {"own_requests_budget": 0.0})], ids=["refused", "no budget"]
)
def test_no_plan_counts_on_requests_that_are_never_sent(tmp_path: Path, more: Json, cache: dict[str, Any]) -> None:
    """Where a pause cannot be bridged, the longer lifetime is bought as it is without the consent."""
    with desk(tmp_path, ttl="auto", **cache) as made:
        for day in range(3):
            made.talk(f"day {day}", [TEA] * 5, **more)
        read = made.talk("friday", [TEA] * 5, **more)
        assert made.kept == []
    assert all(tokens > 9_000 for tokens in read[1:])


@pytest.mark.slow
def test_a_plan_counts_on_requests_that_will_be_sent(tmp_path: Path) -> None:
    """Where keeping costs less than the longer lifetime, that is not bought: the twin of the test above."""
    costs = []
    for keep_alive in (True, False):
        folder = tmp_path / str(keep_alive)
        folder.mkdir()
        with desk(folder, ttl="auto", keep_alive=keep_alive) as made:
            for day in range(6):
                made.talk(f"day {day}", [TEA] * 3)
                made.clock.advance(40_000)
            total = made.server.counters.total
            costs.append(total.uncached + 0.1 * total.read + 1.25 * total.write_5m + 2 * total.write_1h)
            assert (total.write_1h < total.write_5m / 10) == keep_alive == bool(made.kept)
    assert costs[0] < 0.85 * costs[1]


@pytest.mark.slow
def test_a_prompt_that_will_be_another_one_is_not_kept_alive(clerk: Desk) -> None:
    """Its system prompt ends with a number that counts up: what the user has marked behind it is read by nobody."""
    marked = {"type": "text", "text": prose(5000), "cache_control": {"type": "ephemeral"}}
    for day in range(4):
        with clerk.accel.session(f"day {day}", agent="clerk"):
            messages = [user([marked])]
            for turn in range(5):
                clerk.ask(messages, system=f"{prose(600)} Request {turn} of day {day}.", tools=[])
                clerk.clock.advance(TEA)
                messages += [assistant(prose(40, turn)), user(prose(40, turn))]
        if day < 2:
            before = len(clerk.kept)
    assert len(clerk.kept) == before


@pytest.mark.slow
def test_a_pause_that_is_known_to_end_loses_nothing(clerk: Desk) -> None:
    """The first one is lost, because nobody knows of any; those of later sessions are kept over."""
    first = clerk.talk("monday", [5.0, TEA, 5.0])
    assert first[2] == 0
    assert clerk.kept == []
    later = [clerk.talk(f"day {day}", [5.0, TEA, 5.0]) for day in range(5)]
    before = len(clerk.kept)
    assert all(read > 9_000 for read in clerk.talk("friday", [5.0, TEA, 5.0])[1:]), later
    kept = clerk.kept[before:]
    assert 2 <= len(kept) <= 3
    for record in kept:
        assert record.outcome == "ok"
        assert record.usage.read is not None
        assert record.usage.read > 9_000
        assert not record.usage.written
        assert record.usage.output == 0
        assert record.consents == ("keep_alive",)


def test_without_consent_the_pause_is_lost(tmp_path: Path) -> None:
    """The twin: nothing of our own is sent, and nothing is kept."""
    with desk(tmp_path, keep_alive=False) as clerk:
        assert clerk.learn() == 0
        assert clerk.talk("friday", [5.0, TEA, 5.0])[2] == 0
        assert clerk.server.counters.total.requests == 16


@pytest.mark.slow
def test_what_it_costs_is_less_than_what_it_saves(tmp_path: Path) -> None:
    """By the emulator's own counters, requests of our own included."""
    costs = []
    for number, consent in enumerate((True, False)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with desk(folder, keep_alive=consent) as clerk:
            for day in range(5):
                clerk.talk(f"day {day}", [5.0, TEA, 5.0, TEA])
            total = clerk.server.counters.total
            costs.append(total.uncached + 0.1 * total.read + 1.25 * total.write_5m)
    assert costs[0] < 0.75 * costs[1]


def test_leaving_the_session_ends_it(clerk: Desk) -> None:
    """Nothing outlives its session: however long the clock runs, nothing more is sent."""
    clerk.learn()
    clerk.talk("friday", [5.0])
    sent = clerk.server.counters.total.requests
    clerk.clock.advance(10 * TEA)
    assert clerk.server.counters.total.requests == sent


def test_a_pause_that_does_not_end_is_given_up(clerk: Desk) -> None:
    """The session stays open overnight; what is sent has an end, and costs less than one miss."""
    before = clerk.learn()
    with clerk.accel.session("open", agent="clerk"):
        clerk.ask([user(prose(50))])
        clerk.clock.advance(86_400.0)
    assert 1 <= len(clerk.kept) - before <= 12


@pytest.mark.slow
def test_the_next_request_takes_back_what_is_due(clerk: Desk) -> None:
    """A session that goes on within the lifetime sends nothing of ours, however it is learned to pause."""
    before = clerk.learn()
    clerk.talk("friday", [200.0] * 6)
    assert len(clerk.kept) == before


def test_outside_an_open_session_nothing_is_kept(clerk: Desk) -> None:
    """Whose it would be, nobody could say, nor when it ends."""
    before = clerk.learn()
    clerk.ask([user(prose(50, 3))])
    clerk.clock.advance(4 * TEA)
    assert len(clerk.kept) == before


def test_the_budget_is_kept(tmp_path: Path) -> None:
    """In USD a session: with no money nothing is sent, with money for one request one."""
    with desk(tmp_path, own_requests_budget=0.005) as clerk:
        clerk.learn()
        before = len(clerk.kept)
        clerk.talk("friday", [5.0, TEA, 5.0])
        assert len(clerk.kept) == before + 1


class Gateway(httpx2.HTTPTransport):
    """A connection to one that says of requests without a reply what `told` makes of it."""

    def __init__(self, told: Callable[[Json], Json]) -> None:
        super().__init__()
        self._told = told

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = super().handle_request(request)
        if json.loads(request.content).get("max_tokens") != 0:
            return answer
        return httpx2.Response(answer.status_code, json=self._told(json.loads(answer.read())))


def behind(clerk: Desk, told: Callable[[Json], Json]) -> httpx2.Client:
    """From now on the desk asks such a gateway."""
    gateway = httpx2.Client(transport=Gateway(told))
    sdk = anthropic.Anthropic(base_url=clerk.server.url, api_key="k", max_retries=0, http_client=gateway)
    clerk.client = clerk.accel.wrap(sdk)
    return gateway


def within_the_united_states(said: Json) -> Json:
    usage: Any = said["usage"]
    return {**said, "usage": {**usage, "inference_geo": "us"}}


@pytest.mark.slow
@pytest.mark.parametrize(("told", "sent"), [(lambda said: said, 2), (within_the_united_states, 1)])
def test_the_budget_pays_what_the_reply_says_that_it_is_priced_by(
    told: Callable[[Json], Json], sent: int, tmp_path: Path
) -> None:
    """Mandated by the provider: 15,622 tokens read at 0.2 USD a million are 0.00312, and in one place a tenth more,
    0.00344. With 0.0067 there is 0.00358 left, or 0.00326: another is expected to cost 0.00339."""
    with desk(tmp_path, own_requests_budget=0.0067) as clerk:
        clerk.learn()
        before = len(clerk.kept)
        with behind(clerk, told):
            clerk.talk("friday", [5.0, TEA, 5.0])
        assert [turn.usage.read for turn in clerk.kept[before:]] == [15_622] * sent


@pytest.mark.slow
def test_what_is_not_known_of_a_bill_is_taken_from_the_budget_as_expected(tmp_path: Path) -> None:
    """Chosen by us: with money for one request a session, a gateway that reports no usage gets one, and not one each
    pause."""
    with desk(tmp_path, own_requests_budget=0.005) as clerk:
        clerk.learn()
        before = len(clerk.kept)
        with behind(clerk, lambda said: {name: said[name] for name in said if name != "usage"}):
            clerk.talk("friday", [5.0, TEA, 5.0, TEA, 5.0])
        assert [turn.usage for turn in clerk.kept[before:]] == [NO_USAGE]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model")  # it is an old one: of the others all have a price
def test_a_model_without_a_price_is_not_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A budget in USD says nothing then; one log line says so."""
    with desk(tmp_path) as clerk, caplog.at_level(logging.WARNING, "agentaccel"):
        assert price_card("anthropic", "claude-mythos-preview", input_tokens=1) is None
        for day in range(5):
            clerk.talk(f"day {day}", [5.0, TEA, 5.0], model="claude-mythos-preview")
        assert clerk.kept == []
        assert sum("no price is known" in line for line in caplog.messages) == 1


def test_of_a_model_with_a_price_nobody_is_told_that_it_has_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The line would send its reader looking for a price that is there."""
    with desk(tmp_path) as clerk, caplog.at_level(logging.WARNING, "agentaccel"):
        assert clerk.learn() > 0
        assert caplog.messages == []


def test_thinking_with_a_budget_is_left_alone(clerk: Desk) -> None:
    """The provider takes no such request then, so none is made."""
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}
    messages, client = [user(prose(50))], clerk.client
    for name in ("monday", "tuesday", "wednesday", "thursday"):
        with clerk.accel.session(name, agent="thinker"):
            for pause in (0.0, 5.0, TEA, 5.0):
                clerk.clock.advance(pause)
                client.messages.create(model="claude-haiku-4-5", messages=messages, **{**STATIC, **thinking})
    assert clerk.kept == []


class Refusing(httpx2.HTTPTransport):
    """The way to a provider that does not take requests without a reply."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if json.loads(request.read()).get("max_tokens") == 0:
            self.asked.set()
            return httpx2.Response(
                400, json={"type": "error", "error": {"type": "invalid_request_error", "message": ""}}
            )
        return super().handle_request(request)


def test_a_refusal_ends_it_for_good(clerk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """One log line, no exception, and the agent's own requests go on."""
    with httpx2.Client(transport=Refusing()) as http, caplog.at_level(logging.WARNING, "agentaccel"):
        bare = anthropic.Anthropic(base_url=clerk.server.url, api_key="k", max_retries=0, http_client=http)
        clerk.client = clerk.accel.wrap(bare)
        for day in range(5):
            clerk.talk(f"day {day}", [5.0, TEA, 5.0])
    assert [record.outcome for record in clerk.kept] == ["failed"]
    assert sum("was refused with 400" in line for line in caplog.messages) == 1


@pytest.mark.parametrize(("announced", "kept"), [(True, []), (False, ["failed"])])
def test_what_refuses_one_request_of_our_own_is_asked_for_no_other(
    clerk: Desk, announced: bool, kept: list[str]
) -> None:
    """A pre-warm that was refused is the last one: the pauses that follow are not kept over. Without it one is."""
    made = Policy(strict=True, store=StorePolicy(path=clerk.path), cache=CachePolicy(**BOTH))
    refusing = Refusing()
    with httpx2.Client(transport=refusing) as http, Accel(made, clock=clerk.clock) as accel:
        bare = anthropic.Anthropic(base_url=clerk.server.url, api_key="k", max_retries=0, http_client=http)
        clerk.accel, clerk.client = accel, accel.wrap(bare)
        if announced:
            with accel.session("first", agent="clerk") as session:
                session.prewarm(clerk.client.messages.create, model="claude-sonnet-5", **STATIC)
                assert refusing.asked.wait(30)
        for day in range(5):
            clerk.talk(f"day {day}", [5.0, TEA, 5.0])
        accel.close()
    with open_reader(clerk.path) as store:
        ours = [(turn.mode, turn.outcome) for turn in store.turns() if turn.mode in OURS]
    assert ours == [(PREWARM, "failed")] * announced + [(KEEP_ALIVE, one) for one in kept]


def test_the_report_counts_them_apart(clerk: Desk) -> None:
    """In what was paid and in no other figure; with the rest they are all that the provider counted."""
    clerk.learn()
    clerk.accel.close()
    with open_reader(clerk.path) as store:
        made = report([*store.turns(), *store.tools()])
    total, kept = made.total, made.total.kept
    counted = clerk.server.counters.total
    assert kept.requests == len(clerk.kept)
    assert total.requests == 12
    assert total.tokens.input + kept.tokens.input == counted.input
    assert total.tokens.read + kept.tokens.read == counted.read
    assert kept.usd is not None
    assert total.costs.paid is not None
    assert 0 < kept.usd < 0.2 * total.costs.paid
    assert "keeping alive" in render_text(made)


def test_what_is_late_is_not_sent(clerk: Desk) -> None:
    """A machine that slept finds nothing left to keep: its request would write it all, for nobody."""
    before = clerk.learn()
    with clerk.accel.session("friday", agent="clerk"):
        clerk.ask([user(prose(50))])
        clerk.clock.now += 3000.0
        clerk.clock.advance(1.0)
    assert len(clerk.kept) == before


def test_a_session_that_was_left_holds_nothing(clerk: Desk) -> None:
    """Not even the request that would have been sent; a new one of the same name begins without."""
    before = clerk.learn()
    clerk.talk("friday", [5.0])
    gc.collect()
    own = engine(clerk.accel).own_requests
    assert own is not None
    assert dict(own._pauses) == {}
    with clerk.accel.session("friday", agent="clerk"):
        clerk.clock.advance(TEA)
    assert len(clerk.kept) == before


def test_nothing_is_sent_once_it_is_closed(clerk: Desk) -> None:
    """Clients go on working, unrecorded; requests that nobody could see are not made."""
    clerk.learn()
    with clerk.accel.session("friday", agent="clerk"):
        clerk.ask([user(prose(50))])
        clerk.accel.close()
        sent = clerk.server.counters.total.requests
        clerk.clock.advance(TEA)
        assert clerk.server.counters.total.requests == sent
        clerk.ask([user(prose(50))])
        clerk.clock.advance(TEA)
    assert clerk.server.counters.total.requests == sent + 1


def test_replay_and_advice_do_not_take_them_for_the_agents(clerk: Desk) -> None:
    """They are no turns of anybody's: a replay has as many requests as the agent made."""
    clerk.learn()
    clerk.accel.close()
    assert clerk.kept
    with open_reader(clerk.path) as store:
        assert sum(len(run.steps) for run in runs_of_store(store)) == 12
        assert sum(len(talk.requests) for talk in talks_of_store(store)) == 12


# --- other clients ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_asynchronous_client_keeps_on_its_own_loop(tmp_path: Path) -> None:
    """And leaving the session leaves no task behind."""

    async def main(clerk: Desk) -> None:
        client = clerk.accel.wrap(anthropic.AsyncAnthropic(base_url=clerk.server.url, api_key="k", max_retries=0))
        for name in ("monday", "tuesday", "wednesday", "thursday"):
            async with clerk.accel.session(name, agent="async clerk"):
                for pause in (0.0, 5.0, TEA, 5.0):
                    await passing(clerk, pause)
                    await client.messages.create(
                        model="claude-sonnet-5", max_tokens=200, messages=[user(prose(50))], **STATIC
                    )
                await passing(clerk, 290.0, settle=False)
            assert asyncio.all_tasks() == {asyncio.current_task()}
        await client.close()

    with desk(tmp_path) as clerk:
        asyncio.run(main(clerk))
        assert len([record for record in clerk.kept if record.usage.read]) >= 2
        assert not any(record.usage.written for record in clerk.kept)


async def passing(clerk: Desk, seconds: float, *, settle: bool = True) -> None:
    """Let time go by in steps, and what becomes due be done."""
    left = seconds
    while left > 0:
        clerk.clock.advance(min(left, 5.0))
        left -= 5.0
        if settle:
            await asyncio.sleep(0)  # what is due becomes a task
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if settle and others:
            await asyncio.wait(others)


class Silent(httpx2.AsyncHTTPTransport):
    """The way to a provider that never answers a request without a reply."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if json.loads(await request.aread()).get("max_tokens") == 0:
            self.asked.set()
            await asyncio.Event().wait()
        return await super().handle_async_request(request)


def test_one_that_is_under_way_when_its_session_is_left_is_recorded(clerk: Desk) -> None:
    """It may have been billed, and nobody knows: the record says that it was cancelled, and reports no usage."""

    async def main() -> None:
        silent = Silent()
        async with httpx2.AsyncClient(transport=silent) as http:
            bare = anthropic.AsyncAnthropic(base_url=clerk.server.url, api_key="k", max_retries=0, http_client=http)
            async with clerk.accel.session("friday", agent="clerk"):
                await clerk.accel.wrap(bare).messages.create(
                    model="claude-sonnet-5", max_tokens=200, messages=[user(prose(50))], **STATIC
                )
                clerk.clock.advance(290.0)
                await silent.asked.wait()

    before = clerk.learn()
    asyncio.run(main())
    assert [(one.session, one.outcome, one.usage) for one in clerk.kept[before:]] == [("friday", "cancelled", NO_USAGE)]


@pytest.mark.slow
def test_responses_of_openai_are_kept_by_its_own_field(tmp_path: Path) -> None:
    """`prewarm` where the provider has it; a pause there is longer than half an hour."""
    with desk(tmp_path, ttl="30m") as clerk:
        bare = openai.OpenAI(base_url=f"{clerk.server.url}/v1", api_key="k", max_retries=0)
        client = clerk.accel.wrap(bare, platform="api")
        history: list[Any] = [{"role": "developer", "content": prose(9_000)}, {"role": "user", "content": prose(50)}]
        for name in ("monday", "tuesday", "wednesday", "thursday"):
            with clerk.accel.session(name, agent="gpt clerk"):
                for pause in (0.0, 5.0, 6 * TEA, 5.0):
                    clerk.clock.advance(pause)
                    client.responses.create(model="gpt-6.1-sol", input=history)
        bare.close()
        kept = clerk.kept
        assert kept
        assert all((record.usage.read or 0) > 9_000 for record in kept)
