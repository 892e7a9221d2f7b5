"""What the caller of a call that is streamed inside the client sees is what the caller of the bare client sees."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from pydantic import BaseModel

from agentaccel import Accel
from agentaccel.wire.anthropic.joining import MessageJoiner
from agentaccel.wire.joining import Whole
from agentaccel_emulator import Fault, RunningServer
from tests.clients.dialects import DIALECTS, Dialect, look, still_server, uncounted
from tests.clients.inside import consenting
from tests.clients.wire import ASK, EVENTS, MESSAGE, Hold, Peer, Reply, message, records, stream, zipped
from tests.driver import Json, tool
from tests.wire.replies import end, sse, start, text
from tests.wire.test_joining import answered

STREAMED: Json = {**MESSAGE, "content": [{"type": "text", "text": "Grüße 🚚"}, MESSAGE["content"][1]]}
"""The message that `EVENTS` add up to."""
WIRES = ("messages", "chat", "responses")
_CALL: Json = {"type": "tool_use", "name": "search", "input": {"q": "a lamp"}}
REPLIES: dict[str, Json] = {
    "text": {"content": [{"type": "text", "text": "Grüße 🚚, this takes two days."}]},
    "nothing": {"content": []},
    "a call": {"content": [_CALL]},
    "a call without arguments": {"content": [{**_CALL, "input": {}}]},
    "parallel calls": {
        "content": [{"type": "text", "text": "Both."}, _CALL, {**_CALL, "input": {"q": "ß", "n": 1e16}}]
    },
    "thinking": {"content": [{"type": "thinking", "thinking": "Hm. " * 9, "signature": "EqQBCgIYAhIkM2"}, _CALL]},
    "a server's tool": {
        "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "lamps"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "text", "text": "Lamps."},
        ]
    },
    "cut": {"content": [{"type": "text", "text": "This takes"}], "stop_reason": "max_tokens"},
    "refusal": {"content": [{"type": "text", "text": "No."}], "stop_reason": "refusal"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with still_server() as running:
        yield running


def reset(server: RunningServer, *replies: Any) -> None:
    server.emulator.reset()
    server.emulator.use_faults([])
    server.emulator.use_script(list(replies))


@pytest.mark.many(2)
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_is_the_one_of_a_call_that_is_not_streamed(
    tmp_path: Path, server: RunningServer, wire: str, reply: str, asynchronous: bool
) -> None:
    found = []
    for wrap in (lambda bare: bare, DIALECTS[wire].wrapped(consenting(tmp_path))):
        reset(server, REPLIES[reply])
        found.append(look(DIALECTS[wire], server, wrap=wrap, streamed=False, asynchronous=asynchronous))
        assert found[-1].seen[1] is None
    bare, ours = found
    assert ours == bare
    assert server.log[-1].request["stream"] is True


@pytest.mark.parametrize("wire", WIRES)
def test_the_usage_is_the_providers_and_the_record_says_how_the_call_was_sent(
    tmp_path: Path, server: RunningServer, wire: str
) -> None:
    """The time to the first byte is known, although the caller gets nothing before the last one."""
    dialect, accel = DIALECTS[wire], consenting(tmp_path)
    reset(server, REPLIES["a call"])
    with dialect.client(server) as bare:
        client = dialect.wrapped(accel)(bare)
        usage = dialect.calls(client).create(**dialect.ask).usage
    [turn] = records(tmp_path)
    assert turn.usage.output == (usage.completion_tokens if wire == "chat" else usage.output_tokens)
    assert (turn.outcome, turn.streamed, turn.consents) == ("ok", True, ("stream_inside",))
    assert turn.first_byte is not None
    assert any("streamed inside the client" in reason for reason in turn.reasons)


# --- raw responses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
def test_a_raw_response_is_that_of_a_json_reply(tmp_path: Path, server: RunningServer, wire: str) -> None:
    """Headers, text, model and times; but for what the wire itself says of its body."""
    dialect, seen = DIALECTS[wire], []
    for wrap in (lambda bare: bare, dialect.wrapped(consenting(tmp_path))):
        reset(server, REPLIES["parallel calls"])
        with dialect.client(server) as bare:
            raw = dialect.calls(wrap(bare)).with_raw_response.create(**dialect.ask)
            assert raw.http_response.elapsed.total_seconds() >= 0
            assert raw.http_request.url.path.startswith("/v1/")
            headers = {name: value for name, value in raw.headers.items() if name not in _OF_TIME}
            content = raw.http_response.content
            assert int(raw.headers["content-length"]) == len(content)
            parsed = uncounted(raw.parse().model_dump(warnings=False))
            seen.append((type(raw), raw.status_code, headers, uncounted(json.loads(content)), parsed))
    assert seen[1] == seen[0]
    assert server.log[-1].request["stream"] is True


_OF_TIME = ("date", "content-length", "anthropic-ratelimit-tokens-remaining", "x-ratelimit-remaining-tokens")


class Answer(BaseModel):
    q: str


def test_helpers_that_parse_what_comes_back_do(tmp_path: Path, server: RunningServer) -> None:
    """They give the SDK a function that makes more of the reply."""
    accel = consenting(tmp_path)
    reset(server, {"content": [{"type": "text", "text": '{"q": "lamp"}'}]})
    dialect = DIALECTS["chat"]
    with dialect.client(server) as bare:
        completion = accel.wrap(bare, platform="api").chat.completions.parse(
            **{**dialect.ask, "tools": [_strict(dialect.ask["tools"][0])]}, response_format=Answer
        )
    assert completion.choices[0].message.parsed == Answer(q="lamp")
    with DIALECTS["messages"].client(server) as bare:
        reply = accel.wrap(bare).messages.parse(**ASK, output_format=Answer)
    assert reply.parsed_output == Answer(q="lamp")
    assert [entry.request["stream"] for entry in server.log] == [True, True]


def _strict(function: Json) -> Json:
    parameters = {**function["function"]["parameters"], "additionalProperties": False, "required": ["q"]}
    return {"type": "function", "function": {**function["function"], "strict": True, "parameters": parameters}}


# --- calls that are left alone ----------------------------------------------------------------------------------------


def reads_bytes(dialect: Dialect, client: Any) -> None:
    with dialect.calls(client).with_streaming_response.create(**dialect.ask) as response:
        assert json.loads(b"".join(response.iter_bytes()))["id"]


def reads_the_librarys_response(dialect: Dialect, client: Any) -> None:
    path = {"messages": "/v1/messages", "chat": "/chat/completions", "responses": "/responses"}[dialect.wire]
    assert client.post(path, body=dialect.ask, cast_to=httpx2.Response).json()["id"]


def has_no_tools(dialect: Dialect, client: Any) -> None:
    dialect.calls(client).create(**{name: value for name, value in dialect.ask.items() if name != "tools"})


LEFT: list[tuple[Callable[[Dialect, Any], None], str]] = [
    (reads_bytes, "can put one together"),
    (has_no_tools, "it has no tools"),
]


def sent_whole(server: RunningServer) -> bool:
    return not {"stream", "stream_options"} & set(server.log[-1].request)


@pytest.mark.parametrize(("way", "why"), LEFT, ids=lambda it: getattr(it, "__name__", ""))
@pytest.mark.parametrize("wire", WIRES)
def test_a_call_is_left_alone(
    tmp_path: Path, server: RunningServer, wire: str, way: Callable[[Dialect, Any], None], why: str
) -> None:
    """And the plan says why, where the consent was given."""
    dialect = DIALECTS[wire]
    reset(server, REPLIES["text"])
    with dialect.client(server) as bare:
        way(dialect, dialect.wrapped(consenting(tmp_path))(bare))
    assert sent_whole(server)
    [turn] = records(tmp_path)
    assert (turn.streamed, turn.consents) == (False, ())
    [told] = [reason for reason in turn.reasons if "not streamed inside the client" in reason]
    assert why in told


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_that_is_bypassed_is_left_alone(tmp_path: Path, server: RunningServer, wire: str) -> None:
    dialect, accel = DIALECTS[wire], consenting(tmp_path)
    reset(server, REPLIES["text"])
    with dialect.client(server) as bare, accel.bypass():
        dialect.calls(dialect.wrapped(accel)(bare)).create(**dialect.ask)
    assert sent_whole(server)


@pytest.mark.parametrize("wire", WIRES)
def test_a_control_group_is_left_alone(tmp_path: Path, server: RunningServer, wire: str) -> None:
    dialect = DIALECTS[wire]
    reset(server, REPLIES["text"])
    with dialect.client(server) as bare:
        dialect.calls(dialect.wrapped(consenting(tmp_path, holdout=0.999999))(bare)).create(**dialect.ask)
    assert sent_whole(server)
    [turn] = records(tmp_path)
    assert (turn.mode, turn.streamed, turn.consents) == ("holdout", False, ())
    assert not any("streamed inside" in reason for reason in turn.reasons)


def test_a_caller_of_anthropic_that_reads_the_librarys_response_is_left_alone(
    tmp_path: Path, server: RunningServer
) -> None:
    reset(server, REPLIES["text"])
    with DIALECTS["messages"].client(server) as bare:
        reads_the_librarys_response(DIALECTS["messages"], consenting(tmp_path).wrap(bare))
    assert sent_whole(server)


@pytest.mark.parametrize("name", ["bedrock", "vertex"])
def test_platforms_with_a_wire_of_their_own_are_left_alone(tmp_path: Path, server: RunningServer, name: str) -> None:
    """They say in the path whether a reply is streamed."""
    dialect = DIALECTS[name]
    reset(server, REPLIES["text"])
    with dialect.client(server) as bare:
        dialect.calls(dialect.wrapped(consenting(tmp_path))(bare)).create(**dialect.ask)
    [turn] = records(tmp_path)
    assert (turn.outcome, turn.streamed, turn.consents) == ("ok", False, ())
    assert any(f"it is not known how a stream of '{name}' adds up" in reason for reason in turn.reasons)


@pytest.mark.parametrize("platform", ["azure", "vllm", "server", "openrouter"])
def test_servers_of_others_are_left_alone(tmp_path: Path, server: RunningServer, platform: str) -> None:
    """What they leave out of a stream, or tell otherwise in it, is not known."""
    reset(server, REPLIES["text"])
    with DIALECTS["chat"].client(server) as bare:
        consenting(tmp_path).wrap(bare, platform=platform).chat.completions.create(**DIALECTS["chat"].ask)
    assert sent_whole(server)


def test_a_field_that_nobody_knows_leaves_the_call_alone(tmp_path: Path) -> None:
    peer = Peer(message())
    consenting(tmp_path).wrap(peer.client()).messages.create(**ASK, extra_body={"made_up": 1})
    assert "stream" not in peer.sent[0]
    assert any("'made_up'" in reason for reason in records(tmp_path)[0].reasons)


def test_middleware_that_is_added_later_sees_the_call_as_it_was(tmp_path: Path) -> None:
    """It stands between us and the wire, and may read the reply."""
    peer, seen = Peer(message()), []

    def looks(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        seen.append((request.stream, response.json()["id"]))
        return response

    client = consenting(tmp_path).wrap(peer.client())
    client.with_options(middleware=[*client.middleware, looks]).messages.create(**ASK)
    assert seen == [(False, "msg_1")]
    assert "stream" not in peer.sent[0]


def test_middleware_that_was_there_before_sees_the_whole_reply(tmp_path: Path) -> None:
    peer, seen = Peer(stream()), []

    def looks(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        seen.append((request.stream, response.headers["content-type"], response.json()))
        return response

    bare = peer.client(middleware=[looks])
    consenting(tmp_path).wrap(bare).messages.create(**ASK)
    assert seen == [(False, "application/json", STREAMED)]
    assert peer.sent[0]["stream"] is True


def test_a_hook_of_the_http_client_may_have_read_the_stream(tmp_path: Path) -> None:
    """Nothing begins early then; the reply is the same."""
    peer = Peer(stream())
    http = httpx2.Client(
        transport=httpx2.MockTransport(peer.answer), event_hooks={"response": [lambda response: response.read()]}
    )
    bare = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
    assert consenting(tmp_path).wrap(bare).messages.create(**ASK).to_dict() == STREAMED


def test_a_server_that_does_not_stream_after_all_is_believed(tmp_path: Path) -> None:
    peer = Peer(message())
    assert consenting(tmp_path).wrap(peer.client()).messages.create(**ASK).to_dict() == MESSAGE
    assert peer.sent[0]["stream"] is True


@pytest.mark.parametrize("beta", [False, True])
def test_a_stream_that_comes_encoded_is_read_as_it_is(tmp_path: Path, beta: bool) -> None:
    """And so is one of the beta resource, whose path has a query."""
    peer = Peer(zipped(stream()))
    client = consenting(tmp_path).wrap(peer.client())
    raw = (client.beta if beta else client).messages.with_raw_response.create(**ASK)
    assert (raw.json() if hasattr(raw, "json") else raw.parse().to_dict()) == STREAMED
    assert "content-encoding" not in raw.headers
    assert peer.sent[0]["stream"] is True
    [turn] = records(tmp_path)
    assert turn.usage.output == 12


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_goes_wrong_behind_the_whole_reply_is_nobodys_concern(tmp_path: Path, asynchronous: bool) -> None:
    """As behind the last byte of a JSON reply."""
    peer = Peer(stream([*(sse([event]) for event in EVENTS), httpx2.ReadError("reset")]))
    accel = consenting(tmp_path)
    if asynchronous:
        reply = asyncio.run(accel.wrap(peer.async_client()).messages.create(**ASK))
    else:
        reply = accel.wrap(peer.client()).messages.create(**ASK)
    assert reply.to_dict() == STREAMED
    assert peer.bodies[0].closed
    assert [turn.outcome for turn in records(tmp_path)] == ["ok"]


def test_a_stream_that_is_not_encoded_as_it_says_fails_as_a_whole_reply_does(tmp_path: Path) -> None:
    broken = {"headers": {"content-encoding": "gzip"}}
    failures = []
    ours = consenting(tmp_path, strict=False).wrap(Peer(stream(**broken)).client())
    for client in (Peer(message(**broken)).client(), ours):
        with pytest.raises(anthropic.APIConnectionError) as raised:
            client.messages.create(**ASK)
        failures.append(type(raised.value.__cause__))
    assert failures == [httpx2.DecodingError] * 2


def test_a_sync_client_begins_its_tools_in_a_thread(tmp_path: Path) -> None:
    """The run is the call's own, whatever it waits for: it is made once."""
    ran: list[str] = []
    accel = consenting(tmp_path)

    @accel.tool(effect="read_local", concurrent=True, in_thread=True)
    def f(a: int) -> str:
        ran.append(f"found {a}")
        return ran[-1]

    with accel.session("s") as session:
        reply: Any = accel.wrap(Peer(stream()).client()).messages.create(**ASKED_F)
        assert f(**reply.content[1].input) == "found 1"
        assert session.speculation.asked.served == 1
    assert ran == ["found 1"]


