"""Reading and writing the parts of a request that may be arranged: the texts before the conversation, and the tools.

Nothing is decided here. What is not of the expected form is not offered, so it stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentaccel.providers.values import is_object, items
from agentaccel.types import MARKS, Path, Prompt, Request, Segment, Text, show_path, value_at

_TEXTS = ("text", "input_text")  # no set: what is looked up may be of any type
"""Types of block that hold the operator's text."""


def texts_of(request: Request, prompt: Prompt) -> tuple[Text, ...]:
    """The texts of `request` that stand before its conversation: descriptions of tools, and the operator's words."""
    found: list[Text] = []
    for number, segment in enumerate(prompt.segments[: prompt.starts[2]]):
        value = value_at(request, segment.path)
        if segment.level == "tools":
            path, text = _description(value)
            place, name = "tools", f"tool {segment.name}"
        else:
            path, text = _text(value)
            place = show_path(segment.path)
            place = name = f"opening {place}" if segment.path[0] in ("messages", "input") else place
        if text and (segment.level != "tools" or segment.name):
            found.append(Text(place, name, (*segment.path, *path), text, number))
    return tuple(found)


def _description(tool: Any) -> tuple[Path, str]:
    if is_object(tool):
        for path in ((), ("function",), ("custom",)):
            inner = tool.get(path[0]) if path else tool
            if is_object(inner) and isinstance(inner.get("description"), str):
                return (*path, "description"), inner["description"]
    return (), ""


def _text(block: Any) -> tuple[Path, str]:
    if isinstance(block, str):
        return (), block
    if is_object(block) and block.get("type") in _TEXTS and isinstance(block.get("text"), str):
        return ("text",), block["text"]
    return (), ""


# --- tools ----------------------------------------------------------------------------------------------------------


class Listed(NamedTuple):
    """A tool as a request lists it."""

    key: str
    """Its name, or its kind where it has none."""
    segment: Segment
    value: Any
    """Its definition without a marker."""
    mark: Mapping[str, Any]
    """The marker on it, as its field; empty where there is none."""


def listed(request: Request, prompt: Prompt) -> tuple[Listed, ...]:
    """The tools of the field `tools` that stand in the prefix; none where another field lists some, too."""
    found: list[Listed] = []
    for segment in prompt.segments[: prompt.starts[1]]:
        tool = value_at(request, segment.path)
        if segment.path[0] != "tools" or not is_object(tool):
            return ()
        bare = {name: value for name, value in tool.items() if name not in MARKS}
        mark = {name: value for name, value in tool.items() if name in MARKS}
        found.append(Listed(segment.name or segment.kind, segment, bare if mark else tool, mark))
    return tuple(found)


def with_tools(
    request: Request, now: Sequence[Listed], order: Sequence[tuple[str, Any]], unmarked: frozenset[str]
) -> Request | None:
    """`request` with the tools of `order` (key, definition) in the place of `now`; None where that cannot be.

    A marker stays at its place in the list, and one on the last tool on the last: it ends the same level of the prompt
    as before. `unmarked` are keys of tools that cannot carry one. Tools outside the prefix come behind the others.
    """
    values = [value for _, value in order]
    for at, tool in enumerate(now):
        if not tool.mark:
            continue
        place = len(values) - 1 if at == len(now) - 1 else at
        if place >= len(values) or order[place][0] in unmarked or not MARKS.isdisjoint(values[place]):
            return None
        values[place] = {**values[place], **tool.mark}
    inside = {tool.segment.path[1] for tool in now}
    outside = [tool for at, tool in enumerate(items(request.get("tools"))) if at not in inside]
    return {**request, "tools": [*values, *outside]}
