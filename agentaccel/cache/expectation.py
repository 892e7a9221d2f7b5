"""What a set of markers is expected to cost: this request now, and what it saves later.

With w and r the prices of a written and a read token, p that the next request comes in time and s(i) that the prefix
up to i comes back, the figure is, in uncached tokens,

    cost of this request with the markers  -  (w - r) · p · Σ over entries held afterwards of (their tokens beyond the
    one before) · s(i)  -  the same for each part that other sessions may begin with (tools, system, what stands before
    the first question), with the probability that one does, and for the rest of a first prompt, with the probability
    that another session repeats it

The second term uses w - r because what is not held then would be written then. For one tail marker this gives the rule
of thumb of the field: write it if p·s > (w - 1)/(w - r), 0.22 for a 5-minute entry read at a tenth.

Of several lifetimes each has its own p, and what only the longer one saves may count for more than one turn: see
`lifetime`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple, TypeVar

from agentaccel.cache.beliefs import LOOP_LATE, Beliefs
from agentaccel.cache.breakpoints import loop_start, marks_of, reaching
from agentaccel.cache.forecast import followed_there, survival, survives
from agentaccel.cache.ledger import Breakpoint, Entry, charge, found, hit_of, reach_of
from agentaccel.cache.lifetime import Lending, Longevity, Prospect, longevities
from agentaccel.cache.pauses import ANY, Pauses, after_request, is_known, pauses
from agentaccel.cache.prefix import Prefixes, Scale, scale
from agentaccel.cache.sharing import beginning_ends
from agentaccel.cache.state import SessionState
from agentaccel.facts import CacheFacts, Ttl
from agentaccel.types import Expected

# --- One request with all that its evaluation needs, worked out once: what is held, what comes back, and its worth ----

V = TypeVar("V")


class View(NamedTuple):
    """Everything a plan depends on beside the request."""

    state: SessionState
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
    others: int | None = None
    """As in `Observed`."""
    given_up: bool = False
    """As in `Observed`."""


class Candidate(NamedTuple):
    """A segment that could carry a marker of ours."""

    at: int
    mark: Breakpoint
    reason: str


class PlanInputs(NamedTuple):
    """One request with all that its evaluation needs, worked out once."""

    prefix: Prefixes
    view: View
    facts: CacheFacts
    scale: Scale
    survival: tuple[tuple[int, float], ...]
    """Ascending (segment, probability that the prefixes from there on come back)."""
    loop: tuple[int, float]
    """Where what may be left out once a person writes again begins, and the odds that it comes back after a pause."""
    existing: tuple[Breakpoint, ...]
    """The user's markers."""
    counting: tuple[Breakpoint, ...]
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


def scene_of(prefix: Prefixes, view: View) -> PlanInputs:
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
    prospect = Prospect(*odds, coming, usual, view.keeps, lasting)
    return PlanInputs(
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
        alive=beliefs.alive(view.others),
        going_on=followed * (1.0 - coming.longer(ttls[0].seconds)),
        repeated=repeated,
        gain=ttls[0].write - facts.read,
        last=last,
        tokens=tokens,
        found=_Remembered(partial(_found, prefix, warm)).__getitem__,
    )


def _loop(prefix: Prefixes, beliefs: Beliefs) -> tuple[int, float]:
    """As in `PlanInputs`."""
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


def without_own(scene: PlanInputs) -> PlanInputs:
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


def _marks(scene: PlanInputs, chosen: Sequence[Candidate]) -> list[Breakpoint]:
    """The markers that count, ascending; candidates are none where they do not."""
    marks = [one.mark for one in chosen]
    marks += scene.counting
    marks.sort(key=_at)
    return marks


_at = attrgetter("at")


def expected_bill(scene: PlanInputs, chosen: Sequence[Candidate]) -> Expected:
    """What this request is expected to be billed for when the ledger is right."""
    marks = reaching(scene.tokens, _marks(scene, chosen), scene.facts.min_tokens)
    return _charge(scene, marks, -1 if scene.view.given_up else _hit(scene, marks))


def _charge(scene: PlanInputs, marks: Sequence[Breakpoint], hit: int) -> Expected:
    tokens = scene.tokens
    return charge(scene.facts, reach_of(marks, tokens), read=tokens(hit), total=tokens(scene.last))


def _hit(scene: PlanInputs, marks: Sequence[Breakpoint]) -> int:
    if scene.facts.physics != "markers":
        return hit_of(scene.prefix, marks, scene.warm.__contains__, scene.facts.lookback_planned) if scene.warm else -1
    for mark in reversed(marks):
        hit = scene.found(mark.at)
        if hit >= 0:
            return hit
    return -1


