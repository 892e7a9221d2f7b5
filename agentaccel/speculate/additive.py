"""Sums and differences of what was counted, as JSON: what two processes learned adds up, and neither loses anything.

A form is made of objects, lists of one length, and numbers that add up. Anything else in it says what a number is of,
and is the same wherever it stands.
"""

from __future__ import annotations

from typing import Any


def plus(one: Any, other: Any) -> Any:
    """Both taken together. Raises `ValueError` where they have different shapes.

    >>> plus({"a": {"n": 1}, "b": [1, 2]}, {"a": {"n": 2}, "b": [0, 1], "c": 5})
    {'a': {'n': 3}, 'b': [1, 3], 'c': 5}
    """
    if isinstance(one, dict) and isinstance(other, dict):
        both = dict(one)
        for name, value in other.items():
            both[name] = plus(both[name], value) if name in both else value
        return both
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [plus(left, right) for left, right in zip(one, other, strict=True)]
    if _is_number(one) and _is_number(other):
        return one + other
    if type(one) is type(other) and not isinstance(one, dict | list):
        return other
    raise ValueError("two forms of different shapes")


def minus(now: Any, before: Any) -> Any:
    """What has come to `before` since. What is there no more was forgotten, not unlearned: it counts as unchanged.

    >>> minus({"a": {"n": 3}, "c": 5}, {"a": {"n": 1}, "b": 7})
    {'a': {'n': 2}, 'c': 5}
    """
    if isinstance(now, dict) and isinstance(before, dict):
        return {name: minus(value, before[name]) if name in before else value for name, value in now.items()}
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        return [minus(left, right) for left, right in zip(now, before, strict=True)]
    if _is_number(now) and _is_number(before):
        return now - before
    if type(now) is type(before) and not isinstance(now, dict | list):
        return now
    raise ValueError("two forms of different shapes")


def _is_number(value: object) -> bool:
    return type(value) is int or type(value) is float
