"""What the oracle works on: each request as the places where a marker may stand, and the cache's arithmetic on them.

A *node* is a prefix that some request could mark: it ends with a segment that may carry a marker, and it reaches the
minimum. Text between two nodes cannot be held by itself, so it belongs to the node behind it. The arithmetic is the
documented algorithm (see `agentaccel.cache.ledger`), with what that leaves open answered as `replay.provider` does:
markers at or before the place that was read write nothing, and where two requests write one prefix before either was
answered, the first reply makes it readable and the longer life counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from agentaccel.facts import CacheFacts
from agentaccel.replay.runs import Step

# --- What each place of a path leaves open: by the markers that the sender had placed, and those that fit beside ------


class Duty(NamedTuple):
    """What the sender's own markers, the lifetimes allowed and the number of markers leave open for one place."""

    floor: int
    """A marker of the sender's stands here or behind: what is not read here is written for at least this lifetime; -1
    where there is none."""
    lives: tuple[int, ...]
    """Lifetimes that a marker here or behind may have, shortest first."""
    grows: bool
    """Whether a marker may stand behind this place."""
    closed: bool
    """Whether no marker may stand here or behind: nothing is read or written here."""
    parts: bool
    """Whether this is where the request leaves the paths of all before it: only an entry right here can be read."""
    keeps: float = 0.0
    """What a token here pays for a request that may be left out: see `hindsight_bound`."""


def duties_of(request: CompiledStep, parts: range) -> list[Duty]:
    """What is open at each place: the same from one of the sender's markers to the next.

    `parts` are the places where the request leaves the paths of all before it.
    """
    order = {ttl.label: i for i, ttl in enumerate(request.facts.ttls)}
    before = [(mark.at, order.get(mark.ttl, 0)) for mark in request.step.marks]
    last_own = max((place for place, _ in request.own), default=-1)
    last = len(request.legal) - 1
    while last >= 0 and not request.legal[last]:
        last -= 1
    if not request.room or not request.lives:
        last = -1
    end, count = max(last, last_own), len(request.nodes)
    marked = {at for at, _ in before}
    after_marks = (place for place, segment in enumerate(request.segments) if marked and segment in marked)
    cuts = {0, last, last + 1, end, end + 1, parts.start, parts.stop, count}
    for place in after_marks:
        cuts |= {place, place + 1}
    starts = sorted(cut for cut in cuts if 0 <= cut <= count)
    duties: list[Duty] = []
    known: dict[Duty, Duty] = {}
    for start, stop in pairwise(starts):
        behind = [life for at, life in request.own if at >= start]
        ceiling = min((life for at, life in before if at < request.segments[start]), default=len(order))
        lives = {life for life in request.lives if life <= ceiling} if start <= last else set[int]()
        floor, allowed = max(behind, default=-1), tuple(sorted({*lives, *behind}))
        duty = Duty(floor, allowed, grows=start < end, closed=start > end, parts=start in parts)
        duties += [known.setdefault(duty, duty)] * (stop - start)
    return duties


def keeping(request: CompiledStep, duties: list[Duty], old: int, shift: float) -> list[Duty]:
    """`duties` with what each place pays if the request is made, `old` of which were there before the last one."""
    read = request.facts.read
    before, all_ = (request.tokens[old - 1] if old else 0), (request.tokens[-1] if request.tokens else 0)
    older, newer = (
        (read, read) if all_ == before else (read * (1 - shift), read * (1 + shift * before / (all_ - before)))
    )
    known: dict[tuple[int, bool], Duty] = {}
    priced: list[Duty] = []
    for place, duty in enumerate(duties):
        is_old = place < old
        key = (id(duty), is_old)
        priced.append(known.setdefault(key, duty._replace(keeps=older if is_old else newer)))
    return priced


class Held(NamedTuple):
    """An entry of the cache."""

    life: int
    """Index of its lifetime, the shortest being 0."""
    expires: float
    """Seconds since the epoch, exclusive."""
    ready: float
    """From when on it can be read, inclusive."""

    def live(self, now: float) -> bool:
        return self.ready <= now < self.expires


Cache = Mapping[int, Held]
"""Entries by node."""

Placed = tuple[tuple[int, int], ...]
"""Markers as (place, index of the lifetime), ascending; a place is an index into a request's nodes."""


OUT: Placed = ((-1, -1),)
"""In place of the markers of a request that is left out, which only an optional one may be."""


