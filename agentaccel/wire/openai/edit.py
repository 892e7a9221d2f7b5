"""Writing a plan into a request of either OpenAI wire, and taking it out again.

Taking our fields away from an encoded request gives back the sender's, up to one lossless form: a string content
becomes one text part, because only a part can carry a marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from agentaccel.types import CachePlan, Marker, Path, Request
from agentaccel.wire.anthropic.edit import marking
from agentaccel.wire.json import changed_all, is_object, items, word
from agentaccel.wire.openai.blocks import FIRST
from agentaccel.wire.openai.responses import OF_PARTS, role_of


def encode(request: Request, plan: CachePlan) -> Request:
    """`request` with the markers and options of `plan`; shares every part that does not change.

    An option that is an object is joined with the sender's own of that name. With an empty plan it returns the very
    object it was given, so the bytes on the wire are the sender's own.

    >>> mark = Marker(path=("messages", 0, "content"), ttl="30m", ours=True)
    >>> body = {"model": "m", "messages": [{"role": "developer", "content": "Be brief."}]}
    >>> plan = CachePlan(markers=(mark,), mark="prompt_cache_breakpoint", options={"stream_options": {"x": 1}})
    >>> sent = encode(body, plan)
    >>> sent["messages"][0]["content"], sent["stream_options"]
    ([{'type': 'text', 'text': 'Be brief.', 'prompt_cache_breakpoint': {'mode': 'explicit'}}], {'x': 1})
    >>> strip(sent, plan)["messages"], "stream_options" in strip(sent, plan)
    ([{'role': 'developer', 'content': [{'type': 'text', 'text': 'Be brief.'}]}], False)
    """
    changed: Request = changed_all(request, partial(_marked, plan.mark), plan.markers)
    if not plan.options:
        return changed
    return {**changed, **{name: _joined(request.get(name), value) for name, value in plan.options.items()}}


def strip(request: Request, plan: CachePlan) -> Request:
    """`request`, once encoded with `plan`, without what the plan added: the sender's, up to the lossless form."""
    changed: Request = request
    if plan.options:
        left = {name: _left(request.get(name), value) for name, value in plan.options.items()}
        # A field of the sender's may well be null: only what the plan added is taken away.
        changed = {n: left.get(n, value) for n, value in request.items() if n not in left or left[n] is not None}
    stripped: Request = changed_all(changed, partial(_unmarked, plan.mark), plan.markers)
    return stripped


def _joined(own: Any, ours: Any) -> Any:
    return {**own, **ours} if is_object(own) and is_object(ours) else ours


def _left(value: Any, ours: Any) -> Any:
    """What is left of an option without what was added; None where nothing is."""
    if not is_object(value) or not is_object(ours):
        return None
    return {name: item for name, item in value.items() if name not in ours} or None


def _marked(mark: str, value: Any, marker: Marker) -> Any:
    sent: Mapping[str, str] = marking(marker.ttl) if mark == "cache_control" else _breakpoint(marker.ttl)
    if isinstance(value, str):
        return [{"type": _text_type(marker.path), "text": value, mark: dict(sent)}]
    return {**value, mark: dict(sent)}


_DEFAULT_TTL = "30m"


def _breakpoint(ttl: str) -> dict[str, str]:
    return {"mode": "explicit"} if ttl == _DEFAULT_TTL else {"mode": "explicit", "ttl": ttl}


def _text_type(path: Path) -> str:
    return "text" if path[0] == "messages" else "input_text"


def _unmarked(mark: str, value: Any, marker: Marker) -> Any:
    if isinstance(value, list):  # a string that became one part; its path ends at the list
        return [_unmarked(mark, item, marker) for item in value]
    return {name: item for name, item in value.items() if name != mark}


