"""Wrapped clients of the real SDK in front of servers of the user's own: what they learn, add, and leave as it is.

What is asked beside a call is done once a log line says so; nothing here waits for a clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from agentaccel import Accel, CachePolicy
from agentaccel.clients import attempt, looking
from agentaccel.engine import engine as composer
from agentaccel.hashing import pseudonym
from agentaccel.selfhost import hints
from tests.clients.wire import an_accel, records
from tests.driver import prose
from tests.selfhost.serving import CHAT, Answer, Asked, Loopback, chat, engine, reply, serving, told

ASK: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": prose(200)}]}
OURS = {"x-session-id", "x-smg-routing-key", "x-dynamo-session-id", "x-dynamo-parent-session-id"}


@pytest.fixture
def accel(tmp_path: Path) -> Iterator[Accel]:
    with an_accel(tmp_path) as made:
        yield made


def client(server: Loopback, kind: Any = openai.OpenAI, **options: Any) -> Any:
    return kind(base_url=f"{server.url}/v1", api_key="k", **{"max_retries": 0, **options})


def attached(accel: Accel, server: Loopback, **more: Any) -> None:
    assert accel.backend(f"{server.url}/v1", **more).wait_ready()


# --- attached ---------------------------------------------------------------------------------------------------------


def test_clients_of_an_attached_server_know_who_answers(accel: Accel, tmp_path: Path) -> None:
    """A stream is asked for its usage, a tenant has a salt, and the session a name that says nothing."""
    server = engine("vllm-0.32.0-cpu")
    with serving(server), client(server) as bare:
        attached(accel, server)
        wrapped = accel.wrap(bare)
        with accel.session("ticket-1", tenant="acme"):
            chunks = list(wrapped.chat.completions.create(**ASK, stream=True))
    [call] = server.calls
    assert all(chunk.choices for chunk in chunks)
    assert call.body["stream_options"] == {"include_usage": True}
    assert len(call.body["cache_salt"]) == 32
    assert call.headers["x-session-id"] == pseudonym(accel._recorder.shared_key, "session", "@acme/ticket-1")
    [record] = records(tmp_path)
    assert (record.platform, record.usage.read) == ("vllm", 96)
    assert any("X-Session-ID names the session" in one for one in record.reasons)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("vllm-0.32.0-cpu", "x-session-id"),
        ("sglang-0.5.23", "x-smg-routing-key"),
        ("dynamo-1.6.1", "x-dynamo-session-id"),
        ("smg-1.13.0", "x-smg-routing-key"),
        ("llamacpp-b11549", None),
    ],
)
def test_each_server_gets_the_session_as_it_takes_it(accel: Accel, name: str, header: str | None) -> None:
    """The same on every turn of a session, another one for another session, and the parent's where there is a field."""
    server = engine(name)
    with serving(server), client(server) as bare:
        attached(accel, server)
        wrapped = accel.wrap(bare)
        for session in ("a", "a", "b"):
            with accel.session(session, parent="boss"):
                wrapped.chat.completions.create(**ASK)
    sent = [{one: value for one, value in call.headers.items() if one in OURS} for call in server.calls]
    names = [one.get(header or "") for one in sent]
    assert (names[0] == names[1] != names[2]) if header else sent == [{}, {}, {}]
    assert ("x-dynamo-parent-session-id" in sent[0]) is (name == "dynamo-1.6.1")
    assert all(call.body == ASK for call in server.calls)


@pytest.mark.parametrize(
    ("router", "header", "salted"),
    [
        ("llm-d", "x-llm-d-inference-fairness-id", True),
        ("production-stack", "x-session-id", True),
        ("ray", "x-session-id", False),
    ],
)
def test_a_router_that_the_user_names_gets_what_it_takes(accel: Accel, router: str, header: str, salted: bool) -> None:
    """llm-d names sessions itself and shares fairly by tenant; behind Ray there may be any engine: no salt is sent."""
    server = engine("vllm-0.32.0-cpu")
    with serving(server), client(server) as bare:
        attached(accel, server, dialect=router)
        with accel.session("ticket-1", tenant="acme"):
            accel.wrap(bare).chat.completions.create(**ASK)
    [call] = server.calls
    key = accel._recorder.shared_key
    names = {"session": pseudonym(key, "session", "@acme/ticket-1"), "tenant": pseudonym(key, "tenant", "acme")}
    assert call.headers[header] == names["session" if header == "x-session-id" else "tenant"]
    assert ("x-session-id" in call.headers) is (header == "x-session-id")
    assert call.body.get("cache_salt") == (names["tenant"] if salted else None)


