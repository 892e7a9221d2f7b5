"""Which places of a prompt came back since the prompt before it: seen before a request is planned.

A change counts against a place only if the variant that stands there now was not sent within the lifetime of an entry:
two tool orders that alternate are two warm prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from agentaccel.cache.beliefs import LOOP, LOOP_LATE, PARAMETERS, TAIL, Beliefs, Observation, is_history
from agentaccel.cache.breakpoints import awaited, loop_start
from agentaccel.cache.pauses import outlasted, pause_seen
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.state import (
    TOOLS,
    PreviousPrompt,
    SessionState,
    end_of,
    find,
    listed,
    shared_length,
    static_levels,
)
from agentaccel.facts import LEVELS, priors
from agentaccel.hashing import digest
from agentaccel.values import maker

_MOST_HISTORY_PLACES = 8
"""Places in the messages that are watched at once: the last ones seen to change."""

_STABLE_ANY = "stable/any"

_OF_CONTENT = f"{PARAMETERS}content."
"""How the name of a property begins that the content has, and no field of the request."""

ONLY_GREW = (Observation(_STABLE_ANY, 1.0),)
"""What a request shows of its places that only adds to the one before, where none is watched."""


class Observed(NamedTuple):
    """What a request shows by itself, before it is answered."""

    stability: tuple[Observation, ...]
    """Which places came back."""
    variants: Mapping[str, Mapping[bytes, float]]
    """As in `SessionState`."""
    cut: int
    """As in `SessionState`."""
    in_time: bool | None = None
    """Whether it came within the lifetime of what the request before had written; None for a session's first, and for
    one that began before that one's reply had, which could read nothing of it."""
    moves: tuple[Observation, ...] = ()
    """Which pieces of text were other ones than in the request before; see `prompt.volatile`."""
    pause: tuple[Observation, ...] = ()
    """What the pause before it shows; empty where `in_time` is None."""
    edited: int = -1
    """The last segment of the history that is another one than in the prompt before, where it was edited in place."""
    others: int | None = None
    """How many other conversations the server of the user's own was asked for since the request before; None where that
    is not known."""
    given_up: bool = False
    """Whether these have most likely taken the place of what the server held of this one."""


_observed = maker(Observed)


def observe(
    state: SessionState, head: PreviousPrompt | None, prefix: Prefixes, now: float, believed: Beliefs | None = None
) -> Observed:
    """Which places came back: unchanged, or as a variant sent so recently that its entry may still be warm.

    Watched are those that changed in this session, and those that are `believed` to change in most requests because
    they did in others: what stands behind them is hardly cached then, and that they come back corrects it.
    """
    in_time: bool | None = None
    pause: tuple[Observation, ...] = ()
    if state.last_started is not None and now >= state.last_visible:
        waited = now - state.last_started
        # What a pause shows is counted under what it was for.
        in_time, pause = waited < state.last_lifetime, pause_seen(state.awaits or awaited(prefix.prompt), waited)
    if head is None or head.arranged != prefix.prompt.arranged:
        # What we ourselves have put in another place says nothing of how often it changes; the end is replaced as ever.
        return Observed((), state.variants, state.cut, in_time, pause=pause)
    shared = shared_length(head, prefix)
    doubted = believed.doubted_places if believed is not None else ()
    watched = state.variants or state.cut or doubted or state.seen.leaves_out
    if shared == len(head.hashes) and not watched:
        return _observed(ONLY_GREW, state.variants, 0, in_time, (), pause)  # most do: what follows comes to the same
    return _compared(state, head, prefix, now, shared, _watched(state, doubted))._replace(in_time=in_time, pause=pause)


def crowded(observed: Observed, others: int | None, believed: Beliefs) -> Observed:
    """The same of a request to a server of the user's own, which has room for so much: `others` as in `Observed`, and
    whether what it held of this conversation is `believed` to be gone for their sake."""
    if others is None:
        return observed
    return observed._replace(others=others, given_up=believed.alive(others) < _HALF)


_HALF = 0.5


def _compared(
    state: SessionState, head: PreviousPrompt, prefix: Prefixes, now: float, shared: int, names: list[str]
) -> Observed:
    """Which places came back, those called `names` and the one where this prompt left the one before."""
    lifetime = prefix.facts.ttls[0].seconds
    variants = {name: {v: t for v, t in old.items() if t + lifetime > now} for name, old in state.variants.items()}
    seen: list[Observation] = []
    cut = 0
    broken = LOOP if _is_left_out(head, prefix, shared) else broken_place(head, prefix, shared)
    if broken is not None and broken not in (TAIL, LOOP, *names) and not _happens_once(head, prefix, broken):
        names.append(broken)
        seen += _before_it_changed(state, broken)
    for name in names:
        place = find(prefix, name)
        if place is None:
            continue
        past = variants.setdefault(name, {})
        before = _before(head, prefix, name)
        if before is not None:
            past.setdefault(before, head.started)
        seen.append(Observation(f"stable/{name}", float(place.digest in past)))
        past[place.digest] = now
    if broken == TAIL:
        cut = len(head.hashes) - shared
    if broken == TAIL or state.cut:
        seen += _moving_seen(state, TAIL, broken)
    if broken == LOOP or (broken is None and state.seen.leaves_out):
        seen += _moving_seen(state, LOOP, broken)
        seen += _late_seen(state, broken, lifetime, late=now - head.started >= lifetime)
    if broken is None:
        seen.append(Observation(_STABLE_ANY, 1.0))
    edited = _edited(head, prefix, shared) if broken is not None and is_history(broken) else -1
    return Observed(tuple(seen), variants, cut or (state.cut if broken is None else 0), edited=edited)


