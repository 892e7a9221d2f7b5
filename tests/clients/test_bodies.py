"""Bodies that we may not write anew, for they are signed or would say something else: sent to the byte, recorded."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from agentaccel.clients import bodies
from tests.clients.dialects import CHAT, RESPONSES
from tests.clients.wire import an_accel, records


class Far:
    """Refuses everything, and remembers it."""

    def __init__(self) -> None:
        self.requests = list[httpx2.Request]()

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(400, json={"error": {"type": "invalid_request_error", "message": "No."}})


def wrapped(folder: Path, far: Far, **options: Any) -> Any:
    http = httpx2.Client(transport=httpx2.MockTransport(far), verify=False, **options)
    return an_accel(folder).wrap(openai.OpenAI(api_key="k", max_retries=0, http_client=http))


def ask(client: Any, **more: Any) -> None:
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**CHAT, **more)


# --- signed -----------------------------------------------------------------------------------------------


class Signs(httpx2.Auth):
    """Signs the body in a header of its own invention."""

    requires_request_body = True

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["x-own"] = hashlib.sha256(request.content).hexdigest()
        yield request


DIGESTS: dict[str, Callable[[bytes], str]] = {
    "Content-MD5": lambda data: base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode(),
    "Content-Digest": lambda data: f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:",
    "Digest": lambda data: f"SHA-256={base64.b64encode(hashlib.sha256(data).digest()).decode()}",
    "X-Amz-Content-Sha256": lambda data: hashlib.sha256(data).hexdigest(),
    "X-Content-Sha256": lambda data: base64.b64encode(hashlib.sha256(data).digest()).decode(),
    "Authorization": lambda data: f"AWS4-HMAC-SHA256 Signature={hashlib.sha256(data).hexdigest()}",
}


@pytest.mark.parametrize("header", DIGESTS)
def test_a_body_that_was_signed_by_a_hook_is_sent_as_it_was_signed(tmp_path: Path, header: str) -> None:
    """Promised: never a refusal of our making; the turn is recorded as one that we kept off."""

    def sign(request: httpx2.Request) -> None:
        request.headers[header] = DIGESTS[header](request.content)

    far = Far()
    ask(wrapped(tmp_path, far, event_hooks={"request": [sign]}), stream=True)
    [sent] = far.requests
    assert sent.headers[header] == DIGESTS[header](sent.content)
    assert json.loads(sent.content) == {**CHAT, "stream": True}
    assert [(one.mode, one.outcome) for one in records(tmp_path)] == [("bypass", "failed")]


def test_a_body_that_an_auth_has_read_is_sent_as_it_was_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As above, whatever the header is called; one line says so."""
    far = Far()
    client = wrapped(tmp_path, far, auth=Signs())
    for _ in range(2):
        ask(client)
    for sent in far.requests:
        assert sent.headers["x-own"] == hashlib.sha256(sent.content).hexdigest()
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) == 1


def test_a_body_that_nobody_signed_is_changed(tmp_path: Path) -> None:
    """The twin: with a token alone, or an auth that does not read the body, the request is planned for."""
    far = Far()
    ask(wrapped(tmp_path, far, auth=httpx2.BasicAuth("a", "b")))
    assert json.loads(far.requests[0].content) != CHAT
    assert [one.mode for one in records(tmp_path)] == ["on"]


# --- what would be lost -----------------------------------------------------------------------------------------------

PLAIN = json.dumps(CHAT).encode()


def post(client: Any, data: bytes) -> None:
    reply = client._client.post(
        "https://api.openai.com/v1/chat/completions", content=data, headers={"content-type": "application/json"}
    )
    assert reply.status_code == 400


KEPT: dict[str, bytes] = {
    "beyond a double": PLAIN[:-1] + b', "temperature": 1e400}',
    "below a double": PLAIN[:-1] + b', "temperature": -1e400}',
    "not a number": PLAIN[:-1] + b', "temperature": NaN}',
    "infinity": PLAIN[:-1] + b', "temperature": [-Infinity]}',
    "a name twice": PLAIN[:-1] + b', "model": "gpt-6-sol"}',
    "a name twice within": PLAIN[:-1] + b', "metadata": {"a": "1", "a": "1"}}',
    "a byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "another encoding": json.dumps(CHAT).encode("utf-16"),
    "bytes of no character": PLAIN[:-1] + b', "user": "\xed\xa0\x80"}',
}


@pytest.mark.parametrize("why", KEPT)
def test_a_body_that_would_say_something_else_goes_out_to_the_byte(tmp_path: Path, why: str) -> None:
    """Chosen by us: what such a body means is for the provider to say; it is recorded."""
    far = Far()
    post(wrapped(tmp_path, far), KEPT[why])
    assert far.requests[0].content == KEPT[why]
    assert [one.mode for one in records(tmp_path)] == ["bypass"]


@pytest.mark.parametrize(
    "extra", [rb'"user": "bad \ud83d half"', b'"seed": 36893488147419103232', rb'"user": "\u00fc"']
)
def test_a_body_that_can_be_written_anew_is_valid_and_says_the_same(tmp_path: Path, extra: bytes) -> None:
    """Chosen by us, and the twin: half a surrogate pair stays escaped, and integers keep their digits."""
    far, data = Far(), PLAIN[:-1] + b", " + extra + b"}"
    post(wrapped(tmp_path, far), data)
    sent = json.loads(far.requests[0].content.decode())
    assert "prompt_cache_breakpoint" in json.dumps(sent)
    assert {**sent, "messages": CHAT["messages"]} == json.loads(data)


# --- what is not ours -----------------------------------------------------------------------------------------------


def test_bodies_of_other_calls_are_not_even_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen by us: embeddings of a megabyte cost nothing here; the path is looked at first."""

    def read(*given: Any, **named: Any) -> Any:
        raise AssertionError("parsed")

    monkeypatch.setattr(bodies, "read", read)
    client = wrapped(tmp_path, Far())
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="m", input="x")
    with pytest.raises(AssertionError, match="parsed"):
        client.responses.create(**RESPONSES)
