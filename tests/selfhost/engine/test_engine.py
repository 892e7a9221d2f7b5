"""What a real engine does, and what agentaccel reads of it. The engine's own figures are the right values."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from click.testing import CliRunner

from agentaccel import Accel, Policy, StorePolicy, TurnRecord
from agentaccel.cli import main
from agentaccel.errors import EngineError
from agentaccel.selfhost.launch import EngineProcess
from agentaccel.selfhost.tiny import Tiny, TinyOptions, launch_tiny, prepare
from tests.selfhost.engine.asking import COUNTING, ask, metrics, sdk, timings

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[3]
Messages = list[dict[str, Any]]
Start = Callable[..., EngineProcess]


def opening(topic: str) -> Messages:
    """The beginning of a conversation that no other test has."""
    rules = f"You sell {topic} lamps. Answer in few words. Never promise a date. Prices are in euros. Be polite."
    return [{"role": "system", "content": rules}, {"role": "user", "content": f"Do you have a {topic} lamp?"}]


def going_on(messages: Messages, reply: Any, said: str) -> Messages:
    """The next request of an agent that sends back what it was sent."""
    answer = {"role": "assistant", "content": reply.choices[0].message.content}
    return [*messages, answer, {"role": "user", "content": said}]


def cached(reply: Any) -> int:
    return int(reply.usage.prompt_tokens_details.cached_tokens)


def test_what_is_set_up_is_not_set_up_again(tiny: Tiny) -> None:
    said: list[str] = []
    assert prepare(say=said.append) == tiny
    assert said == []


def test_cached_tokens_grow_with_the_conversation(client: openai.OpenAI) -> None:
    """A prompt begins with the whole of the one before it, whose last tokens open the reply: all of that is cached, and
    of the reply as much as it is the same tokens again."""
    messages, before = opening("green"), None
    for said in ("And two?", "Thank you.", ""):
        reply = ask(client, messages)
        figures = timings(reply)
        assert figures["cache_n"] == cached(reply)
        assert figures["cache_n"] + figures["prompt_n"] == reply.usage.prompt_tokens
        if before is None:
            assert cached(reply) <= 12  # what the beginnings of all conversations here have in common
        else:
            whole = before.usage.prompt_tokens
            assert whole <= cached(reply) <= whole + before.usage.completion_tokens
        messages, before = going_on(messages, reply, said), reply


def test_it_can_be_watched(client: openai.OpenAI) -> None:
    """Its counters are found and read; with nothing asked in the window there is nothing to say."""
    url = str(client.base_url).removesuffix("/v1/")
    done = CliRunner().invoke(main, ["selfhost", "watch", url, "--once", "--every", "0", "--format", "json"])
    assert done.exit_code == 0, done.output
    seen = json.loads(done.stdout)
    assert seen["figures"]["missing"] == []
    assert seen["figures"]["prompt"] is not None
    assert seen["proposals"] == []


def test_what_the_engine_counts_is_the_sum_of_what_it_says_of_each_request(
    engine: EngineProcess, client: openai.OpenAI
) -> None:
    before = metrics(engine)
    first = ask(client, opening("yellow"))
    second = ask(client, going_on(opening("yellow"), first, "Why?"), tokens=6)
    stream = client.chat.completions.create(
        model="any", messages=opening("violet"), max_tokens=3, stream=True, stream_options={"include_usage": True}
    )
    all_of_them = [timings(first), timings(second), *(timings(chunk) for chunk in stream if chunk.usage is not None)]
    after = metrics(engine)
    assert len(all_of_them) == 3
    for counter, field in (
        ("prompt_tokens_total", "prompt_n"),
        ("prompt_tokens_cached_total", "cache_n"),
        ("tokens_predicted_total", "predicted_n"),
    ):
        assert after[counter] - before[counter] == sum(one[field] for one in all_of_them), counter


def test_acceptance_is_reported_where_something_was_drafted_and_the_reply_is_the_same(
    engine: EngineProcess, client: openai.OpenAI, own_engine: Start
) -> None:
    """Without speculation nothing is drafted, and the fields are absent: not 0. With it the counters are the fields."""
    plain = ask(client, COUNTING, tokens=24)
    assert "draft_n" not in timings(plain)
    assert metrics(engine)["spec_decode_num_draft_tokens_total"] == 0
    for speculate in ("ngram-simple", "ngram-mod"):
        other = own_engine(speculate=speculate)
        with sdk(other) as speculating:
            short = ask(speculating, opening("grey"), tokens=1)
            assert not {"draft_n", "draft_n_accepted"} & set(timings(short))
            before = metrics(other)
            reply = ask(speculating, COUNTING, tokens=24)
            after = metrics(other)
        other.stop()
        assert reply.choices[0].message.content == plain.choices[0].message.content
        drafted, accepted = timings(reply)["draft_n"], timings(reply)["draft_n_accepted"]
        assert 0 < accepted <= drafted
        assert after["spec_decode_num_draft_tokens_total"] - before["spec_decode_num_draft_tokens_total"] == drafted
        assert (
            after["spec_decode_num_accepted_tokens_total"] - before["spec_decode_num_accepted_tokens_total"] == accepted
        )


def test_a_slot_that_was_saved_and_restored_is_as_it_was(own_engine: Start, tmp_path: Path) -> None:
    """In between the slot is emptied, which the same request tells: all of it is computed."""
    engine = own_engine(slot_folder=tmp_path, cache_ram=0)

    def slot(action: str) -> Any:
        answer = httpx2.post(
            f"{engine.url}/slots/0", params={"action": action}, json={"filename": "kept.bin"}, timeout=60
        )
        return answer.raise_for_status().json()

    with sdk(engine) as client:
        first = ask(client, opening("orange"), id_slot=0)
        saved = slot("save")
        assert (tmp_path / "kept.bin").stat().st_size == saved["n_written"]
        slot("erase")
        assert cached(ask(client, opening("orange"), tokens=1, id_slot=0)) == 0
        slot("erase")
        assert slot("restore")["n_restored"] == saved["n_saved"]
        again = ask(client, opening("orange"), id_slot=0)
    assert cached(again) == first.usage.prompt_tokens - 1  # the last token is computed in any case
    assert again.choices[0].message.content == first.choices[0].message.content


@pytest.mark.parametrize("memory", [64, 0])
def test_more_conversations_than_slots_come_back_from_memory_where_there_is_some(
    own_engine: Start, memory: int
) -> None:
    """Two take turns in one slot. With memory the second turn of each is read but for its last token; without, each
    finds what both begin with."""
    with sdk(own_engine(cache_ram=memory)) as client:
        first = [timings(ask(client, opening(topic), tokens=1)) for topic in ("Amber", "Coral")]
        again = [timings(ask(client, opening(topic), tokens=1)) for topic in ("Amber", "Coral")]
    shared = first[1]["cache_n"]
    assert first[0]["cache_n"] == 0 < shared < 12
    prompts = [one["cache_n"] + one["prompt_n"] for one in first]
    assert [one["cache_n"] for one in again] == ([prompt - 1 for prompt in prompts] if memory else [shared, shared])


LAMP = {
    "type": "function",
    "function": {"name": "lamp", "description": "Switches a lamp.", "parameters": {"type": "object", "properties": {}}},
}
DOOR = {**LAMP, "function": {**LAMP["function"], "name": "door", "description": "Opens a door."}}  # type: ignore[dict-item]


def test_tools_are_part_of_the_prompt_and_so_is_their_order(client: openai.OpenAI) -> None:
    """By the bundled template: that of the weights leaves them out. The same again is one token; in another order all
    from the first tool on is computed."""
    bare = ask(client, opening("silver"), tokens=1)
    first = ask(client, opening("silver"), tokens=1, tools=[LAMP, DOOR])
    assert first.usage.prompt_tokens > bare.usage.prompt_tokens + 50
    assert timings(ask(client, opening("silver"), tokens=1, tools=[LAMP, DOOR]))["prompt_n"] == 1
    turned = ask(client, opening("silver"), tokens=1, tools=[DOOR, LAMP])
    assert turned.usage.prompt_tokens == first.usage.prompt_tokens
    assert timings(turned)["prompt_n"] > 50


def test_all_dialects_of_the_engine_count_the_same_prompt(engine: EngineProcess, client: openai.OpenAI) -> None:
    """Chat Completions and Responses include what was cached in their total; Messages leaves it out."""
    system, user = (one["content"] for one in opening("purple"))
    chat = ask(client, opening("purple"), tokens=1).usage
    responses = client.responses.create(
        model="any", instructions=system, input=user, max_output_tokens=1, temperature=0
    ).usage
    assert responses is not None
    with anthropic.Anthropic(base_url=engine.url, api_key="none", max_retries=0) as other:
        messages = other.messages.create(
            model="any", system=system, messages=[{"role": "user", "content": user}], max_tokens=1
        ).usage
    read = messages.cache_read_input_tokens
    assert read is not None
    assert chat.prompt_tokens == responses.input_tokens == messages.input_tokens + read
    assert responses.input_tokens_details.cached_tokens == read == chat.prompt_tokens - 1


# --- agentaccel in front of it ----------------------------------------------------------------------------------------


@pytest.fixture
def told() -> list[TurnRecord]:
    return []


@pytest.fixture
def accel(told: list[TurnRecord]) -> Iterator[Accel]:
    with Accel(
        Policy(store=StorePolicy(enabled=False)), environ={}, hooks=[lambda one: told.append(one.record)]
    ) as accel:
        yield accel


def test_a_wrapped_client_gets_what_the_bare_one_gets_and_records_what_the_engine_says(
    engine: EngineProcess, client: openai.OpenAI, accel: Accel, told: list[TurnRecord]
) -> None:
    """In mode on, without a consent: an engine that keeps prefixes by itself is sent what the user wrote."""
    bare = ask(client, opening("brown"))
    bare_again = ask(client, going_on(opening("brown"), bare, "Why?"))
    with sdk(engine) as own:
        wrapped = accel.wrap(own, platform="llamacpp")
        first = ask(wrapped, opening("brown"))
        again = ask(wrapped, going_on(opening("brown"), first, "Why?"))
    for one, other in ((bare, first), (bare_again, again)):
        assert one.choices[0].message.content == other.choices[0].message.content
        assert one.usage.prompt_tokens == other.usage.prompt_tokens
    assert [record.usage.read for record in told] == [timings(reply)["cache_n"] for reply in (first, again)]
    assert [record.usage.input for record in told] == [reply.usage.prompt_tokens for reply in (first, again)]
    assert [record.mode for record in told] == ["on", "on"]


def outcome(client: openai.OpenAI, engine: EngineProcess) -> list[type[BaseException]]:
    """What a caller sees whose engine is killed in the middle of a reply, and who then asks again."""
    seen: list[type[BaseException]] = []
    try:
        for number, _ in enumerate(
            client.chat.completions.create(
                model="any", messages=opening("white"), max_tokens=400, stream=True, extra_body={"ignore_eos": True}
            )
        ):
            if number == 2:
                assert engine.pid is not None
                os.kill(engine.pid, signal.SIGKILL)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        seen.append(type(error))
    try:
        ask(client, opening("white"))
    except openai.OpenAIError as error:
        seen.append(type(error))
    return seen


def test_an_engine_that_dies_is_the_sdks_own_error_and_no_word_of_ours(
    own_engine: Start, accel: Accel, told: list[TurnRecord], caplog: pytest.LogCaptureFixture
) -> None:
    """Killed by the system in the middle of a stream: the errors that come without agentaccel, and records of them."""
    first, second = own_engine(), own_engine()
    with sdk(first) as bare, sdk(second) as own:
        expected = outcome(bare, first)
        with caplog.at_level(logging.INFO, logger="agentaccel"):
            assert outcome(accel.wrap(own, platform="llamacpp"), second) == expected
    assert len(expected) == 2
    assert expected[1] is openai.APIConnectionError
    assert [record.outcome for record in told] == ["failed", "failed"]
    assert [one.message for one in caplog.records if one.levelno >= logging.WARNING] == []
    with pytest.raises(EngineError, match="the tiny engine ended with signal 9"):
        second.wait()


# --- starting and stopping it -----------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_said(engine: EngineProcess, tiny: Tiny) -> None:
    port = int(engine.url.rpartition(":")[2])
    with pytest.raises(EngineError, match=f"something listens at http://127.0.0.1:{port} already"):
        launch_tiny(tiny, port=port).start()
    assert httpx2.get(f"{engine.url}/health").json() == {"status": "ok"}


def test_a_file_that_is_no_model_is_said_in_the_engines_words(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "notes.gguf").write_text("these are no weights")
    other = prepare(model=tmp_path / "notes.gguf")
    assert (other.python_path, other.template) == (tiny.python_path, None)
    with pytest.raises(EngineError, match=r"(?s)ended with status 1 before.*failed to load model") as raised:
        launch_tiny(other).start()
    assert "notes.gguf" in str(raised.value)


def test_a_template_that_is_none_is_said_in_the_engines_words(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "bad.jinja").write_text("{% if %}")
    options = TinyOptions(template=tmp_path / "bad.jinja", context=256, slots=1)
    with pytest.raises(EngineError, match=r"(?s)ended with status 1 before.*chat template parsing error"):
        launch_tiny(tiny, options).start()


def test_no_engine_outlives_the_command_that_is_killed(tiny: Tiny) -> None:
    """In the middle of a reply, which then ends without its last event."""
    command = [sys.executable, "-m", "agentaccel", "selfhost", "serve", "--tiny", "--slots", "1", "--context", "512"]
    home = {**os.environ, "XDG_CACHE_HOME": str(tiny.python_path.parents[2])}
    body = json.dumps({"messages": opening("black"), "stream": True, "ignore_eos": True, "max_tokens": 400}).encode()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=home) as serving:
        assert serving.stdout is not None
        port = int(serving.stdout.readline().removesuffix("/v1\n").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
            line.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
            line.sendall(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            said = line.recv(4096)
            serving.kill()
            while more := _more(line):
                said += more
    assert said.startswith(b"HTTP/1.1 200")
    assert b"[DONE]" not in said


def _more(line: socket.socket) -> bytes:
    try:
        return line.recv(4096)
    except ConnectionResetError:
        return b""
