"""The emulator behind its HTTP server, spoken to by the real Anthropic SDK, sync and async."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import anthropic
import httpx2
import pytest
from click.testing import CliRunner
from emulator_talk import BRISK, EXACT, MODEL, blocks, request, text, user

from agentaccel.clock import ManualClock, SystemClock
from agentaccel.errors import ConfigError
from agentaccel_emulator import Behaviour, Emulator, Fault, Timing, call, serve
from agentaccel_emulator.command import emulate
from agentaccel_emulator.pytest_fixture import emulator  # noqa: F401  # the fixture under test

EXACTLY = Behaviour(tokenizer=EXACT, timing=BRISK)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    """The SDK's HTTP library trusts the environment."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def sdk(server, **options):
    """A sync client of `server` that does not retry unless told to."""
    return anthropic.Anthropic(base_url=server.url, api_key="key", **{"max_retries": 0, **options})


def async_sdk(server, **options):
    """An async client of `server` that does not retry unless told to."""
    return anthropic.AsyncAnthropic(base_url=server.url, api_key="key", **{"max_retries": 0, **options})


def test_the_sdk_sees_the_second_request_read_what_the_first_wrote():
    """Requests in a row take virtual time, so an entry is readable by the next one."""
    with serve(behaviour=EXACTLY) as server, sdk(server) as client:
        usages = [client.messages.create(**request(*blocks(10, 10))).usage for _ in range(2)]
        assert [usage.cache_creation_input_tokens for usage in usages] == [2000, 0]
        assert usages[1].cache_read_input_tokens == 2000
        assert usages[0].cache_creation.ephemeral_5m_input_tokens == 2000


def test_a_virtual_clock_moved_past_the_lifetime_empties_the_cache():
    """No one sleeps."""
    with serve(behaviour=EXACTLY) as server, sdk(server) as client:
        client.messages.create(**request(*blocks(10, 10)))
        server.clock.advance(301)
        assert client.messages.create(**request(*blocks(10, 10))).usage.cache_read_input_tokens == 0


def test_the_clock_moves_by_what_each_reply_takes():
    """Seconds to the first byte and of generation appear in server time, not in real time."""
    clock = ManualClock(now=1000.0)
    behaviour = Behaviour(tokenizer=EXACT, timing=Timing(base=100.0, prefill=1.0, decode=1.0))
    script = [{"content": "x", "output_tokens": 50}]
    with serve(script=script, behaviour=behaviour, clock=clock) as server, sdk(server) as client:
        client.messages.create(**request(text(40)))
        assert clock.now == 1000.0 + 100 + 40 + 50


def test_a_still_clock_shows_no_entry_until_it_is_moved():
    """With advance=False only the test moves time."""
    with serve(behaviour=EXACTLY, advance=False) as server, sdk(server) as client:
        reads = []
        for seconds in (0, 1, 0):
            reads.append(client.messages.create(**request(*blocks(10, 10))).usage.cache_read_input_tokens)
            server.clock.advance(seconds)
        assert reads == [0, 0, 2000]


def test_the_sdk_accumulates_a_stream_into_the_scripted_message():
    """Thinking, text and a tool call with its input."""
    content = [
        {"type": "thinking", "thinking": "Hm, let me think about it.", "signature": "sig"},
        {"type": "text", "text": "Let me search for this."},
        {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "x", "deep": {"n": [1, 2]}}},
    ]
    with serve(script=[content], behaviour=EXACTLY) as server, sdk(server) as client:
        with client.messages.stream(**request(*blocks(10, 10), max_tokens=1000)) as stream:
            message = stream.get_final_message()
        said = [block.model_dump(include={"type", "text", "thinking", "id", "input"}) for block in message.content]
        assert [block["type"] for block in said] == ["thinking", "text", "tool_use"]
        assert said[2]["input"] == {"q": "x", "deep": {"n": [1, 2]}}
        assert message.content[0].signature == "sig"
        assert message.stop_reason == "tool_use"
        assert message.usage.cache_creation_input_tokens == 2000
        assert message.usage.output_tokens == server.counters.total.output


