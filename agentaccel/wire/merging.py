"""The usage that several events of a stream, or lines of a log, report of one reply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentaccel.wire.json import is_object, items


def merged(before: Mapping[str, Any], told: Mapping[str, Any]) -> Mapping[str, Any]:
    """The usage that several events of a stream report, which count as they go, as one object.

    A later count replaces an earlier one, and what is null or empty says nothing. Every reply has an input: an object
    with an input of 0 that counts nothing else says nothing either, where an earlier one did. What an earlier one
    counted of the prompt is not made 0 by a later one, unless that counts more of another part of the prompt. A sum
    that was told before one of its parts holds no longer.

    >>> merged({"prompt_tokens": 5, "total_tokens": 5}, {"prompt_tokens": None, "completion_tokens": 2})
    {'prompt_tokens': 5, 'completion_tokens': 2}
    >>> merged({"prompt_tokens": 5}, {"prompt_tokens": 0, "completion_tokens": 0})
    {'prompt_tokens': 5}
    >>> merged({"input_tokens": 5}, {"input_tokens": 0, "output_tokens": 2})
    {'input_tokens': 5, 'output_tokens': 2}
    >>> merged({"input_tokens": 5}, {"input_tokens": 0, "cache_read_input_tokens": 5})
    {'input_tokens': 0, 'cache_read_input_tokens': 5}
    """
    if not before or (not _INPUTS.isdisjoint(told) and not _counts(told)):
        return before or told
    emptied = {name for name in told if _PROMPT.search(name) and _counts(before.get(name)) and not _counts(told[name])}
    if emptied and not _counts_more(before, told):
        told = {name: value for name, value in told.items() if name not in emptied}
    after = _over(before, told)
    if told.get(_SUM) is None and any(type(count) is int and before.get(name) != count for name, count in told.items()):
        after.pop(_SUM, None)
    return after


_INPUTS, _SUM = frozenset({"input_tokens", "prompt_tokens"}), "total_tokens"
_PROMPT = re.compile("input|prompt|cach")
"""Of the names of counters of the prompt, and of its parts."""


def _counts(told: Any) -> bool:
    """True if a number in `told` is above zero."""
    inside = told.values() if is_object(told) else items(told)
    return any(map(_counts, inside)) or (isinstance(told, int) and told > 0)


def _counts_more(before: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """True if `told` has a higher count of some part of the prompt."""
    for name, value in told.items():
        was = before.get(name)
        if not _PROMPT.search(name):
            continue
        if is_object(value) and _counts_more(was if is_object(was) else {}, value):
            return True
        if isinstance(value, int) and value > (was if isinstance(was, int) else 0):
            return True
    return False


def _over(before: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """`before` with what `told` has that is not null, also in the objects inside."""
    after = dict(before)
    for name, value in told.items():
        if value is not None:
            was = after.get(name)
            after[name] = _over(was, value) if is_object(was) and is_object(value) else value
    return after
