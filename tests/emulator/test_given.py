"""What scripts, faults and orders may be given: what could not be sent is refused at once, with one line, and what is
taken is answered on every API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agentaccel.errors import ConfigError
from agentaccel_emulator import Conversation, Emulator, Fault, HttpReply, HttpRequest, Script, ScriptedReply, say, serve
from agentaccel_emulator import faults as faults_module
from agentaccel_emulator import script as script_module
from agentaccel_emulator.faults import faults_of
from agentaccel_emulator.script import reply_of, script_of

USER = [{"role": "user", "content": "Hello"}]
REQUESTS = [
    ("/v1/messages", {"model": "claude-sonnet-5", "max_tokens": 99, "messages": USER}),
    ("/v1/chat/completions", {"model": "gpt-5.1", "messages": USER}),
    ("/v1/responses", {"model": "gpt-5.1", "input": "Hello"}),
    ("/model/anthropic.claude-sonnet-5/invoke-with-response-stream",
     {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 99, "messages": USER}),
]  # fmt: skip
"""One of each form of reply."""


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else []


ODD = [
    *(None, True, -1, 0, 0.5, 5, 1e9, 1e10, 1e308, 1e-300, 2**63, 2**64 - 1, 2**70, float("1e400")),
    *("", "x", "\u0100", "b\r\nx-evil: 1", "\x00", "\x85", "x" * 20_000),
    *([], {}, ["x"], {"a": 1}, {"a": "b"}, [{}], [["x"]], nested(100), nested(240)),
]
"""Values that a field may be given by somebody who did not read about it."""
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "Hi."},
    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
    {"type": "redacted_thinking", "data": "s"},
    {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    {"type": "server_tool_use", "id": "t", "name": "f", "input": {}},
]
REPLY = {"content": "Hi.", "stop_reason": "end_turn", "output_tokens": 4, "first_token": 1, "tokens_per_second": 9}
KINDS = ("429", "overloaded_mid_stream", "slow_first_token", "malformed_sse", "disconnect_mid_stream")
FAULT = {"at": 1, "match": "Hello", "probability": 1, "seed": 7, "times": 1, "headers": {}, "seconds": 5,
         "after_events": 1}  # fmt: skip


def other(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """`whole` with each of its fields left out, and with each odd value in its place; and with a field more."""
    for name in whole:
        yield {key: value for key, value in whole.items() if key != name}
        yield from ({**whole, name: odd} for odd in ODD)
    yield from ({**whole, "more": odd} for odd in ODD)


def orders() -> Iterator[dict[str, Any]]:
    yield from other({"op": "advance", "seconds": 5})
    for block in BLOCKS:
        yield from ({"op": "script", "script": [{"content": [one]}]} for one in other(block))
    yield from ({"op": "script", "script": [one]} for one in other(REPLY))
    talk = {"match": "Hello", "replies": ["Hi."]}
    script = {"replies": ["Hi."], "default": "Hi.", "order": "turns", "conversations": [talk]}
    yield from ({"op": "script", "script": one} for one in other(script))
    yield from ({"op": "script", "script": {"conversations": [one]}} for one in other(talk))
    yield from ({"op": "script", "script": one} for one in ODD)
    yield from ({"op": "faults", "faults": one} for one in ODD)
    for kind in KINDS:
        yield from ({"op": "faults", "faults": [one]} for one in other({"kind": kind, **FAULT}))
    for odd in ODD:
        yield {"op": "script", "script": [odd]}
        yield {"op": "faults", "faults": [odd]}
        yield {"op": "faults", "faults": [{"kind": "429", "headers": {"x-more": odd}}]}
        if isinstance(odd, str):
            yield {"op": "faults", "faults": [{"kind": "429", "headers": {odd: "x"}}]}


def sent(reply: HttpReply) -> None:
    """As the server writes it: whole lines of Latin-1, each a header."""
    for name, value in reply.headers.items():
        assert not {"\r", "\n"} & set((name + value).encode("latin-1").decode("latin-1")), (name, value)
    assert 0 <= reply.seconds < 1e13


def taken(emulator: Emulator, order: Any) -> bool:
    """Whether an order is taken; what is refused is refused in one line."""
    body = order if isinstance(order, bytes) else json.dumps(order).replace("Infinity", "1e400").encode()
    reply = emulator.handle(HttpRequest(method="POST", path="/_ctl", body=body))
    assert reply.status in (200, 400)
    if reply.status == 400:
        said = json.loads(reply.body)["error"]["message"]
        assert said.isprintable(), said
        assert len(said) < 400, said
    return reply.status == 200


def ask_all(emulator: Emulator) -> list[int]:
    """The statuses of a request to each API, whole and streamed."""
    statuses = []
    for path, body in REQUESTS:
        for stream in (False, True):
            asked = {**body, "stream": stream} if "/model/" not in path else body
            request = HttpRequest(
                method="POST",
                path=path,
                headers={"x-api-key": "k", "authorization": "Bearer k", "anthropic-version": "2023-06-01"},
                body=json.dumps(asked).encode(),
            )
            reply = emulator.handle(request)
            sent(reply)
            emulator.clock.now += reply.seconds  # type: ignore[attr-defined]
            statuses.append(reply.status)
    return statuses


def try_all() -> tuple[int, int]:
    """How many of the orders are taken, and how many refused."""
    emulator, counts = Emulator(), [0, 0]
    for order in orders():
        fine = taken(emulator, order)
        counts[not fine] += 1
        if fine:
            assert set(ask_all(emulator)) <= {200, 429}, order
            assert taken(emulator, {"op": "script", "script": ["Fine."]})
            assert taken(emulator, {"op": "faults", "faults": []})
    assert ask_all(emulator) == [200] * 2 * len(REQUESTS)
    return counts[0], counts[1]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_whatever_an_order_is_given_the_emulator_goes_on_answering() -> None:
    """Some 2,800 orders, each with one field that is odd."""
    fine, refused = try_all()
    assert fine > 300
    assert refused > 1_200


@pytest.mark.slow
@pytest.mark.parametrize(("module", "guard"), [
    (script_module, "number"), (faults_module, "number"), (faults_module, "_check_headers"), (script_module, "_TEXTS"),
])  # fmt: skip
def test_without_a_guard_an_order_breaks_it(module: Any, guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: taken, and then a request raises, or a time is none."""
    monkeypatch.setattr(module, guard, {} if guard == "_TEXTS" else lambda *given, **named: None)
    with pytest.raises(Exception):  # noqa: B017, PT011  # each breaks in a way of its own
        try_all()


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ([{"content": [{"type": "text"}]}], "text of a text block in a scripted reply is a text, not None"),
        ([{"content": [{"type": "tool_use"}]}], "name of a tool_use block in a scripted reply is a text, not None"),
        ([{"content": "a", "first_token": 1e308}], "first_token of a scripted reply is a number from 0 to 1,000,"),
        ([{"content": "a", "tokens_per_second": 1e-300}], "tokens_per_second of a scripted reply is a number"),
        ([{"content": "a", "output_tokens": 4.5}], "output_tokens of a scripted reply is a whole number from 0"),
        ({"conversations": [{"replies": []}]}, "a conversation in a script is an object with match and replies"),
        ({"replies": "Hi."}, "replies of a script are a list, not 'Hi.'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_over_the_wire_and_in_python_alike(order: Any, says: str) -> None:
    reply = Emulator().handle(
        HttpRequest(method="POST", path="/_ctl", body=json.dumps({"op": "script", "script": order}).encode())
    )
    assert reply.status == 400
    assert says in json.loads(reply.body)["error"]["message"]
    with pytest.raises(ConfigError, match="script") as caught:
        serve(script=order).__enter__()
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScriptedReply(content=say("x").content, first_token=float("nan")),
        lambda: ScriptedReply(content="x"),  # type: ignore[arg-type]
        lambda: ScriptedReply(content=({"type": "text", "text": "x", "more": object()},)),
        lambda: ScriptedReply(content=({"type": "tool_use", "name": "f", "input": nested(900)},)),
        lambda: ScriptedReply(content=({"type": "tool_use", "name": "f", "input": 2**70},)),
        lambda: say("x" * 20_000_000),
        lambda: reply_of({"content": "x", "stop_reason": "\ud83d"}),
        lambda: Script(replies=("x",)),  # type: ignore[arg-type]
        lambda: Script(order="random"),  # type: ignore[arg-type]
        lambda: Script(answer="x"),  # type: ignore[arg-type]
        lambda: Conversation(match=5, replies=()),  # type: ignore[arg-type]
        lambda: script_of({"conversations": [{"match": "x"}]}),
        lambda: Fault(kind="429", match="\ud83d"),
        lambda: Fault(kind="429", probability="often"),  # type: ignore[arg-type]
        lambda: Fault(kind="overloaded_mid_stream", after_events=2**70),
        lambda: Fault(kind="slow_first_token", seconds=float("inf")),
        lambda: Fault(kind="429", at=0),
        lambda: Fault(kind="429", headers={"Content-Length": "5"}),
        lambda: faults_of(5),  # type: ignore[arg-type]
        lambda: faults_of({"kind": "429"}),  # type: ignore[arg-type]
    ],
)
def test_in_python_it_is_refused_where_it_is_made(make: Any) -> None:
    with pytest.raises(ConfigError):
        make()