def warmed(request: Request, keeps: str) -> Request | None:
    """A request that reads what `request` would and asks for no reply, or for one token; None where that cannot be.

    >>> warmed({"model": "m", "input": "Hello", "stream": True}, "prewarm")
    {'model': 'm', 'input': 'Hello', 'prompt_cache_options': {'prewarm': True}}
    >>> warmed({"model": "m", "messages": [], "max_completion_tokens": 900, "n": 3}, "one_token")
    {'model': 'm', 'messages': [], 'max_completion_tokens': 1}
    """
    kept = {name: value for name, value in request.items() if name not in _OF_THE_REPLY}
    if keeps == "one_token":
        limits = [name for name in _LIMITS if name in request]
        return {**kept, **dict.fromkeys(limits or _LIMITS[-1 if "input" in request else 0 :][:1], 1)}
    options = request.get("prompt_cache_options")
    if "input" not in request or not (options is None or isinstance(options, Mapping)):
        return None
    return {**kept, "prompt_cache_options": {**(options or {}), "prewarm": True}}


_OF_THE_REPLY = frozenset({"stream", "stream_options", "background", "n", "best_of", "min_tokens"})
"""Fields that say how a reply comes, how often, and how long it is at least."""
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Fields that limit it: in chats, in newer ones, and in responses."""


def with_stub_in_chat(request: Request) -> tuple[Request, bool]:
    """The same as `with_stub` of a chat.

    >>> with_stub_in_chat({"messages": [{"role": "system", "content": "Be brief."}]})[0]["messages"][1:]
    [{'role': 'user', 'content': '.'}]
    >>> asked = [{"role": "user", "content": "Look."}, {"role": "assistant", "tool_calls": []}]
    >>> with_stub_in_chat({"messages": asked})
    ({'messages': [{'role': 'user', 'content': 'Look.'}]}, False)
    """
    given = request.get("messages")
    if not isinstance(given, list | tuple):
        return request, False
    messages = list(given)
    while messages and not (is_object(messages[-1]) and messages[-1].get("role") in _SAID_TO_THE_MODEL):
        messages.pop()
    if any(is_object(one) and one.get("role") in ("user", "tool", "function") for one in messages):
        return (request if len(messages) == len(given) else {**request, "messages": messages}), False
    return {**request, "messages": [*messages, {"role": "user", "content": "."}]}, True


_SAID_TO_THE_MODEL = frozenset({"user", "tool", "function", "system", "developer"})


def with_stub(request: Request) -> tuple[Request, bool]:
    """What is known of a request of the Responses API, as one that it takes, and whether a word stands for the rest.

    Behind the last message that is not the model's, nothing is kept for others to read, and a call without its result
    is refused.

    >>> with_stub({"input": [{"role": "developer", "content": "Be brief."}]})[0]["input"][1:]
    [{'role': 'user', 'content': '.'}]
    >>> with_stub({"input": [{"role": "user", "content": "Look."}, {"type": "function_call"}]})
    ({'input': [{'role': 'user', 'content': 'Look.'}]}, False)
    """
    given = request.get("input")
    if not isinstance(given, list | tuple):
        return request, False
    items = list(given)
    while items and not (_is_told(items[-1]) or _is_result(items[-1])):
        items.pop()
    if any(_is_result(item) or item.get("role") == "user" for item in items if is_object(item)):
        return (request if len(items) == len(given) else {**request, "input": items}), False
    return {**request, "input": [*items, {"role": "user", "content": "."}]}, True


def _is_told(item: Any) -> bool:
    return is_object(item) and item.get("role") in ("user", "developer", "system")


def _is_result(item: Any) -> bool:
    return is_object(item) and str(item.get("type", "")).endswith("_output")


# --- What an operator can say at the end of a request on either OpenAI wire, and how tools are kept from being called -

_SPOKEN = frozenset({"user", "tool", "function", "system", "developer"})
"""Roles behind which a note may stand: behind the assistant's words the model would be asked to go on."""

_CALLABLE = frozenset({"function", "custom"})
"""Kinds of tool that a list of allowed ones can name."""


def note_in_chat(request: Request, note: str, form: str) -> Request | None:
    """`request` with `note` at its end, as a message of whoever gives the instructions; None where it cannot stand.

    Where nobody gives any, it is not known which role this model would take. In the form "last", the note is a text of
    the last message: many chat templates allow a system message only at the beginning.

    >>> note_in_chat({"messages": [{"role": "user", "content": "Hi"}]}, "It is noon.", "last")["messages"]
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hi'}, {'type': 'text', 'text': '\\nIt is noon.'}]}]
    """
    messages = items(request.get("messages"))
    last, speaker = messages[-1] if messages else None, _speaker(messages)
    if not is_object(last) or last.get("role") not in _SPOKEN:
        return None
    if form == "last":
        longer = _with_text(last, "content", "text", note)
        return None if longer is None else {**request, "messages": [*messages[:-1], longer]}
    if not speaker:
        return None
    return {**request, "messages": [*messages, {"role": speaker, "content": note}]}


