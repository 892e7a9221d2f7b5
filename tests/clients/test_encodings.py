"""A stream whose usage we asked for, and a server that encodes it in spite of what it was asked: as without us."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from agentaccel.clients import usage_filter as hiding
from tests.clients.wire import Peer, an_accel, records, stream
from tests.driver import Json

USAGE: Json = {"prompt_tokens": 2000, "completion_tokens": 1, "total_tokens": 2001}


def chunk(**more: Any) -> bytes:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**base, **more}).encode() + b"\n\n"


WORDS = [chunk(choices=[{"index": 0, "delta": {"content": f"{n} ü"}, "finish_reason": None}]) for n in range(9)]
COUNTED = b"".join([*WORDS, chunk(choices=[], usage=USAGE), b"data: [DONE]\n\n"])
"""What comes where usage was asked for."""
FAILED = b"".join([*WORDS, chunk(choices=[], usage=USAGE, error={"message": "Down."})])


def _cut(data: bytes) -> list[bytes]:
    return [data[at : at + 17] for at in range(0, len(data), 17)]


ENCODED: dict[str, tuple[str, bytes]] = {
    "plain": ("", COUNTED),
    "identity": ("identity", COUNTED),
    "gzip": ("gzip", gzip.compress(COUNTED)),
    "deflate": ("deflate", zlib.compress(COUNTED)),
    "twice": ("deflate, gzip", gzip.compress(zlib.compress(COUNTED))),
    "unknown": ("x-own", COUNTED),
    "no gzip": ("gzip", COUNTED),
    "corrupt": ("gzip", gzip.compress(COUNTED)[:60] + b"\xff" * 60),
    "cut short": ("gzip", gzip.compress(COUNTED)[:-30]),
    "an error beside the usage": ("", FAILED),
    "an error beside the usage, gzip": ("gzip", gzip.compress(FAILED)),
}


def client_of(peer: Peer) -> Any:
    http = httpx2.Client(transport=httpx2.MockTransport(peer.answer), verify=False)
    return openai.OpenAI(api_key="k", max_retries=0, http_client=http)


def async_client_of(peer: Peer) -> Any:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(peer.answer_async), verify=False)
    return openai.AsyncOpenAI(api_key="k", max_retries=0, http_client=http)


ASKED: Json = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi."}], "stream": True}


def answer(how: str) -> Peer:
    encoding, data = ENCODED[how]
    return Peer(stream(_cut(data), headers={"content-encoding": encoding} if encoding else {}))


def told(error: BaseException) -> Any:
    return type(error), str(error), type(error.__cause__), str(error.__cause__)


def seen(client: Any) -> list[Any]:
    """Chunks, and the exception with its cause, as a caller has them."""
    got: list[Any] = []
    try:
        with client.chat.completions.create(**ASKED) as events:
            got += [one.model_dump() for one in events]
    except Exception as error:  # noqa: BLE001 - whatever its caller sees is what is compared
        got.append(told(error))
    return got


async def seen_async(client: Any) -> list[Any]:
    got: list[Any] = []
    try:
        async with await client.chat.completions.create(**ASKED) as events:
            got += [one.model_dump() async for one in events]
    except Exception as error:  # noqa: BLE001 - as above
        got.append(told(error))
    return got


def uncounted(got: list[Any]) -> list[Any]:
    return [one for one in got if not (isinstance(one, dict) and one["usage"])]


@pytest.mark.many(3)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("how", ENCODED)
def test_a_stream_encoded_in_any_way_is_what_it_is_bare(tmp_path: Path, how: str, asynchronous: bool) -> None:
    """Promised: the same chunks but for the usage that we asked for, and the same exception where it is broken."""
    accel = an_accel(tmp_path, strict=False)
    if asynchronous:
        bare = asyncio.run(seen_async(async_client_of(answer(how))))
        ours = asyncio.run(seen_async(accel.wrap(async_client_of(answer(how)))))
    else:
        bare, ours = seen(client_of(answer(how))), seen(accel.wrap(client_of(answer(how))))
    assert ours == uncounted(bare)
    assert bare
    [turn] = records(tmp_path)
    assert turn.usage.input == (2000 if how in ("plain", "identity", "gzip", "deflate") else turn.usage.input)


@pytest.mark.parametrize("how", ["gzip", "twice", "no gzip"])
def test_raw_bytes_and_headers_of_an_encoded_stream_are_the_servers(tmp_path: Path, how: str) -> None:
    """Chosen by us: compressed bytes cannot be cut, so a reader of raw bytes gets the usage chunk that came."""
    accel = an_accel(tmp_path, strict=False)
    for client in (client_of(answer(how)), accel.wrap(client_of(answer(how)))):
        with client.chat.completions.with_streaming_response.create(**ASKED) as reply:
            assert reply.headers["content-encoding"] == ENCODED[how][0]
            assert b"".join(reply.http_response.iter_raw()) == ENCODED[how][1]


def test_without_the_librarys_decoder_nothing_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin, and what a library without that part would give: every chunk, and no exception."""
    monkeypatch.setattr(hiding, "_hide_decoded", lambda http: None)
    ours = seen(an_accel(tmp_path).wrap(client_of(answer("gzip"))))
    assert ours == seen(client_of(answer("gzip")))
    assert ours != uncounted(ours)


def test_a_reply_made_up_whole_keeps_its_headers(tmp_path: Path) -> None:
    """Chosen by us: somebody's tests answer with bytes; of those, only what we asked for is missing."""
    headers = {"content-type": "text/event-stream", "x-request-id": "req_7", "content-encoding": "gzip"}

    def answered(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=headers, content=gzip.compress(COUNTED))

    http = httpx2.Client(transport=httpx2.MockTransport(answered), verify=False)
    client = an_accel(tmp_path).wrap(openai.OpenAI(api_key="k", http_client=http))
    with client.chat.completions.with_streaming_response.create(**ASKED) as reply:
        assert reply.headers["x-request-id"] == "req_7"
        assert reply.read() == b"".join([*WORDS, b"data: [DONE]\n\n"])
