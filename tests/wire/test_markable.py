"""Our facts on what may carry a marker, against the types of the installed SDK."""

from __future__ import annotations

import importlib
import pkgutil
import re
import typing
from typing import Any, get_args

import pytest
import typing_extensions
from anthropic import types as stable
from anthropic.types import beta

from agentaccel.facts import CacheFacts, cache_facts
from agentaccel.wire.anthropic import decode

FACTS = typing.cast(CacheFacts, cache_facts("claude-sonnet-5"))


def _typed_dicts(union: Any) -> dict[str, Any]:
    """The members of a union by their `type`."""
    found: dict[str, Any] = {}
    for member in get_args(union):
        if typing_extensions.is_typeddict(member):
            found |= dict.fromkeys(_types_of(member), member)
    return found


def _types_of(kind: Any) -> list[str]:
    hint = typing.get_type_hints(kind).get("type")
    members = [one for one in get_args(hint) if typing.get_origin(one) is typing.Literal] or [hint]
    return [name for member in members for name in get_args(member) if isinstance(name, str)]


def _nested() -> dict[str, Any]:
    """Blocks that stand only inside a tool result."""
    hint = typing.get_type_hints(beta.BetaToolResultBlockParam)["content"]
    found: dict[str, Any] = {}
    for member in get_args(hint):
        for inner in get_args(member):
            found |= _typed_dicts(inner) or (
                dict.fromkeys(_types_of(inner), inner) if typing_extensions.is_typeddict(inner) else {}
            )
    return found


BLOCKS = _typed_dicts(stable.ContentBlockParam) | _typed_dicts(beta.BetaContentBlockParam)
TOOLS = _typed_dicts(stable.ToolUnionParam) | _typed_dicts(beta.BetaToolUnionParam)
NESTED = {name: kind for name, kind in _nested().items() if name not in BLOCKS}
SAMPLE = {"type": "", "text": "words", "name": "f", "id": "t", "tool_use_id": "t", "input": {}, "content": "words"}


def _takes_a_marker(kind: Any) -> bool:
    return "cache_control" in typing.get_type_hints(kind)


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_a_block_is_markable_if_and_only_if_its_type_has_the_field(name: str) -> None:
    """Mandated by the provider; no exceptions in SDK 2.12."""
    body = {"messages": [{"role": "user", "content": [{**SAMPLE, "type": name}]}]}
    assert decode(body, FACTS).segments[0].markable is _takes_a_marker(BLOCKS[name])


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_tool_is_markable_if_and_only_if_its_type_has_the_field(name: str) -> None:
    """Mandated by the provider; a deferred tool is the exception, tested below."""
    body = {"tools": [{**SAMPLE, "type": name}], "messages": []}
    assert decode(body, FACTS).segments[0].markable is _takes_a_marker(TOOLS[name])


def test_blocks_that_stand_only_in_tool_results_are_known() -> None:
    """Mandated by the provider; a marker of the user's on one of them counts, and we place none there."""
    assert set(NESTED) <= FACTS.markable_blocks
    assert all(_takes_a_marker(kind) for kind in NESTED.values())


def test_no_fact_names_a_type_that_the_sdk_does_not_have() -> None:
    """The facts and the types say the same in the other direction, too: nothing in them is left over."""
    assert set(BLOCKS) | set(NESTED) >= FACTS.markable_blocks
    assert {re.sub(r"_\d{8}$", "", name) for name in TOOLS} == FACTS.markable_tools


@pytest.mark.slow
def test_no_other_type_carries_markers() -> None:
    """A new place for markers in a new SDK shows here first: every type with the field is known or named below."""
    requests = re.compile(r"Message(Create|CountTokens)Params|Thread(Create|Send)Params")
    unknown = set()
    for package in (stable, beta):
        for module in pkgutil.iter_modules(package.__path__):
            found = vars(importlib.import_module(f"{package.__name__}.{module.name}"))
            for name, kind in found.items():
                if not typing_extensions.is_typeddict(kind) or not _takes_a_marker(kind) or requests.search(name):
                    continue
                if not set(_types_of(kind)) <= {*BLOCKS, *TOOLS, *NESTED}:
                    unknown.add(name)
    assert unknown == set()


@pytest.mark.parametrize(
    ("where", "block"),
    [
        ("system", {"type": "text", "text": ""}),
        ("system", {"type": "text", "text": "  \n"}),
        ("system", {"type": "text"}),
        ("system", {"type": "text", "text": "x", "cache_control": None}),
        ("system", {"type": "holo"}),
        ("system", 5),
        ("tools", {"type": "holo_20990101", "name": "f"}),
        ("tools", {"name": "f", "input_schema": {}, "cache_control": None}),
    ],
)
def test_what_is_not_markable(where: str, block: Any) -> None:
    """Mandated by the provider for empty text; chosen by us for blank text, unknown types and an explicit null."""
    prompt = decode({where: [block], "messages": []}, FACTS)
    assert [segment.markable for segment in prompt.segments] == [False]


def test_a_deferred_tool_is_no_part_of_the_prefix() -> None:
    """Mandated by the provider: it may not carry a marker, and a change of it breaks nothing."""
    tools = [{"name": "f", "input_schema": {}}, {"name": "g", "input_schema": {}, "defer_loading": True}]
    prompt = decode({"tools": tools, "messages": []}, FACTS)
    assert [segment.name for segment in prompt.segments] == ["f"]
    marked = {"tools": [tools[0], {**tools[1], "cache_control": {"type": "ephemeral"}}], "messages": []}
    assert decode(marked, FACTS).illegal


def test_without_facts_nothing_is_markable() -> None:
    """Chosen by us: an unknown model gets no markers, never a guess."""
    body = {"system": "x", "tools": [{"name": "f"}], "messages": [{"role": "user", "content": "y"}]}
    assert not any(segment.markable for segment in decode(body, None).segments)