async def test_the_async_sdk_streams_and_creates():
    """Both ways, over one connection pool."""
    with serve(script=["Hello there, how are you?"], behaviour=EXACTLY) as server:
        async with async_sdk(server) as client:
            async with client.messages.stream(**request(*blocks(10, 10))) as stream:
                text_ = "".join([piece async for piece in stream.text_stream])
            message = await client.messages.create(**request(*blocks(10, 10)))
        assert text_ == message.content[0].text == "Hello there, how are you?"
        assert message.usage.cache_read_input_tokens == 2000


async def test_requests_in_flight_together_all_pay_the_write():
    """Held until all have arrived, none can see what another writes; after them the next one reads."""
    with serve(behaviour=EXACTLY) as server:
        async with async_sdk(server) as client:
            with server.held():
                tasks = [asyncio.create_task(client.messages.create(**request(*blocks(10, 10)))) for _ in range(8)]
                await asyncio.to_thread(server.wait_for_calls, 8)
            written = [(await task).usage.cache_creation_input_tokens for task in tasks]
            after = await client.messages.create(**request(*blocks(10, 10)))
        assert written == [2000] * 8
        assert after.usage.cache_read_input_tokens == 2000


async def test_followers_read_once_the_leaders_first_event_has_come():
    """The documented cure for fan-out: wait for the first byte, not for the end."""
    script = [{"content": "x " * 400, "output_tokens": 400}]
    behaviour = Behaviour(tokenizer=EXACT, timing=Timing(base=2.0, decode=100.0))
    with serve(script=script, behaviour=behaviour) as server:
        async with async_sdk(server) as client:
            body = request(*blocks(10, 10), max_tokens=1000)
            async with client.messages.stream(**body) as leader:
                await anext(aiter(leader))
                follower = await client.messages.create(**body)
                await leader.until_done()
        assert follower.usage.cache_read_input_tokens == 2000


@pytest.mark.slow
def test_many_threads_get_the_bill_that_is_counted():
    """The core takes turns; the totals are those of the replies, to the token."""
    with serve(behaviour=EXACTLY) as server, sdk(server) as client, ThreadPoolExecutor(8) as pool:
        bodies = [request(*blocks(10 + n % 5, 10 + n % 5), system=f"{n % 3}") for n in range(64)]
        usages = list(pool.map(lambda body: client.messages.create(**body).usage, bodies))
        assert server.counters.total.requests == 64
        assert server.counters.total.read == sum(usage.cache_read_input_tokens for usage in usages)
        assert server.counters.total.write_5m == sum(usage.cache_creation_input_tokens for usage in usages)
        assert server.counters.total.uncached == sum(usage.input_tokens for usage in usages)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (request(*blocks(5, 1, 2, 3, 4, 5)), anthropic.BadRequestError),
        (request(text(40), model="claude-none"), anthropic.NotFoundError),
    ],
)
def test_the_sdk_raises_its_own_errors_with_the_request_id(body, error):
    """Refusals parse as the SDK expects."""
    with serve() as server, sdk(server) as client:
        with pytest.raises(error) as caught:
            client.messages.create(**body)
        assert caught.value.request_id == "req_emulated000000000001"
        assert caught.value.body["error"]["message"] == server.log[0].error


def test_the_sdk_retries_a_fault_as_its_headers_say():
    """x-should-retry and retry-after-ms are honoured; the second attempt is the second call."""
    faults = [
        Fault(kind="429", at=1, headers={"retry-after-ms": "1"}),
        Fault(kind="529", at=3, headers={"x-should-retry": "false"}),
    ]
    with serve(faults=faults) as server, sdk(server, max_retries=2) as client:
        assert client.messages.create(**request(text(40))).content[0].text == "OK."
        with pytest.raises(anthropic.APIStatusError) as caught:
            client.messages.create(**request(text(40)))
        assert caught.value.status_code == 529
        assert [entry.status for entry in server.log] == [429, 200, 529]


