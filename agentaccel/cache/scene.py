"""One request with all that its evaluation needs, worked out once: what is held, what comes back, and its worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from agentaccel.cache.beginnings import beginning_ends
from agentaccel.cache.beliefs import LOOP_LATE, Beliefs
from agentaccel.cache.ledger import Entry, Mark, found
from agentaccel.cache.longevity import Lending, Longevity, Prospect, longevities
from agentaccel.cache.marks import loop_start, marks_of
from agentaccel.cache.pauses import ANY, Pauses, after_request, is_known, pauses
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.rhythm import followed_there
from agentaccel.cache.scale import Scale, scale
from agentaccel.cache.state import State
from agentaccel.cache.survival import survival, survives
from agentaccel.facts import CacheFacts, Ttl

V = TypeVar("V")


class View(NamedTuple):
    """Everything a plan depends on beside the request."""

    state: State
    """What the session has seen."""
    beliefs: Beliefs
    """What is believed of the workload, this session's own observations included."""
    now: float
    """Seconds since the epoch."""
    cut: int = 0
    """Segments at the end of the prompt that the next one is expected to replace."""
    ttl: str = "auto"
    """The user's choice of lifetime, or "auto" for whichever is expected to cost least."""
    keeps: bool = False
    """Whether requests of our own keep entries alive during a pause, as long as that pays."""
    alone: bool = False
    """Whether no other session of the workload has taught anything of pauses."""
    edited: int = -1
    """Where an edit of the history has just ended; -1 for nowhere."""


class Candidate(NamedTuple):
    """A segment that could carry a marker of ours."""

    at: int
    mark: Mark
    reason: str


class Scene(NamedTuple):
    """One request with all that its evaluation needs, worked out once."""

    prefix: Prefixes
    view: View
    facts: CacheFacts
    scale: Scale
    survival: tuple[tuple[int, float], ...]
    """Ascending (segment, probability that the prefixes from there on come back)."""
    loop: tuple[int, float]
    """Where what may be left out once a person writes again begins, and the odds that it comes back after a pause."""
    existing: tuple[Mark, ...]
    """The user's markers."""
    counting: tuple[Mark, ...]
    """Those of them whose prefix may reach the minimum; the others do nothing."""
    ttl: Ttl
    """The lifetime we mark with, unless a longer one pays or the request's own markers leave another one."""
    lives: tuple[Longevity, ...]
    """What each lifetime of the provider is worth, the shortest first; only the one we mark with where it is chosen by
    the user."""
    tools: int
    """The last segment of the tools; -1 where there is none."""
    static: int
    """The last segment of tools and system; -1 where there is none."""
    beginnings: tuple[int, ...]
    """The last segments of what other sessions may begin with, ascending (`beginning_ends`), as `Longevity.lent`."""
    warm: tuple[int, ...]
    """Segments whose prefix is believed to be held now, ascending."""
    held: tuple[tuple[int, ...], ...]
    """For each of `lives`, those of them that are held for as long; for the first, all."""
    unseen: frozenset[int]
    """Those of them that the provider wrote by itself, and that a request which switches that off does not find."""
    pauses: Pauses
    """What is believed of the pause that comes next."""
    alive: float
    """That what is believed to be held is."""
    going_on: float
    """That the conversation goes on in time."""
    repeated: float
    """That another session begins with the whole prompt in time; 0 where it is not a first one."""
    gain: float
    """What a token read from an entry of ours saves over writing it then: w - r."""
    last: int
    """The last segment of the prompt."""
    tokens: Callable[[int], float]
    """Tokens of the prefix that ends with segment i, inclusive; 0 for -1."""
    found: Callable[[int], int]
    """The longest prefix believed to be held that a marker at segment i finds; -1 where it finds none."""

    def survives(self, i: int) -> float:
        return survives(self.survival, i)


class _Remembered(dict[int, V]):
    """The values of a function of segments, each worked out once; asking again is no call of Python's."""

    def __init__(self, work: Callable[[int], V]) -> None:
        super().__init__()
        self._work = work

    def __missing__(self, i: int) -> V:
        value = self[i] = self._work(i)
        return value


