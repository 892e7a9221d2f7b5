"""vLLM on a processor without a GPU: what it caches and drafts is read, and what it is sent acts.

Greedy only: on a processor its speculation returns noise at temperatures above 0 (vLLM issue 55005). The engine's own
figures, and the digest of another engine with the same weights, are the right values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import openai
import pytest

from agentaccel import Accel
from agentaccel.selfhost.hints import Hints
from agentaccel.selfhost.kv_events import BlocksStored
from agentaccel.selfhost.kv_feed import KvFeed
from agentaccel.selfhost.launch import EngineProcess
from tests.engines.conftest import placed
from tests.engines.exchange import play, sdk
from tests.engines.starting import MODEL, start_llama_server, start_vllm

pytestmark = pytest.mark.engines

BLOCK = 32
"""Tokens of a block of its cache: on a processor, a multiple of 32."""
BLOCKS = 160
"""Blocks that the engine has, one of which it never uses: 5,088 tokens."""


class Publishing(NamedTuple):
    """An engine that tells what its cache keeps."""

    engine: EngineProcess
    events: str
    replay: str


@pytest.fixture(scope="module")
def vllm() -> Path:
    return placed("vllm") / "bin" / "python"


@pytest.fixture(scope="module")
def plain(vllm: Path, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publishing]:
    """Without speculation, one request at a time, by priority."""
    folder = tmp_path_factory.mktemp("kv")
    publishing = f"ipc://{folder}/events", f"ipc://{folder}/replay"
    engine = start_vllm(vllm, models, "--num-gpu-blocks-override", str(BLOCKS), kv_events=publishing)
    yield Publishing(engine, *publishing)
    engine.stop()


def asked(client: openai.OpenAI, topic: str, **more: Any) -> Any:
    """One request about something that no other test asks about: four blocks, and two tokens of a reply."""
    messages = [
        {"role": "system", "content": f"{topic} " + "Call tools as JSON. " * 30},
        {"role": "user", "content": "Go."},
    ]
    return client.chat.completions.create(model=MODEL, messages=messages, max_tokens=2, temperature=0, **more)  # type: ignore[call-overload]


def cached(reply: Any) -> int:
    return int(reply.usage.prompt_tokens_details.cached_tokens)


def test_usage_and_counters_tell_the_same_of_the_cache(plain: Publishing, accel: Accel) -> None:
    """Whole blocks, more of them with every turn."""
    backend = accel.backend(f"{plain.engine.url}/v1")
    assert backend.wait_ready()
    assert (backend.server.dialect, backend.server.version, backend.server.context) == ("vllm", "0.32.0", 4096)
    with sdk(plain.engine) as bare, backend.observe() as seen:
        played = play(accel.wrap(bare))
    assert (seen.figures.cached, seen.figures.prompt) == (sum(played.cached), played.prompt)
    assert seen.figures.output == played.output
    assert (seen.figures.drafted, seen.figures.acceptance) == (None, None)
    assert played.cached == sorted(played.cached)
    assert [one % BLOCK for one in played.cached] == [0] * 5
    assert played.cached[-1] > 0


def test_tenants_share_nothing_and_each_finds_its_own(plain: Publishing, accel: Accel) -> None:
    """By the salt that is sent for `accel.session(tenant=…)`; whoever names no tenant is another one,
    and shares with all who name none."""
    with sdk(plain.engine) as bare:
        client = accel.wrap(bare, platform="vllm")
        found = []
        for session, tenant in (("1", "a"), ("2", "b"), ("3", "a"), ("4", "b"), ("5", None), ("6", None)):
            with accel.session(session, tenant=tenant):
                found.append(cached(asked(client, "Salts.")))
    assert found[:2] == [0, 0]
    assert found[2] == found[3] > 0
    assert (found[4], found[5]) == (0, found[2])


async def test_what_the_cache_keeps_is_what_the_engine_says_it_has_written(plain: Publishing, accel: Accel) -> None:
    """Tokens held grow by `created_cache_tokens`, the engine's own figure, once events and replays are read. The
    session that wrote them is named, and that they are a tenant's own."""
    backend = accel.backend(f"{plain.engine.url}/v1", dialect="vllm")

    def work() -> int:
        with sdk(plain.engine) as bare:
            client = accel.wrap(bare, platform="vllm")
            with accel.session("events", tenant="a"):
                replies = [asked(client, "Events.") for _ in range(2)]
        return sum(one.usage.prompt_tokens_details.created_cache_tokens or 0 for one in replies)

    async with backend.kv_events(plain.events, replay=plain.replay) as feed:
        before = feed.cache.tokens_held()
        written = await asyncio.to_thread(work)
        assert written >= 4 * BLOCK
        batches = [one async for one in until(feed, before + written)]
        assert feed.cache.whole
        assert feed.cache.tokens_held() == before + written
        last = batches[-1].events[-1]
        assert isinstance(last, BlocksStored)
        assert (feed.cache.tokens_held(session=last.session), last.apart) == (written, True)
    async with backend.kv_events() as late:  # the engine says where
        assert late.cache.tokens_held() == before + written


async def until(feed: KvFeed, tokens: int) -> Any:
    """Batches until so many tokens are held."""
    async for batch in feed:
        yield batch
        if feed.cache.tokens_held() >= tokens:
            return


