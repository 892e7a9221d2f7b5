"""Our facts on which parts of the OpenAI wires may carry a marker, against the types of the installed SDK."""

from __future__ import annotations

import importlib
import pkgutil
import typing
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
import typing_extensions
from openai import types as sdk
from openai.types import chat, responses

from agentaccel.facts import Wire, cache_facts
from agentaccel.wire import dialect
from tests.wire.openai_bodies import FACTS, MARK, WIRES, Json


def typed_dicts(hint: Any) -> Iterator[Any]:
    """The objects that a type takes, however its unions and lists are nested."""
    if typing_extensions.is_typeddict(hint):
        yield hint
        return
    for inner in get_args(hint):
        yield from typed_dicts(inner)


def types_of(kind: Any) -> list[str]:
    """The values of its field `type`."""
    hint = typing.get_type_hints(kind).get("type")
    literals = [one for one in (hint, *get_args(hint)) if get_origin(one) is typing.Literal]
    return [name for literal in literals for name in get_args(literal)]


def takes_a_marker(kind: Any) -> bool:
    return MARK in typing.get_type_hints(kind)


def parts(*hints: Any) -> dict[str, bool]:
    """Whether each type of part may carry a marker."""
    return {name: takes_a_marker(kind) for hint in hints for kind in typed_dicts(hint) for name in types_of(kind)}


def field(kind: Any, name: str) -> Any:
    return typing.get_type_hints(kind)[name]


PARTS: dict[Wire, dict[str, bool]] = {
    "chat": parts(chat.ChatCompletionContentPartParam, field(chat.ChatCompletionToolMessageParam, "content")),
    "responses": parts(
        responses.ResponseInputMessageContentListParam,
        responses.ResponseFunctionCallOutputItemListParam,
        field(responses.ResponseCustomToolCallOutputParam, "output"),
        field(responses.ResponseOutputMessageParam, "content"),
    ),
}
SAMPLE = {"text": "words", "refusal": "no", "image_url": {"url": "u"}, "input_audio": {}, "file": {}, "annotations": []}


def message(wire: Wire, role: str, content: Any) -> Json:
    return {"messages" if wire == "chat" else "input": [{"role": role, "content": content}], "model": "gpt-6-sol"}


@pytest.mark.parametrize(("wire", "kind"), [(wire, kind) for wire in WIRES for kind in sorted(PARTS[wire])])
def test_a_part_is_markable_if_and_only_if_its_type_has_the_field(wire: Wire, kind: str) -> None:
    """Mandated by the provider; no exceptions in SDK 3.54."""
    body = message(wire, "user", [{**SAMPLE, "type": kind}])
    assert dialect(wire).decode(body, FACTS[wire]).segments[0].markable is PARTS[wire][kind]


@pytest.mark.parametrize("wire", WIRES)
def test_no_fact_names_a_type_that_the_sdk_does_not_have(wire: Wire) -> None:
    """The facts and the types say the same in the other direction, too: nothing in them is left over."""
    assert FACTS[wire].markable_blocks == {kind for kind, takes in PARTS[wire].items() if takes}
    assert FACTS[wire].markable_tools == frozenset()


def _modules(package: Any) -> Iterator[Any]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if module.name.rsplit(".", 1)[-1].endswith(("_param", "_params")):
            yield importlib.import_module(module.name)


@pytest.mark.parametrize(("wire", "package"), [("chat", chat), ("responses", responses)])
def test_no_other_type_of_the_wire_carries_markers(wire: Wire, package: Any) -> None:
    """A new place for markers in a new SDK shows here first: a tool, a message, an item, another part."""
    known = {kind for kind, takes in PARTS[wire].items() if takes}
    found: set[str] = set()
    for module in _modules(package):
        for kind in vars(module).values():
            if typing_extensions.is_typeddict(kind) and takes_a_marker(kind):
                found |= set(types_of(kind))
    assert found == known


def test_other_apis_are_the_only_ones_beside() -> None:
    """Chosen by us: decisions and evals are not spoken here; another API with markers shows in this test."""
    found = {
        module.__name__.rsplit(".", 1)[-1]
        for module in _modules(sdk)
        for kind in vars(module).values()
        if typing_extensions.is_typeddict(kind) and takes_a_marker(kind)
    }
    assert {name.partition("_")[0] for name in found} <= {"decision", "eval"}


RESULTS = {
    name: kind
    for kind in typed_dicts(responses.ResponseInputItemParam)
    if "output" in typing.get_type_hints(kind)
    for name in types_of(kind)
}
"""Input items that hold the result of a tool."""


def _holds_parts(kind: Any) -> bool:
    return any(takes_a_marker(one) for one in typed_dicts(field(kind, "output")))


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_result_is_markable_if_and_only_if_it_may_be_a_list_of_parts(name: str) -> None:
    """Mandated by the provider: results of its own tools are text or an object, and a list in their place is a 400."""
    item = {"type": name, "call_id": "c", "output": "words"}
    for output in ("words", [{"type": "input_text", "text": "words"}]):
        prompt = dialect("responses").decode({"input": [{**item, "output": output}]}, FACTS["responses"])
        assert [segment.markable for segment in prompt.segments] == [_holds_parts(RESULTS[name])], output
    assert len(RESULTS) >= 6
    assert sum(map(_holds_parts, RESULTS.values())) == 2


ROLES: dict[str, Any] = {
    name: kind
    for kind in typed_dicts(chat.ChatCompletionMessageParam)
    for name in get_args(typing_extensions.get_type_hints(kind)["role"])
    if isinstance(name, str)
}


@pytest.mark.parametrize("role", sorted(ROLES))
def test_the_text_of_a_message_is_markable_where_its_role_has_parts(role: str) -> None:
    """Mandated by the provider, which takes a list of parts there; chosen by us to leave a model's own words alone."""
    takes = any(takes_a_marker(one) for one in typed_dicts(field(ROLES[role], "content")))
    prompt = dialect("chat").decode(message("chat", role, "words"), FACTS["chat"])
    assert prompt.segments[0].markable is (takes and role != "assistant")


def test_every_role_is_known() -> None:
    """The test before covers all of them: a new role in a new SDK shows here."""
    assert set(ROLES) == {"developer", "system", "user", "assistant", "tool", "function"}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "part",
    [
        {"text": ""},
        {"text": " \n"},
        {},
        {"text": None},
        {"text": 5},
        {"text": "x", MARK: None},
        {"type": "holo", "text": "x"},
        "words",
    ],
)
def test_what_is_not_markable(wire: Wire, part: Any) -> None:
    """Chosen by us: empty and blank text, unknown types, an explicit null, and what is no part."""
    kind = "text" if wire == "chat" else "input_text"
    made = {"type": kind, **part} if isinstance(part, dict) else part
    prompt = dialect(wire).decode(message(wire, "user", [made]), FACTS[wire])
    assert [segment.markable for segment in prompt.segments] == [False]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5", "unheard-of"])
def test_a_model_that_knows_no_markers_gets_none(wire: Wire, model: str) -> None:
    """Mandated by the provider before gpt-5.6; chosen by us for names that nobody has listed."""
    facts = cache_facts(model, provider="openai", wire=wire)
    body = message(wire, "user", [{"type": kind, "text": "x"} for kind in ("text", "input_text")])
    assert not any(segment.markable for segment in dialect(wire).decode(body, facts).segments)
