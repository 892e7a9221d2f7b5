"""Anthropic's clients in front of servers of the user's own: who answers, what is sent, and what is read of the reply.

The servers answer in the words of real ones: usage as captured, what they ignore and refuse as their code says.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest

from agentaccel import Accel, CachePolicy
from agentaccel.clients import anthropic as seam
from agentaccel.clients import looking
from agentaccel.clients.endpoint import endpoint_of
from agentaccel.facts import cache_facts, platforms, speaks
from agentaccel.hashing import pseudonym
from agentaccel.selfhost.hints import Hints, rendered
from agentaccel.selfhost.probe import Page, Server, probe
from agentaccel.types import Usage
from agentaccel.wire.anthropic import decode, warmed, with_note
from tests.clients.wire import an_accel, records
from tests.driver import MODEL, prose, tool
from tests.selfhost.serving import Answer, Asked, Loopback, engine, serving, told

PATH = "/v1/messages"
ASK: dict[str, Any] = {
    "model": "tiny",
    "max_tokens": 9,
    "system": prose(60),
    "messages": [{"role": "user", "content": prose(200)}],
}
CLAUDE: dict[str, Any] = {**ASK, "model": MODEL, "system": prose(1800), "tools": [tool("search", 300)]}
"""What Anthropic's cache is worth markers for."""
SAID = {"input_tokens": 4, "output_tokens": 2, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 96}
"""As vLLM 0.32.0 was captured: 100 tokens of which 96 were read."""
CLIENTS = pytest.mark.parametrize("kind", [anthropic.Anthropic, anthropic.AsyncAnthropic])


def message(asked: Asked, usage: dict[str, int] | None = None) -> Answer:
    """As it is asked for, streamed or not; vLLM tells of the cache in the last event."""
    said = SAID if usage is None else usage
    base = {"id": "chatcmpl-1", "type": "message", "role": "assistant", "model": "tiny", "stop_sequence": None}
    if not asked.body.get("stream"):
        return Answer(
            {**base, "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn", "usage": said}
        )
    first = {**base, "content": [], "stop_reason": None, "usage": {"input_tokens": 100, "output_tokens": 0}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": first},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": said},
        {"type": "message_stop"},
    ]
    data = b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)
    return Answer(data, headers={"content-type": "text/event-stream"})


def own(name: str, **more: Any) -> Loopback:
    """A real engine's answers to every question, and a reply to every message."""
    return engine(name, **{PATH: message, **more})


