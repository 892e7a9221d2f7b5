"""Claude as on Bedrock and on Vertex: the SDK's own clients, binary frames, errors, and the platforms' rules."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import anthropic
import httpx2
import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer
from emulator_talk import BRISK, EXACT, blocks, calls, emulator, marked, results, text, user
from emulator_talk import assistant as said

from agentaccel_emulator import Behaviour, Emulator, Fault, HttpRequest, call, serve
from agentaccel_emulator.bedrock_frames import chunk_frame, corrupt_frame, exception_frame, frame

pytestmark = pytest.mark.many(2)

EXACTLY = Behaviour(tokenizer=EXACT, timing=BRISK)
ON_BEDROCK = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
ON_VERTEX = "claude-sonnet-4-5@20250929"
ASK = {"max_tokens": 1000, "messages": [user(text(2000, "q", "5m"))]}
SIGNED = {"authorization": "AWS4-HMAC-SHA256 Credential=AKID/20261101/us-east-1/bedrock/aws4_request, Signature=0"}


def bedrock(server, **options):
    """The SDK's client of Bedrock, signing with keys that nobody verifies."""
    keys = {"aws_access_key": "AKID", "aws_secret_key": "secret", "aws_region": "us-east-1"}
    return anthropic.AnthropicBedrock(base_url=server.url, **keys, **{"max_retries": 0, **options})


def vertex(server, **options):
    """The SDK's client of Vertex."""
    place = {"region": "us-east5", "project_id": "p", "access_token": "token"}
    return anthropic.AnthropicVertex(base_url=f"{server.url}/v1", **place, **{"max_retries": 0, **options})


def mantle(server, **options):
    """The SDK's client of Bedrock's newer endpoint."""
    keys = {"aws_access_key": "AKID", "aws_secret_key": "secret", "aws_region": "us-east-1"}
    return anthropic.AnthropicBedrockMantle(base_url=f"{server.url}/anthropic", **keys, **{"max_retries": 0, **options})


CLIENTS = [(bedrock, ON_BEDROCK), (vertex, ON_VERTEX), (mantle, ON_BEDROCK)]
EACH = pytest.mark.parametrize(("client_of", "model"), CLIENTS, ids=["bedrock", "vertex", "mantle"])


@EACH
def test_the_second_request_reads_what_the_first_wrote_whole_or_streamed(client_of, model):
    """The cache is one for both ways."""
    with serve(script=["Hello there, how are you?"], behaviour=EXACTLY) as server, client_of(server) as client:
        first = client.messages.create(model=model, **ASK)
        with client.messages.stream(model=model, **ASK) as stream:
            said_ = "".join(stream.text_stream)
            second = stream.get_final_message()
        assert said_ == first.content[0].text == "Hello there, how are you?"
        assert first.usage.cache_creation_input_tokens == second.usage.cache_read_input_tokens
        assert second.usage.cache_read_input_tokens >= 2000


@EACH
def test_a_tool_loop_goes_on_from_scripted_calls(client_of, model):
    """The same script as for the Claude API."""
    with serve(script=[call("f", {"n": 1}), "Done."], behaviour=EXACTLY) as server, client_of(server) as client:
        tool = {"name": "f", "input_schema": {"type": "object"}}
        with client.messages.stream(model=model, tools=[tool], **ASK) as stream:
            asked = stream.get_final_message()
        assert asked.stop_reason == "tool_use"
        assert asked.content[0].input == {"n": 1}
        answered = {"type": "tool_result", "tool_use_id": asked.content[0].id, "content": "r"}
        messages = [*ASK["messages"], {"role": "assistant", "content": asked.content}, user(answered)]
        done = client.messages.create(model=model, tools=[tool], max_tokens=1000, messages=messages)
        assert done.content[0].text == "Done."
        assert done.usage.cache_read_input_tokens > 2000


async def test_the_async_clients_stream():
    """Over the same paths."""
    with serve(script=["Hello."], behaviour=EXACTLY) as server:
        keys = {"aws_access_key": "AKID", "aws_secret_key": "secret", "aws_region": "us-east-1", "max_retries": 0}
        async with (
            anthropic.AsyncAnthropicBedrock(base_url=server.url, **keys) as client,
            client.messages.stream(model=ON_BEDROCK, **ASK) as stream,
        ):
            first = await stream.get_final_message()
        place = {"region": "us", "project_id": "p", "access_token": "t", "max_retries": 0}
        async with (
            anthropic.AsyncAnthropicVertex(base_url=f"{server.url}/v1", **place) as client,
            client.messages.stream(model=ON_VERTEX, **ASK) as stream,
        ):
            second = await stream.get_final_message()
        assert first.content[0].text == second.content[0].text == "Hello."


