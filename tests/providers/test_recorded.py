"""Recorded exchanges with real APIs, where `AGENTACCEL_TRACES` names them. Never copied in here."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest

from agentaccel import CachePlan
from agentaccel.facts import cache_facts
from agentaccel.providers.anthropic import decode, encode, usage_of
from tests.providers.replies import Json, Read, cut, read

pytestmark = pytest.mark.traces

STYLES: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "compact-ascii": {"separators": (",", ":")},
    "spaced": {"ensure_ascii": False},
    "spaced-ascii": {},
}


@functools.cache
def exchanges() -> tuple[Json, ...]:
    folder = os.environ.get("AGENTACCEL_TRACES")
    path = Path(folder or "/nowhere") / "wire" / "anthropic.jsonl.gz"
    if not path.exists():
        pytest.skip("AGENTACCEL_TRACES names no wire traces")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return tuple(json.loads(line) for line in lines)


def streams() -> Iterator[Json]:
    found = [
        one for one in exchanges() if one["streaming"] and one["status"] == 200 and isinstance(one["response"], str)
    ]
    assert len(found) >= 40
    yield from found


def test_nothing_planned_gives_back_the_very_bytes() -> None:
    """Mandated by the recordings: every request that a real client sent is read, and goes out as it was."""
    exact = 0
    for one in exchanges():
        request = one["request"]
        if not isinstance(request, dict):
            continue
        prompt = decode(request, cache_facts(str(request.get("model", "claude-sonnet-5"))))
        assert prompt.messages == len(request.get("messages", ()))
        assert encode(request, CachePlan()) is request
        style = next((one[12:-1] for one in [*map(repr, one["features"])] if "text-style:" in one), "")
        if one.get("request_text") and style in STYLES:
            assert json.dumps(request, **STYLES[style]) == one["request_text"]
            exact += 1
    assert exact >= 90


def test_usage_is_the_sum_that_the_recordings_show() -> None:
    """Mandated by the provider: inclusive input; null or absent is not zero; the total wins over its split."""
    for one in exchanges():
        body = one["response"]
        if one["status"] != 200 or not isinstance(body, dict) or not isinstance(body.get("usage"), dict):
            continue
        raw, usage = body["usage"], usage_of(body["usage"])
        parts = [raw.get(f) for f in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")]
        if parts[0] is None:
            assert usage.input is None
            continue
        assert usage.input == sum(part or 0 for part in parts)
        assert usage.read == parts[1]
        assert usage.written == parts[2]


def sdk_reads(data: bytes) -> tuple[list[Any], str | None, Json]:
    """What the vendor SDK's own accumulator makes of a stream: calls, stop reason, usage."""

    def reply(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=data)

    async def go() -> Any:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(reply))
        async with (
            anthropic.AsyncAnthropic(api_key="k", http_client=http, max_retries=0) as client,
            client.beta.messages.stream(
                model="claude-sonnet-5", max_tokens=9, messages=[{"role": "user", "content": "x"}]
            ) as stream,
        ):
            return await stream.get_final_message()

    message = asyncio.run(go())
    calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
    return calls, message.stop_reason, message.usage.model_dump(exclude_none=True)


def same(found: Read, wanted: tuple[list[Any], str | None, Json]) -> None:
    calls, stop, usage = wanted
    assert [(one.id, one.name, one.arguments) for one in found.calls] == calls
    assert found.stop == stop
    assert found.usage.output == usage["output_tokens"]
    assert found.usage.input == sum(
        usage.get(name, 0) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )


def test_a_tap_reads_what_the_sdk_reads_under_any_cut() -> None:
    """Mandated by the vendor's own accumulator, over every recorded stream that it can read."""
    rng, compared = random.Random(7), 0
    for one in streams():
        data = one["response"].encode()
        found = [read(cut(data, [rng.randrange(len(data)) for _ in range(n)])) for n in (0, 3, 200)]
        assert found[0] == found[1] == found[2], one["id"]
        try:
            wanted = sdk_reads(data)
        except (anthropic.AnthropicError, ValueError, AssertionError):
            # The one stream that the SDK itself cannot parse, and those that end in an error.
            continue
        same(found[0], wanted)
        compared += 1
    assert compared >= 40


def test_errors_are_read_without_raising() -> None:
    """Chosen by us: an error says nothing of usage."""
    for one in exchanges():
        if one["status"] >= 400:
            found = read([json.dumps(one["response"]).encode()], streamed=False)
            assert not found.complete
            assert found.usage.input is None