@pytest.fixture(autouse=True)
def a_busy_machine_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is given up after seconds, and another one follows a later call: here the first is waited for."""
    monkeypatch.setattr(looking, "_SECONDS", 60.0)


@pytest.fixture
def accel(tmp_path: Path) -> Iterator[Accel]:
    with an_accel(tmp_path) as made:
        yield made


def client(server: Loopback, kind: Any = anthropic.Anthropic, **options: Any) -> Any:
    return kind(base_url=server.url, api_key="k", **{"max_retries": 0, **options})


def attached(accel: Accel, server: Loopback, **more: Any) -> None:
    assert accel.backend(f"{server.url}/v1", **more).wait_ready()


def talk(
    accel: Accel,
    server: Loopback,
    kind: Any,
    times: int = 1,
    *,
    ask: Any = ASK,
    found: threading.Event | None = None,
    **more: Any,
) -> list[Any]:
    """So many calls of a session that has a tenant; a stream as the list of its events. The client stays open until it
    is `found` out who answers: a look goes over its connections."""
    named = {name: more.pop(name) for name in ("platform",) if name in more}
    if kind is anthropic.Anthropic:
        with client(server) as bare, accel.session("s", tenant="acme"):
            made = [accel.wrap(bare, **named).messages.create(**ask, **more) for _ in range(times)]
            assert found is None or found.wait(60)
            return [list(one) for one in made] if more.get("stream") else made

    async def run() -> list[Any]:
        async with client(server, kind) as bare, accel.session("s", tenant="acme"):
            wrapped = accel.wrap(bare, **named)
            made = [await wrapped.messages.create(**ask, **more) for _ in range(times)]
            assert found is None or await asyncio.to_thread(found.wait, 60)
            return [[event async for event in one] for one in made] if more.get("stream") else made

    return asyncio.run(run())


def marks(body: Any) -> int:
    return json.dumps(body).count("cache_control")


# --- who answers ------------------------------------------------------------------------------------------------------


@CLIENTS
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_an_attached_server_knows_who_answers(
    accel: Accel, tmp_path: Path, kind: Any, stream: bool
) -> None:
    """vLLM: a salt for the tenant and a name for the session; no marker, whatever a model of its list is called. Of 100
    tokens 96 were read: `input_tokens` leaves those out."""
    lists = Answer({"object": "list", "data": [{"id": MODEL, "owned_by": "vllm"}]})
    server = own("vllm-0.32.0-cpu", **{"/v1/models": lists})
    with serving(server):
        attached(accel, server)
        talk(accel, server, kind, ask=CLAUDE, **({"stream": True} if stream else {}))
    [call] = server.calls
    assert call.body.keys() - CLAUDE.keys() - {"stream"} == {"cache_salt"}
    assert (len(call.body["cache_salt"]), marks(call.body)) == (32, 0)
    assert call.headers["x-session-id"] == pseudonym(accel._recorder.shared_key, "session", "@acme/s")
    [record] = records(tmp_path)
    assert (record.provider, record.platform) == ("compatible", "vllm")
    assert record.usage == Usage(input=100, read=96, write={}, output=2)
    assert any("X-Session-ID names the session" in one for one in record.reasons)


@CLIENTS
def test_a_server_on_this_machine_is_looked_at_once_and_known_from_the_first_call_on(
    accel: Accel, tmp_path: Path, kind: Any
) -> None:
    """One GET of its models, with the credentials and nothing else of the client's."""
    server = own("llamacpp-b11549")
    with serving(server):
        with told("is llama.cpp server") as found:
            talk(accel, server, kind, found=found)
        talk(accel, server, kind)
    [look] = server.looks
    assert look.path == "/v1/models"
    assert look.headers["authorization"] == "Bearer k"
    assert look.headers.keys() - {"host", "connection"} == {"authorization", "accept", "accept-encoding", "user-agent"}
    assert [one.platform for one in records(tmp_path)] == ["llamacpp", "llamacpp"]
    assert [one.body for one in server.calls] == [ASK, ASK]


def several(*owners: str | None) -> Answer:
    """A list of models; one without an owner is as Anthropic lists its own."""
    data = [{"type": "model", "id": f"m{n}", **({"owned_by": one} if one else {})} for n, one in enumerate(owners)]
    return Answer({"object": "list", "data": data})


@pytest.mark.parametrize(
    "owners", [("openai", "openai"), (None, None), ("vllm", "anthropic"), ("llamacpp", None)], ids=str
)
def test_a_gateway_on_this_machine_is_no_server_of_ones_own(accel: Accel, tmp_path: Path, owners: Any) -> None:
    """LiteLLM owns all models itself, a proxy of Anthropic's shows its list, and one that passes on what the servers
    behind it say has several owners: Claude is sent what it is sent by one that is named so."""
    usage = {**SAID, "input_tokens": 5000, "cache_read_input_tokens": 0}
    server = Loopback({PATH: lambda asked: message(asked, usage), "/v1/models": several(*owners)})
    with serving(server):
        with told("does not say what it is") as found:
            talk(accel, server, anthropic.Anthropic, ask=CLAUDE, found=found)
        talk(accel, server, anthropic.Anthropic, times=2, ask=CLAUDE)
        with an_accel(tmp_path / "named") as other:
            talk(other, server, anthropic.Anthropic, times=3, ask=CLAUDE, platform="api")
    assert [(one.provider, one.platform) for one in records(tmp_path)] == [("anthropic", "api")] * 3
    sent = [one.body for one in server.calls]
    assert sent[:3] == sent[3:]
    assert marks(sent[-1])


