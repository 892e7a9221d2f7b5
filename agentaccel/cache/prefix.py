"""The prefixes of a prompt as the provider tells them apart: one chained hash per segment, sizes and positions."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from typing import Protocol

from agentaccel.cache.beliefs import MANY_TURNS, is_history
from agentaccel.facts import LEVELS, CacheFacts, Level, Ttl
from agentaccel.hashing import ROOT, chain, digest, link
from agentaccel.segments import THINKING
from agentaccel.types import Prompt, Segment, agreeing, digest_of, show_path
from agentaccel.values import maker, quickly_made

_RUNS = frozenset({"tool_use", "tool_result"})


@quickly_made
@dataclass(frozen=True)
class Prefixes:
    """Per segment i of `prompt`, the prefix that ends with it, inclusive."""

    prompt: Prompt
    facts: CacheFacts
    hashes: tuple[bytes, ...]
    """Equal hashes are equal prefixes: same segments, same parameters that the provider renders before them."""
    sizes: array[int]
    """Bytes of the prefix, inclusive of segment i."""
    starts: tuple[int, int, int]
    """The index of the first segment of each level, or of what comes after an empty one."""
    seeds: tuple[bytes, ...]
    """What each level begins with, from the parameters that break it."""
    dropped: frozenset[int] = frozenset()
    """Segments that the model does not get to see."""

    def find(self, hash_: bytes, near: int) -> int:
        """The segment whose prefix has this hash, looked for where it stood before; -1 where none has.

        Only what stands in the prompt elsewhere or not at all can move it: server tools, and thinking that was dropped.
        They repeat the hash before them, and then the first place counts.
        """
        if 0 <= near < len(self.hashes) and self.hashes[near] == hash_:
            return near
        if near < 0 or self.dropped:
            return self._index.get(hash_, -1)
        tools = self.hashes[: self.starts[1]]
        return tools.index(hash_) if hash_ in tools else -1

    @cached_property
    def _index(self) -> dict[bytes, int]:
        return {value: i for i, value in reversed(list(enumerate(self.hashes)))}

    def place(self, name: str) -> int | None:
        """The segment behind the tools that stands at the place called `name` (`name_at`); None where none does."""
        return (self._history if is_history(name) else self._beginning).get(name)

    @cached_property
    def _beginning(self) -> dict[str, int]:
        """What stands before the messages, by name: a clock in it must not cost a name for every message."""
        return {self.name_at(i): i for i in range(self.starts[1], self.starts[2])}

    @cached_property
    def _history(self) -> dict[str, int]:
        return {self.name_at(i): i for i in range(self.starts[2], len(self.prompt.segments))}

    def name_at(self, i: int) -> str:
        """The name of the place that segment i stands at, once arranged: then it is another thing that may change."""
        return self.named(place_name(self.prompt.segments[i]))

    def named(self, name: str) -> str:
        """The name of the place called `name` where its text stands as written."""
        return name + ARRANGED if name in self.prompt.arranged else name

    def lifetimes(self, ttl: str) -> tuple[Ttl, ...]:
        """Those that our markers may have, the shortest first: what the request asks for all of its own, or else what
        the user has chosen; all of the provider's where that is "auto"."""
        chosen = self.facts.ttl(self.prompt.ttl) or self.facts.ttl(ttl)
        return self.facts.ttls if chosen is None else (chosen,)

    @property
    def size(self) -> int:
        """Bytes of the whole prompt."""
        return self.sizes[-1] if self.sizes else 0

    @cached_property
    def turn(self) -> int:
        """As `turn_of` the prompt."""
        return turn_of(self.prompt)

    def previous(self, i: int, positions: str) -> int:
        """The last segment of the position before the one that segment i belongs to; -1 before the first.

        Under the reading "runs", consecutive tool calls are one position, and so are consecutive results.
        """
        segments = self.prompt.segments
        if positions == "runs" and segments[i].kind in _RUNS:
            while i > 0 and segments[i - 1].kind == segments[i].kind and segments[i - 1].level == segments[i].level:
                i -= 1
        return i - 1


def turn_of(prompt: Prompt) -> int:
    """How many replies the prompt holds, counted up to `MANY_TURNS`: 0 for a first request, whoever makes it."""
    replies, before = 0, ""
    for segment in islice(prompt.segments, prompt.starts[2], None):
        role = segment.role
        if role == "assistant" and before != role:
            replies += 1
            if replies == MANY_TURNS:
                break
        before = role
    return replies


