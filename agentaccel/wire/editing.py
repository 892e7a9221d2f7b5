"""Reading and writing the parts of a conversation that may be edited: results of tools, and its older messages.

Nothing is decided here. What is not of the expected form is not offered, so it stays as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentaccel.facts import Wire
from agentaccel.hashing import digest
from agentaccel.types import MARKS, Path, Prompt, Request, Segment, Text, path_of, show_path, value_at
from agentaccel.wire.json import is_object, items, text_or_none
from agentaccel.wire.openai.blocks import FIRST
from agentaccel.wire.openai.responses import role_of

_TEXTS = ("text", "input_text")  # no set: what is looked up may be of any type
_PLAIN = frozenset({"type", "text"})


class ToolResult(NamedTuple):
    """A result of a tool, as a request has it."""

    call: str
    """The id of the call that it answers."""
    tool: str
    """The tool's name."""
    path: Path
    """Where its content stands."""
    first: int
    """Its first segment."""
    last: int
    """Its last one."""
    turn: int
    """Replies of the model that stand before it."""
    identity: bytes
    """Equal for equal results of equal calls."""
    text: str | None
    """Its text; None where it holds anything else, reports an error, or carries a marker."""

    @property
    def message(self) -> int:
        """The message or item that it is, or stands in."""
        return next(one for one in self.path if isinstance(one, int))


def results_of(request: Request, prompt: Prompt, wire: Wire) -> tuple[ToolResult, ...]:
    """The results of the user's own tools in `request`, in order; none of calls that are not there, or there twice."""
    found = list(_FOUND[wire](request))
    names = dict(_calls(request, wire))
    often = Counter(call for call, _, _, _ in found)
    replies = replies_before(prompt)
    results: list[ToolResult] = []
    for call, path, content, text in found:
        name, span = names.get(call), _span(prompt, path)
        if not name or often[call] > 1 or span is None:
            continue
        first, last = span
        identity = digest(b"".join(one.digest for one in prompt.segments[first : last + 1]))
        results.append(ToolResult(call, name, content, first, last, replies[first], identity, text))
    return tuple(results)


def replies_before(prompt: Prompt) -> list[int]:
    """For each segment, how many replies of the model stand before it; the last figure is of the whole prompt."""
    counts, replies, before = list[int](), 0, ""
    start = prompt.starts[2]
    for i, segment in enumerate(prompt.segments):
        role = segment.role if i >= start else ""
        counts.append(replies)
        if role == "assistant" and before != role:
            replies += 1
        before = role
    return [*counts, replies]


def _span(prompt: Prompt, path: Path) -> tuple[int, int] | None:
    """The first and the last segment at or under `path`."""
    segments, size = prompt.segments, len(path)
    first = last = bisect_left(segments, path, lo=prompt.starts[2], key=path_of)
    while last < len(segments) and segments[last].path[:size] == path:
        last += 1
    return (first, last - 1) if last > first else None


_Found = Iterator[tuple[str, Path, Path, str | None]]
"""The call's id, where the result's segments stand, where its content stands, and its text."""


def _in_messages(request: Request) -> _Found:
    for at, message in enumerate(items(request.get("messages"))):
        if not is_object(message) or message.get("role") != "user":
            continue
        for place, block in enumerate(items(message.get("content"))):
            if is_object(block) and block.get("type") == "tool_result":
                path: Path = ("messages", at, "content", place)
                plain = MARKS.isdisjoint(block) and not block.get("is_error")
                text = _text(block.get("content")) if plain else None
                yield text_or_none(block.get("tool_use_id")) or "", path, (*path, "content"), text


def _in_chat(request: Request) -> _Found:
    for at, message in enumerate(items(request.get("messages"))):
        if is_object(message) and message.get("role") == "tool":
            path: Path = ("messages", at, "content")
            yield text_or_none(message.get("tool_call_id")) or "", path, path, _text(message.get("content"))


def _in_responses(request: Request) -> _Found:
    for at, item in enumerate(items(request.get("input"))):
        if is_object(item) and item.get("type") == "function_call_output":
            path: Path = ("input", at, "output")
            yield text_or_none(item.get("call_id")) or "", path, path, _text(item.get("output"))


_FOUND = {"messages": _in_messages, "chat": _in_chat, "responses": _in_responses}


def _text(content: Any) -> str | None:
    """The text of a result that is nothing else."""
    if isinstance(content, str):
        return content or None
    parts = items(content)
    plain = all(
        is_object(part) and _PLAIN.issuperset(part) and part.get("type") in _TEXTS and isinstance(part.get("text"), str)
        for part in parts
    )
    return "\n".join([part["text"] for part in parts]) or None if plain else None


def _calls(request: Request, wire: Wire) -> Iterator[tuple[str, str]]:
    """The ids of the calls in `request`, and the names of their tools."""
    for message in items(request.get(field_of(wire))):
        if is_object(message) and (wire == "responses" or message.get("role") == "assistant"):
            for id_, name, _ in calls_in(message):
                yield text_or_none(id_) or "", text_or_none(name) or ""