def test_claude_behind_a_server_of_ones_own_stays_claude(accel: Accel, tmp_path: Path) -> None:
    """One address for both, as behind a router of paths: its list has the server's models alone. Whoever is told that
    vLLM answers there, by an OpenAI client or by `backend`, still sends Claude what Claude takes: markers, and no field
    that it refuses. A model that the server lists is the server's, whatever it is called."""
    usage = {**SAID, "input_tokens": 5000, "cache_read_input_tokens": 0}
    lists = Answer(
        {"object": "list", "data": [{"id": "tiny", "owned_by": "vllm"}, {"id": "claude-mine", "owned_by": "vllm"}]}
    )
    server = Loopback(
        {PATH: lambda asked: message(asked, usage), "/v1/models": lists, "/version": Answer({"version": "0.32.0"})}
    )
    with serving(server):
        attached(accel, server)
        talk(accel, server, anthropic.Anthropic, times=2, ask=CLAUDE)
        talk(accel, server, anthropic.Anthropic, ask=ASK)
        talk(accel, server, anthropic.Anthropic, ask={**CLAUDE, "model": "claude-mine"})
    assert [one.platform for one in records(tmp_path)] == ["api", "api", "vllm", "vllm"]
    first, second, *own_ones = [one.body for one in server.calls]
    assert marks(first)
    assert marks(second)
    assert "cache_salt" not in first
    assert all("cache_salt" in one and not marks(one) for one in own_ones)


def test_the_twin_that_asks_the_address_alone_takes_claude_for_vllm(
    accel: Accel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentaccel.clients.anthropic._Whose._is_behind", lambda whose, server, model: False)
    with pytest.raises(AssertionError):
        test_claude_behind_a_server_of_ones_own_stays_claude(accel, tmp_path)


def test_the_twin_that_asks_the_first_model_alone_takes_a_gateway_for_a_server() -> None:
    """With one owner the same list is vLLM's."""
    found = [
        probe({"/v1/models": Page(200, {}, several(*owners).data)})
        for owners in (("vllm", "vllm"), ("vllm", "anthropic"))
    ]
    assert [one.dialect for one in found] == ["vllm", "unknown"]
    assert "its models are owned by 'anthropic' and 'vllm'" in found[1].evidence[0]


def public(asked: list[str]) -> Any:
    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url.host}")
        return httpx2.Response(200, json=message(Asked("POST", PATH, {}, ASK)).body)

    return httpx2.Client(transport=httpx2.MockTransport(answer), verify=False)


def test_a_public_host_is_never_looked_at(accel: Accel) -> None:
    """A corporate gateway stays what it was; nor is Anthropic's own host asked."""
    asked: list[str] = []
    hosts = ("api.anthropic.com", "gateway.example")
    for host in hosts:
        with public(asked) as http:
            bare = anthropic.Anthropic(base_url=f"https://{host}", api_key="k", http_client=http)
            accel.wrap(bare).messages.create(**ASK)
    accel.close()
    assert asked == [f"POST {host}" for host in hosts]