@pytest.mark.parametrize("header", ["X-Session-ID", "X-Claude-Code-Session-Id", "x-dynamo-session-id"])
def test_a_session_that_the_sender_names_is_not_named_again(accel: Accel, header: str) -> None:
    """Two ids of one session are not to be sent."""
    server = engine("dynamo-1.6.1")
    with serving(server), client(server) as bare:
        attached(accel, server)
        with accel.session("a", parent="boss"):
            accel.wrap(bare).chat.completions.create(**ASK, extra_headers={header: "mine"})
    [call] = server.calls
    assert call.headers[header.lower()] == "mine"
    assert len(OURS & call.headers.keys()) == (header.lower() in OURS)


def test_a_request_whose_body_stays_goes_out_with_the_very_bytes_and_a_header_more(accel: Accel) -> None:
    """Nothing else differs from what the bare client sends."""
    server = engine("smg-1.13.0")
    with serving(server), client(server) as bare:
        attached(accel, server)
        bare.chat.completions.create(**ASK)
        accel.wrap(bare).chat.completions.create(**ASK)
    one, other = server.calls
    assert (one.body, one.path) == (other.body, other.path)
    assert other.headers.keys() - one.headers.keys() == {"x-smg-routing-key"}
    assert {name: value for name, value in other.headers.items() if name in one.headers} == dict(one.headers)


@pytest.mark.parametrize("how", ["observe", "bypass", "holdout", "shared"])
def test_what_is_not_to_be_changed_gets_no_header_and_no_salt(tmp_path: Path, how: str) -> None:
    """Observing, one call that is bypassed, the control group; and tenants that may share get no salt."""
    policy = {"observe": {"mode": "observe"}, "holdout": {"holdout": 0.999}}.get(how, {})
    if how == "shared":
        policy = {"cache": CachePolicy(isolate_tenants=False)}
    server = engine("dynamo-1.6.1")
    with serving(server), an_accel(tmp_path, **policy) as accel, client(server) as bare:
        attached(accel, server)
        wrapped = accel.wrap(bare)
        with accel.session("s", tenant="acme"):
            if how == "bypass":
                with accel.bypass():
                    wrapped.chat.completions.create(**ASK)
            else:
                wrapped.chat.completions.create(**ASK)
    [call] = server.calls
    assert call.body == ASK
    assert bool(OURS & call.headers.keys()) is (how == "shared")


def test_a_tenant_of_dynamo_has_a_salt_beside_what_the_sender_says_there(accel: Accel) -> None:
    """Joined with the sender's own object; a salt of the sender's stays, and Responses are not known to take one."""
    server = engine("dynamo-1.6.1")
    server.says["/v1/responses"] = Answer({"error": {"message": "no such path"}}, 404)
    with serving(server), client(server) as bare:
        attached(accel, server)
        wrapped = accel.wrap(bare)
        with accel.session("s", tenant="acme"):
            wrapped.chat.completions.create(**ASK, extra_body={"nvext": {"annotations": []}})
            wrapped.chat.completions.create(**ASK, extra_body={"nvext": {"cache_salt": "mine"}})
            with pytest.raises(openai.NotFoundError):
                wrapped.responses.create(model="tiny", input="Hello.")
    first, second, third = (call.body.get("nvext") for call in server.calls)
    assert first["annotations"] == []
    assert len(first["cache_salt"]) == 32
    assert second == {"cache_salt": "mine"}
    assert third is None


def test_llama_cpp_cannot_keep_tenants_apart_and_the_plan_says_so(accel: Accel, tmp_path: Path) -> None:
    server = engine("llamacpp-b11549")
    with serving(server), client(server) as bare:
        attached(accel, server)
        with accel.session("s", tenant="acme"):
            accel.wrap(bare).chat.completions.create(**ASK)
    assert server.calls[0].body == ASK
    assert any("one server for each tenant" in one for one in records(tmp_path)[0].reasons)


# --- looked at before the first call ----------------------------------------------------------------------------------