@dataclass(slots=True, kw_only=True)
class CompiledStep:
    """One step, compiled."""

    step: Step
    index: int
    nodes: list[int]
    """Nodes on its path, the shortest prefix first."""
    segments: list[int]
    """For each of them, its segment."""
    tokens: list[int]
    """For each of them, tokens of the prefix, inclusive."""
    legal: list[bool]
    """For each of them, whether a marker of ours may stand there and does something."""
    own: Placed
    """The sender's markers that reach the minimum."""
    room: int
    """Markers that may be added."""
    lives: tuple[int, ...]
    """Lifetimes that ours may have."""
    names: Mapping[bytes, int]
    """Nodes by hash."""
    _windows: dict[int, tuple[tuple[int, int, int], ...]] = field(default_factory=dict)
    duties: list[Duty] = field(default_factory=list)

    @property
    def facts(self) -> CacheFacts:
        return self.step.prefix.facts

    @property
    def started(self) -> float:
        return self.step.started

    def weight(self, first: int, last: int) -> int:
        """Tokens of the places from `first` to `last`, inclusive."""
        return self.tokens[last] - (self.tokens[first - 1] if first else 0)

    def window(self, place: int) -> tuple[tuple[int, int, int], ...]:
        """What a marker at `place` is compared with, nearest first: node, tokens and segment of each."""
        known = self._windows.get(place)
        if known is None:
            known = self._windows[place] = tuple(self._look_back(self.segments[place]))
        return known

    def _look_back(self, at: int) -> Iterable[tuple[int, int, int]]:
        prefix = self.step.prefix
        for _ in range(self.facts.lookback):
            node = self.names.get(prefix.hashes[at])
            if node is not None:
                yield node, self.step.tokens_at(at), at
            at = prefix.previous(at, self.facts.positions)
            if at < 0:
                return

    def allows(self, placed: Placed) -> bool:
        """Whether our markers may be added: room, order of lifetimes with the sender's own, places not yet taken."""
        if len(placed) > self.room:
            return False
        order = {ttl.label: i for i, ttl in enumerate(self.facts.ttls)}
        marks = [(self.segments[place], life) for place, life in placed]
        marks += [(mark.at, order.get(mark.ttl, 0)) for mark in self.step.marks]
        marks.sort()
        rising = any(before[1] < behind[1] for before, behind in pairwise(marks))
        return not (placed and rising) and len({at for at, _ in marks}) == len(marks)


class Served(NamedTuple):
    """What one request did."""

    cost: float
    """In units of an uncached input token."""
    read: int
    write: dict[int, int]
    """Tokens written, by the index of the lifetime."""
    cache: dict[int, Held]


def serve(request: CompiledStep, ours: Placed, cache: Cache) -> Served:
    """Bill `request` with the sender's markers and `ours`, against `cache`, which it leaves as it was.

    An optional request only keeps what is held: with markers that write, or that find nothing, it costs without bound.
    """
    now, facts = request.started, request.facts
    if ours == OUT:
        return Served(0.0, 0, {}, {node: entry for node, entry in cache.items() if entry[1] > now})
    placed = sorted((*request.own, *ours))
    read, reached = 0, -1
    for place, _ in reversed(placed):
        found = next((one for one in request.window(place) if one[0] in cache and cache[one[0]].live(now)), None)
        if found is not None:
            _, read, reached = found
            break
    after = {node: entry for node, entry in cache.items() if entry[1] > now}
    until = [now + ttl.seconds for ttl in facts.ttls]
    for node, segment in zip(request.nodes, request.segments, strict=True) if reached >= 0 else ():
        if segment > reached:
            break
        entry = after.get(node)
        if entry is not None and entry[2] <= now:
            after[node] = Held(entry[0], until[entry[0]], entry[2])
    done, write, cost = read, dict[int, int](), read * facts.read
    behind = [(place, life) for place, life in placed if request.tokens[place] > read]
    for life in range(len(facts.ttls) - 1, -1, -1):
        reach = max((request.tokens[place] for place, one in behind if one == life), default=0)
        if reach > done:
            write[life] = reach - done
            cost += (reach - done) * facts.ttls[life].write
            done = reach
    _write(request, behind, after)
    if request.step.optional and (behind or not read):
        cost = math.inf
    return Served(cost + request.step.total - done, read, write, after)


def _write(request: CompiledStep, placed: Sequence[tuple[int, int]], after: dict[int, Held]) -> None:
    """Add to `after` the entries that the markers `placed` write."""
    now, facts = request.started, request.facts
    for place, life in placed:
        node, fresh = request.nodes[place], Held(life, now + facts.ttls[life].seconds, request.step.visible)
        old = after.get(node)
        after[node] = fresh if old is None else merged(old, fresh)