def expected_cost(scene: PlanInputs, chosen: Sequence[Candidate]) -> float:
    """The figure that is minimised; see the module's docstring."""
    marks = _marks(scene, chosen)
    hit = _hit(scene, marks)
    if not marks or marks[0].ttl == marks[-1].ttl:  # longer lifetimes come first, so all are the same
        cost, cold = _prices(scene, marks, scene.tokens(hit) if hit >= 0 else 0.0)
    else:
        cost, cold = _price(scene, marks, hit), _price(scene, marks, -1)
    if hit >= 0:
        alive = scene.alive
        cost = alive * cost + (1 - alive) * cold
    return cost - _worth(scene, [mark for mark in marks if mark.at > hit], hit)


def _prices(scene: PlanInputs, marks: Sequence[Breakpoint], read: float) -> tuple[float, float]:
    """The price of this request when `read` tokens are, and when none are, with `marks` of one lifetime."""
    total = scene.tokens(scene.last)
    ttl = scene.facts.ttl(marks[-1].ttl) if marks else None
    if ttl is None:
        return total - read + read * scene.facts.read, total
    reach = scene.tokens(marks[-1].at)
    written = max(reach - read, 0.0)
    premium = ttl.write - 1
    return total - read + read * scene.facts.read + written * premium, total + reach * premium


def _price(scene: PlanInputs, marks: Sequence[Breakpoint], hit: int) -> float:
    """The price of this request when the prefix up to `hit` is read, by the arithmetic of `ledger.charge`."""
    bill = _charge(scene, marks, hit)
    cost = bill.read * scene.facts.read + bill.uncached
    for label, tokens in bill.write.items():
        ttl = scene.facts.ttl(label)
        cost += tokens * (ttl.write if ttl is not None else 1.0)
    return cost


def _worth(scene: PlanInputs, written: Sequence[Breakpoint], hit: int) -> float:
    """What entries on this prompt's path are expected to save later, in uncached tokens; `written` end those new."""
    worth = 0.0
    for life, held in zip(scene.lives, scene.held, strict=True):
        if life is scene.lives[0]:
            places = [mark.at for mark in written]
        else:
            places = [mark.at for mark in written if mark.ttl == life.ttl.label]
            if scene.facts.ages == "blocks" and hit >= 0 and hit not in held:
                places = []  # what stands before it does not live as long
            if not places and not held:
                continue
        if life.own:
            worth += _own_worth(scene, life, held, places)
        before = 0.0
        for end, lent in zip(scene.beginnings, life.lent, strict=True):
            tokens = _shared(scene, held, places, end)
            worth += lent * (tokens - before)
            before = tokens
    if scene.repeated:
        last = _held_before(scene.last + 1, scene.warm, [mark.at for mark in written])
        ends = scene.beginnings[-1:]
        shared = _shared(scene, scene.warm, [mark.at for mark in written], ends[0]) if ends else 0.0
        again = max(scene.tokens(last) * scene.survives(last) - shared, 0.0)
        worth += scene.gain * scene.repeated * again
    return worth


def _own_worth(scene: PlanInputs, life: Longevity, held: Sequence[int], written: Sequence[int]) -> float:
    """What the conversation itself saves by the longest prefix that is held: each token as likely as it comes back.

    What a longer life adds comes after a pause, and so is what it keeps of a loop.
    """
    worth = before = 0.0
    loop, late = scene.loop if life is not scene.lives[0] else (scene.last + 1, 1.0)
    for n, (start, comes_back) in enumerate(scene.survival, 1):
        end = scene.survival[n][0] if n < len(scene.survival) else scene.last + 1
        tokens = scene.tokens(_held_before(end, held, written))
        if tokens > before:
            worth += (tokens - before) * (
                life.own * comes_back if start < loop else life.in_loop * min(comes_back, late)
            )
            before = tokens
    return worth


def _shared(scene: PlanInputs, held: Sequence[int], written: Sequence[int], end: int) -> float:
    """Tokens up to the segment `end` that are held: the most of them.

    Whether sessions begin alike was counted for a session's first prompt as it is; behind it, a prefix is as likely to
    be what others begin with as it comes back.
    """
    most = 0.0
    for places in (held, written):
        for at in places:
            if at > end:
                break
            most = max(most, scene.tokens(at) * (scene.survives(at) if scene.view.state.turns else 1.0))
    return most


def _held_before(end: int, held: Sequence[int], written: Sequence[int]) -> int:
    """The last segment before `end` whose prefix is held once those up to `written` are; -1 where there is none."""
    i, j = bisect_left(held, end), bisect_left(written, end)
    return max(held[i - 1] if i else -1, written[j - 1] if j else -1)