@pytest.mark.parametrize("urgency", [(0, 0), (0, 5), (5, 0)], ids=["equal", "the second", "the first"])
async def test_what_is_more_urgent_is_served_first(plain: Publishing, accel: Accel, urgency: tuple[int, int]) -> None:
    """While another request is computed two wait: without a difference the first one comes first. Ours is *higher is
    more urgent*, and its field has the other sign."""
    backend = accel.backend(f"{plain.engine.url}/v1", dialect="vllm")
    sent = [backend.hints(Hints(priority=one)).fields for one in urgency]
    assert sent == [{"priority": -one} for one in urgency]
    served: list[int] = []

    async with openai.AsyncOpenAI(base_url=f"{plain.engine.url}/v1", api_key="none", max_retries=0) as client:

        async def ask(number: int, fields: Any) -> None:
            await complete(client, f"Number {number} of {urgency}.", 2, fields)
            served.append(number)

        long = asyncio.create_task(complete(client, "Long.", 2500, {"ignore_eos": True}))
        await standing(plain.engine, running=1, waiting=0)
        waiting = []
        for number, fields in enumerate(sent):
            waiting.append(asyncio.create_task(ask(number, fields)))
            await standing(plain.engine, running=1, waiting=number + 1)
        assert served == []
        await asyncio.gather(*waiting)
        await long
    assert served == ([1, 0] if urgency[1] > urgency[0] else [0, 1])


async def complete(client: openai.AsyncOpenAI, text: str, tokens: int, fields: Any) -> None:
    await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": text}], max_tokens=tokens, temperature=0, extra_body=fields
    )


async def standing(engine: EngineProcess, *, running: int, waiting: int) -> None:
    """Wait until so many requests run, and so many wait."""
    async with httpx2.AsyncClient() as http:
        while True:
            lines = (await http.get(f"{engine.url}/metrics")).text.splitlines()
            counts = [
                sum(float(line.split()[-1]) for line in lines if line.startswith(f"vllm:num_requests_{state}{{"))
                for state in ("running", "waiting")
            ]
            if counts == [running, waiting]:
                return


async def test_the_room_is_told_by_what_had_to_go(plain: Publishing, accel: Accel) -> None:
    """Prompts of some 700 tokens until all that was there before has gone: then all blocks are in use, those of the
    request that is computed at that moment included."""
    backend, usable = accel.backend(f"{plain.engine.url}/v1", dialect="vllm"), (BLOCKS - 1) * BLOCK
    async with (
        backend.kv_events(plain.events, replay=plain.replay) as feed,
        openai.AsyncOpenAI(base_url=f"{plain.engine.url}/v1", api_key="none", max_retries=0) as client,
    ):
        for number in range(24):
            await complete(client, f"Room {number}. " + "Call tools as JSON. " * 90, 2, {})
        async for _ in feed:
            if feed.cache.removed >= usable:
                break
        capacity = feed.cache.capacity
        assert capacity is not None
        assert usable - 1000 <= capacity <= usable
        assert feed.cache.tokens_held() <= usable


# --- speculation ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["suffix", "eagle3"])
def speculating(vllm: Path, models: Path, request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    """An engine that guesses tokens ahead, by each method."""
    method, env = request.param, {}
    config: dict[str, Any] = {"method": "eagle3", "model": str(models / "tiny-eagle3"), "num_speculative_tokens": 3}
    if method == "suffix":
        env["PYTHONPATH"] = str(placed("suffix") / "lib")
        config = {"method": "suffix", "num_speculative_tokens": 16}
    engine = start_vllm(vllm, models, speculative=config, env=env)
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def digest(llama_server: Path, models: Path) -> str:
    """Of the same exchange on the same weights, by llama.cpp, without speculation."""
    engine = start_llama_server(llama_server, models)
    try:
        with sdk(engine) as bare:
            return play(bare).digest
    finally:
        engine.stop()


def test_without_speculation_the_reply_is_that_of_another_engine(plain: Publishing, digest: str) -> None:
    with sdk(plain.engine) as bare:
        assert play(bare).digest == digest


def test_acceptance_is_that_of_the_replies_and_the_text_is_the_same(
    speculating: EngineProcess, digest: str, accel: Accel
) -> None:
    """The counters' differences are the sums of what each reply says of its drafts; greedy, so no token is another."""
    backend = accel.backend(f"{speculating.url}/v1")
    assert backend.wait_ready()
    with sdk(speculating) as bare, backend.observe() as seen:
        played = play(accel.wrap(bare))
    own = [(one.model_extra["metrics"]["speculative_decoding"] or {}) for one in played.replies]
    drafted, accepted, steps = (
        sum(one.get(name) or 0 for one in own)
        for name in ("num_draft_tokens", "num_accepted_draft_tokens", "num_spec_steps")
    )
    figures = seen.figures
    assert played.digest == digest
    assert (figures.drafted, figures.accepted, figures.steps) == (drafted, accepted, steps)
    assert figures.acceptance == pytest.approx(accepted / drafted)
    assert figures.acceptance > 0
    assert figures.tokens_per_step is not None
    assert figures.tokens_per_step > 1
    assert (figures.cached, figures.prompt) == (sum(played.cached), played.prompt)
