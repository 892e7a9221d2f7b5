"""One conversation on three wires of a real engine, each through its own SDK, wrapped: the figures agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel import CachePolicy
from agentaccel.selfhost.launch import EngineProcess
from tests.clients.wire import an_accel, records
from tests.selfhost.engine.asking import metrics

pytestmark = pytest.mark.engine

RULES = "You sell lamps. Answer in few words. Never promise a date. Prices are in euros. Be polite."
ASKED = ("Do you have a lamp?", "And two?", "Thank you.")
SAID = ("Yes.", "Two, too.")
"""What is sent back in place of the replies: the same on every wire, or their prompts would not be."""
RETRIES = 3
"""llama.cpp b11549 closes the connection after some streams of messages (1 of 25, with the bare SDK), and the next
request on it fails before it is read."""
Messages = list[dict[str, Any]]
Ask = Callable[[Any, Messages, bool], Any]


def chat(client: Any, messages: Messages, stream: bool) -> Any:
    told = [{"role": "system", "content": RULES}, *messages]
    return client.chat.completions.create(model="any", messages=told, max_tokens=2, stream=stream, temperature=0)


def responses(client: Any, messages: Messages, stream: bool) -> Any:
    told = [
        {
            "type": "message",
            "status": "completed",
            "role": one["role"],
            "content": [{"type": "output_text", "text": one["content"], "annotations": []}],
        }
        if one["role"] == "assistant"
        else one
        for one in messages
    ]
    return client.responses.create(
        model="any", instructions=RULES, input=told, max_output_tokens=2, stream=stream, temperature=0
    )


def anthropics(client: Any, messages: Messages, stream: bool) -> Any:
    greedy = {"temperature": 0}  # no argument of this SDK any more
    return client.messages.create(
        model="any", system=RULES, messages=messages, max_tokens=2, stream=stream, extra_body=greedy
    )


WIRES: dict[str, tuple[Any, str, Ask]] = {
    "chat": (openai.OpenAI, "/v1", chat),
    "responses": (openai.OpenAI, "/v1", responses),
    "messages": (anthropic.Anthropic, "", anthropics),
}


@pytest.fixture
def emptied(own_engine: Callable[..., EngineProcess], tmp_path: Path) -> Callable[[], EngineProcess]:
    """An engine with one slot, which holds nothing: neither of another wire nor of another test."""
    engine = own_engine(context=1024, slots=1, cache_ram=0, slot_folder=tmp_path)

    def empty() -> EngineProcess:
        httpx2.post(f"{engine.url}/slots/0", params={"action": "erase"}, timeout=60).raise_for_status()
        return engine

    return empty


def test_three_wires_count_the_same_conversation_alike(emptied: Callable[[], EngineProcess], tmp_path: Path) -> None:
    """Prompts, cached tokens and computed ones are equal turn by turn, and so they are where messages are streamed; in
    sum they are what the engine has counted. A prompt begins with the whole of the one before it, which is read, and of
    the reply as much as is the same again."""
    found: dict[tuple[str, bool], list[tuple[int | None, ...]]] = {}
    for wire, (kind, base, ask) in WIRES.items():
        for stream in (False, True) if wire == "messages" else (False,):
            engine, folder, messages = emptied(), tmp_path / f"{wire} {stream}", Messages()
            before = metrics(engine)
            with (
                an_accel(folder) as accel,
                kind(base_url=f"{engine.url}{base}", api_key="none", max_retries=RETRIES, timeout=100) as bare,
                accel.session("s"),
            ):
                client = accel.wrap(bare, platform="llamacpp")
                for turn, asked in enumerate(ASKED):
                    if turn:
                        messages.append({"role": "assistant", "content": SAID[turn - 1]})
                    messages.append({"role": "user", "content": asked})
                    reply = ask(client, list(messages), stream)
                    _ = list(reply) if stream else reply
            after, turns = metrics(engine), [one for one in records(folder) if one.outcome == "ok"]
            assert {(one.provider, one.platform) for one in turns} == {("compatible", "llamacpp")}
            assert len(turns) == len(ASKED)
            for counter, ours in (
                ("prompt_tokens_total", [one.usage.uncached or 0 for one in turns]),
                ("prompt_tokens_cached_total", [one.usage.read or 0 for one in turns]),
            ):
                assert after[counter] - before[counter] == sum(ours), (wire, stream, counter)
            found[wire, stream] = [(one.usage.input, one.usage.read, one.usage.uncached) for one in turns]
    assert len({tuple(one) for one in found.values()}) == 1, found
    prompts, read = ([one[at] or 0 for one in found["messages", False]] for at in (0, 1))
    assert read[0] == 0
    assert all(prompts[at] <= read[at + 1] <= prompts[at] + 2 for at in (0, 1))


def test_a_clock_that_is_moved_stands_behind_the_results_of_tools(
    emptied: Callable[[], EngineProcess], tmp_path: Path
) -> None:
    """An agent of Anthropic's SDK whose system prompt begins with a clock. Once it is moved, a turn reads all of the
    turn before it but the clock and what follows that: the engine would have put a text beside the result in front of
    it, and computed the result again."""
    engine, messages = emptied(), Messages([{"role": "user", "content": ASKED[0]}])
    policy = CachePolicy(move_volatile=True)
    with (
        an_accel(tmp_path / "moved", cache=policy) as accel,
        anthropic.Anthropic(base_url=engine.url, api_key="none", max_retries=RETRIES, timeout=100) as bare,
        accel.session("s"),
    ):
        client = accel.wrap(bare, platform="llamacpp")
        for turn in range(4):
            clock = f"It is 2026-11-21 09:{10 + 7 * turn}:{11 + 3 * turn} UTC."
            client.messages.create(model="any", system=f"{clock}\n{RULES}", messages=messages, max_tokens=1)
            call = {"type": "tool_use", "id": f"t{turn}", "name": "lamp", "input": {}}
            result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": f"Lamp {turn} is on. " * 20}
            messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    turns = [one for one in records(tmp_path / "moved") if one.outcome == "ok"]
    moved = [any("moved to the end" in reason for reason in one.reasons) for one in turns]
    assert moved[-2:] == [True, True]
    before, last = turns[-2:]
    assert before.usage.input is not None
    assert last.usage.read is not None
    clock_and_what_follows = 60  # tokens: the clock, the end of its message, the opening of the reply; a result has 100
    assert last.usage.read >= before.usage.input - clock_and_what_follows