def _watched(state: SessionState, doubted: Sequence[str]) -> list[str]:
    """Names of the places that may change, as this session has shown, or others, by which they are `doubted`."""
    known = state.seen.unstable_places()
    known += [name for name in doubted if name not in known]
    if len(known) <= _MOST_HISTORY_PLACES:
        return known
    history = [name for name in known if is_history(name)]
    forgotten = set(history[:-_MOST_HISTORY_PLACES])
    return [name for name in known if name not in forgotten]


def _moving_seen(state: SessionState, name: str, broken: str | None) -> Iterator[Observation]:
    """Whether a place that moves along came back; once it first did not, how often it had: as long as nothing did
    not."""
    topic = f"stable/{name}"
    if topic not in state.seen.counts:
        yield Observation(topic, *state.seen.counts.get(_STABLE_ANY, (0.0, 0.0)))
    yield Observation(topic, float(broken != name))


def _before_it_changed(state: SessionState, name: str) -> Iterator[Observation]:
    """How often a place had come back, once it first did not: a clock changes from the start, a mode that is switched
    stays as it was for a while, and then as it is."""
    same, _ = state.seen.counts.get(_STABLE_ANY, (0.0, 0.0))
    if same and not is_history(name):
        came = min(same, priors().same_before)
        yield Observation(f"stable/{name}", came, came)


def _late_seen(state: SessionState, broken: str | None, lifetime: float, *, late: bool) -> Iterator[Observation]:
    """Whether a loop came back after a pause; once one first did not, after how many it had."""
    topic = f"stable/{LOOP_LATE}"
    if not state.seen.leaves_out:
        longer = outlasted(state.seen, lifetime)
        yield Observation(topic, longer, longer)
    if late:
        yield Observation(topic, float(broken != LOOP))


def _edited(head: PreviousPrompt, prefix: Prefixes, shared: int) -> int:
    """The last segment from `shared` on that is not what stood there before; -1 where all that followed moved."""
    now = prefix.prompt.segments
    for i in range(min(len(head.segments), len(now)) - 1, shared - 1, -1):
        if head.segments[i].digest != now[i].digest:
            return i if i < len(head.segments) - 1 else -1
    return -1


def _happens_once(head: PreviousPrompt, prefix: Prefixes, broken: str) -> bool:
    """Whether the history was compacted, cleared or rewound: it became smaller, and will hardly do so each turn; or the
    first picture came into it, which stays."""
    if is_history(broken):
        return prefix.size < head.sizes[-1]
    return broken.startswith(_OF_CONTENT) and broken[len(PARAMETERS) :] not in head.parameters


def broken_place(head: PreviousPrompt, prefix: Prefixes, shared: int) -> str | None:
    """The name of the place where this prompt left the one before; None where it only grew."""
    if shared == len(head.hashes):
        return None
    changed = _changed_parameters(head, prefix)
    for level, start in zip(LEVELS, head.starts, strict=True):
        if shared == start:
            hit = [name for name in changed if level in _breaks(prefix, name)]
            if hit:
                return PARAMETERS + hit[0]
    for (name, _, before), (_, _, now) in zip(static_levels(head.starts), static_levels(prefix.starts), strict=True):
        if shared == before < now:
            return end_of(prefix, name)
    segments = prefix.prompt.segments
    if shared < head.starts[1]:
        return prefix.named(TOOLS)
    if shared >= len(segments) or segments[shared].level == "messages":
        if shared >= head.added:
            return TAIL
        return prefix.name_at(shared) if shared < len(segments) else TAIL
    return prefix.name_at(shared)


def _is_left_out(head: PreviousPrompt, prefix: Prefixes, shared: int) -> bool:
    """Whether all that had followed on the last words of a person is gone, results of tools, and no answer that was
    begun for the model; and a person has written since. What we have edited ourselves tells nothing."""
    start = loop_start(head.segments, head.starts[2])
    if not head.starts[2] < start == shared < len(head.segments) or head.segments[-1].role == "assistant":
        return False
    if prefix.prompt.edited:
        return False
    return loop_start(prefix.prompt.segments, prefix.starts[2]) > shared


def _changed_parameters(head: PreviousPrompt, prefix: Prefixes) -> list[str]:
    now = prefix.prompt.parameters
    changed = [name for name in {**head.parameters, **now} if head.parameters.get(name) != now.get(name)]
    return (["model"] if head.model != prefix.prompt.model else []) + changed


def _breaks(prefix: Prefixes, parameter: str) -> tuple[str, ...]:
    return LEVELS if parameter == "model" else prefix.facts.breaks(parameter)


def _before(head: PreviousPrompt, prefix: Prefixes, name: str) -> bytes | None:
    """What stood at a place in the prompt before."""
    if name == prefix.named(TOOLS):
        tools = head.segments[: head.starts[1]]
        return listed(tools) if tools else None
    if name == PARAMETERS + "model":
        return digest(head.model.encode())
    if name.startswith(PARAMETERS):
        return head.parameters.get(name[len(PARAMETERS) :], b"")
    for level, start, end in static_levels(head.starts):
        if name == end_of(prefix, level):
            return listed(head.segments[start:end]) if start < end else None
    place = find(prefix, name)
    return head.segments[place.index].digest if place is not None and place.index < len(head.segments) else None
