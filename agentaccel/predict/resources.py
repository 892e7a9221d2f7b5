"""Files and pages that are likely to be read next, where the exact call cannot be told.

A coding agent's reads carry offsets that nobody can guess, but the file is mostly one that was touched or named a
moment ago. What a session has touched or heard of is ranked by a small logistic model over how recently it came up,
how often, where, and what is near it or followed it before. The model learns online from every reply, over all
sessions; one that has learned nothing ranks by recency.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Literal, NamedTuple

from agentaccel.predict.context import arguments_of
from agentaccel.predict.rank import Logistic
from agentaccel.predict.tokens import excerpt, resources_in
from agentaccel.types import ToolCall

MOST = 256
"""Resources that are remembered, of each standing."""
_MOST_COMMAND = 300
"""Characters of an argument in which a path may stand among other things; a longer one is prose or code."""
_FILE = re.compile(r"\.[A-Za-z]\w{0,5}$")

Kind = Literal["path", "url"]
Origin = Literal["call", "user", "model", "result"]
"""What named a resource."""
Standing = Literal["called", "named", "bare", "folder"]
"""Whether a call has named it; else whether it stood in a text, as a name without a folder there, or holds what a call
has named."""

_BY: dict[Origin, str] = {"call": "a call", "user": "the user", "model": "the model", "result": "a result"}
_RANKED: dict[Standing, int] = {"called": 24, "named": 24, "bare": 8, "folder": 8}
"""How many are ranked, the newest of each standing."""

FEATURES = (
    "one", "recency", "called", "by user", "by model", "calls", "mentions", "news", "place", "written", "near", "url",
    "followed", "age", "bare", "folder",
)  # fmt: skip
"""What is told of a resource, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A file or page that may be read next."""

    kind: Kind
    value: str
    """As it stood in the call or text that named it."""
    probability: float
    """That a call of the very next reply reads it."""
    evidence: str
    """In words, for people."""


class _Known(NamedTuple):
    """What is known of one resource; by default, what a first mention tells."""

    kind: Kind
    origin: Origin
    """Of its last mention."""
    step: int
    """The reply in which or before which that was."""
    number: int = 0
    """Of that mention, among all."""
    place: int = 0
    """Of that mention, among those in its text."""
    mentions: int = 1
    calls: int = 0
    written: bool = False
    """Whether the last call that named it may have written."""


class _Ranked(NamedTuple):
    value: str
    known: _Known
    given: list[float]
    """As `FEATURES`."""


def beginning() -> Logistic:
    """A model that has learned nothing: what was named last comes first."""
    start = dict.fromkeys(FEATURES, 0.0) | {"one": -4.0, "recency": -2.0}
    return Logistic([start[name] for name in FEATURES])


class Resources:
    """What one session has touched and heard of.

    >>> seen, model = Resources(), beginning()
    >>> seen.named("see src/a.py and src/b.py", "user")
    >>> [one.value for one in seen.ranked(model, 1)]
    ['src/a.py']
    """

    __slots__ = ("_followed", "_known", "_last", "_number", "_step", "_whole")

    def __init__(self) -> None:
        self._known: dict[Standing, dict[str, _Known]] = {standing: {} for standing in _RANKED}
        """The newest last."""
        self._whole: dict[str, str] = {}
        """By a name without its folder, the resource that had it last."""
        self._followed: dict[tuple[str, str], int] = {}
        """How often the one was called right after the other."""
        self._last = ""
        """What was called last."""
        self._number = self._step = 0

    def copy(self) -> Resources:
        """One that can go on by itself."""
        other = Resources()
        other._known = {standing: dict(known) for standing, known in self._known.items()}
        other._whole, other._followed = dict(self._whole), dict(self._followed)
        other._last, other._number, other._step = self._last, self._number, self._step
        return other

    def learn(self, model: Logistic | None, calls: Sequence[ToolCall], reads: Callable[[ToolCall], bool]) -> None:
        """Learn which resources the calls of a reply read, and take in what they touch; a reply in text touches none.

        Without a `model` nothing is learned.
        """
        touched: dict[str, tuple[Kind, bool]] = {
            value: (kind, not reads(call)) for call in calls for kind, value in _touched_by(call)
        }
        if model is not None:
            read = [value for value, (_, written) in touched.items() if not written]
            for one in self._candidates():
                model.learn(one.given, any(_names(one.value, value) for value in read))
        self._step += 1
        for value, (kind, written) in touched.items():
            self._touch(value, kind, written)

    def named(self, text: str, origin: Origin) -> None:
        """Take in what stands in a text: what the user or the model said, or a result. What stands at the head of a
        text counts as newer than what follows it, as a list of findings begins with the best."""
        found = resources_in(excerpt(text))
        for place, (kind, value) in reversed(list(enumerate(found))):
            if kind == "url" or _FILE.search(value):  # `and/or` is no file
                self._mention(self._in_full(value), _kind(kind), origin, place)

    def ranked(self, model: Logistic, most: int) -> tuple[Resource, ...]:
        """The resources most likely to be read next, best first."""
        found = [(model.of(one.given), one) for one in self._candidates()]
        found.sort(key=lambda one: -one[0])
        return tuple(
            Resource(kind=one.known.kind, value=one.value, probability=p, evidence=self._words(one.known))
            for p, one in found[:most]
        )

    def _mention(self, value: str, kind: Kind, origin: Origin, place: int) -> None:
        standing: Standing = "named" if kind == "url" or "/" in value else "bare"
        self._put(standing, value, _Known(kind, origin, self._step, place=place))

    def _touch(self, value: str, kind: Kind, written: bool) -> None:
        folder = _folder(value) if kind == "path" else ""
        if folder:
            self._put("folder", folder, _Known("path", "call", self._step))
        shorter = self._whole.get(_tail(value), value)  # what a text has named is known in full from here on
        alias = shorter if _names(shorter, value) else ""
        self._put("called", value, _Known(kind, "call", self._step, calls=1, written=written), alias)
        pair = (self._last, value)
        self._followed[pair] = self._followed.pop(pair, 0) + 1
        if len(self._followed) > MOST:
            del self._followed[next(iter(self._followed))]
        self._last = value

    def _in_full(self, value: str) -> str:
        """What a session knows that ends with `value`; else as it is."""
        known = self._whole.get(_tail(value), value)
        return known if known.endswith(f"/{value}") else value

    def _put(self, standing: Standing, value: str, known: _Known, alias: str = "") -> None:
        """Remember a mention as the newest, with all that is known of `value`, or of the `alias` that it had so far."""
        self._number += 1
        for there in self._known.values():
            before = there.pop(value, None) or there.pop(alias, None)
            if before is not None:
                written = known.written if known.calls else before.written
                calls, mentions = known.calls + before.calls, known.mentions + before.mentions
                known = known._replace(calls=calls, mentions=mentions, written=written)
        there = self._known["called" if known.calls else standing]
        there[value] = known._replace(number=self._number)
        self._whole.pop(_tail(value), None)
        self._whole[_tail(value)] = value
        for table in (there, self._whole):
            if len(table) > MOST:
                del table[next(iter(table))]

    def _candidates(self) -> Iterator[_Ranked]:
        """The newest of each standing, the newest of all first, with what is told of them."""
        newest = [islice(reversed(there.items()), _RANKED[standing]) for standing, there in self._known.items()]
        near = _folder(self._last)
        log1p = math.log1p
        bare, folders = self._known["bare"], self._known["folder"]
        for rank, (value, known) in enumerate(merge(*newest, key=lambda one: -one[1].number)):
            called = known.calls > 0
            given = [
                1.0,
                0.4 * log1p(rank),
                1.0 if called else 0.0,
                1.0 if known.origin == "user" and not called else 0.0,
                1.0 if known.origin == "model" else 0.0,
                0.4 * log1p(known.calls),
                0.3 * log1p(known.mentions),
                1.0 if known.step == self._step else 0.0,
                0.0 if called else 0.3 * log1p(known.place),
                1.0 if known.written else 0.0,
                1.0 if near and _folder(value).startswith(near) else 0.0,
                1.0 if known.kind == "url" else 0.0,
                0.5 * log1p(self._followed.get((self._last, value), 0)),
                0.3 * log1p(self._step - known.step),
                1.0 if value in bare else 0.0,
                1.0 if value in folders else 0.0,
            ]
            yield _Ranked(value, known, given)

    def _words(self, known: _Known) -> str:
        """Why a resource may be read next."""
        ago = self._step - known.step
        when = "in or since the last reply" if ago <= 0 else "one reply before" if ago == 1 else f"{ago} replies before"
        return f"called {_times(known.calls)}, named {_times(known.mentions)}, last by {_BY[known.origin]} {when}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _names(guess: str, value: str) -> bool:
    """Whether a name as it stood in a text may be this resource."""
    return guess == value or value.endswith(f"/{guess}")


def _tail(value: str) -> str:
    return value.rstrip("/").rpartition("/")[2]


def _folder(value: str) -> str:
    return value.rstrip("/").rpartition("/")[0]


def _kind(kind: str) -> Kind:
    return "url" if kind == "url" else "path"


def _touched_by(call: ToolCall) -> Iterator[tuple[Kind, str]]:
    for value in list(arguments_of(call).values())[:16]:
        for one in value[:12] if isinstance(value, list) else [value]:
            if isinstance(one, str) and len(one) <= _MOST_COMMAND and "\n" not in one:
                for kind, part in resources_in(one):
                    if "/" in part or part == one:
                        yield _kind(kind), part