def test_a_server_on_this_machine_is_looked_at_once_and_known_from_the_first_call_on(
    accel: Accel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One GET of its models, with the credentials and nothing else of the client's; one line says what was found."""
    server = engine("vllm-0.32.0-cpu")
    with serving(server), client(server, default_headers={"X-Mine": "secret"}, organization="org") as bare:
        wrapped = accel.wrap(bare)
        with told("is vLLM") as found, caplog.at_level(logging.INFO, "agentaccel"):
            wrapped.chat.completions.create(**ASK)
            assert found.wait(10)
        for _ in range(2):
            wrapped.chat.completions.create(**ASK)
    [look] = server.looks
    assert look.path == "/v1/models"
    assert look.headers["connection"] == "close"  # a client that is closed meanwhile is left without an open socket
    assert look.headers["authorization"] == "Bearer k"
    assert look.headers.keys() - {"host", "connection"} == {
        *("authorization", "openai-organization", "accept", "accept-encoding", "user-agent")
    }
    assert [one.platform for one in records(tmp_path)] == ["vllm", "vllm", "vllm"]
    lines = [one.getMessage() for one in caplog.records if "agentaccel" in one.getMessage()]
    assert sum("is vLLM" in one for one in lines) == 1
    assert not any("say what runs there" in one for one in lines)


async def test_on_an_event_loop_it_is_looked_at_before_the_call_too(accel: Accel, tmp_path: Path) -> None:
    server = engine("llamacpp-b11549")
    with serving(server):
        async with client(server, openai.AsyncOpenAI) as bare:
            wrapped = accel.wrap(bare)
            with told("is llama.cpp server") as found:
                await wrapped.chat.completions.create(**ASK)
                await asyncio.to_thread(found.wait, 10)
            await wrapped.chat.completions.create(**ASK)
    assert len(server.looks) == 1
    assert [one.platform for one in records(tmp_path)] == ["llamacpp", "llamacpp"]


def test_a_server_that_does_not_say_what_it_is_is_not_asked_again(tmp_path: Path) -> None:
    """Nor is one that is asked just now, by several calls at once."""
    server = Loopback({CHAT: chat}, otherwise=BAD["errors"])
    with serving(server):
        with an_accel(tmp_path) as accel, client(server) as bare:
            wrapped = accel.wrap(bare)
            for _ in range(3):
                with told("does not say what it is") as found:
                    wrapped.chat.completions.create(**ASK)
                    assert found.wait(10 if len(server.calls) == 1 else 0) == (len(server.calls) == 1)
        assert len(server.looks) == 1


@pytest.mark.parametrize("how", ["platform", "environment", "off", "disabled", "attached", "bypass"])
def test_who_is_named_or_known_is_not_looked_at(tmp_path: Path, how: str) -> None:
    environ = {"environment": {"AGENTACCEL_PLATFORM": "sglang"}, "disabled": {"AGENTACCEL_DISABLE": "1"}}.get(how, {})
    server = engine("vllm-0.32.0-cpu")
    mode = "off" if how == "off" else "on"
    with serving(server), an_accel(tmp_path, mode=mode, environ=environ) as accel, client(server) as bare:
        if how == "attached":
            attached(accel, server, dialect="vllm")
        server.asked.clear()
        wrapped = accel.wrap(bare, platform="server" if how == "platform" else None)
        with accel.bypass() if how == "bypass" else nullcontext():
            for _ in range(2):
                wrapped.chat.completions.create(**ASK)
    assert not server.looks


def test_a_public_host_is_never_looked_at(accel: Accel) -> None:
    """Told by the name of the host alone: nothing is looked up."""
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url.host}")
        return httpx2.Response(200, json=reply().body)

    hosts = ("models.example", "8.8.8.8", "169.254.169.254", "10.0.0.1.example")
    for host in hosts:
        with httpx2.Client(transport=httpx2.MockTransport(answer), verify=False) as http:
            bare = openai.OpenAI(base_url=f"https://{host}/v1", api_key="k", http_client=http)
            accel.wrap(bare).chat.completions.create(**ASK)
    accel.close()
    assert asked == [f"POST {host}" for host in hosts]


def test_the_twin_without_the_guard_looks_at_a_public_host(accel: Accel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "is_private", lambda host: True)
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.method)
        return httpx2.Response(200, json=reply().body)

    with httpx2.Client(transport=httpx2.MockTransport(answer), verify=False) as http, told("does not say") as found:
        bare = openai.OpenAI(base_url="https://models.example/v1", api_key="k", http_client=http)
        accel.wrap(bare).chat.completions.create(**ASK)
        assert found.wait(10)
    assert sorted(asked) == ["GET", "POST"]