def test_the_paths_are_those_of_the_platforms():
    """A model's name may hold a colon or an at sign; the log has the path as it came."""
    with serve(behaviour=EXACTLY) as server:
        for client_of, model in CLIENTS:
            with client_of(server) as client:
                client.messages.create(model=model, **ASK)
        assert [entry.path for entry in server.log] == [
            f"/model/{ON_BEDROCK}/invoke",
            f"/v1/projects/p/locations/us-east5/publishers/anthropic/models/{ON_VERTEX}:rawPredict",
            "/anthropic/v1/messages",
        ]
        assert [entry.model for entry in server.log] == [ON_BEDROCK, ON_VERTEX, ON_BEDROCK]


def test_vertex_counts_tokens():
    """count-tokens:rawPredict names its model in the body."""
    with serve(behaviour=EXACTLY) as server, vertex(server) as client:
        counted = client.messages.count_tokens(model=ON_VERTEX, messages=ASK["messages"])
        billed = client.messages.create(model=ON_VERTEX, **ASK).usage
        assert counted.input_tokens == billed.cache_creation_input_tokens + billed.input_tokens


def test_botocore_decodes_the_frames():
    """Headers, payload and both checksums, cut anywhere."""
    payload = b'{"type":"message_stop"}'
    frames = chunk_frame(payload) + exception_frame("throttlingException", "Wait.") + frame({}, b"")
    buffer, decoded = EventStreamBuffer(), []
    for start in range(0, len(frames), 7):
        buffer.add_data(frames[start : start + 7])
        decoded += [event.to_response_dict() for event in buffer]
    assert [event["headers"].get(":event-type") for event in decoded] == ["chunk", None, None]
    assert decoded[1]["headers"][":exception-type"] == "throttlingException"
    assert [event["status_code"] for event in decoded] == [200, 400, 200]
    assert json.loads(decoded[1]["body"]) == {"message": "Wait."}


def test_botocore_refuses_a_frame_that_is_corrupt():
    """Its checksum is wrong."""
    buffer = EventStreamBuffer()
    buffer.add_data(corrupt_frame(b"{}"))
    with pytest.raises(ChecksumMismatch):
        next(buffer)


def post(provider, path, body, **headers):
    """Send one request without sockets, ten seconds after the one before it."""
    sent = {**SIGNED, **headers}
    request = HttpRequest(method="POST", path=path, headers=sent, body=json.dumps(body).encode())
    return provider.handle(request, 10.0 * len(provider.log))


def invoke(provider, body=None, model=ON_BEDROCK, **headers):
    """InvokeModel."""
    body = {"anthropic_version": "bedrock-2023-05-31", **ASK} if body is None else body
    return post(provider, f"/model/{quote(model, safe='')}/invoke", body, **headers)


def predict(provider, body=None, model=ON_VERTEX, verb="rawPredict", **headers):
    """RawPredict."""
    body = {"anthropic_version": "vertex-2023-10-16", **ASK} if body is None else body
    return post(provider, f"/v1/projects/p/locations/us/publishers/anthropic/models/{model}:{verb}", body, **headers)


def test_bedrock_says_what_went_wrong_in_its_own_form():
    """A message, and the error's type in a header."""
    provider = emulator()
    cases = [
        (invoke(provider, dict(ASK)), 400, "ValidationException", "anthropic_version: Field required"),
        (invoke(provider, {**ASK, "anthropic_version": "bedrock-2023-05-31", "stream": True}), 400, None, "stream: "),
        (invoke(provider, {**ASK, "anthropic_version": "x"}), 400, "ValidationException", "anthropic-version: "),
        (invoke(provider, model="anthropic.nobody-1"), 400, None, "The provided model identifier is invalid."),
        (invoke(provider, authorization=""), 403, "AccessDeniedException", "x-api-key header is required"),
    ]
    for reply, status, kind, start in cases:
        assert reply.status == status
        assert json.loads(reply.body)["message"].startswith(start)
        assert kind in (None, reply.headers["x-amzn-errortype"])


