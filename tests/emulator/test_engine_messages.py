"""A server that people run answers Anthropic's wire, too: a message is a chat, and has the chat's cache."""

from __future__ import annotations

import json
from typing import Any

from agentaccel_emulator import Behaviour, Emulator, HttpRequest, Tokenizer

RULES, Json = "r" * 400, dict[str, Any]
CALL: Json = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "1", "content": "s" * 300}


def server(platform: str = "llamacpp", **more: Any) -> Emulator:
    """One that counts each byte of text as a token."""
    return Emulator(platform=platform, behaviour=Behaviour(tokenizer=Tokenizer(bytes_per_token=1.0), **more))


def post(emulator: Emulator, path: str, **body: Any) -> tuple[int, Json]:
    raw = json.dumps({"model": "m", **body}).encode()
    headers = {"content-type": "application/json"}
    reply = emulator.handle(HttpRequest(method="POST", path=path, headers=headers, body=raw))
    emulator.clock.advance(10.0)  # type: ignore[attr-defined]
    return reply.status, json.loads(reply.body)


def usage(emulator: Emulator, *said: Any, **more: Any) -> Json:
    """What a message with these words, of the user and the assistant in turn, reports."""
    messages = [{"role": ("user", "assistant")[at % 2], "content": one} for at, one in enumerate(said)]
    status, body = post(emulator, "/v1/messages", system=RULES, messages=messages, max_tokens=9, **more)
    assert status == 200, body
    found: Json = body["usage"]
    return found


def test_a_message_reads_what_a_chat_has_left_and_says_it_beside_the_rest() -> None:
    """400 of instructions and 2 of the user's are in the slot: all but the last token is read."""
    emulator = server(slots=1)
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": "hi"}]
    _, chat = post(emulator, "/v1/chat/completions", messages=messages, max_tokens=9)
    found = usage(emulator, "hi")
    assert chat["usage"]["prompt_tokens"] == 402 == found["input_tokens"] + found["cache_read_input_tokens"]
    assert found["cache_read_input_tokens"] == 401
    assert found.keys() == {"input_tokens", "output_tokens", "cache_read_input_tokens"}


def test_a_server_that_reports_no_cache_says_nothing_of_it() -> None:
    """SGLang says nothing where nothing was read, and so does one that reports tokens alone."""
    assert usage(server("sglang"), "hi").keys() == {"input_tokens", "output_tokens"}
    silent = server("vllm", reports="tokens")
    assert [usage(silent, "hi")["input_tokens"] for _ in range(2)] == [402, 402]


def test_a_text_stands_behind_the_results_of_its_message() -> None:
    """One that changes has nothing but itself computed again: three tokens."""
    emulator = server(slots=1)
    for text in ("one", "two"):
        found = usage(emulator, "hi", [CALL], [RESULT, {"type": "text", "text": text}])
    assert found["input_tokens"] == 3


def test_markers_are_not_looked_at() -> None:
    """Fields of Anthropic's that no chat has change no prompt; a system of two blocks is one text."""
    emulator = server(slots=1)
    usage(emulator, "hi")
    mark = {"cache_control": {"type": "ephemeral"}}
    blocks = [{"type": "text", "text": RULES[:100], **mark}, {"type": "text", "text": RULES[100:]}]
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi", **mark}]}]
    _, body = post(emulator, "/v1/messages", system=blocks, messages=messages, max_tokens=9, **mark)
    assert body["usage"]["input_tokens"] == 1


def test_tokens_are_counted_without_asking_the_model() -> None:
    """402, of which nothing is kept."""
    emulator = server(slots=1)
    messages = [{"role": "user", "content": "hi"}]
    assert post(emulator, "/v1/messages/count_tokens", system=RULES, messages=messages) == (200, {"input_tokens": 402})
    assert usage(emulator, "hi")["cache_read_input_tokens"] == 0
    assert [one.path for one in emulator.log] == ["/v1/messages/count_tokens", "/v1/messages"]


def test_a_field_that_is_refused_is_refused_here_too() -> None:
    status, body = post(
        server("vllm", refused_fields=frozenset({"cache_salt"})),
        "/v1/messages",
        messages=[{"role": "user", "content": "hi"}],
        max_tokens=9,
        cache_salt="s",
    )
    assert status == 400
    assert "cache_salt" in json.dumps(body)


def test_elsewhere_the_path_is_claudes() -> None:
    """Servers that are not known to speak this wire do not take it over."""
    body = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    for platform in ("api", "groq", "bedrock"):
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        raw = json.dumps(body).encode()
        reply = Emulator(platform=platform).handle(
            HttpRequest(method="POST", path="/v1/messages", headers=headers, body=raw)
        )
        assert "cache_creation" in json.loads(reply.body)["usage"]