BAD: dict[str, Any] = {
    "another product's page": Answer(b"<!doctype html><title>Welcome</title>", headers={"content-type": "text/html"}),
    "errors": Answer({"error": "boom"}, 500),
    "a redirect": Answer(status=302, headers={"location": "http://elsewhere.example/"}),
    "a body without end": Answer(b"x" * 100_000, repeats=11),
    "no JSON": Answer(b"{'data': 1"),
    "everybody's signs": Answer({"version": "1", "build_info": "b", "data": [{"id": "m", "owned_by": "vllm"}]}),
    "silence": Answer(hangs=True),
}

CALLS: dict[str, Any] = {
    "a reply": chat,
    "a refusal": Answer({"error": {"message": "Unknown parameter: 'seed'.", "param": "seed"}}, 400),
    "an error": Answer(b"<h1>Bad gateway</h1>", 502),
}


def seen(made: Any) -> Any:
    """What a caller sees: a value, chunks, or an exception with all that it carries."""
    try:
        got = made()
        return [one.model_dump() for one in (got if isinstance(got, list) else [got])]
    except openai.APIStatusError as error:
        return type(error), error.status_code, str(error), error.body, error.response.content


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", [name for name in BAD if name != "silence"])
@pytest.mark.parametrize("is_attached", [False, True])
def test_calls_in_front_of_a_server_that_answers_badly_are_what_they_are_without_us(
    accel: Accel, how: str, call: str, is_attached: bool
) -> None:
    """The agent's own calls are undisturbed, whatever comes of the questions."""
    server = Loopback({CHAT: CALLS[call]}, otherwise=BAD[how])
    with serving(server), client(server) as bare:
        if is_attached:
            attached(accel, server)
        wrapped = accel.wrap(bare)
        want = seen(lambda: bare.chat.completions.create(**ASK, seed=1))
        assert seen(lambda: wrapped.chat.completions.create(**ASK, seed=1)) == want
        assert seen(lambda: wrapped.chat.completions.create(**ASK, seed=1)) == want
    assert all(one.body == {**ASK, "seed": 1} for one in server.calls)
    assert len(server.calls) == len({id(one) for one in server.calls})


@pytest.mark.slow
@pytest.mark.parametrize("is_attached", [False, True])
def test_a_call_does_not_wait_for_a_server_that_is_silent_when_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_attached: bool
) -> None:
    """The question goes on beside the calls, which wait for a moment only and go out as written, and is given up; so it
    is where the server was attached, too."""
    monkeypatch.setattr(looking, "_SECONDS", 0.2)
    monkeypatch.setattr(looking, "_PATIENCE", 0.01)
    server = Loopback({CHAT: chat}, otherwise=BAD["silence"])
    with serving(server):
        with an_accel(tmp_path) as accel, client(server) as bare:
            if is_attached:
                accel.backend(f"{server.url}/v1", timeout=0.1)
            wrapped = accel.wrap(bare)
            for _ in range(3):
                assert wrapped.chat.completions.create(**ASK).choices[0].message.content == "Hello."
        assert len(server.calls) == 3


# --- the rule for refusals --------------------------------------------------------------------------------------------


def strict(*known: str, text: str = "Validation: Unsupported parameter(s): {names}") -> Any:
    """A server that refuses what it does not know, in Dynamo's words."""

    def says(asked: Asked) -> Answer:
        names = [f"`{name}`" for name in asked.body if name not in known]
        if names:
            message = text.format(names=", ".join(names))
            return Answer({"message": message, "type": "Bad Request", "code": 400}, 400)
        return chat(asked)

    return says


NESTED = (
    "Failed to deserialize the JSON body into the target type: unknown field `cache_salt`, expected one of "
    "`greed_sampling`, `annotations` at line 1 column 44"
)


def strict_inside(asked: Asked) -> Answer:
    if "cache_salt" in asked.body.get("nvext", {}):
        return Answer({"message": NESTED, "type": "Bad Request", "code": 400}, 400)
    return chat(asked)


KINDS = pytest.mark.parametrize("kind", [openai.OpenAI, openai.AsyncOpenAI])