def test_vertex_says_what_went_wrong_in_googles_form_or_in_anthropics():
    """The platform's own errors have a status in words; what the model objects to has Anthropic's form."""
    provider = emulator()
    objected = predict(provider, {**ASK, "anthropic_version": "vertex-2023-10-16", "max_tokens": -1})
    assert json.loads(objected.body)["error"]["type"] == "invalid_request_error"
    missing = predict(provider, model="nobody-1")
    assert (missing.status, json.loads(missing.body)["error"]["status"]) == (404, "NOT_FOUND")
    assert json.loads(predict(provider, dict(ASK)).body)["error"]["message"] == "anthropic_version: Field required"
    assert predict(provider, authorization="").status == 401


def test_bedrock_reports_counts_in_headers_and_at_the_end_of_streams():
    """x-amzn-bedrock headers, and amazon-bedrock-invocationMetrics in the last event."""
    provider = emulator()
    headers = invoke(provider).headers
    assert headers["x-amzn-bedrock-cache-write-input-token-count"] == str(provider.log[0].usage.write_5m)
    body = {"anthropic_version": "bedrock-2023-05-31", **ASK}
    streamed = post(provider, f"/model/{ON_BEDROCK}/invoke-with-response-stream", body)
    assert streamed.headers["content-type"] == "application/vnd.amazon.eventstream"
    buffer = EventStreamBuffer()
    buffer.add_data(streamed.body)
    last = json.loads(list(buffer)[-1].to_response_dict()["body"])["bytes"]
    metrics = json.loads(base64.b64decode(last))["amazon-bedrock-invocationMetrics"]
    assert metrics["cacheReadInputTokenCount"] == provider.log[1].usage.read == 2000


@pytest.mark.parametrize("ask", [invoke, predict], ids=["bedrock", "vertex"])
def test_runs_of_tool_calls_are_counted_block_by_block(ask):
    """Positions are blocks there: thirty calls and their results are out of reach of twenty positions."""
    provider = emulator()
    version = {"anthropic_version": "2026-10-21", "max_tokens": 99}
    start = user(text(2000, "q", "5m"))
    ask(provider, {**version, "messages": [start]})
    last = results(30)
    last[-1] = marked(last[-1])
    plain = user({name: value for name, value in start["content"][0].items() if name != "cache_control"})
    ask(provider, {**version, "messages": [plain, said(*calls(30)), user(*last)]})
    assert provider.log[-1].usage.read == 0


def test_the_claude_api_counts_a_run_as_one():
    """The twin of the test above."""
    provider = emulator()
    headers = {"x-api-key": "k", "anthropic-version": "2026-10-21"}
    fields = {"model": "claude-sonnet-4-5", "max_tokens": 99}
    start = user(text(2000, "q", "5m"))
    last = results(30)
    last[-1] = marked(last[-1])
    plain = user({name: value for name, value in start["content"][0].items() if name != "cache_control"})
    for messages in ([start], [plain, said(*calls(30)), user(*last)]):
        post(provider, "/v1/messages", {**fields, "messages": messages}, **headers)
    assert provider.log[-1].usage.read > 0


@pytest.mark.parametrize(
    ("ask", "model", "status"),
    [
        (invoke, "anthropic.claude-opus-4-6-v1", 400),
        (invoke, "anthropic.claude-opus-5", 200),
        (predict, "claude-opus-4-6", 200),
    ],
)
def test_legacy_models_of_bedrock_refuse_a_top_level_marker(ask, model, status):
    """Documented for Bedrock up to Opus 4.6, and for nobody else."""
    body = {"anthropic_version": "2026-10-21", "max_tokens": 9, "messages": [user(text(50))]}
    assert ask(emulator(), {**body, "cache_control": {"type": "ephemeral"}}, model=model).status == status


@pytest.mark.parametrize("ask", [invoke, predict])
def test_diagnostics_are_for_the_claude_api_alone(ask):
    """Documented: Claude API only."""
    body = {"anthropic_version": "2026-10-21", **ASK, "diagnostics": {"previous_message_id": None}}
    assert ask(emulator(), body).status == 400


def test_an_organization_shares_its_cache_there_whatever_the_key():
    """Isolation is by organization on Bedrock and Vertex."""
    provider = emulator()
    for key in ("AKID", "OTHER"):
        invoke(provider, authorization=SIGNED["authorization"].replace("AKID", key))
    assert provider.log[-1].usage.read == 2000