def test_the_twin_without_the_guard_looks_at_a_public_host(accel: Accel, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (seam, looking):
        monkeypatch.setattr(module, "is_private", lambda host: True)
    asked: list[str] = []
    with public(asked) as http, told("does not say") as found:
        bare = anthropic.Anthropic(base_url="https://gateway.example", api_key="k", http_client=http)
        accel.wrap(bare).messages.create(**ASK)
        assert found.wait(60)
    assert sorted(asked) == ["GET gateway.example", "POST gateway.example"]


@pytest.mark.parametrize("how", ["platform", "gateway", "off", "attached"])
def test_who_is_named_or_known_is_not_looked_at(tmp_path: Path, how: str) -> None:
    """`platform="api"` says that it is a gateway to Claude."""
    server = own("vllm-0.32.0-cpu")
    named = {"platform": {"platform": "llamacpp"}, "gateway": {"platform": "api"}}.get(how, {})
    with serving(server), an_accel(tmp_path, mode="off" if how == "off" else "on") as accel:
        if how == "attached":
            attached(accel, server, dialect="vllm")
        server.asked.clear()
        talk(accel, server, anthropic.Anthropic, times=2, **named)
    assert not server.looks
    found = {one.platform for one in records(tmp_path)} if how != "off" else set()
    assert found == {"platform": {"llamacpp"}, "gateway": {"api"}, "attached": {"vllm"}}.get(how, set())


def test_a_copy_of_a_client_is_judged_by_where_it_points(accel: Accel, tmp_path: Path) -> None:
    """Wrapped as vLLM's, then pointed at another server, which was attached as llama.cpp's, and at a public one."""
    one, other = own("vllm-0.32.0-cpu"), own("llamacpp-b11549")
    asked: list[str] = []
    with serving(one, other), client(one) as bare, public(asked) as http:
        attached(accel, other)
        wrapped = accel.wrap(bare, platform="vllm")
        wrapped.messages.create(**ASK)
        wrapped.with_options(base_url=other.url).messages.create(**ASK)
        gateway = anthropic.Anthropic(base_url=one.url, api_key="k", http_client=http)
        accel.wrap(gateway, platform="vllm").with_options(base_url="https://gateway.example").messages.create(**ASK)
    assert [(one.provider, one.platform) for one in records(tmp_path)] == [
        ("compatible", "vllm"),
        ("compatible", "llamacpp"),
        ("anthropic", "api"),
    ]


def test_the_platforms_that_speak_anthropics_wire_are_those_that_were_read() -> None:
    """A row of facts; no other server or gateway of OpenAI's wires is taken to speak it."""
    found = [one for one in platforms("compatible") if speaks("compatible", one, "messages")]
    assert found == ["vllm", "sglang", "llamacpp"]
    for one in found:
        facts = cache_facts("any", provider="compatible", platform=one, wire="messages")
        assert facts is not None
        assert (facts.mark, facts.markable_blocks, facts.keeps, facts.self_hosted) == (
            "",
            frozenset(),
            "one_token",
            True,
        )


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_the_senders_own_markers_stay_and_count_for_nothing(accel: Accel, tmp_path: Path) -> None:
    """Five of them, where Anthropic takes four, and one of the request: the server ignores them all."""
    marked = [{"type": "text", "text": prose(40, n), "cache_control": {"type": "ephemeral"}} for n in range(5)]
    ask = {**ASK, "system": marked, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    server = own("llamacpp-b11549")
    with serving(server):
        attached(accel, server)
        talk(accel, server, anthropic.Anthropic, ask=ask)
    assert server.calls[0].body == ask
    [record] = records(tmp_path)
    assert not record.markers
    assert any("the server keeps every prefix by itself" in one for one in record.reasons)


def test_markers_are_markers_where_the_facts_know_of_them() -> None:
    """The same request, read for Claude: the twin of the one above."""
    ask = {**ASK, "cache_control": {"type": "ephemeral"}}
    facts = {
        "vllm": cache_facts("m", provider="compatible", platform="vllm", wire="messages"),
        "api": cache_facts(MODEL),
    }
    found = {name: [one.ttl for one in decode(ask, one).markers] for name, one in facts.items()}
    assert found == {"vllm": [], "api": ["5m"]}


def test_a_salt_that_sglang_ignores_on_this_wire_is_not_sent_and_the_plan_says_so(accel: Accel, tmp_path: Path) -> None:
    """By its code, 0.5.23: a tenant would be told to be apart, and would not be."""
    server = own("sglang-0.5.23")
    with serving(server):
        attached(accel, server)
        talk(accel, server, anthropic.Anthropic)
    [call] = server.calls
    assert call.body == ASK
    assert "x-smg-routing-key" in call.headers
    [record] = records(tmp_path)
    assert "tenant is not sent: SGLang ignores it with Messages" in record.reasons
    assert not any("prefixes apart" in one for one in record.reasons)


def test_hints_are_sent_on_the_wires_on_which_they_act() -> None:
    """Neither vLLM nor SGLang lists a priority among the fields of a message; vLLM lists a salt."""
    for dialect, sent in (("vllm", {"cache_salt"}), ("sglang", set())):
        hints, server = Hints(priority=1, tenant="acme"), Server(dialect=dialect)
        assert rendered(hints, server, b"", "messages").fields.keys() == sent
        assert rendered(hints, server, b"").fields.keys() == {"priority", "cache_salt"}
        assert "ignores it with Messages" in rendered(hints, server, b"", "messages").unsent["priority"]


def test_a_session_that_the_sender_names_is_not_named_again(accel: Accel) -> None:
    """By a header of the client, or of the call."""
    server = own("vllm-0.32.0-cpu")
    with serving(server):
        attached(accel, server)
        with client(server, default_headers={"X-Claude-Code-Session-Id": "mine"}) as bare:
            accel.wrap(bare).messages.create(**ASK)
        with client(server) as bare:
            accel.wrap(bare).messages.create(**ASK, extra_headers={"X-Session-ID": "mine"})
    assert ["x-session-id" in one.headers for one in server.calls] == [False, True]
    assert server.calls[1].headers["x-session-id"] == "mine"


def test_counting_tokens_goes_out_as_by_the_bare_client(accel: Accel, tmp_path: Path) -> None:
    """The very bytes and headers, and no record."""
    server = own("vllm-0.32.0-cpu", **{f"{PATH}/count_tokens": Answer({"input_tokens": 67})})
    ask = {name: value for name, value in CLAUDE.items() if name != "max_tokens"}
    with serving(server), client(server) as bare:
        attached(accel, server)
        with accel.session("s", tenant="acme"):
            counted = [one.messages.count_tokens(**ask).input_tokens for one in (bare, accel.wrap(bare))]
    assert counted == [67, 67]
    one, other = server.calls
    differ = {name for name in one.headers | other.headers if one.headers.get(name) != other.headers.get(name)}
    assert (one.body, one.path, differ) == (
        other.body,
        other.path,
        {"x-stainless-raw-response"},
    )  # of the SDK's middleware
    assert not records(tmp_path)


@pytest.mark.parametrize(("thinking", "asked"), [(None, 1), ({"type": "enabled", "budget_tokens": 1024}, None)])
def test_a_request_of_our_own_asks_for_one_token_and_is_not_made_where_that_is_refused(
    thinking: Any, asked: int | None
) -> None:
    """vLLM and SGLang refuse a limit of 0; vLLM 0.32 one that is not above the budget for thinking."""
    made = warmed({**ASK, "stream": True, **({"thinking": thinking} if thinking else {})}, "one_token")
    assert made == (None if asked is None else {**ASK, "max_tokens": asked})


# --- what is moved ----------------------------------------------------------------------------------------------------

RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "1", "content": "Sunny."}
NOTE: dict[str, Any] = {"type": "text", "text": "\nIt is noon."}
SUNNY: dict[str, Any] = {"type": "text", "text": "Sunny."}


@pytest.mark.parametrize(
    ("content", "noted"),
    [
        ("Hi", [{"type": "text", "text": "Hi"}, NOTE]),
        ([SUNNY], [SUNNY, NOTE]),
        ([RESULT], [{**RESULT, "content": [SUNNY, NOTE]}]),
        ([{**RESULT, "content": [SUNNY]}], [{**RESULT, "content": [SUNNY, NOTE]}]),
        ([{**RESULT, "content": ""}], [{**RESULT, "content": [NOTE]}]),
        (
            [{"type": "tool_result", "tool_use_id": "1"}],
            [{"type": "tool_result", "tool_use_id": "1", "content": [NOTE]}],
        ),
        ([RESULT, SUNNY], [RESULT, SUNNY, NOTE]),
        ("", None),
        ([], None),
    ],
    ids=str,
)
def test_what_is_moved_is_the_last_text_of_the_users_message(content: Any, noted: Any) -> None:
    """In the result of a tool where that ends the message: llama.cpp puts the texts of a message in front of its
    results, which a note that changes would break off from the prefix. vLLM and SGLang keep the order of both."""
    ask = {"messages": [{"role": "user", "content": content}]}
    want = None if noted is None else {"messages": [{"role": "user", "content": noted}]}
    assert with_note(ask, "It is noon.", "last") == want


@pytest.mark.parametrize("role", ["assistant", "system"])
def test_nothing_is_said_behind_another_role(role: str) -> None:
    """The model goes on with its own words; and vLLM may put a system message at the beginning of the prompt."""
    ask = {"messages": [{"role": "user", "content": "Hi"}, {"role": role, "content": "So"}]}
    assert with_note(ask, "It is noon.", "last") is None


# --- what is refused --------------------------------------------------------------------------------------------------

EXTRA = "1 validation error for Request\ncache_salt\n  Extra inputs are not permitted [type=extra_forbidden]"


def refusing(asked: Asked) -> Answer:
    if "cache_salt" in asked.body:
        return Answer({"type": "error", "error": {"type": "invalid_request_error", "message": EXTRA}}, 400)
    return message(asked)


@CLIENTS
@pytest.mark.parametrize("stream", [False, True])
def test_a_field_of_ours_that_is_refused_is_left_out_once_and_for_all(
    accel: Accel, tmp_path: Path, kind: Any, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Never a 400 of our making: the caller sees replies alone."""
    server = own("vllm-0.32.0-cpu", **{PATH: refusing})
    with serving(server), caplog.at_level(logging.INFO, "agentaccel"):
        attached(accel, server)
        replies = talk(accel, server, kind, times=2, **({"stream": True} if stream else {}))
    assert len(replies) == 2
    assert ["cache_salt" in one.body for one in server.calls] == [True, False, False]
    assert all("x-session-id" in one.headers for one in server.calls)
    assert sum("refuses cache_salt" in one.getMessage() for one in caplog.records) == 1
    assert [(one.outcome, one.status) for one in records(tmp_path)] == [("failed", 400), ("ok", None), ("ok", None)]


@CLIENTS
def test_the_senders_own_refusals_reach_him_as_they_came(accel: Accel, tmp_path: Path, kind: Any) -> None:
    """Once, with all that the bare client's error carries."""
    answer = Answer({"type": "error", "error": {"type": "invalid_request_error", "message": "bogus: wrong"}}, 400)
    server = own("vllm-0.32.0-cpu", **{PATH: answer})
    with serving(server):
        attached(accel, server)
        with pytest.raises(anthropic.BadRequestError) as raised:
            talk(accel, server, kind)
    assert raised.value.response.content == answer.data
    assert len(server.calls) == 1
    assert [(one.outcome, one.status) for one in records(tmp_path)] == [("failed", 400)]


def test_what_a_gateway_refuses_is_not_asked_again(tmp_path: Path) -> None:
    """As before: only servers of one's own are, and this one has not said to be one. A diagnosis is asked for by a
    field of its own, which is the one that is refused."""
    answer = Answer({"error": {"message": EXTRA.replace("cache_salt", "diagnostics")}}, 400)
    server = Loopback({PATH: answer, "/v1/models": several("openai")})
    policy = CachePolicy(diagnostics=True)
    with serving(server), an_accel(tmp_path, cache=policy) as accel, pytest.raises(anthropic.BadRequestError):
        talk(accel, server, anthropic.Anthropic, ask=CLAUDE, platform="api")
    assert ["diagnostics" in one.body for one in server.calls] == [True]


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said", "usage"),
    [
        ("vllm-0.32.0-cpu", SAID, Usage(input=100, read=96, write={}, output=2)),
        (
            "vllm-0.32.0-cpu",
            {**SAID, "input_tokens": 1, "cache_creation_input_tokens": 35, "cache_read_input_tokens": 64},
            Usage(input=100, read=64, write={"auto": 35}, output=2),
        ),
        ("vllm-0.32.0-cpu", {"input_tokens": 100, "output_tokens": 2}, Usage(input=100, output=2)),
        (
            "llamacpp-b11549",
            {"cache_read_input_tokens": 99, "input_tokens": 1, "output_tokens": 2},
            Usage(input=100, read=99, output=2),
        ),
        ("sglang-0.5.23", {"input_tokens": 100, "output_tokens": 2}, Usage(input=100, output=2)),
    ],
)
def test_usage_is_read_in_anthropics_convention(
    accel: Accel, tmp_path: Path, name: str, said: dict[str, int], usage: Usage
) -> None:
    """`input_tokens` leaves out what was read and written; what is not said is None, never 0: vLLM says nothing of the
    cache without --enable-prompt-tokens-details, and SGLang nothing where nothing was read."""
    server = own(name, **{PATH: lambda asked: message(asked, said)})
    with serving(server):
        attached(accel, server)
        talk(accel, server, anthropic.Anthropic)
    [record] = records(tmp_path)
    assert record.usage == usage
    assert record.work is None
    assert not record.doubts


def test_without_consent_the_plan_says_what_a_clock_costs_in_tokens(tmp_path: Path) -> None:
    """As for OpenAI's clients there; with consent the clock is text of the user's message."""
    asks = [at_clock(at) for at in ("09:00:07", "09:01:44", "09:02:31")]
    server = own("llamacpp-b11549")
    with serving(server):
        for number, moves in enumerate((False, True)):
            folder = tmp_path / str(number)
            policy = CachePolicy(move_volatile=moves)
            with an_accel(folder, cache=policy) as accel, client(server) as bare:
                wrapped = accel.wrap(bare, platform="llamacpp")
                with accel.session("s"):
                    for ask in asks:
                        wrapped.messages.create(**ask)
            said = " ".join(records(folder)[-1].reasons)
            assert ("moved to the end from system" in said) is moves
            assert ("CachePolicy(move_volatile=True) consents" in said) is not moves
    sent = server.calls[-1].body
    assert "09:02:31" not in json.dumps(sent["system"])
    assert "09:02:31" in sent["messages"][-1]["content"][-1]["text"]
    assert marks(sent) == 0


def at_clock(at: str) -> dict[str, Any]:
    return {**ASK, "system": f"It is 2026-11-21 {at} UTC.\n{prose(900)}"}


@pytest.mark.parametrize(
    ("request_", "wire"),
    [
        (ASK, "messages"),
        ({**ASK, "system": None}, "messages"),
        ({"model": "m", "messages": [], "tools": [{"name": "f", "input_schema": {}}]}, "messages"),
        ({"model": "m", "messages": [], "tools": [{"type": "function", "function": {"name": "f"}}]}, "chat"),
        ({"model": "m", "messages": []}, "chat"),
        ({"model": "m", "input": "Hi"}, "responses"),
    ],
)
def test_the_form_of_a_request_is_told_by_what_only_anthropics_has(request_: Any, wire: str) -> None:
    """For people with their own HTTP; where a platform does not speak that wire, it is a chat as ever."""
    assert endpoint_of(request_, "compatible", "vllm").wire == wire
    assert endpoint_of(request_, "compatible", "groq").wire == ("responses" if wire == "responses" else "chat")
