"""Request bodies over everything that the installed SDK's types allow, and junk that they do not.

The types are read off `anthropic.types.beta`, so a block or a tool that a new SDK brings is generated without a change
here. Hypothesis fills them in; markers come with them, since `cache_control` is a field of the types.
"""

from __future__ import annotations

import collections.abc
import functools
import typing
from typing import Any, get_args, get_origin

import typing_extensions
from anthropic.types import beta as sdk
from anthropic.types.beta import message_create_params
from hypothesis import strategies as st

Json = dict[str, Any]

WORDS = st.sampled_from(["", " ", "a", "Prüfung 🚚", "\ud800", "line\nline", "x" * 40, '"\\', "\u2028"])
NUMBERS = st.sampled_from([0, 1, -1, 7, 2**40, 2**63, 2**64 + 1, 10**30])
FLOATS = st.sampled_from([0.0, -0.0, 0.1, 1e300, 5e-324, 1.0])
SCALARS: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), NUMBERS, FLOATS, WORDS)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "type", "cache_control", "content", "ttl", "\ud800"]), inner, max_size=3),
    ),
    max_leaves=6,
)
"""Any JSON value; its keys are those that a reader of requests looks for."""

NOT_IN_THE_BODY = {"betas", "user_profile_id"}
"""Parameters of the SDK's method that it sends as headers."""


@st.composite
def _shuffled(draw: st.DrawFn, fields: st.SearchStrategy[Json]) -> Json:
    """A dict with its keys in another order, now and then with a field that nobody knows."""
    items = list(draw(fields).items())
    turn = draw(st.integers(0, 8))
    if turn >= 7:
        items.append(("x_unknown", draw(SCALARS)))
    cut = turn % len(items) if items else 0
    return dict(items[cut:] + items[:cut])


@functools.cache
def typed_dict(kind: Any) -> st.SearchStrategy[Json]:
    # The SDK's annotations are strings, so the class itself does not know which keys are required.
    whole = typing_extensions.get_type_hints(kind, include_extras=True)
    hints = typing.get_type_hints(kind)
    required = {name: of(hints[name]) for name, hint in whole.items() if "Required[" in str(hint)[:40]}
    optional = {
        name: of(hint)
        for name, hint in hints.items()
        if name not in required and name not in NOT_IN_THE_BODY and get_args(hint) != (bool,)
    }
    return _shuffled(st.fixed_dictionaries(required, optional=optional))


def _members(hint: Any) -> list[Any]:
    """What of a union can be written as JSON; the SDK also takes its own reply objects, paths and open files."""
    found = []
    for member in get_args(hint):
        if get_origin(member) is typing.Annotated:
            continue
        if isinstance(member, type) and not typing_extensions.is_typeddict(member) and member not in _PLAIN:
            continue
        found.append(member)
    return found


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: WORDS,
    int: NUMBERS,
    float: FLOATS,
    bool: st.booleans(),
    type(None): st.none(),
    object: JSON,
}


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type, as JSON."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if typing_extensions.is_typeddict(hint):
        return st.deferred(lambda: typed_dict(hint))
    origin, args = get_origin(hint), get_args(hint)
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is typing.Annotated:
        return of(args[0])
    if origin in (collections.abc.Iterable, collections.abc.Sequence, list) or "Sequence" in str(origin):
        return st.lists(of(args[0]), max_size=2)
    if origin in (dict, collections.abc.Mapping):
        return st.dictionaries(st.sampled_from(["type", "a", "b"]), of(args[1]), max_size=2)
    members = _members(hint)
    return st.one_of([of(member) for member in members]) if members else WORDS


@functools.cache
def blocks() -> st.SearchStrategy[Any]:
    """Content blocks: every type of the SDK, and one that no SDK knows."""
    return st.one_of(of(sdk.BetaContentBlockParam), st.fixed_dictionaries({"type": st.just("holo"), "content": JSON}))


@functools.cache
def _contents() -> st.SearchStrategy[Any]:
    return st.one_of(WORDS, st.lists(blocks(), max_size=3))


@st.composite
def messages(draw: st.DrawFn) -> Json:
    """A message; one of the system role may come anywhere, and may have no content."""
    role = draw(st.sampled_from(["user", "assistant", "user", "assistant", "system"]))
    made: Json = {"role": role, "content": draw(_contents())}
    if role == "system" and draw(st.booleans()):
        made = {"role": role, "output_config": {"effort": draw(st.sampled_from(["low", "high"]))}}
    return made


@functools.cache
def _fields() -> st.SearchStrategy[Json]:
    """The fields of a request."""
    hints = typing.get_type_hints(message_create_params.MessageCreateParamsNonStreaming)
    parts: dict[str, st.SearchStrategy[Any]] = {
        "model": st.sampled_from(["claude-sonnet-5", "claude-haiku-4-5", "gpt-none", "claude-\ud800"]),
        "max_tokens": NUMBERS,
        "messages": st.lists(messages(), max_size=4),
    }
    optional = {name: of(hint) for name, hint in hints.items() if name not in {*parts, *NOT_IN_THE_BODY}}
    optional |= {"thread": JSON, "tools": st.lists(of(sdk.BetaToolUnionParam), max_size=3)}
    return _shuffled(st.fixed_dictionaries(parts, optional=optional))


@st.composite
def requests(draw: st.DrawFn) -> Json:
    """A whole request; in every second one, the markers that its types brought along are taken out again."""
    made = draw(_fields())
    return made if draw(st.booleans()) else typing.cast("Json", unmarked(made))


def unmarked(value: Any) -> Any:
    """`value` without any field called cache_control, wherever it stands."""
    if isinstance(value, dict):
        return {name: unmarked(item) for name, item in value.items() if name != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


@st.composite
def mangled(draw: st.DrawFn) -> Any:
    """A request in which something, anywhere, was replaced with junk."""
    body = draw(requests())
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
