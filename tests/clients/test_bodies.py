"""Bodies that we may not write anew, for they are signed or would say something else: sent to the byte, recorded."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import anthropic
import httpx2
import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.clients import bodies
from tests.clients.dialects import CHAT, RESPONSES
from tests.clients.wire import ASK, Peer, an_accel, message, records


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


# --- bodies that the vendor's SDK need not write ----------------------------------------------------------------------


class Colour(str):
    """Text of a class of its own."""


class Labelled(StrEnum):
    """Text with a value that is another one: what encoders make of it differs."""

    RED = ("red", "the colour of signals")

    def __new__(cls, text: str, label: str) -> Labelled:
        made = str.__new__(cls, text)
        made._value_ = label
        return made


class Odd(Enum):
    NO_NUMBER = float("nan")


ODD: dict[str, Any] = {
    "nothing": None,
    "words": "null and void \u2028 \x00 / <",
    "long": 2**70,
    "small": 1e-7,
    "large": 1e22,
    "pairs": {2: "a", None: "b", True: "c"},
    "a class of its own": Colour("red"),
    "a value of its own": Labelled.RED,
    "a time": datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
    "a tuple": (1, [2.5, -0.0], {}),
    "deep": json.loads('{"a":' * 300 + "1" + "}" * 300),
}


def with_input(value: Any) -> Any:
    call = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"value": value}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    said = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    asked = [{"role": "user", "content": [{"type": "text", "text": ASK["messages"][0]["content"]}]}]
    return {**ASK, "system": [{"type": "text", "text": ASK["system"]}], "messages": [*asked, *said]}


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: unmarked(one) for name, one in value.items() if name != "cache_control"}
    return [unmarked(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ODD)
def test_what_a_marked_body_says_is_what_the_sdk_would_have_said(tmp_path: Path, name: str) -> None:
    """Promised: marked, and nothing else; in the same order."""
    bare, far = Peer(message()), Peer(message())
    bare.client().messages.create(**with_input(ODD[name]))
    an_accel(tmp_path).wrap(far.client()).messages.create(**with_input(ODD[name]))
    sent, said = far.requests[0].content, bare.requests[0].content
    assert b"cache_control" in sent
    assert json.dumps(unmarked(json.loads(sent))) == json.dumps(json.loads(said))
    assert far.requests[0].headers["content-type"] == bare.requests[0].headers["content-type"]


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), b"bytes", Decimal(1), {1}, "\ud800", Odd.NO_NUMBER, UUID(int=1)], ids=repr
)
def test_what_the_sdk_refuses_to_write_it_still_refuses(tmp_path: Path, value: Any) -> None:
    """Promised: never a request that the bare client would not have sent, as NaN that became null."""
    ends = []
    for wrap in (lambda client: client, an_accel(tmp_path).wrap):
        far = Peer(message())
        client = wrap(far.client())
        try:
            client.messages.create(**with_input([value]))
        except (TypeError, ValueError) as error:
            ends.append(type(error))
        else:
            ends.append(json.loads(far.requests[0].content)["messages"][-2]["content"][0]["input"])
    assert ends[0] == ends[1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.sampled_from(["a", 'b"', "\n", "é"]), inner),
    max_leaves=60,
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(st.dictionaries(st.sampled_from(["messages", "tools", 'x"', ""]), JSON), max_size=5))
def test_a_body_is_written_as_by_one_stroke_whatever_was_written_before(before: list[dict[str, Any]]) -> None:
    """Chosen by us: piece by piece, so that what came before need not be looked at."""
    writer = bodies.Writer()
    for body in [*before, *before]:
        assert writer.compact(body) == (orjson.dumps(body) if body else None)


def test_a_number_that_is_none_is_found_where_nothing_was_before() -> None:
    """Both are written as null."""
    writer = bodies.Writer()
    said = [writer.compact({"messages": [{}] * 40 + [{"seed": value}]}) for value in (None, float("nan"), None)]
    assert said[1] is None
    assert said[0] is not None
    assert said[0] == said[2]


class Other(dict[str, int]):
    """Says something else than it holds."""

    def items(self) -> Any:
        return {"z": 9}.items()


@dataclass
class Record:
    a: int = 1


@pytest.mark.parametrize("value", [Other(a=1), Record()], ids=repr)
def test_what_looks_like_something_plain_that_came_before_is_left_to_the_sdk(value: Any) -> None:
    """It is refused before it is compared."""
    writer = bodies.Writer()
    assert writer.compact({"x": {"a": 1}}) is not None
    assert writer.compact({"x": value}) is None


def test_what_is_remembered_of_bodies_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is found again after it was forgotten."""
    monkeypatch.setattr(bodies, "_MOST_KNOWN", 8)
    writer = bodies.Writer()
    for number in range(50):
        body = {"messages": list(range(number))}
        assert writer.compact(body) == orjson.dumps(body)
        assert writer.compact({"messages": [*range(number), UUID(int=1)]}) is None
        assert len(writer._plain) <= 8


