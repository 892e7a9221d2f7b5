"""Writing a plan into a request of either OpenAI wire, and taking it out again.

Taking our fields away from an encoded request gives back the sender's, up to one lossless form: a string content
becomes one text part, because only a part can carry a marker.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agentaccel.providers.anthropic.edit import marking
from agentaccel.providers.values import changed_at, is_object
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
    changed: Request = request
    for marker in plan.markers:
        changed = changed_at(changed, marker.path, partial(_marked, marker, plan.mark))
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
    for marker in plan.markers:
        changed = changed_at(changed, marker.path, partial(_unmarked, plan.mark))
    return changed


def _joined(own: Any, ours: Any) -> Any:
    return {**own, **ours} if is_object(own) and is_object(ours) else ours


def _left(value: Any, ours: Any) -> Any:
    """What is left of an option without what was added; None where nothing is."""
    if not is_object(value) or not is_object(ours):
        return None
    return {name: item for name, item in value.items() if name not in ours} or None


def _marked(marker: Marker, mark: str, value: Any) -> Any:
    sent: Mapping[str, str] = marking(marker.ttl) if mark == "cache_control" else _breakpoint(marker.ttl)
    if isinstance(value, str):
        return [{"type": _text_type(marker.path), "text": value, mark: dict(sent)}]
    return {**value, mark: dict(sent)}


_DEFAULT_TTL = "30m"


def _breakpoint(ttl: str) -> dict[str, str]:
    return {"mode": "explicit"} if ttl == _DEFAULT_TTL else {"mode": "explicit", "ttl": ttl}


def _text_type(path: Path) -> str:
    return "text" if path[0] == "messages" else "input_text"


def _unmarked(mark: str, value: Any) -> Any:
    if isinstance(value, list):  # a string that became one part; its path ends at the list
        return [_unmarked(mark, item) for item in value]
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