ASKED_F: Json = {**ASK, "tools": [tool("f")]}


# --- what does not add up ---------------------------------------------------------------------------------------------

ODD = [start(), {"type": "content_block_sung", "index": 0}, *text("So"), *end()]


async def test_what_does_not_add_up_is_asked_again_as_written_and_left_alone_from_then_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller gets the provider's own answer, never ours; each exchange has its record."""
    peer = Peer(stream([sse(ODD)]), message())
    client = consenting(tmp_path).wrap(peer.async_client())
    with caplog.at_level(logging.INFO, "agentaccel"):
        for _ in range(2):
            assert (await client.messages.create(**ASK)).to_dict() == MESSAGE
    assert [one.get("stream") for one in peer.sent] == [True, None, None]
    assert peer.bodies[0].closed
    assert [line for line in caplog.messages if "cannot be streamed" in line] == [
        "agentaccel: a call of 'claude-sonnet-5' cannot be streamed inside the client (nothing is known of the event "
        "content_block_sung); it is sent again as written, and so are later ones"
    ]
    turns = records(tmp_path)
    assert [turn.streamed for turn in turns] == [True, False, False]
    assert any("could not be streamed before" in reason for reason in turns[-1].reasons)


def test_the_same_of_openai(tmp_path: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentaccel.wire.openai.joining._OF_CHUNKS", frozenset({"object", "obfuscation"}))
    monkeypatch.setattr("agentaccel.wire.openai.joining.ChatJoiner._choice", lambda self, told: told["nothing"])
    dialect = DIALECTS["chat"]
    reset(server, REPLIES["text"])
    with dialect.client(server) as bare:
        client = dialect.wrapped(consenting(tmp_path))(bare)
        reply = dialect.calls(client).create(**dialect.ask)
    assert reply.choices[0].message.content == REPLIES["text"]["content"][0]["text"]
    assert [bool(entry.request.get("stream")) for entry in server.log] == [True, False]


REFUSED: Json = {
    "error": {
        "message": "Your organization must be verified to stream this model.",
        "type": "invalid_request_error",
        "param": "stream",
        "code": "unsupported_value",
    }
}


def refusal(body: Json = REFUSED, status: int = 400) -> Reply:
    return Reply([json.dumps(body).encode()], status)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_call_that_is_refused_as_a_streamed_one_is_sent_as_written(tmp_path: Path, asynchronous: bool) -> None:
    """A 400 of our making never reaches the caller; the call after that is not streamed any more."""
    peer = Peer(refusal(), message())
    accel = consenting(tmp_path)
    for _ in range(2):
        if asynchronous:
            reply = asyncio.run(accel.wrap(peer.async_client()).messages.create(**ASK))
        else:
            reply = accel.wrap(peer.client()).messages.create(**ASK)
        assert reply.to_dict() == MESSAGE
    assert [one.get("stream") for one in peer.sent] == [True, None, None]
    assert peer.bodies[0].closed
    assert [(turn.outcome, turn.status) for turn in records(tmp_path)] == [("failed", 400), ("ok", None), ("ok", None)]


def test_the_same_of_openai_whose_client_has_no_middleware(tmp_path: Path) -> None:
    body = json.loads(answered("chat", REPLIES["text"])[1])
    peer = Peer(refusal(), message(body))
    http = httpx2.Client(transport=httpx2.MockTransport(peer.answer))
    client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
    reply = consenting(tmp_path).wrap(client).chat.completions.create(**DIALECTS["chat"].ask)
    assert reply.to_dict() == body
    assert [one.get("stream") for one in peer.sent] == [True, None]


def test_any_other_refusal_is_the_callers(tmp_path: Path) -> None:
    """With its whole body, and no second request."""
    other = {"error": {"type": "invalid_request_error", "message": "max_tokens is too large"}}
    peer = Peer(refusal(other))
    with pytest.raises(anthropic.BadRequestError) as raised:
        consenting(tmp_path).wrap(peer.client()).messages.create(**ASK)
    assert raised.value.body == other
    assert len(peer.sent) == 1


def test_our_own_failure_is_one_log_line_and_a_call_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("agentaccel.clients.joining._made", fails)
    peer = Peer(stream(), message())
    client = consenting(tmp_path, strict=False).wrap(peer.client())
    assert client.messages.create(**ASK).to_dict() == MESSAGE
    assert len([line for line in caplog.messages if "could not put a reply together" in line]) == 1


def test_what_nobody_knows_of_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: a joiner that passes over an event loses what it said."""
    monkeypatch.setattr(MessageJoiner, "event", _passing_over(MessageJoiner.event))
    peer = Peer(stream([sse(ODD)]), message())
    reply = consenting(tmp_path).wrap(peer.client()).messages.create(**ASK)
    assert len(peer.sent) == 1
    assert reply.to_dict() != MESSAGE


def _passing_over(event: Any) -> Any:
    return lambda self, kind, told: None if kind == "content_block_sung" else event(self, kind, told)


def test_without_the_table_an_error_in_a_stream_is_taken_for_an_answer(
    tmp_path: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the statuses: with them the caller gets the SDK's exception."""

    def ask(accel: Accel) -> Any:
        reset(server, REPLIES["text"])
        server.emulator.use_faults([Fault(kind="overloaded_mid_stream")])
        with DIALECTS["messages"].client(server) as bare:
            return accel.wrap(bare).messages.create(**ASK)

    accel = consenting(tmp_path)
    with pytest.raises(anthropic.InternalServerError) as raised:
        ask(accel)
    assert raised.value.status_code == 529
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["error"]["type"] == "overloaded_error"
    monkeypatch.setattr("agentaccel.wire.anthropic.joining._status", lambda error: 200)
    assert ask(accel).type == "error"


# --- consent, cancelling ----------------------------------------------------------------------------------------------


def test_the_consent_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer(stream())
    client = consenting(tmp_path).wrap(peer.client())
    with caplog.at_level(logging.INFO, "agentaccel"):
        for _ in range(2):
            client.messages.create(**ASK)
    assert caplog.messages.count("agentaccel: sending calls with tools as streamed ones, as the policy allows") == 1


@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
async def test_a_task_that_is_cancelled_closes_the_stream_and_leaves_nothing(tmp_path: Path, vendor: str) -> None:
    hold = Hold()
    begun = [sse([event]) for event in EVENTS[:3]] if vendor == "anthropic" else [b": hi\n\n"]
    peer = Peer(stream([*begun, hold]))
    accel = consenting(tmp_path)
    calling: Any
    if vendor == "anthropic":
        calling = accel.wrap(peer.async_client()).messages.create(**ASK)
    else:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(peer.answer_async))
        client = openai.AsyncOpenAI(api_key="k", http_client=http, max_retries=0)
        calling = accel.wrap(client).chat.completions.create(**DIALECTS["chat"].ask)
    task = asyncio.ensure_future(calling)
    await hold.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert peer.bodies[0].closed
    assert peer.bodies[0].left
    assert asyncio.all_tasks() == {asyncio.current_task()}
    [turn] = records(tmp_path)
    assert (turn.outcome, turn.streamed) == ("cancelled", True)


def test_a_joiner_never_raises() -> None:
    """Whatever comes: its reader is the one to complain."""
    joiner = MessageJoiner()
    joiner.feed(b"data: [1]\n\n")
    assert not isinstance(joiner.end(), Whole)
