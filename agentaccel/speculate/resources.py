"""Files and pages that are likely to be touched next, where the exact call cannot be told.

A coding agent's reads carry offsets that nobody can guess, but the file is mostly one that was touched or named a
moment ago. So resources are ranked by how recently they came up, those that a call has named apart from those that
merely stood in a text, and how often each rank was touched next is counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from agentaccel.speculate.scene import arguments_of
from agentaccel.speculate.shape import excerpt, resources_in
from agentaccel.types import ToolCall

MOST = 256
"""Resources that are remembered, of each origin."""
_MOST_COMMAND = 300
"""Characters of an argument in which a path may stand among other things; a longer one is prose or code."""
_ROOTS = 6
"""Resources called last that are tried for the root of a relative path."""
_RANKED = 24
_CLASSES = (0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7)
"""Class of a rank; what is behind shares the last."""
_FILE = re.compile(r"\.[A-Za-z]\w{0,5}$")
_PRIOR, _WORTH = 0.02, 6.0

Origin = Literal["called", "named"]
Counts = dict[str, list[float]]
"""By origin and class of rank: how often met, how often touched next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A file or page that may be touched next."""

    kind: Literal["path", "url"]
    value: str
    """As it stood in the call or text that named it."""
    probability: float
    """That a call of the very next reply names it."""
    evidence: str
    """In words, for people."""


class Resources:
    """What one session has touched and heard of, the newest last.

    >>> seen, counts = Resources(), {}
    >>> seen.named("see src/a.py and src/b.py")
    >>> [one.value for one in seen.ranked(counts, 1)]
    ['src/b.py']
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Origin, dict[str, str]] = {"called": {}, "named": {}}

    def copy(self) -> Resources:
        """One that can go on by itself."""
        other = Resources()
        other._known = {origin: dict(known) for origin, known in self._known.items()}
        return other

    def learn(self, counts: Counts, calls: Sequence[ToolCall]) -> None:
        """Count which resources the calls of a reply touch, and take them in; a reply in text touches none."""
        touched = {self._whole(value): kind for call in calls for kind, value in _touched_by(call)}
        for origin, known in self._known.items():
            for rank, value in enumerate(islice(reversed(known), _RANKED)):
                there = counts.setdefault(_class(origin, value, rank), [0.0, 0.0])
                there[0] += 1.0
                there[1] += value in touched
        for value, kind in touched.items():
            self._known["named"].pop(value, None)
            _put(self._known["called"], value, kind)

    def named(self, text: str) -> None:
        """Take in what stands in a text: what the user or the model said, or a result."""
        for kind, value in resources_in(excerpt(text)):
            if kind == "url" or ("/" in value and _FILE.search(value)):  # `and/or` is none, `name.part` is mostly code
                value = self._whole(value)
                if value not in self._known["called"]:
                    _put(self._known["named"], value, kind)

    def _whole(self, value: str) -> str:
        """A relative path under the root of one that a call has named, where they share a folder; else as it is."""
        folder, slash, _ = value.partition("/")
        if not slash or not folder or folder[-1] in ".~:":
            return value
        for called in islice(reversed(self._known["called"]), _ROOTS):
            at = called.find(f"/{folder}/")
            if at >= 0:
                return called[: at + 1] + value
        return value

    def ranked(self, counts: Counts, most: int) -> tuple[Resource, ...]:
        """The resources most likely to be touched next, best first."""
        found: list[tuple[float, int, Resource]] = []
        for origin, known in self._known.items():
            for rank, (value, kind) in enumerate(islice(reversed(known.items()), _RANKED)):
                met, right = counts.get(_class(origin, value, rank), (0.0, 0.0))
                p = (right + _PRIOR * _WORTH) / (met + _WORTH)
                words = f"number {rank + 1} of those {origin} last: touched next {right:.0f} of {met:.0f} times"
                resource = Resource(kind="url" if kind == "url" else "path", value=value, probability=p, evidence=words)
                found.append((-p, rank, resource))
        found.sort(key=lambda one: one[:2])
        return tuple(resource for _, _, resource in found[:most])


def _put(known: dict[str, str], value: str, kind: str) -> None:
    known.pop(value, None)
    known[value] = kind
    if len(known) > MOST:
        del known[next(iter(known))]


def _class(origin: Origin, value: str, rank: int) -> str:
    form = "file" if _FILE.search(value) else "other"
    return f"{origin} {form} {_CLASSES[rank] if rank < len(_CLASSES) else _CLASSES[-1] + 1}"


def _touched_by(call: ToolCall) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for value in list(arguments_of(call).values())[:16]:
        for one in value[:12] if isinstance(value, list) else [value]:
            if isinstance(one, str) and len(one) <= _MOST_COMMAND and "\n" not in one:
                found += [(kind, part) for kind, part in resources_in(one) if "/" in part or part == one]
    return found