def note_in_responses(request: Request, note: str, form: str) -> Request | None:
    """As for Chat Completions; an input that is one string becomes the user's message that it stands for."""
    given = request.get("input")
    before = [{"role": "user", "content": given}] if isinstance(given, str) and given else list(items(given))
    last, speaker = before[-1] if before else None, _speaker(before) or (form if request.get("instructions") else "")
    if not is_object(last) or role_of(last) not in _SPOKEN:
        return None
    if form == "last":
        longer = _with_output(last, note) if "content" not in last else _with_text(last, "content", "input_text", note)
        return None if longer is None else {**request, "input": [*before[:-1], longer]}
    if not speaker:
        return None
    return {**request, "input": [*before, {"role": speaker, "content": note}]}


def _with_text(message: Mapping[str, Any], where: str, kind: str, note: str) -> dict[str, Any] | None:
    """`message` with `note` as one more part of its content; None where that is no text, nor a list of parts.

    It begins with a new line, since some templates put parts together as they are.
    """
    content, part = message.get(where), {"type": kind, "text": f"\n{note}"}
    if isinstance(content, str):
        return {**message, where: [*([{"type": kind, "text": content}] if content else ()), part]}
    parts = items(content)
    return {**message, where: [*parts, part]} if parts else None


def _with_output(item: Mapping[str, Any], note: str) -> dict[str, Any] | None:
    """An item with `note` in its output, in the form that this has: servers take lists of parts not everywhere.

    None where it is no output of one of the user's own tools.
    """
    output = item.get("output")
    if word(item.get("type")) not in OF_PARTS:
        return None
    if isinstance(output, str):
        return {**item, "output": f"{output}\n{note}"}
    return _with_text(item, "output", "input_text", note)


def _speaker(messages: Sequence[Any]) -> str:
    """The role of the instructions that a conversation begins with; empty where it begins with none."""
    first = messages[0].get("role") if messages and is_object(messages[0]) else None
    return first if isinstance(first, str) and first in FIRST else ""


def only_in_chat(request: Request, names: tuple[str, ...]) -> Request | None:
    """`request` in which only the tools of these `names` can be called; None where that cannot be said."""
    return _only(request, names, lambda mode, tools: {"allowed_tools": {"mode": mode, "tools": tools}}, _in_chat)


def only_in_responses(request: Request, names: tuple[str, ...]) -> Request | None:
    """As for Chat Completions."""
    return _only(request, names, lambda mode, tools: {"mode": mode, "tools": tools}, _in_responses)


def _only(
    request: Request,
    names: tuple[str, ...],
    allowed: Callable[[str, list[Any]], Mapping[str, Any]],
    entry: Callable[[Mapping[str, Any]], tuple[str, Any]],
) -> Request | None:
    choice = request.get("tool_choice", "auto")
    if choice not in ("auto", "required"):
        # None can be called, or one alone, or those that the sender lists: what is kept is none of them.
        return request if choice == "none" or is_object(choice) else None
    tools: list[Any] = []
    for tool in items(request.get("tools")):
        if not is_object(tool) or tool.get("type") not in _CALLABLE:
            return None
        name, one = entry(tool)
        if name in names:
            tools.append(one)
    return {**request, "tool_choice": {"type": "allowed_tools", **allowed(choice, tools)}}


def _in_chat(tool: Mapping[str, Any]) -> tuple[str, Any]:
    kind = tool["type"]
    inner = tool.get(kind)
    name = inner.get("name", "") if is_object(inner) else ""
    return name, {"type": kind, kind: {"name": name}}


def _in_responses(tool: Mapping[str, Any]) -> tuple[str, Any]:
    name = tool.get("name", "")
    return name, {"type": tool["type"], "name": name}
