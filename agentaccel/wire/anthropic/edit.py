"""Writing a plan into a request of the Anthropic Messages API, and taking it out again.

Taking our markers away from an encoded request gives back the sender's, up to two lossless forms: a string `system`
and a string `content` become one text block, because only a block can carry a marker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentaccel.types import CachePlan, Marker, Request
from agentaccel.wire.json import changed_all, is_object, items

MARK = "cache_control"
"""The field that carries a marker, on a block or at the top level of the request."""

DEFAULT_TTL = "5m"
"""The lifetime of a marker that names none."""


def encode(request: Request, plan: CachePlan) -> Request:
    """`request` with the markers and options of `plan`; shares every part that does not change.

    With an empty plan it returns the very object it was given, so the bytes on the wire are the sender's own.

    >>> from agentaccel.types import Marker
    >>> body = {"model": "m", "system": "Be brief.", "messages": []}
    >>> encode(body, CachePlan(markers=(Marker(path=("system",), ttl="5m", ours=True),)))["system"]
    [{'type': 'text', 'text': 'Be brief.', 'cache_control': {'type': 'ephemeral'}}]
    >>> encode(body, CachePlan()) is body
    True
    """
    changed: Request = changed_all(request, _marked, plan.markers)
    changed = changed_all(changed, _unmarked, plan.without)
    return {**changed, **plan.options} if plan.options else changed


def strip(request: Request, plan: CachePlan) -> Request:
    """`request`, once encoded with `plan`, without what the plan added: the sender's, up to the lossless forms."""
    changed: Request = {name: value for name, value in request.items() if name not in plan.options}
    changed = changed_all(changed, _unmarked, plan.markers)
    changed = changed_all(changed, _marked, plan.without)
    return changed


def marking(ttl: str) -> dict[str, str]:
    """The value of a marker's field."""
    return {"type": "ephemeral"} if ttl == DEFAULT_TTL else {"type": "ephemeral", "ttl": ttl}


def _marked(value: Any, marker: Marker) -> Any:
    """A block with a marker; a string as the block that it stands for."""
    if isinstance(value, str):
        return [{"type": "text", "text": value, MARK: marking(marker.ttl)}]
    return {**value, MARK: marking(marker.ttl)}


def _unmarked(value: Any, marker: Marker) -> Any:
    if isinstance(value, list):  # a string that became one text block; its path ends at the list
        return [_unmarked(item, marker) for item in value]
    return {name: item for name, item in value.items() if name != MARK}


def warmed(request: Request, keeps: str) -> Request | None:
    """A request that reads what `request` would and asks for no reply; None where the provider takes none.

    Prompt, markers and every parameter that the cache depends on stay as they are (prompt caching guide, *Pre-warm*).

    >>> warmed({"model": "m", "max_tokens": 900, "stream": True, "messages": []}, "max_tokens")
    {'model': 'm', 'max_tokens': 0, 'messages': []}
    >>> budgeted = {"model": "m", "max_tokens": 900, "thinking": {"type": "enabled"}, "messages": []}
    >>> warmed(budgeted, "max_tokens") is None
    True
    """
    if keeps == "one_token":  # vLLM and SGLang refuse a limit of 0, vLLM one that is not above the budget for thinking
        if _kind(request.get("thinking")) == "enabled":
            return None
        return {**{name: value for name, value in request.items() if name != "stream"}, "max_tokens": 1}
    refused = (
        _kind(request.get("thinking")) == "enabled"
        or _kind(request.get("tool_choice")) in ("any", "tool")
        or "output_format" in request
        or (isinstance(output := request.get("output_config"), Mapping) and output.get("format") is not None)
    )
    if refused:
        return None
    return {name: 0 if name == "max_tokens" else value for name, value in request.items() if name != "stream"}


