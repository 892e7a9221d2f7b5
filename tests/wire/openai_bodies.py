"""Request bodies of both OpenAI wires over everything that the installed SDK's types allow, and junk that they do not.

As for the Messages API, the types are read off the SDK: what a new one brings is generated without a change here.
"""

from __future__ import annotations

import copy
import functools
import typing
from typing import Any

from hypothesis import strategies as st
from openai.types import chat as chat_types
from openai.types import responses as responses_types
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params

from agentaccel.facts import CacheFacts, Wire, cache_facts
from agentaccel.types import MARKS, CachePlan, Marker, Path
from agentaccel.wire import dialect
from tests.wire.bodies import NUMBERS, SCALARS, WORDS, Json, of

WIRES: tuple[Wire, ...] = ("chat", "responses")

FACTS: dict[Wire, CacheFacts] = {
    wire: typing.cast(CacheFacts, cache_facts("gpt-6-sol", provider="openai", wire=wire)) for wire in WIRES
}

MARK = "prompt_cache_breakpoint"

_KEYS = ("type", "role", "content", "output", "text", "tool_calls", "function", MARK, "cache_control", "ttl", "\ud800")

JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(SCALARS, st.sampled_from(["user", "text", "input_text", "message", "function_call_output"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3)),
    max_leaves=6,
)
"""Any JSON value; its keys and words are those that a reader of requests looks for."""


@functools.cache
def messages(wire: Wire) -> st.SearchStrategy[Any]:
    """One message, or one input item."""
    if wire == "chat":
        return of(chat_types.ChatCompletionMessageParam)
    plain = st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "developer", "system"]), "content": WORDS}
    )
    return st.one_of(of(responses_types.ResponseInputItemParam), of(responses_types.EasyInputMessageParam), plain)


def histories(wire: Wire) -> st.SearchStrategy[Any]:
    """The conversation: short as a rule, now and then longer than a stretch."""
    lists = st.one_of(st.lists(messages(wire), max_size=4), st.lists(messages(wire), min_size=9, max_size=12))
    return lists if wire == "chat" else st.one_of(lists, lists, WORDS)


@functools.cache
def _fields(wire: Wire) -> st.SearchStrategy[Json]:
    """The fields of a request, in order."""
    kind: Any = chat_params.CompletionCreateParamsNonStreaming
    tool: Any = chat_types.ChatCompletionToolUnionParam
    if wire == "responses":
        kind, tool = responses_params.ResponseCreateParamsNonStreaming, responses_types.ToolParam
    levels: dict[str, st.SearchStrategy[Any]] = {
        "model": st.sampled_from(["gpt-6-sol", "gpt-4o", "my-deployment", "gpt-\ud800"]),
        "messages" if wire == "chat" else "input": histories(wire),
    }
    own = {"messages", "input", "tools", "functions", "model", "stream", "prompt_cache_options"}
    optional = {
        **{name: of(hint) for name, hint in typing.get_type_hints(kind).items() if name not in own},
        "tools": st.lists(of(tool), max_size=3),
        "stream": st.booleans(),
        "x_unknown": SCALARS,
        "prompt_cache_options": st.fixed_dictionaries(
            {}, optional={"mode": st.sampled_from(["implicit", "explicit"]), "ttl": st.just("30m"), "x": NUMBERS}
        ),
    }
    if wire == "chat":
        optional["functions"] = st.lists(of(chat_params.Function), max_size=2)
    return st.fixed_dictionaries(levels, optional=optional)


@st.composite
def requests(draw: st.DrawFn, wire: Wire) -> Json:
    """A whole request; in every second one, the markers that its types brought along are taken out again."""
    made = draw(_fields(wire))
    turn = draw(st.integers(0, max(len(made) - 1, 0)))
    fields = list(made.items())
    made = dict(fields[turn:] + fields[:turn])
    return made if draw(st.booleans()) else typing.cast("Json", unmarked(made))


def unmarked(value: Any) -> Any:
    """`value` without any field that is a marker on some wire, wherever it stands."""
    if isinstance(value, dict):
        return {name: unmarked(item) for name, item in value.items() if name not in MARKS}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


@st.composite
def mangled(draw: st.DrawFn, wire: Wire) -> Any:
    """A request in which something, anywhere, was replaced with junk."""
    body = draw(requests(wire))
    for _ in range(draw(st.integers(1, 3))):
        place: Any = body
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = keys[draw(st.integers(0, len(keys) - 1))]
            if draw(st.integers(0, 2)) == 0 or not isinstance(place[key], dict | list) or not place[key]:
                place[key] = draw(JSON)
                break
            place = place[key]
    return body


@st.composite
def planned(draw: st.DrawFn, wire: Wire) -> tuple[Json, CachePlan]:
    """A request and a plan for it: markers on any of the places that may carry one, and fields beside them."""
    body, facts = draw(requests(wire)), FACTS[wire]
    prompt = dialect(wire).decode(body, facts)
    taken = {marker.path for marker in prompt.markers}
    free = [segment.path for segment in prompt.segments if segment.markable and segment.path not in taken]
    chosen = draw(st.sets(st.sampled_from(free))) if free else set()
    ttl = draw(st.sampled_from([ttl.label for ttl in facts.ttls]))
    options: Json = {}
    own = body.get("prompt_cache_options", {"x": 0})
    if "mode" not in own and own and draw(st.booleans()):
        options["prompt_cache_options"] = {"mode": "explicit"}
    stream = body.get("stream_options", {"x": 0})
    if isinstance(stream, dict) and "include_usage" not in stream and stream and draw(st.booleans()):
        options["stream_options"] = {"include_usage": True}
    if draw(st.booleans()):
        options["session_id"] = "name"
    paths: list[Path] = sorted(chosen, key=free.index)
    markers = tuple(Marker(path=path, ttl=ttl, ours=True) for path in paths)
    return body, CachePlan(markers=markers, wire=wire, mark=MARK, options=options)


def lossless(body: Json, plan: CachePlan) -> Json:
    """`body` with the strings that `plan` marks written as one part: the form that costs nothing."""
    changed = copy.deepcopy(body)
    for marker in plan.markers:
        above, last = changed, marker.path[-1]
        for part in marker.path[:-1]:
            above = above[part]
        if isinstance(above[last], str):
            above[last] = [{"type": "text" if plan.wire == "chat" else "input_text", "text": above[last]}]
    return changed