def place_name(segment: Segment) -> str:
    """The path as people write it; of what stands among the messages and is the operator's, one that says so."""
    name = show_path(segment.path)
    return f"opening {name}" if segment.level == "system" and segment.path[0] in _CONVERSATION else name


_CONVERSATION = frozenset({"messages", "input"})

ARRANGED = " (arranged)"
"""Behind the name of a place whose text was moved or put in another order."""

EDITED = "history "
"""How a name in `Prompt.arranged` begins that tells a history which we have edited from itself before that edit."""


class Before(Protocol):
    """A past prompt whose hashes the next one may go on from."""

    @property
    def segments(self) -> tuple[Segment, ...]: ...
    @property
    def hashes(self) -> tuple[bytes, ...]: ...
    @property
    def sizes(self) -> array[int]: ...
    @property
    def starts(self) -> tuple[int, int, int]: ...
    @property
    def seeds(self) -> tuple[bytes, ...]: ...
    @property
    def dropped(self) -> frozenset[int]: ...
    @property
    def facts(self) -> CacheFacts: ...
    @property
    def model(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, bytes]: ...


def prefixes(prompt: Prompt, facts: CacheFacts, before: Before | None = None) -> Prefixes:
    """Chain the segments of `prompt`, mixing in at each level the parameters that break it.

    Where the model drops earlier thinking once a user speaks again, those blocks count for nothing: they are in the
    request and not in the prompt. What the prompt has in common with `before` is not hashed again; the result is the
    same.
    """
    if before is not None and (longer := _longer(before, prompt, facts)) is not None:
        return longer
    segments = prompt.segments
    dropped = _dropped(segments) if facts.strips_thinking else frozenset[int]()
    first = prompt.starts
    starts = (*first, len(segments))
    apart = [i for i in range(starts[1]) if segments[i].kind in facts.system_tools]
    silent = dropped.union(apart) if apart else dropped
    seeds = _seeds(prompt, facts, before)
    same_rules = before is not None and before.facts is facts and before.dropped == dropped
    known = _known(before, segments, seeds, starts) if before is not None and same_rules else 0
    hashes = list(before.hashes[:known]) if before is not None and known else []
    parent = hashes[-1] if hashes else ROOT
    for n, level in enumerate(LEVELS):
        if starts[n] >= known:
            parent = link(parent, seeds[n])
            if level == "system":
                for i in apart:
                    parent = link(parent, segments[i].digest)
        hashes += _links(segments, range(max(starts[n], known), starts[n + 1]), parent, silent)
        parent = hashes[-1] if starts[n + 1] > max(starts[n], known) else parent
    sizes = before.sizes[:known] if before is not None else array("q")
    added = [0 if i in silent else segments[i].size for i in range(known, len(segments))]
    sizes.extend(islice(accumulate(added, initial=sizes[-1] if sizes else 0), 1, None))
    return Prefixes(
        prompt=prompt,
        facts=facts,
        hashes=tuple(hashes),
        sizes=sizes,
        starts=first,
        seeds=seeds,
        dropped=dropped,
    )


_prefixes = maker(Prefixes)


def _longer(before: Before, prompt: Prompt, facts: CacheFacts) -> Prefixes | None:
    """The prefixes of a prompt that only grew, as most do: those before, and of what follows. None where anything but
    messages follows on `before`, or anything else is different."""
    known = before.segments
    if before.facts is not facts or facts.strips_thinking or not known or known[-1].level != "messages":
        return None
    kept, added = prompt.segments[: len(known)], prompt.segments[len(known) :]
    if kept != known or before.model != prompt.model or before.parameters != prompt.parameters:
        return None
    hashes = chain(map(digest_of, added), before.hashes[-1])
    sizes = before.sizes[:]
    size = sizes[-1]
    for segment in added:
        size += segment.size
        sizes.append(size)
    return _prefixes(
        prompt=prompt,
        facts=facts,
        hashes=before.hashes + tuple(hashes),
        sizes=sizes,
        starts=before.starts,
        seeds=before.seeds,
    )


def _links(segments: tuple[Segment, ...], places: range, parent: bytes, silent: frozenset[int]) -> list[bytes]:
    """The chain through `places`; what is not rendered there repeats the hash before it."""
    if silent.isdisjoint(places):
        return chain(map(digest_of, segments[places.start : places.stop]), parent)
    hashes: list[bytes] = []
    for i in places:
        parent = parent if i in silent else link(parent, segments[i].digest)
        hashes.append(parent)
    return hashes