def with_stub(request: Request) -> tuple[Request, bool]:
    """What is known of `request`, as one that the API takes, and whether a word stands in it for the rest.

    A call whose result is still to come goes, because nothing else may follow it; and so does a marker at the top
    level, which would stand on that word.

    >>> with_stub({"system": "Be brief.", "cache_control": {"type": "ephemeral"}})
    ({'system': 'Be brief.', 'messages': [{'role': 'user', 'content': '.'}]}, True)
    >>> call = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {}}]}
    >>> with_stub({"messages": [{"role": "user", "content": "Look."}, call]})
    ({'messages': [{'role': 'user', 'content': 'Look.'}]}, False)
    """
    given = request.get("messages") or ()
    messages = list(given)
    while messages and _kind(messages[-1], "role") == "assistant" and not _is_said(messages[-1]["content"]):
        messages.pop()
    if messages and _kind(messages[-1], "role") != "assistant":
        return (request if len(messages) == len(given) else {**request, "messages": messages}), False
    kept = {name: value for name, value in request.items() if name != MARK}
    return {**kept, "messages": [*messages, {"role": "user", "content": "."}]}, True


def _is_said(content: Any) -> bool:
    """Whether a reply holds nothing that something else than the user's next words has to follow."""
    return isinstance(content, str) or all(_kind(block) in _SAID for block in content)


_SAID = frozenset({"text", "thinking", "redacted_thinking"})


def _kind(value: Any, name: str = "type") -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


# --- What an operator can say at the end of a request of the Anthropic Messages API -----------------------------------


def with_note(request: Request, note: str, form: str) -> Request | None:
    """`request` with `note` at its end, in the `form` that the model takes; None where it cannot stand there.

    A system message comes last and after the user's (vendor's guide on system messages in mid-conversation, 2026-08).
    Where there is none, the note is the last text of the user's message, behind the results of tools, which must come
    first. A message of the assistant at the end is one that the model goes on with: nothing can stand behind it.

    In the form "last" it is text of the user's message as well, and of the result of a tool where one ends that:
    llama.cpp puts the texts of a message in front of its results, where a note would break them off from the prefix.
    It begins with a new line, since some templates put texts together as they are.

    >>> with_note({"messages": [{"role": "user", "content": "Hi"}]}, "It is noon.", "user")["messages"]
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hi'}, {'type': 'text', 'text': 'It is noon.'}]}]
    >>> result = {"type": "tool_result", "tool_use_id": "1", "content": "Sunny."}
    >>> told = with_note({"messages": [{"role": "user", "content": [result]}]}, "It is noon.", "last")["messages"][0]
    >>> told["content"][0]["content"]
    [{'type': 'text', 'text': 'Sunny.'}, {'type': 'text', 'text': '\\nIt is noon.'}]
    """
    messages = items(request.get("messages"))
    last = messages[-1] if messages else None
    if not is_object(last) or last.get("role") not in ("user", "system"):
        return None
    if form == "system" and last["role"] == "user" and last.get("content"):
        return {**request, "messages": [*messages, {"role": "system", "content": note}]}
    if last["role"] != ("user" if form == "last" else form) or (len(messages) < 2 and form == "system"):
        return None
    content = _at_the_end(last, f"\n{note}") if form == "last" else _longer(last.get("content"), note)
    if content is None:
        return None
    return {**request, "messages": [*messages[:-1], {**last, "content": content}]}


def _at_the_end(message: Mapping[str, Any], note: str) -> list[Any] | None:
    """The content of the user's `message` with `note` at its end, in the last result of a tool where that ends it."""
    content = message.get("content")
    *before, last = items(content) or (None,)
    if last is None or _kind(last) != "tool_result":
        return _longer(content, note)
    told = last.get("content")
    longer = _longer(told, note) if told else [{"type": "text", "text": note}]
    return None if longer is None else [*before, {**last, "content": longer}]


def _longer(content: Any, note: str) -> list[Any] | None:
    block = {"type": "text", "text": note}
    if isinstance(content, str):
        return [{"type": "text", "text": content}, block] if content.strip() else None
    return [*content, block] if items(content) else None


def only_tools(request: Request, names: tuple[str, ...]) -> Request | None:
    """Tools cannot be kept from being called without breaking the prefix: `tool_choice` is part of it."""
    return None
