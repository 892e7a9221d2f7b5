"""Attached to a real engine: what is found out, counted and sent. The engine's own figures are the right values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from agentaccel import Accel
from agentaccel.errors import EngineError
from agentaccel.selfhost.hints import Hints, rendered
from agentaccel.selfhost.launch import EngineProcess
from agentaccel.selfhost.output import Constraint
from agentaccel.selfhost.probe import Server
from tests.clients.wire import an_accel, records
from tests.selfhost.engine.asking import COUNTING, ask, sdk, timings
from tests.selfhost.serving import told

pytestmark = pytest.mark.engine


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
    """Before its first call, in a task of its own loop: the platform of both is known."""

    async def run() -> None:
        async with an_accel(tmp_path) as accel, openai.AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none") as bare:
            wrapped = accel.wrap(bare)
            for _ in range(2):
                with told("is llama.cpp server") as found:
                    await wrapped.chat.completions.create(model="any", messages=about("blue"), max_tokens=1)  # type: ignore[arg-type]
                    await asyncio.to_thread(found.wait, 5 if not records(tmp_path) else 0)

    asyncio.run(run())
    assert [one.platform for one in records(tmp_path)] == ["llamacpp", "llamacpp"]
    assert all(one.usage.read is not None for one in records(tmp_path))


RULES = "You rent boats by the hour. Answer in few words. Never promise a date. Prices are in euros."


def turn(name: str, number: int) -> list[dict[str, Any]]:
    """A turn of an agent whose system prompt others have, too; what it was answered is written here."""
    said: list[dict[str, Any]] = [{"role": "user", "content": f"Is the {name} boat free? I need a {name} one."}]
    for one in range(number):
        said += [{"role": "assistant", "content": f"Yes, {name}."}, {"role": "user", "content": f"And {name} {one}?"}]
    return [{"role": "system", "content": RULES}, *said]


def test_two_agents_with_one_system_prompt_keep_their_slots(
    own_engine: Callable[..., EngineProcess], tmp_path: Path
) -> None:
    """Left alone, they take one slot from each other, and the other one stays empty: on its second turn each finds what
    both begin with. Pinned, it finds all of its prompt before."""
    found: dict[bool, list[int]] = {}
    prompts: list[int] = []
    for pinned in (False, True):
        engine = own_engine(slots=2, cache_ram=0)
        with an_accel(tmp_path / str(pinned)) as accel, sdk(engine) as bare:
            assert accel.backend(f"{engine.url}/v1", pin_slots=pinned).wait_ready()
            wrapped, seen = accel.wrap(bare), []
            for number in range(2):
                for name in ("Amber", "Coral"):
                    with accel.session(name):
                        seen.append(ask(wrapped, turn(name, number), tokens=1))
        engine.stop()
        found[pinned] = [timings(reply)["cache_n"] for reply in seen]
        prompts = [reply.usage.prompt_tokens for reply in seen]
    shared = found[False][1]
    assert found[False] == [0, shared, shared, shared]
    assert found[True] == [0, 0, *prompts[:2]]
    assert 10 < shared < min(prompts[:2])


async def test_a_slot_that_was_kept_makes_a_prompt_read_and_not_computed(
    own_engine: Callable[..., EngineProcess], accel: Accel, tmp_path: Path
) -> None:
    """Another conversation has had the slot meanwhile. Only the last token is computed, as in any case."""
    folder = tmp_path / "slots"
    folder.mkdir()
    engine = await asyncio.to_thread(lambda: own_engine(slot_folder=folder, cache_ram=0))
    backend = accel.backend(f"{engine.url}/v1")
    assert await backend.ready()
    async with openai.AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none", timeout=100) as client:

        async def computed(topic: str) -> dict[str, Any]:
            reply = await client.chat.completions.create(model="any", messages=about(topic), max_tokens=1)  # type: ignore[arg-type]
            return timings(reply)

        first = await computed("pink")
        saved = await backend.save_slot("pink.bin", slot=0)
        await computed("grey")
        restored = await backend.restore_slot("pink.bin", slot=0)
        again = await computed("pink")
    assert saved is not None
    assert saved == restored
    assert saved.bytes == (folder / "pink.bin").stat().st_size
    assert saved.tokens == first["prompt_n"] + first["cache_n"]
    assert (again["prompt_n"], again["cache_n"]) == (1, saved.tokens - 1)


async def test_what_this_engine_does_not_keep_is_said(own_engine: Callable[..., EngineProcess], accel: Accel) -> None:
    """Started without a folder for them."""
    engine = await asyncio.to_thread(own_engine)
    backend = accel.backend(f"{engine.url}/v1")
    assert await backend.ready()
    with pytest.raises(EngineError, match="without --slot-save-path"):
        await backend.save_slot("a", slot=0)


async def test_a_file_that_is_not_there_is_said(engine: EngineProcess, accel: Accel) -> None:
    backend = accel.backend(f"{engine.url}/v1")
    assert await backend.ready()
    with pytest.raises(EngineError, match="'nowhere': Unable to restore slot"):
        await backend.restore_slot("nowhere", slot=1)


COLOUR = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("constraint", "allowed"),
    [
        (Constraint(choice=["no (never)", 'yes "now"']), r'no \(never\)|yes "now"'),
        (Constraint(grammar='root ::= "lamp-" [0-9] [0-9]'), "lamp-[0-9]{2}"),
        (Constraint(schema=COLOUR), r'\{\s*"colour":\s*"(red|blue)"\s*\}'),
    ],
    ids=lambda one: one.kind if isinstance(one, Constraint) else "",
)
def test_a_reply_is_held_to_what_it_has_to_be_like(
    engine: EngineProcess, client: openai.OpenAI, accel: Accel, constraint: Constraint, allowed: str
) -> None:
    """A model of this size would say none of that by itself."""
    backend = accel.backend(f"{engine.url}/v1")
    assert backend.wait_ready()
    sent = backend.constrained(constraint)
    reply = ask(client, about("amber"), tokens=20, **sent.fields)
    assert re.fullmatch(allowed, reply.choices[0].message.content)