def scene_of(prefix: Prefixes, view: View) -> Scene:
    prompt, facts, entries = prefix.prompt, prefix.facts, view.state.ledger.on(prefix)
    _, system, messages = prefix.starts
    turn, beliefs, now, last = prefix.turn, view.beliefs, view.now, len(prefix.hashes) - 1
    repeated = 0.0 if turn else beliefs.repeated()
    steps = survival(prefix, beliefs, view.cut)
    warm = tuple(sorted([i for i, entry in entries.items() if entry.visible <= now < entry.expires]))
    counts = {i: entry.tokens for i, entry in entries.items()}
    measure = scale(prefix, counts, beliefs.bytes_per_token(prompt.model))
    existing = marks_of(prefix, prompt.markers) if prompt.markers or facts.physics == "automatic" else ()
    ttls = prefix.lifetimes(view.ttl)
    followed, then = [followed_there(beliefs, turn + n, view.state.turns + n, tools=system > 0) for n in (0, 1)]
    tokens = _Remembered(measure).__getitem__
    loop, late = _loop(prefix, beliefs)
    unkept = _unkept(steps, tokens, last, len(prompt.lasting) - view.cut if view.cut else loop)
    held = tuple([_held(warm, entries, ttl, ttls[0]) for ttl in ttls])
    beginnings = beginning_ends(prefix, view.state.born)
    lasting = tokens(held[-1][-1]) / max(tokens(last), 1.0) if len(held) > 1 and held[-1] else 0.0
    people = beliefs.answered_by_people() if view.alone else 0.0
    usual = pauses(beliefs, ANY, people=people)
    here = after_request(view.state.turns)
    coming = pauses(beliefs, ANY, here, people) if is_known(beliefs, here) else usual
    odds = followed, then, beliefs.generally(followed), survives(steps, last), unkept, 1.0 - late
    prospect = Prospect(*odds, coming, usual, view.keeps, view.alone, lasting)
    return Scene(
        prefix=prefix,
        view=view,
        facts=facts,
        scale=measure,
        survival=steps,
        loop=(loop, late),
        existing=existing,
        counting=tuple([mark for mark in existing if reaches_minimum(measure, facts, mark.at)]),
        ttl=ttls[0],
        lives=longevities(facts, ttls, beliefs, prospect, Lending(tuple(beginnings), repeated)),
        tools=system - 1,
        static=messages - 1,
        beginnings=tuple([end - 1 for end in beginnings.values()]),
        warm=warm,
        held=held,
        unseen=frozenset([i for i in warm if entries[i].own]) if facts.physics == "breakpoints" else _NONE,
        pauses=coming,
        alive=beliefs.alive(),
        going_on=followed * (1.0 - coming.longer(ttls[0].seconds)),
        repeated=repeated,
        gain=ttls[0].write - facts.read,
        last=last,
        tokens=tokens,
        found=_Remembered(partial(_found, prefix, warm)).__getitem__,
    )


def _loop(prefix: Prefixes, beliefs: Beliefs) -> tuple[int, float]:
    """As in `Scene`."""
    segments = prefix.prompt.segments
    if not beliefs.leaves_out:
        return len(segments), 1.0
    return loop_start(segments, prefix.starts[2]), beliefs.stable(LOOP_LATE)


def _unkept(steps: Sequence[tuple[int, float]], tokens: Callable[[int], float], last: int, end: int) -> float:
    """As in `Prospect`, by the steps of `survival`. What is replaced each turn, from segment `end` on, moves along, and
    markers before it do, too."""
    changing = [one for one in steps[1:] if one[0] < end]
    if not changing:
        return 0.0
    before = tokens(changing[0][0] - 1) / max(tokens(last), 1.0)
    return before * (1.0 - changing[-1][1] / steps[0][1])


def _held(warm: tuple[int, ...], entries: Mapping[int, Entry], ttl: Ttl, shortest: Ttl) -> tuple[int, ...]:
    return warm if ttl is shortest else tuple([i for i in warm if entries[i].ttl == ttl.label])


def _found(prefix: Prefixes, warm: Sequence[int], at: int) -> int:
    if not warm or warm[0] > at:
        return -1
    return found(prefix, at, warm.__contains__, prefix.facts.lookback_planned)


_NONE = frozenset[int]()


def without_own(scene: Scene) -> Scene:
    """The scene of the same request where the provider sets no breakpoint by itself."""
    held = tuple([tuple([i for i in one if i not in scene.unseen]) for one in scene.held])
    return scene._replace(
        existing=tuple([mark for mark in scene.existing if not mark.own]),
        counting=tuple([mark for mark in scene.counting if not mark.own]),
        warm=held[0],
        held=held,
    )


def reaches_minimum(tokens: Scale, facts: CacheFacts, at: int) -> bool:
    """Whether the prefix may reach the minimum. A marker below it does nothing, so doubt is resolved in its favour."""
    slack = _SLACK_CALIBRATED if tokens.calibrated else _SLACK_UNCALIBRATED
    return tokens(at) * slack >= facts.min_tokens


_SLACK_CALIBRATED = 1.15
_SLACK_UNCALIBRATED = 2.0
"""Tokens may be this many times the estimate before a count of the provider has been seen, and after."""
