"""A gateway that sends its usage without being asked: every byte of that is the caller's, and the record has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.clients.wire import an_accel, records
from tests.legs.loopback import Far, far_side

USED = {"prompt_tokens": 5000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4000}}
"""By hand: of the 5,000 tokens of the prompt 4,000 were read, and ten were written as the reply."""
SAID = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
CHUNKS: list[dict[str, Any]] = [
    {**SAID, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Grüße"}, "finish_reason": None}]},
    {**SAID, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {**SAID, "choices": [], "usage": {**USED, "total_tokens": 5010}},
]
PIECES = [b"data: %b\n\n" % json.dumps(one, ensure_ascii=False).encode() for one in CHUNKS] + [b"data: [DONE]\n\n"]
ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
KINDS = pytest.mark.parametrize("kind", [openai.OpenAI, openai.AsyncOpenAI])
HOSTS = ["https://router.huggingface.co/v1", "https://api.deepseek.com", "https://gateway.example/v1"]


@pytest.fixture(scope="module")
def far() -> Iterator[Far]:
    with far_side() as one:
        one.begin("text/event-stream", PIECES)
        yield one


def streamed(client: Any) -> tuple[bytes, list[Any]]:
    """What a reader of bytes gets, and what one of chunks does."""
    create = client.chat.completions
    if isinstance(client, openai.OpenAI):
        with create.with_streaming_response.create(**ASK) as reply:
            whole = b"".join(reply.iter_bytes())
        return whole, [one.model_dump() for one in create.create(**ASK)]

    async def both() -> tuple[bytes, list[Any]]:
        async with client, create.with_streaming_response.create(**ASK) as reply:
            whole = b"".join([piece async for piece in reply.iter_bytes()])
            return whole, [one.model_dump() async for one in await create.create(**ASK)]

    return asyncio.run(both())


def used(folder: Path) -> list[tuple[int | None, int | None, int | None]]:
    return [(one.usage.input, one.usage.read, one.usage.output) for one in records(folder)]


@KINDS
def test_a_server_that_nobody_knows_is_asked_for_no_usage_and_its_bytes_are_the_callers(
    tmp_path: Path, far: Far, kind: Any
) -> None:
    """Beside the calls it is asked for its models alone, because it is on this machine."""
    far.sent.clear()
    with an_accel(tmp_path) as accel:
        bare = kind(base_url=far.url, api_key="k", max_retries=0)
        whole, chunks = streamed(accel.wrap(bare))
        if kind is openai.OpenAI:
            bare.close()
    assert whole == b"".join(PIECES)
    assert [bool(one["choices"]) for one in chunks] == [True, True, False]
    assert chunks[-1]["usage"]["prompt_tokens"] == 5000
    calls = [one for one in far.sent if one.body]
    assert [json.loads(one.body) for one in calls] == [ASK, ASK]
    assert {one.path for one in far.sent} <= {"/chat/completions", "/models"}
    assert used(tmp_path) == [(5000, 4000, 10)] * 2


@KINDS
@pytest.mark.parametrize("host", HOSTS)
def test_so_it_is_at_hosts_that_are_known_for_something_else(tmp_path: Path, kind: Any, host: str) -> None:
    """Of none of them it is documented that a stream reports usage only when it is asked to."""
    client = at(host, kind)
    whole, chunks = streamed(an_accel(tmp_path).wrap(client))
    assert (whole, len(chunks)) == (b"".join(PIECES), 3)
    assert used(tmp_path) == [(5000, 4000, 10)] * 2


def test_without_the_look_at_who_needs_to_be_asked_the_caller_loses_a_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    monkeypatch.setattr("agentaccel.engine.fields.usage_asked", lambda *of: True)
    whole, chunks = streamed(an_accel(tmp_path).wrap(at(HOSTS[2], openai.OpenAI)))
    assert (whole, len(chunks)) == (b"".join([*PIECES[:2], PIECES[3]]), 2)


def at(host: str, kind: Any) -> Any:
    """A client of `host`, where these pieces are answered without a socket."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=_body())

    async def answer_async(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=_body_async())

    if kind is openai.OpenAI:
        http: Any = httpx2.Client(transport=httpx2.MockTransport(answer))
    else:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer_async))
    return kind(base_url=host, api_key="k", max_retries=0, http_client=http)


def _body() -> Iterator[bytes]:
    yield from PIECES


async def _body_async() -> AsyncIterator[bytes]:
    for piece in PIECES:
        yield piece
