"""Writing a plan into a request of either OpenAI wire, and taking it out again.

Taking our fields away from an encoded request gives back the sender's, up to one lossless form: a string content
becomes one text part, because only a part can carry a marker.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agentaccel.providers.anthropic.edit import marking
from agentaccel.providers.values import changed_all, is_object
from agentaccel.types import CachePlan, Marker, Path, Request


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


def warmed(request: Request) -> Request | None:
    """A request of the Responses API that reads what `request` would and asks for no reply; None where that cannot be.

    >>> warmed({"model": "m", "input": "Hello", "stream": True})
    {'model': 'm', 'input': 'Hello', 'prompt_cache_options': {'prewarm': True}}
    """
    options = request.get("prompt_cache_options")
    if "input" not in request or not (options is None or isinstance(options, Mapping)):
        return None
    kept = {name: value for name, value in request.items() if name not in ("stream", "stream_options", "background")}
    return {**kept, "prompt_cache_options": {**(options or {}), "prewarm": True}}


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
