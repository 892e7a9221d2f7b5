"""Attached to a real engine: what is found out, counted and sent. The engine's own figures are the right values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from agentaccel import Accel
from agentaccel.selfhost.hints import Hints, rendered
from agentaccel.selfhost.launch import EngineProcess
from agentaccel.selfhost.probe import Server
from tests.clients.wire import an_accel, records
from tests.selfhost.engine.asking import ask, sdk, timings
from tests.selfhost.serving import told

pytestmark = pytest.mark.engine

COUNTING: list[dict[str, Any]] = [
    {"role": "user", "content": "Count."},
    {"role": "assistant", "content": "1 2 3 4 5 6 7 8\n" * 4},
    {"role": "user", "content": "Count."},
]
"""What a small model goes on with, and n-grams foresee."""


def about(topic: str) -> list[dict[str, Any]]:
    """A conversation that no other test has."""
    rules = f"You rent {topic} boats. Answer in few words. Never promise a date. Prices are in euros. Be polite."
    return [{"role": "system", "content": rules}, {"role": "user", "content": f"Do you have a {topic} boat?"}]


@pytest.fixture
def accel(tmp_path: Path) -> Iterator[Accel]:
    with an_accel(tmp_path) as made:
        yield made


def test_it_says_what_it_is_and_what_it_can_hold(engine: EngineProcess, accel: Accel) -> None:
    """Started with a context of 1024 tokens for each of its slots, and a template that renders tools."""
    backend = accel.backend(f"{engine.url}/v1")
    assert backend.wait_ready()
    server = backend.server
    assert (server.dialect, server.platform, server.slots, server.context) == ("llamacpp", "llamacpp", 2, 1024)
    assert server.metrics is True
    assert server.template["supports_tools"] is True
    assert server.can("shares_prefixes") is False
    assert len(server.evidence) == 4  # every sign that there is of it


def test_a_window_counts_what_the_engine_says_of_each_request(
    engine: EngineProcess, client: openai.OpenAI, accel: Accel
) -> None:
    """Its `timings`, added up; the second turn reads what the first has left."""
    backend = accel.backend(f"{engine.url}/v1")
    assert backend.wait_ready()
    with backend.observe() as seen:
        first = ask(client, about("green"))
        answer = {"role": "assistant", "content": first.choices[0].message.content}
        second = ask(client, [*about("green"), answer, {"role": "user", "content": "Why?"}])
    both = [timings(first), timings(second)]
    figures = seen.figures
    assert figures.cached == sum(one["cache_n"] for one in both)
    assert figures.prompt == sum(one["cache_n"] + one["prompt_n"] for one in both)
    assert figures.output == sum(one["predicted_n"] for one in both)
    assert figures.hit_rate == pytest.approx(figures.cached / figures.prompt)
    assert (figures.drafted, figures.acceptance, figures.kv_use) == (0, None, None)
    assert figures.tokens_per_step == 1.0
    assert timings(second)["cache_n"] > timings(first)["cache_n"]


def test_acceptance_of_n_grams_is_that_of_the_reply(own_engine: Callable[..., EngineProcess], accel: Accel) -> None:
    """One request in the window, so the counters are its own fields; without a draft there is no rate."""
    engine = own_engine(speculate="ngram-simple")
    backend = accel.backend(f"{engine.url}/v1")
    assert backend.wait_ready()
    with sdk(engine) as client, backend.observe() as seen:
        said = timings(ask(client, COUNTING, tokens=24))
    assert seen.figures.drafted == said["draft_n"] > 0
    assert seen.figures.acceptance == pytest.approx(said["draft_n_accepted"] / said["draft_n"])
    assert seen.figures.tokens_per_step is not None
    assert seen.figures.tokens_per_step > 1


def test_hints_of_other_dialects_are_accepted(client: openai.OpenAI) -> None:
    """llama.cpp's: what it does not know it ignores, so a field too many would be no refusal here."""
    hints = Hints(session="s", parent="p", tenant="t", priority=1, expected_output=4, ttft_target=1.0, final=True)
    for dialect in ("vllm", "sglang", "dynamo"):
        sent = rendered(hints, Server(dialect=dialect), b"key")
        reply = client.chat.completions.create(
            model="any", messages=about("red"), max_tokens=1, extra_body=sent.fields, extra_headers=sent.headers
        )  # type: ignore[call-overload]
        assert reply.choices


def test_a_wrapped_client_finds_out_by_itself(engine: EngineProcess, tmp_path: Path) -> None:
    """Beside its first call, in a task of its own loop; from the second on the platform is known."""

    async def run() -> None:
        async with an_accel(tmp_path) as accel, openai.AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none") as bare:
            wrapped = accel.wrap(bare)
            for _ in range(2):
                with told("is llama.cpp server") as found:
                    await wrapped.chat.completions.create(model="any", messages=about("blue"), max_tokens=1)  # type: ignore[arg-type]
                    await asyncio.to_thread(found.wait, 5 if not records(tmp_path) else 0)

    asyncio.run(run())
    assert [one.platform for one in records(tmp_path)] == ["server", "llamacpp"]
    assert all(one.usage.read is not None for one in records(tmp_path))
