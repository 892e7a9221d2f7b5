"""With the plan applied, a request changes by the fields that the facts list, and what its reader sees by nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.places import PLACES, Line
from tests.clients.test_platform_identity import BOTH, EVERYWHERE, read, read_async
from tests.clients.wire import an_accel, records
from tests.driver import Json, prose, user

pytestmark = pytest.mark.many(3)

CLAUDE = {"cache_control"}
OPENAI = {"prompt_cache_breakpoint", "prompt_cache_options"}
MAY_CHANGE: dict[str, set[str]] = {
    "messages": CLAUDE,
    "bedrock": CLAUDE,
    "vertex": CLAUDE,
    "mantle": CLAUDE,
    "foundry": CLAUDE,
    "chat": OPENAI | {"stream_options"},
    "responses": OPENAI,
    "azure chat": set(),
    "azure responses": set(),
    "old responses": set(),
    "openrouter": CLAUDE | {"session_id"},
    "vllm": {"stream_options"},
    "mistral": {"prompt_cache_key"},
    "server": set(),
}
"""The fields that may be added at each place, wherever they stand in the request."""
DOES_CHANGE: dict[str, set[str]] = {
    **MAY_CHANGE,
    "chat": {"prompt_cache_breakpoint", "stream_options"},
    "responses": {"prompt_cache_breakpoint"},
}
"""Those that a conversation of three turns brings out."""


def added(bare: Any, ours: Any) -> set[str]:
    """The names of the fields that stand in `ours` alone. Fails where anything else differs."""
    if isinstance(bare, str) and isinstance(ours, list):
        kind = {name for name in ("text", "input_text") if ours[0]["type"] == name}
        bare = [{"type": kind.pop(), "text": bare}]
    if isinstance(bare, dict) and isinstance(ours, dict):
        assert [name for name in ours if name in bare] == list(bare), "what the sender wrote keeps its order"
        inner = [added(bare[name], ours[name]) for name in bare]
        return set(ours).difference(bare).union(*inner)
    if isinstance(bare, list) and isinstance(ours, list):
        assert len(bare) == len(ours)
        return set().union(*(added(one, other) for one, other in zip(bare, ours, strict=True)))
    assert bare == ours
    return set()


def turns(ask: Json, wire: str) -> list[Json]:
    """The request as it grows over three turns."""
    name = "input" if wire == "responses" else "messages"
    grown, asked = list(ask[name]), []
    for turn in range(3):
        asked.append({**ask, name: list(grown)})
        grown += [{"role": "assistant", "content": f"Reply {turn}."}, user(prose(40, turn))]
    return asked


@BOTH
@EVERYWHERE
def test_only_listed_fields_are_added_and_without_them_it_is_the_request_as_written(
    tmp_path: Path, name: str, streamed: bool
) -> None:
    """Contract line 1; a string that became one text part is the one lossless form."""
    place = PLACES[name]
    bare, ours = Line(place), Line(place)
    clients = bare.client(), place.wrapped(an_accel(tmp_path))(ours.client())
    found = set[str]()
    for asked in turns(place.ask, place.wire):
        for client in clients:
            reply = place.calls(client).create(**asked, **({"stream": True} if streamed else {}))
            if streamed:
                list(reply)
        assert ours.bodies[-1].closed
        found |= added(*(json.loads(line.requests[-1].content) for line in (bare, ours)))
    assert found == DOES_CHANGE[name] - (set() if streamed else {"stream_options"})
    assert [turn.outcome for turn in records(tmp_path)] == ["ok"] * 3


@BOTH
@EVERYWHERE
def test_no_header_changes_but_those_of_the_bodys_form(tmp_path: Path, name: str, streamed: bool) -> None:
    """Chosen by us: length, signature, and no compression where a chunk will be taken out of the reply."""
    place = PLACES[name]
    sent = []
    for wrap in (lambda bare: bare, place.wrapped(an_accel(tmp_path))):
        line = Line(place)
        client: Any = wrap(line.client())
        read(place, client, streamed)
        sent.append({pair for pair in line.requests[0].headers.multi_items()})
    of_the_body = {"content-length", "authorization", "x-amz-date", "x-stainless-raw-response"}
    hides = "stream_options" in MAY_CHANGE[name] and streamed
    differ = {name for name, _ in sent[0] ^ sent[1]}
    assert differ - of_the_body == ({"accept-encoding"} if hides else set())
    assert not hides or ("accept-encoding", "identity") in sent[1]


# --- the usage chunk -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chat", "vllm"])
async def test_a_usage_chunk_that_we_asked_for_reaches_no_reader(tmp_path: Path, name: str) -> None:
    """Chosen by us: the pieces are those of a stream that nobody asked for its usage, and the record has it."""
    place = PLACES[name]
    for folder, asynchronous in ((tmp_path / "sync", False), (tmp_path / "async", True)):
        bare, ours = Line(place), Line(place)
        wrapped = place.wrapped(an_accel(folder))
        if asynchronous:
            found = await read_async(place, wrapped(ours.async_client()), True)
        else:
            found = read(place, wrapped(ours.client()), True)
        assert [_without_null(piece) for piece in found] == read(place, bare.client(), True)
        assert b'"usage":{' in b"".join(piece for piece in ours.bodies[0].pieces if isinstance(piece, bytes))
        [turn] = records(folder)
        assert (turn.outcome, turn.usage.input is not None) == ("ok", True)


def _without_null(piece: bytes) -> bytes:
    """Known gap, pinned on purpose: where usage is asked for, the provider has it null in every other chunk."""
    return piece.replace(b',"usage":null', b"")


@pytest.mark.parametrize("name", ["chat", "vllm"])
@pytest.mark.parametrize("asked", [{"include_usage": True}, {"include_usage": False}, {"include_obfuscation": False}])
def test_what_the_reader_said_of_usage_holds(tmp_path: Path, name: str, asked: Json) -> None:
    """Chosen by us: a chunk that was asked for comes, one that was declined is not asked for, other options stay."""
    place = PLACES[name]
    bare, ours = Line(place), Line(place)
    clients = bare.client(), place.wrapped(an_accel(tmp_path))(ours.client())
    seen = [
        [chunk.choices == [] for chunk in place.calls(client).create(**place.ask, stream=True, stream_options=asked)]
        for client in clients
    ]
    assert seen[0] == seen[1]
    assert seen[1][-1] is asked.get("include_usage", False)
    sent = json.loads(ours.requests[0].content)["stream_options"]
    assert sent == ({**asked, "include_usage": True} if "include_usage" not in asked else asked)


# --- requests that hold half of the conversation ---------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "held", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}, {"conversation": {"id": "conv_1"}}]
)
def test_a_request_whose_history_the_provider_holds_goes_out_as_written(
    tmp_path: Path, held: Json, streamed: bool
) -> None:
    """Chosen by us: what we cannot see we do not plan; the turn is recorded as such."""
    place = PLACES["responses"]
    bodies = []
    for wrap in (lambda bare: bare, place.wrapped(an_accel(tmp_path))):
        line = Line(place)
        client: Any = wrap(line.client())
        with pytest.raises(Exception, match=r"40[04]"):
            place.calls(client).create(**place.ask, **held, stream=streamed)
        bodies.append(line.requests[0].content)
    assert bodies[0] == bodies[1]
    [turn] = records(tmp_path)
    assert turn.held
    assert not any(marker.ours for marker in turn.markers)