@pytest.mark.parametrize("value", ["x", None])
def test_a_marked_body_is_not_written_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    """Chosen by us: the SDK's encoder takes longer than all of our work."""
    import anthropic._base_client as sdk

    def dumps(value: Any) -> bytes:
        raise AssertionError("written by the SDK")

    monkeypatch.setattr(sdk, "openapi_dumps", dumps)
    far = Peer(message())
    an_accel(tmp_path).wrap(far.client()).messages.create(**with_input(value))
    assert b"cache_control" in far.requests[0].content
    with pytest.raises(AssertionError, match="by the SDK"):
        far.client().messages.create(**ASK)


def test_a_client_of_a_class_of_its_own_finds_the_body_where_it_was(tmp_path: Path) -> None:
    """The twin: those of platforms, and a user's, take fields out of it."""

    class Client(anthropic.Anthropic):
        def _prepare_options(self, options: Any) -> Any:
            seen.append(options.json_data["model"])
            return options

    seen: list[str] = []
    far = Peer(message())
    client = Client(api_key="k", http_client=httpx2.Client(transport=httpx2.MockTransport(far.answer)))
    an_accel(tmp_path).wrap(client).messages.create(**ASK)
    assert seen == [ASK["model"]]
    assert b"cache_control" in far.requests[0].content


def test_what_another_middleware_adds_to_a_body_goes_out_with_it(tmp_path: Path) -> None:
    """The twin: the SDK joins it to the body, and takes none that is written."""

    class Adds(anthropic.Middleware):
        def handle(self, request: Any, call_next: Any) -> Any:
            request.options.extra_json = {"service_tier": "auto"}
            return call_next(request)

    far = Peer(message())
    an_accel(tmp_path).wrap(far.client().with_middleware(Adds())).messages.create(**ASK)
    assert json.loads(far.requests[0].content)["service_tier"] == "auto"
    assert b"cache_control" in far.requests[0].content


def test_a_middleware_that_is_added_later_finds_the_body_where_it_was(tmp_path: Path) -> None:
    """The twin: it stands between us and the SDK, and may do with the body what it likes."""

    class Looks(anthropic.Middleware):
        def handle(self, request: Any, call_next: Any) -> Any:
            seen.append(request.json["model"])
            return call_next(request.copy(body={**request.json, "service_tier": "auto"}))

    seen: list[str] = []
    far = Peer(message())
    an_accel(tmp_path).wrap(far.client()).with_middleware(Looks()).messages.create(**ASK)
    assert seen == [ASK["model"]]
    assert json.loads(far.requests[0].content)["service_tier"] == "auto"
    assert b"cache_control" in far.requests[0].content


FORMS: dict[str, dict[str, Any]] = {
    "by its headers": {"options": {"headers": {"Content-Type": "multipart/form-data; boundary=zz"}}},
    "by its files": {"files": {"file": b"x"}},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_call_of_another_form_is_sent_in_it(tmp_path: Path, form: str) -> None:
    """The twin: what the SDK makes of a body is then not JSON."""
    sent = []
    for wrap in (lambda client: client, an_accel(tmp_path).wrap):
        far = Peer(message())
        wrap(far.client()).post("/v1/messages", body=ASK, cast_to=object, **FORMS[form])
        sent.append(far.requests[0])
    assert sent[0].headers["content-type"] == sent[1].headers["content-type"]
    assert all(b"content-disposition: form-data" in one.read().lower() for one in sent)


def test_where_the_sdk_logs_bodies_it_has_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="anthropic")
    far = Peer(message())
    an_accel(tmp_path).wrap(far.client()).messages.create(**ASK)
    [said] = [one.getMessage() for one in caplog.records if one.getMessage().startswith("Request options")]
    assert "'json_data': {" in said