def test_a_cut_stream_breaks_in_the_clients_hands():
    """After the promised events the connection is gone; the SDK lets its HTTP library's exception through."""
    fault = Fault(kind="disconnect_mid_stream", after_events=4)
    seen = []
    with serve(faults=[fault], script=["x" * 200]) as server, sdk(server) as client:
        stream = client.messages.create(**request(text(40), stream=True))
        with stream, pytest.raises((anthropic.APIError, httpx2.TransportError)):
            seen.extend(event.type for event in stream)
    assert seen == ["message_start", "content_block_start", "content_block_delta"]


def test_a_cut_json_reply_breaks_in_the_clients_hands():
    """The promised length is not kept."""
    with (
        serve(faults=[Fault(kind="disconnect_mid_stream")]) as server,
        sdk(server) as client,
        pytest.raises(anthropic.APIConnectionError),
    ):
        client.messages.create(**request(text(40)))


def test_an_overload_in_mid_stream_is_the_sdks_status_error():
    """An error event inside a 200 reply."""
    with serve(faults=[Fault(kind="overloaded_mid_stream")]) as server, sdk(server) as client:
        stream = client.messages.create(**request(text(40), stream=True))
        with stream, pytest.raises(anthropic.APIStatusError):
            list(stream)


def test_a_silent_server_runs_into_the_clients_timeout_and_still_stops():
    """The connection stays open until the client gives up or the server is left."""
    with serve(faults=[Fault(kind="timeout")]) as server, sdk(server, timeout=0.05) as client:
        with pytest.raises(anthropic.APITimeoutError):
            client.messages.create(**request(text(40)))
        assert server.log[0].status == 0


def test_counting_tokens_and_beta_calls_are_served():
    """`?beta=true` and the beta header are accepted."""
    with serve(behaviour=EXACTLY) as server, sdk(server) as client:
        messages = request(text(40))["messages"]
        assert client.messages.count_tokens(model=MODEL, messages=messages).input_tokens == 40
        reply = client.beta.messages.create(**request(text(40)), betas=["some-feature-2026-01-01"])
        assert reply.content[0].text == "OK."


def test_the_sdk_reads_diagnostics():
    """The field parses into the SDK's own types."""
    with serve() as server, sdk(server) as client:
        first = client.messages.create(**request(text(40)), diagnostics={"previous_message_id": None})
        second = client.messages.create(
            **request(text(40), system="new"), diagnostics={"previous_message_id": first.id}
        )
        assert first.diagnostics is None
        assert second.diagnostics.cache_miss_reason.type == "system_changed"


def test_a_session_of_the_tool_loop_reads_more_with_every_turn():
    """The scripted agent, by the SDK's own objects."""
    with serve(script=[call("f"), call("f"), "done"], behaviour=EXACTLY) as server, sdk(server) as client:
        messages, reads = [user(text(1500, "go"))], []
        for _ in range(3):
            reply = client.messages.create(
                model=MODEL, max_tokens=100, messages=messages, cache_control={"type": "ephemeral"}
            )
            reads.append(reply.usage.cache_read_input_tokens)
            messages.append({"role": "assistant", "content": reply.content})
            results = [block.id for block in reply.content if block.type == "tool_use"]
            messages.append(user(*({"type": "tool_result", "tool_use_id": id_, "content": "r"} for id_ in results)))
        assert reads[0] == 0
        assert reads[0] < reads[1] < reads[2]


@pytest.mark.slow
def test_real_time_lets_bytes_leave_when_they_are_due():
    """The clock of the machine plus what it was advanced by; asserted on the server's clock alone."""
    behaviour = Behaviour(tokenizer=EXACT, timing=Timing(base=0.02, decode=1e6))
    with serve(behaviour=behaviour, realtime=True) as server, sdk(server) as client:
        before = server.clock.wall()
        client.messages.create(**request(*blocks(10, 10)))
        assert server.clock.wall() >= before + 0.02
        server.clock.advance(301)
        assert client.messages.create(**request(*blocks(10, 10))).usage.cache_read_input_tokens == 0