def talk(accel: Accel, server: Loopback, kind: Any, times: int = 2, **more: Any) -> list[Any]:
    """So many calls of a session that has a tenant, by an SDK's client."""
    if kind is openai.OpenAI:
        with client(server) as bare:
            wrapped = accel.wrap(bare)
            with accel.session("s", tenant="acme"):
                return [wrapped.chat.completions.create(**ASK, **more) for _ in range(times)]

    async def run() -> list[Any]:
        async with client(server, kind) as bare:
            wrapped = accel.wrap(bare)
            async with accel.session("s", tenant="acme"):
                return [await wrapped.chat.completions.create(**ASK, **more) for _ in range(times)]

    return asyncio.run(run())


@KINDS
def test_a_field_of_ours_that_is_refused_is_left_out_once_and_for_all(
    accel: Accel, tmp_path: Path, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Never a 400 of our making: Dynamo's words for a field in `nvext`; the caller sees replies alone."""
    server = engine("dynamo-1.6.1")
    server.says[CHAT] = strict_inside
    with serving(server), caplog.at_level(logging.INFO, "agentaccel"):
        attached(accel, server)
        replies = talk(accel, server, kind)
    assert [one.choices[0].message.content for one in replies] == ["Hello."] * 2
    assert ["nvext" in one.body for one in server.calls] == [True, False, False]
    assert all("x-dynamo-session-id" in one.headers for one in server.calls)
    assert sum("refuses nvext.cache_salt" in one.getMessage() for one in caplog.records) == 1
    assert [(one.outcome, one.status) for one in records(tmp_path)] == [("failed", 400), ("ok", None), ("ok", None)]


@KINDS
@pytest.mark.parametrize(
    "text",
    [
        "Validation: Unsupported parameter(s): {names}",
        "1 validation error for Request\ncache_salt\n  Extra inputs are not permitted [type=extra_forbidden]",
    ],
)
def test_several_fields_are_left_out_and_the_senders_own_go_on(accel: Accel, kind: Any, text: str) -> None:
    """A server in front of vLLM that knows neither the salt nor the usage of streams; `user` is the sender's."""
    server = engine("vllm-0.32.0-cpu")
    server.says[CHAT] = strict("model", "messages", "stream", "stream_options", "user", text=text)
    with serving(server):
        attached(accel, server)
        talk(accel, server, kind, user="me")
    assert [set(one.body) - {"model", "messages", "user"} for one in server.calls] == [{"cache_salt"}, set(), set()]


def test_a_server_of_fastapi_refuses_with_another_status(accel: Accel, tmp_path: Path) -> None:
    """422 with a list of errors; the record has it as it came."""
    wrong = {"type": "extra_forbidden", "loc": ["body", "cache_salt"], "msg": "Extra inputs are not permitted"}
    server = engine("vllm-0.32.0-cpu")
    server.says[CHAT] = lambda asked: Answer({"detail": [wrong]}, 422) if "cache_salt" in asked.body else chat(asked)
    with serving(server):
        attached(accel, server)
        talk(accel, server, openai.OpenAI, 1)
    assert [(one.outcome, one.status) for one in records(tmp_path)] == [("failed", 422), ("ok", None)]


def test_an_attempt_without_the_field_goes_on_with_the_conversation_that_the_first_one_began(
    accel: Accel, tmp_path: Path
) -> None:
    """No session is open, and the platform was named by the user: it is a second attempt, as the SDK's own are."""
    server = Loopback({CHAT: strict("model", "messages", "stream")})
    with serving(server), client(server) as bare:
        wrapped = accel.wrap(bare, platform="vllm")
        for _ in range(2):
            list(wrapped.chat.completions.create(**ASK, stream=True))
    told = [(one.outcome, one.attempt) for one in records(tmp_path)]
    assert told == [("failed", 0), ("ok", 1), ("ok", 0)]
    assert len({one.session for one in records(tmp_path)[:2]}) == 1


def test_a_stream_that_may_not_be_asked_for_its_usage_is_streamed_all_the_same(accel: Accel, tmp_path: Path) -> None:
    """Two fields of ours, refused in one breath."""
    server = engine("vllm-0.32.0-cpu")
    server.says[CHAT] = strict("model", "messages", "stream")
    with serving(server), client(server) as bare:
        attached(accel, server)
        with accel.session("s", tenant="acme"):
            chunks = list(accel.wrap(bare).chat.completions.create(**ASK, stream=True))
    assert [bool(one.choices) for one in chunks] == [True, True]
    assert [sorted(set(one.body) - {"model", "messages", "stream"}) for one in server.calls] == [
        ["cache_salt", "stream_options"],
        [],
    ]
    assert records(tmp_path)[-1].usage.read is None


@KINDS
@pytest.mark.parametrize(
    ("says", "more"),
    [
        (strict("model", "messages", "nvext", "cache_salt"), {"seed": 1}),
        (strict("model", "messages", "nvext"), {"extra_body": {"cache_salt": "mine"}}),
        (Answer({"message": "maximum context length is 4096 tokens", "code": 400}, 400), {}),
        (Answer(b"<h1>Bad Request</h1>", 400), {}),
        (Answer(b"x" * 100_000, 400), {}),
        (Answer({"message": NESTED}, 500), {}),
        (Answer({"message": NESTED}, 400), {"extra_body": {"nvext": {"cache_salt": "mine"}}}),
    ],
)
def test_any_other_refusal_reaches_the_sender_as_it_came_and_once(
    accel: Accel, kind: Any, says: Any, more: dict[str, Any]
) -> None:
    """Of a field of the sender's, of the prompt, of another kind: the same exception as without us."""
    server = engine("dynamo-1.6.1")
    server.says[CHAT] = says
    with serving(server):
        attached(accel, server)
        with client(server) as bare:
            want = seen(lambda: bare.chat.completions.create(**ASK, **more))
        before = len(server.calls)
        assert seen(lambda: talk(accel, server, kind, 1, **more)) == want
        assert len(server.calls) == before + 1


@pytest.mark.parametrize("guard", ["refused", "may_be_ours"])
def test_the_twin_without_the_rule_hands_our_400_to_the_caller(
    accel: Accel, monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    monkeypatch.setattr(attempt.Attempt, guard, lambda *given: False)
    server = engine("dynamo-1.6.1")
    server.says[CHAT] = strict_inside
    with serving(server):
        attached(accel, server)
        with pytest.raises(openai.BadRequestError):
            talk(accel, server, openai.OpenAI, 1)


def test_a_server_that_refuses_whatever_is_left_out_is_not_asked_for_ever(accel: Accel) -> None:
    """A field that was left out already is not left out again."""
    server = engine("dynamo-1.6.1")
    server.says[CHAT] = Answer({"message": NESTED}, 400)
    with serving(server):
        attached(accel, server)
        with pytest.raises(openai.BadRequestError, match="unknown field"):
            talk(accel, server, openai.OpenAI, 1)
    assert len(server.calls) == 2


def test_nor_is_it_where_the_field_could_not_be_left_out(accel: Accel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure of ours is no loop: the second refusal goes to the sender."""
    monkeypatch.setattr(composer, "unrefused", lambda plan, refused: plan)
    server = engine("dynamo-1.6.1")
    server.says[CHAT] = strict_inside
    with serving(server):
        attached(accel, server)
        with pytest.raises(openai.BadRequestError, match="unknown field"):
            talk(accel, server, openai.OpenAI, 1)
    assert len(server.calls) == 2


def test_a_refusal_that_breaks_off_reaches_the_sender_as_it_does_without_us(accel: Accel) -> None:
    """Read ahead, and read again: the break is the reader's to hear of."""
    broken = Broken()
    with httpx2.Client(transport=httpx2.MockTransport(broken), verify=False) as http:
        bare = openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="k", max_retries=0, http_client=http)
        accel._engine.servers.know(("127.0.0.1", 1), hints.Server(dialect="dynamo"))
        with accel.session("s", tenant="acme"), pytest.raises((openai.APIConnectionError, httpx2.ReadError)) as ours:
            accel.wrap(bare).chat.completions.create(**ASK)
        with pytest.raises((openai.APIConnectionError, httpx2.ReadError)) as theirs:
            bare.chat.completions.create(**ASK)
    assert type(ours.value) is type(theirs.value)


class Broken:
    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(400, headers={"content-type": "application/json"}, stream=Cut())


class Cut(httpx2.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield b'{"message": "Unsupp'
        raise httpx2.ReadError("cut")

    def close(self) -> None:
        pass