def calls_in(message: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """The calls in a reply of the model's, as any wire has it: ids, names and arguments as they stand there.

    >>> [*calls_in({"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"})]
    [('1', 'look', '{}')]
    """
    if message.get("type") == "function_call":
        yield message.get("call_id"), message.get("name"), message.get("arguments")
    for block in items(message.get("content")):
        if is_object(block) and block.get("type") == "tool_use":
            yield block.get("id"), block.get("name"), block.get("input")
    for call in items(message.get("tool_calls")):
        function = call.get("function") if is_object(call) else None
        if is_object(call) and is_object(function):
            yield call.get("id"), function.get("name"), function.get("arguments")


# --- messages ---------------------------------------------------------------------------------------------------------


def field_of(wire: Wire) -> str:
    """The field of a request that has its messages."""
    return "input" if wire == "responses" else "messages"


def cuts_of(request: Request, prompt: Prompt, wire: Wire) -> tuple[int, ...]:
    """Messages before which the history can be cut, ascending: the first of a reply, or what a user says after one.

    No call is parted from its result there, wherever that stands. None behind a message of the operator's, which is
    nobody's to replace, and none where the conversation does not begin with a user's words.
    """
    messages = items(request.get(field_of(wire)))
    roles = [_role(message, wire) for message in messages]
    start = prompt.opening
    if len(roles) <= start or roles[start] != "user" or _words(messages[start]) is None:
        return ()
    end = next((i for i in range(start, len(roles)) if roles[i] not in ("user", "assistant", "tool")), len(roles))
    answered = list(_answered(messages[:end], wire))
    pairs = [(i, roles[i - 1], roles[i]) for i in range(start + 1, end) if answered[i]]
    return tuple(
        i
        for i, before, role in pairs
        if role != before and (role == "assistant" or (before == "assistant" and role == "user"))
    )


def _answered(messages: Sequence[Any], wire: Wire) -> Iterator[bool]:
    """For each message, whether all calls in front of it have their results there."""
    waiting = set[str]()
    for message in messages:
        yield not waiting
        for call, answers in _ids(message, wire):
            if answers:
                waiting.discard(call)
            else:
                waiting.add(call)


def _ids(message: Any, wire: Wire) -> Iterator[tuple[str, bool]]:
    """The ids of calls, and of those that are answered, in a message."""
    if not is_object(message):
        return
    if wire == "responses":  # of tools of every kind
        if call := text_or_none(message.get("call_id")):
            yield call, role_of(message) == "tool"
        return
    if wire == "chat" and message.get("role") == "tool":
        yield text_or_none(message.get("tool_call_id")) or "", True
    for block in items(message.get("content")):
        if is_object(block) and block.get("type") == "tool_result":
            yield text_or_none(block.get("tool_use_id")) or "", True
    for call, _ in _calls({"messages": [message]}, wire):
        yield call, False


def _role(message: Any, wire: Wire) -> str:
    """Who made a message; a user's that has results of tools is the tool's."""
    if not is_object(message):
        return ""
    if wire == "responses":
        return role_of(message)
    role = message.get("role")
    if wire == "messages" and role == "user":
        blocks = items(message.get("content"))
        if any(is_object(block) and block.get("type") == "tool_result" for block in blocks):
            return "tool"
    return "" if not isinstance(role, str) or role in FIRST else role


def _words(message: Mapping[str, Any]) -> Any:
    """The content of a message behind which text can be put."""
    content = message.get("content")
    return content if (isinstance(content, str) and content.strip()) or items(content) else None


def begun_with(request: Request, cut: int, wire: Wire) -> Request:
    """`request` up to the message `cut`, exclusive."""
    name = field_of(wire)
    return {**request, name: list(items(request.get(name)))[:cut]}


def summed_up(request: Request, prompt: Prompt, cut: int, summary: str, wire: Wire) -> Request:
    """`request` with `summary` in the place of its messages before `cut`, behind the words that it begins with.

    They stay one message of the user's: not every server takes two in a row.
    """
    name, start = field_of(wire), prompt.opening
    messages = list(items(request.get(name)))
    first = messages[start]
    content = first["content"]
    if isinstance(content, str) and wire != "messages":
        longer: Any = f"{content}\n\n{summary}"
    else:
        kind = "input_text" if wire == "responses" else "text"
        before = [{"type": kind, "text": content}] if isinstance(content, str) else items(content)
        longer = [*before, {"type": kind, "text": summary}]
    return {**request, name: [*messages[:start], {**first, "content": longer}, *messages[cut:]]}


def first_of(prompt: Prompt, message: int) -> int:
    """The first segment of the message with this index in its list."""
    root = prompt.segments[-1].path[0]
    return bisect_left(prompt.segments, (root, message), lo=prompt.starts[2], key=path_of)


def end_of(prompt: Prompt, path: Path) -> int:
    """Segments up to the end of the one that stands at `path` or holds what does."""
    return bisect_right(prompt.segments, path, lo=prompt.starts[2], key=path_of)


# --- Reading and writing the parts of a request that may be arranged: the texts before the conversation, and the tools
# Nothing is decided here. What is not of the expected form is not offered, so it stays as it is.

_TEXTS_OF = ("text", "input_text")  # no set: what is looked up may be of any type
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
            path, text = _text_of(value)
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


def _text_of(block: Any) -> tuple[Path, str]:
    if isinstance(block, str):
        return (), block
    if is_object(block) and block.get("type") in _TEXTS_OF and isinstance(block.get("text"), str):
        return ("text",), block["text"]
    return (), ""


# --- tools ------------------------------------------------------------------------------------------------------------


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