def merged(old: Held, fresh: Held) -> Held:
    """Two entries of one prefix, the first of which was not read when the second was written."""
    longer = old if old.expires > fresh.expires else fresh
    return longer._replace(ready=min(old.ready, fresh.ready))


def compiled(steps: Sequence[Step], ttls: Sequence[str] | None, *, shift: float = 0.0) -> list[CompiledStep]:
    """`steps`, in order of their start, as requests on shared nodes.

    Of what a request that may be left out costs, the share `shift` of what older tokens would pay is paid by those that
    were new in the request which it repeats.
    """
    ordered = sorted(steps, key=lambda step: step.started)
    names: dict[bytes, int] = {}
    for step in ordered:
        minimum = step.prefix.facts.min_tokens
        own = {mark.at for mark in step.marks}
        for at, segment in enumerate(step.prefix.prompt.segments):
            if step.tokens[at] >= minimum and (segment.markable or at in own):
                names.setdefault(step.prefix.hashes[at], len(names))
    requests = [_request(step, index, names, ttls) for index, step in enumerate(ordered)]
    new: dict[tuple[int, ...], int] = {}
    for request, old in zip(requests, _visited_before(requests), strict=True):
        path = tuple(request.nodes) if shift else ()
        if request.step.optional:
            request.duties = keeping(request, duties_of(request, range(old - 1, old)), new.get(path, 0), shift)
            continue
        new[path] = old
        request.duties = duties_of(request, range(old - 1, old))
    return requests


def guides(requests: Sequence[CompiledStep]) -> list[list[CompiledStep]]:
    """`requests` as they are seen in two other ways, neither of which is a bound, and either the better guide at times.

    First with nodes that always come together taken for one: where a request parts from others at the last of them, it
    parts at all, though one of them may be written without the others. Then with nothing known of where they part.
    """
    visits = Counter(node for request in requests for node in request.nodes)
    grouped, open_ = [], []
    for request, old in zip(requests, _visited_before(requests), strict=True):
        first = old - 1
        while first > 0 and visits[request.nodes[first - 1]] == visits[request.nodes[old - 1]]:
            first -= 1
        grouped.append(replace(request, duties=duties_of(request, range(first, old))))
        open_.append(replace(request, duties=duties_of(request, range(0))))
    return [grouped, open_]


def _visited_before(requests: Sequence[CompiledStep]) -> Iterator[int]:
    """For each of `requests`, how many of its nodes, from the first on, an earlier one visited, too."""
    visited: set[int] = set()
    for request in requests:
        old = next((place for place, node in enumerate(request.nodes) if node not in visited), len(request.nodes))
        visited.update(request.nodes[old:])
        yield old


def _request(step: Step, index: int, names: Mapping[bytes, int], ttls: Sequence[str] | None) -> CompiledStep:
    prefix, facts = step.prefix, step.prefix.facts
    own_at = {mark.at for mark in step.marks}
    place_of: dict[int, int] = {}
    nodes: list[int] = []
    segments: list[int] = []
    legal: list[bool] = []
    for at, (hash_, segment) in enumerate(zip(prefix.hashes, prefix.prompt.segments, strict=True)):
        node = names.get(hash_)
        if node is None:
            continue
        fits = segment.markable and at not in own_at and step.tokens[at] >= facts.min_tokens
        if nodes and nodes[-1] == node:
            # Text that the model drops stands between: one prefix, the later place of which is the sender's to mark.
            if at in own_at or (fits and not legal[-1]):
                segments[-1], legal[-1] = at, fits
        else:
            nodes.append(node)
            segments.append(at)
            legal.append(fits)
        place_of[at] = len(nodes) - 1
    order = {ttl.label: i for i, ttl in enumerate(facts.ttls)}
    own = tuple(
        (place_of[mark.at], order[mark.ttl])
        for mark in step.marks
        if mark.at in place_of and mark.ttl in order and step.tokens[mark.at] >= facts.min_tokens
    )
    return CompiledStep(
        step=step,
        index=index,
        nodes=nodes,
        segments=segments,
        tokens=[step.tokens[at] for at in segments],
        legal=legal,
        own=own,
        room=max(facts.max_markers - len(step.marks), 0),
        lives=tuple(i for i, ttl in enumerate(facts.ttls) if ttls is None or ttl.label in ttls),
        names=names,
    )