def test_an_order_that_nests_too_deep_is_refused() -> None:
    """Nothing could be made of it that is shown again."""
    deep = b'{"op": "script", "script": [{"content": [{"type": "tool_use", "name": "f", "input": %b%b}]}]}'
    emulator = Emulator()
    for depth in (245, 300, 900, 5_000):
        assert not taken(emulator, deep % (b"[" * depth, b"]" * depth))
    assert taken(emulator, deep % (b"[" * 100, b"]" * 100))
    assert ask_all(emulator) == [200] * 2 * len(REQUESTS)


def test_a_clock_past_the_last_date_shows_the_last_date() -> None:
    """By hand: 300 times thirty years are past the year 9999, which no header can say."""
    emulator = Emulator()
    for _ in range(300):
        assert taken(emulator, {"op": "advance", "seconds": 1e9})
    assert ask_all(emulator) == [200] * 2 * len(REQUESTS)
    path, body = REQUESTS[0]
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    reply = emulator.handle(HttpRequest(method="POST", path=path, headers=headers, body=json.dumps(body).encode()))
    assert reply.headers["anthropic-ratelimit-requests-reset"] == "9999-12-31T23:59:59Z"


def test_headers_that_a_provider_may_send_are_sent() -> None:
    """By hand: what RFC 9110 allows, é in Latin-1 included."""
    fault = {
        "kind": "429",
        "headers": {"retry-after-ms": "20", "x-should-retry": "false", "X-Note": "caf\u00e9\tau lait"},
    }
    emulator = Emulator(faults=[fault])
    path, body = REQUESTS[0]
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    reply = emulator.handle(HttpRequest(method="POST", path=path, headers=headers, body=json.dumps(body).encode()))
    assert reply.headers.items() >= fault["headers"].items()  # type: ignore[attr-defined]
