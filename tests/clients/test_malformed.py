"""Malformed requests of OpenAI's forms: never an exception of ours, and what we do not understand goes out as sent."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.clients.dialects import CHAT, DIALECTS, RESPONSES
from tests.clients.places import PLACES, Line
from tests.clients.wire import an_accel, records
from tests.driver import Json, prose, user
from tests.fuzz.added import added

pytestmark = pytest.mark.many(4)

JUNK: tuple[Any, ...] = (None, True, 1.5, "", "x", [], [1], [{}], {"a": 1}, 2**70)
MARK = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}
OPTIONS: Json = {
    "stream": True,
    "stream_options": {"include_obfuscation": False},
    "prompt_cache_options": {"ttl": "30m"},
    "prompt_cache_key": "team",
    "parallel_tool_calls": False,
    "metadata": {"a": "b"},
}
WHOLE: dict[str, Json] = {
    "chat": {
        **CHAT,
        **OPTIONS,
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": prose(900), **MARK}]},
            user(
                [
                    {"type": "text", "text": "Hi."},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}},
                ]
            ),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "search", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "None found."},
            user(prose(400)),
        ],
        "response_format": {"type": "json_object"},
    },
    "responses": {
        **RESPONSES,
        **OPTIONS,
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": prose(900), **MARK}]},
            user([{"type": "input_text", "text": "Hi."}, {"type": "input_file", "file_data": "data:x;base64,A"}]),
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "c", "name": "search", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "None found."},
            user(prose(400)),
        ],
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "reasoning": {"effort": "low"},
        "previous_response_id": None,
    },
}
"""Requests with something of everything that we read."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in `value`, itself left out."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield (*path, key)
            yield from places(value[key], (*path, key))


def spoilt(body: Json, path: tuple[Any, ...], junk: Any) -> Json:
    made: Any = copy.deepcopy(body)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    return made  # type: ignore[no-any-return]


class Refusing:
    """The far side: says no to everything, and remembers what it was sent."""

    def __init__(self) -> None:
        self.sent = list[bytes]()

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request.content)
        return httpx2.Response(400, json={"error": {"type": "invalid_request_error", "message": "No."}})


PATHS = {"chat": "/chat/completions", "responses": "/responses"}


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_request_with_anything_anywhere_of_a_wrong_type_goes_to_the_provider(tmp_path: Path, name: str) -> None:
    """Chosen by us: whatever stands where, it is sent with nothing but what may be added, and the answer comes back."""
    far, count = Refusing(), 0
    http = httpx2.Client(transport=httpx2.MockTransport(far), verify=False)
    client = DIALECTS[name].wrapped(an_accel(tmp_path))(DIALECTS[name].sync_over(http, "http://provider.example"))
    may_add = {"prompt_cache_breakpoint", "prompt_cache_options", "mode", "ttl", "stream_options", "include_usage"}
    for path in places(WHOLE[name]):
        for junk in JUNK:
            body = spoilt(WHOLE[name], path, junk)
            with pytest.raises(openai.BadRequestError):
                client.post(PATHS[name], body=body, cast_to=object)
            count += 1
            assert added(body, json.loads(far.sent[-1])) <= may_add, (path, junk)
    assert len(far.sent) == count > 500
    assert [(one.outcome, one.status) for one in records(tmp_path)] == [("failed", 400)] * count


@pytest.mark.parametrize("name", sorted(WHOLE))
@pytest.mark.parametrize("junk", [*JUNK[:-1], pytest.param("\ud800", id="surrogate")], ids=repr)
def test_a_conversation_that_is_none_goes_out_to_the_byte(tmp_path: Path, name: str, junk: Any) -> None:
    """Chosen by us: where there is nothing that we could plan, the bytes are the sender's."""
    place = PLACES[name]
    if name == "responses" and isinstance(junk, str) and junk:
        pytest.skip("a string is a conversation there")
    said = {"chat": "messages", "responses": "input"}[name]
    streamed = {} if junk and isinstance(junk, list) else {"stream": True}
    data = json.dumps({**place.ask, **streamed, said: junk}, indent=1).encode("utf-8", "surrogatepass")
    assert _answers(place, data, tmp_path) == data


@pytest.mark.parametrize("name", sorted(WHOLE))
@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'"x"', b"null", b"NaN", b"\xff", b"[" * 3000, b'{"a":' * 3000])
def test_a_body_that_is_no_object_passes_untouched(tmp_path: Path, name: str, data: bytes) -> None:
    """Chosen by us: it is no model call that we know of, so there is no record either."""
    assert _answers(PLACES[name], data, tmp_path) == data
    assert records(tmp_path) == []


def _answers(place: Any, data: bytes, folder: Path) -> bytes:
    """What arrives of a body that is sent through the wrapped client's own HTTP client."""
    line = Line(place)
    client = place.wrapped(an_accel(folder))(line.client())
    headers = {"content-type": "application/json", "authorization": "Bearer k"}
    reply = client._client.post(f"/v1{PATHS[place.wire]}", content=data, headers=headers)
    assert reply.status_code == 400
    return line.requests[-1].content


@pytest.mark.parametrize("name", ["chat", "responses", "messages", "bedrock"])
@pytest.mark.parametrize("depth", [100, 300, 700])
def test_what_is_nested_deeply_is_sent_where_the_sdk_can_send_it(tmp_path: Path, name: str, depth: int) -> None:
    """Chosen by us: how deep a request may be is the SDK's to say, in its own words."""
    place, schema = PLACES[name], dict[str, Any]()
    for _ in range(depth):
        schema = {"type": "object", "properties": {"q": schema}}
    tool = copy.deepcopy(place.ask["tools"][0])
    (tool.get("function") or tool)["parameters" if place.wire != "messages" else "input_schema"] = schema
    told = []
    for wrap in (lambda bare: bare, place.wrapped(an_accel(tmp_path))):
        far = Refusing()
        http = httpx2.Client(transport=httpx2.MockTransport(far), verify=False)
        client: Any = wrap(place.sync_over(http, "http://provider.example"))
        with pytest.raises((openai.APIStatusError, anthropic.APIStatusError, RecursionError)) as caught:
            place.calls(client).create(**{**place.ask, "tools": [tool]})
        told.append((caught.type, [b'"q":{}' in sent for sent in far.sent]))
    assert told[0] == told[1]
    assert told[0][1] == ([True] if depth == 100 else told[0][1])