def test_each_platform_has_a_cache_of_its_own_which_bedrocks_endpoints_share():
    """InvokeModel and the newer endpoint are one platform; others are others."""
    provider = emulator()
    body = {**ASK, "model": ON_BEDROCK}
    invoke(provider)
    post(provider, "/anthropic/v1/messages", body, **{"anthropic-version": "2026-10-21"})
    predict(provider)
    assert [entry.usage.read > 0 for entry in provider.log] == [False, True, False]


@EACH
@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("429", anthropic.RateLimitError),
        ("500", anthropic.InternalServerError),
        ("503", anthropic.InternalServerError),
        ("529", anthropic.InternalServerError),
    ],
)
def test_a_status_fault_is_the_sdks_error_and_its_retry_is_answered(client_of, model, kind, error):
    """In each platform's form; Bedrock has 503 where the Claude API has 529."""
    faults = [Fault(kind=kind, at=1), Fault(kind=kind, at=2, headers={"retry-after-ms": "1"})]
    with serve(faults=faults, behaviour=EXACTLY) as server, client_of(server) as client:
        with pytest.raises(error):
            client.messages.create(model=model, **ASK)
        client.with_options(max_retries=1).messages.create(model=model, **ASK)
        assert server.log[-1].status == 200


@EACH
@pytest.mark.parametrize("kind", ["disconnect_mid_stream", "overloaded_mid_stream", "malformed_sse"])
def test_a_stream_that_goes_wrong_is_an_error_to_the_sdk(client_of, model, kind):
    """A cut, an exception frame or error event, a corrupt frame or event."""
    with serve(faults=[Fault(kind=kind)], behaviour=EXACTLY) as server, client_of(server) as client:
        expected = (anthropic.AnthropicError, httpx2.RemoteProtocolError, ChecksumMismatch, ValueError)
        with pytest.raises(expected) as raised, client.messages.stream(model=model, **ASK) as stream:
            stream.get_final_message()
        assert server.counters.total.requests == 1
        if kind == "malformed_sse" and client_of is bedrock:
            assert raised.type is ChecksumMismatch
        if kind == "overloaded_mid_stream":
            assert isinstance(raised.value, anthropic.APIStatusError)


@pytest.mark.slow
@EACH
def test_a_call_that_is_not_answered_times_out(client_of, model):
    """The connection stays open until the client gives up."""
    with serve(faults=[Fault(kind="timeout")], behaviour=EXACTLY) as server, client_of(server, timeout=0.2) as client:
        with pytest.raises(anthropic.APITimeoutError):
            client.messages.create(model=model, **ASK)
        assert server.log[0].status == 0


def test_foundry_is_chosen_by_platform():
    """Where the host would tell, the platform does; the prefix is that of Bedrock's newer endpoint, too."""
    ask = {**ASK, "model": "claude-sonnet-5"}
    with (
        serve(Emulator(platform="foundry", behaviour=EXACTLY)) as server,
        anthropic.AnthropicFoundry(base_url=f"{server.url}/anthropic", api_key="key", max_retries=0) as client,
    ):
        usages = [client.messages.create(**ask).usage for _ in range(2)]
        assert usages[1].cache_read_input_tokens == usages[0].cache_creation_input_tokens == 2000
        with pytest.raises(anthropic.BadRequestError, match="diagnostics"):
            client.messages.create(**ask, diagnostics={"previous_message_id": None})


def test_the_claude_platform_on_aws_is_the_messages_api_with_a_signature():
    """Its cache is a workspace's."""
    keys = {"aws_access_key": "AKID", "aws_secret_key": "secret", "aws_region": "us-east-1"}
    with (
        serve(Emulator(platform="aws", behaviour=EXACTLY)) as server,
        anthropic.AnthropicAWS(base_url=server.url, workspace_id="w", **keys, max_retries=0) as client,
    ):
        usage = client.messages.create(**ASK, model="claude-sonnet-5").usage
        assert usage.cache_creation_input_tokens == 2000
        assert server.log[0].workspace == "w"


def test_a_block_that_is_marked_on_bedrock_is_found_a_turn_later():
    """Plain markers work as everywhere."""
    provider = emulator()
    body = {"anthropic_version": "2026-10-21", "max_tokens": 9, "messages": [user(*blocks(10, 10))]}
    for _ in range(2):
        invoke(provider, body)
    assert provider.log[-1].usage.read == 2000