def _known(before: Before, segments: tuple[Segment, ...], seeds: tuple[bytes, ...], starts: tuple[int, ...]) -> int:
    """Segments at the start whose hashes are those of `before`: up to the first that differs, or what it breaks."""
    broken = (start for start, old, new in zip(starts, before.seeds, seeds, strict=False) if old != new)
    return min(agreeing(before.segments, segments), next(broken, len(segments)))


def _seeds(prompt: Prompt, facts: CacheFacts, before: Before | None) -> tuple[bytes, ...]:
    same = before is not None and before.facts is facts and before.model == prompt.model
    if before is not None and same and before.parameters == prompt.parameters:
        return before.seeds
    return tuple(_seed(prompt, facts, level) for level in LEVELS)


def _seed(prompt: Prompt, facts: CacheFacts, level: Level) -> bytes:
    parts = [
        name.encode("utf-8", "surrogatepass") + value
        for name, value in sorted(prompt.parameters.items())
        if level in facts.breaks(name)
    ]
    return digest(b"\x00".join((level.encode(), prompt.model.encode("utf-8", "surrogatepass"), *parts)))


def _dropped(segments: tuple[Segment, ...]) -> frozenset[int]:
    """Thinking before the last user message that holds anything but tool results."""
    last = max(
        (i for i, s in enumerate(segments) if s.level == "messages" and s.role == "user" and s.kind != "tool_result"),
        default=-1,
    )
    return frozenset(i for i, s in enumerate(segments[: max(last, 0)]) if s.kind in THINKING and s.level == "messages")


# --- Tokens from bytes: the provider tells the exact count of every turn, so no tokenizer is needed -------------------


@quickly_made
@dataclass(frozen=True, slots=True)
class Scale:
    """Tokens of the prefixes of one prompt: exact where the provider counted them, by their bytes elsewhere."""

    sizes: Sequence[int]
    """Bytes of each prefix."""
    at: tuple[int, ...]
    """Segments whose prefix the provider has counted, ascending."""
    counts: tuple[float, ...]
    """Their tokens, never decreasing."""
    bytes_per_token: float
    """Beyond and between counted prefixes."""
    calibrated: bool
    """Whether a count of this provider stands behind the figures."""

    def __call__(self, i: int) -> float:
        """Tokens of the prefix that ends with segment i, inclusive; 0 for -1."""
        if i < 0:
            return 0.0
        below = bisect_right(self.at, i) - 1
        base = self.counts[below] if below >= 0 else 0.0
        if below >= 0 and self.at[below] == i:
            return base
        start = self.sizes[self.at[below]] if below >= 0 else 0
        estimate = base + (self.sizes[i] - start) / self.bytes_per_token
        if below + 1 < len(self.at):
            # Between two counts, by the share of the bytes between them.
            span = self.sizes[self.at[below + 1]] - start
            if span > 0:
                estimate = base + (self.counts[below + 1] - base) * (self.sizes[i] - start) / span
        return estimate


def scale(
    prefix: Prefixes, known: Mapping[int, int | None], bytes_per_token: float | None, total: int | None = None
) -> Scale:
    """The scale for the prompt of `prefix`.

    `known` holds exact counts by the segment that the prefix ends with; `bytes_per_token` is what was learned (None:
    the facts' prior); `total` is the exact count of the whole prompt once its reply has told it.
    """
    last = len(prefix.hashes) - 1
    whole = float(total) if total is not None and last >= 0 else None
    counted = sorted([(i, count) for i, count in known.items() if count is not None and (whole is None or i != last)])
    at, counts = zip(*counted, strict=True) if counted else ((), ())
    if list(counts) != sorted(counts):
        at, counts = _rising(counted)
    if whole is not None:
        # The count of this very request outweighs those of others.
        at, counts = ((*at, last), (*counts, whole)) if not counts or whole >= counts[-1] else ((last,), (whole,))
    return Scale(
        sizes=prefix.sizes,
        at=at,
        counts=tuple(map(float, counts)),
        bytes_per_token=bytes_per_token or prefix.facts.bytes_per_token,
        calibrated=bytes_per_token is not None or bool(at),
    )


def _rising(counted: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Counts of different requests may disagree by hidden tokens: without those that would make the scale fall."""
    kept = list(counted[:1])
    for i, count in counted[1:]:
        if count >= kept[-1][1]:
            kept.append((i, count))
    return tuple([i for i, _ in kept]), tuple([count for _, count in kept])