def test_control_paths_answer_over_http():
    """For users in other languages."""
    with serve() as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
        kind = {"content-type": "application/json"}
        connection.request("POST", "/_ctl", json.dumps({"op": "advance", "seconds": 5}), kind)
        assert json.loads(connection.getresponse().read())["now"] == server.clock.wall()
        connection.request("GET", "/_ctl/counters")
        assert json.loads(connection.getresponse().read())["total"]["requests"] == 0
        connection.request("POST", "/v1/responses", "{}", kind)
        assert connection.getresponse().read()
        connection.request("GET", "/_ctl/counters")
        assert json.loads(connection.getresponse().read())["errors"] == {"401": 1}
        connection.close()


def test_a_script_that_raises_is_reported_when_the_block_is_left():
    """Our own mistakes are not swallowed by a thread: the test's exception names them, or they are raised."""

    def broken(turn):
        raise LookupError("no such reply")

    def provoke(server):
        with sdk(server) as client:
            client.messages.create(**request(text(40)))

    def provoke_quietly(server):
        with contextlib.suppress(anthropic.APIConnectionError):
            provoke(server)

    with pytest.raises(LookupError), serve(script=broken) as server:
        provoke_quietly(server)
    with pytest.raises(anthropic.APIConnectionError) as caught, serve(script=broken) as server:
        provoke(server)
    assert "no such reply" in caught.value.__notes__[0]


def test_leaving_the_block_ends_every_thread():
    """Nothing outlives the server, open keep-alive connections included."""
    before = threading.active_count()
    with serve() as server:
        client = sdk(server)
        client.messages.create(**request(text(40)))
    client.close()
    assert threading.active_count() == before


def test_the_fixture_is_a_running_server(emulator):  # noqa: F811
    """Users import it into their conftest."""
    emulator.emulator.use_script(["From the fixture."])
    with sdk(emulator) as client:
        assert client.messages.create(**request(text(40))).content[0].text == "From the fixture."


def test_one_emulator_can_be_served_with_its_own_clock():
    """The server uses the clock of the emulator that it is given."""
    clock = ManualClock(now=5.0)
    with serve(Emulator(clock=clock)) as server:
        assert server.clock is clock


@pytest.mark.parametrize(
    "options",
    [
        {"emulator": Emulator(), "script": ["x"]},
        {"clock": ManualClock(), "realtime": True},
        {"emulator": Emulator(clock=SystemClock())},
    ],
    ids=["emulator and script", "clock and real time", "a clock that cannot be moved"],
)
def test_arguments_that_contradict_each_other_are_refused(options):
    """Ours: none is silently ignored."""
    with pytest.raises(ConfigError), serve(**options):
        pass


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--script", "wrong.json"), "a script has no field 'answers'"),
        (("--faults", "wrong.json"), "a fault is malformed"),
        (("--model", "lamp"), "no cache facts are known for model 'lamp': serve one that"),
        (("--platform", "lamp"), "there is no platform 'lamp'"),
    ],
)
def test_the_command_refuses_what_cannot_be(arguments, says, tmp_path, monkeypatch):
    """One line, no traceback, and the exit code of the other commands."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.json").write_text('{"answers": []}', encoding="utf-8")
    outcome = CliRunner().invoke(emulate, arguments)
    assert (outcome.exit_code, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1)
    assert outcome.stderr.startswith(f"agentaccel emulate: {says}")


def test_a_port_that_is_taken_is_named_with_what_to_do():
    """By the command; the function raises what the system says."""
    with serve() as server:
        port = server.url.rpartition(":")[2]
        outcome = CliRunner().invoke(emulate, ["--port", port])
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith(f"agentaccel emulate: port {port} cannot be taken (")
    assert outcome.stderr.endswith("): choose another one with --port\n")
