"""What a set of markers is expected to cost: this request now, and what it saves later.

With w and r the prices of a written and a read token, p that the next request comes in time and s(i) that the prefix
up to i comes back, the figure is, in uncached tokens,

    cost of this request with the markers  -  (w - r) · p · Σ over entries held afterwards of (their tokens beyond the
    one before) · s(i)  -  the same for the static part, with the probability that another session shares it, and for
    the rest of a first prompt, with the probability that another session repeats it

The second term uses w - r because what is not held then would be written then. For one tail marker this gives the rule
of thumb of the field: write it if p·s > (w - 1)/(w - r), 0.22 for a 5-minute entry read at a tenth.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple, TypeVar

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.ledger import Mark, charge, found, hit_of
from agentaccel.cache.marks import marks_of, reaching, turn_of
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.scale import Scale, scale
from agentaccel.cache.state import State
from agentaccel.cache.survival import survival, survives
from agentaccel.facts import CacheFacts, Ttl, priors
from agentaccel.types import Expected

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
    """The user's choice of lifetime, or "auto" for the provider's default."""


class Candidate(NamedTuple):
    """A segment that could carry a marker of ours."""

    mark: Mark
    reason: str

    @property
    def at(self) -> int:
        return self.mark.at


class Scene(NamedTuple):
    """One request with all that its evaluation needs, worked out once."""

    prefix: Prefixes
    view: View
    facts: CacheFacts
    scale: Scale
    survival: tuple[tuple[int, float], ...]
    """Ascending (segment, probability that the prefixes from there on come back)."""
    existing: tuple[Mark, ...]
    """The user's markers."""
    counting: tuple[Mark, ...]
    """Those of them whose prefix may reach the minimum; the others do nothing."""
    ttl: Ttl
    """The lifetime we mark with, unless the request's own markers leave another one."""
    tools: int
    """The last segment of the tools; -1 where there is none."""
    static: int
    """The last segment of tools and system; -1 where there is none."""
    warm: tuple[int, ...]
    """Segments whose prefix is believed to be held now, ascending."""
    unseen: frozenset[int]
    """Those of them that the provider wrote by itself, and that a request which switches that off does not find."""
    going_on: float
    """That the conversation goes on in time."""
    shared: float
    """That another session begins with the static part in time, alone or with the whole prompt."""
    repeated: float
    """That another session begins with the whole prompt in time; 0 where it is not a first one."""
    gain: float
    """What a token read from an entry of ours saves over writing it then: w - r."""
    kept: float
    """Tokens of the static part that are warm, each prefix as likely as it comes back: the most of them."""
    last: int
    """The last segment of the prompt."""
    tokens: Callable[[int], float]
    """Tokens of the prefix that ends with segment i, inclusive; 0 for -1."""
    found: Callable[[int], int]
    """The longest prefix believed to be held that a marker at segment i finds; -1 where it finds none."""

    def survives(self, i: int) -> float:
        return survives(self.survival, i)

    def held_before(self, end: int, written: Sequence[int]) -> int:
        """The last segment before `end` whose prefix is held once those up to `written` are; -1 where there is none."""
        i, j = bisect_left(self.warm, end), bisect_left(written, end)
        held, fresh = self.warm[i - 1] if i else -1, written[j - 1] if j else -1
        return max(held, fresh)


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
    turn, beliefs, now = turn_of(prompt), view.beliefs, view.now
    repeated = 0.0 if turn else beliefs.repeated()
    steps = survival(prefix, beliefs, view.cut)
    warm = tuple(sorted([i for i, entry in entries.items() if entry.visible <= now < entry.expires]))
    counts = {i: entry.tokens for i, entry in entries.items()}
    measure = scale(prefix, counts, beliefs.bytes_per_token(prompt.model))
    tokens = _Remembered(measure).__getitem__
    existing = marks_of(prefix, prompt.markers) if prompt.markers or facts.physics == "automatic" else ()
    # A lifetime that the request asks for all its markers is that of ours, too.
    ttl = facts.ttl(prompt.ttl) or facts.ttl(view.ttl) or facts.ttls[0]
    return Scene(
        prefix=prefix,
        view=view,
        facts=facts,
        scale=measure,
        survival=steps,
        existing=existing,
        counting=tuple([mark for mark in existing if reaches_minimum(measure, facts, mark.at)]),
        ttl=ttl,
        tools=system - 1,
        static=messages - 1,
        warm=warm,
        unseen=frozenset([i for i in warm if entries[i].own]) if facts.physics == "breakpoints" else _NONE,
        going_on=beliefs.goes_on(turn, tools=system > 0),
        shared=max(beliefs.shared(), repeated),
        repeated=repeated,
        gain=ttl.write - facts.read,
        last=len(prefix.hashes) - 1,
        tokens=tokens,
        found=_Remembered(partial(_found, prefix, warm)).__getitem__,
        kept=_kept(warm, messages, tokens, steps),
    )


def _found(prefix: Prefixes, warm: Sequence[int], at: int) -> int:
    if not warm or warm[0] > at:
        return -1
    return found(prefix, at, warm.__contains__, prefix.facts.lookback_planned)


_NONE = frozenset[int]()


def without_own(scene: Scene) -> Scene:
    """The scene of the same request where the provider sets no breakpoint by itself."""
    warm = tuple([i for i in scene.warm if i not in scene.unseen])
    return scene._replace(
        existing=tuple([mark for mark in scene.existing if not mark.own]),
        counting=tuple([mark for mark in scene.counting if not mark.own]),
        warm=warm,
        kept=_kept(warm, scene.static + 1, scene.tokens, scene.survival),
    )


def _kept(
    warm: Sequence[int], messages: int, tokens: Callable[[int], float], steps: Sequence[tuple[int, float]]
) -> float:
    return max([tokens(i) * survives(steps, i) for i in warm if i < messages], default=0.0)


def reaches_minimum(tokens: Scale, facts: CacheFacts, at: int) -> bool:
    """Whether the prefix may reach the minimum. A marker below it does nothing, so doubt is resolved in its favour."""
    slack = _SLACK_CALIBRATED if tokens.calibrated else _SLACK_UNCALIBRATED
    return tokens(at) * slack >= facts.min_tokens


_SLACK_CALIBRATED = 1.15
_SLACK_UNCALIBRATED = 2.0
"""Tokens may be this many times the estimate before a count of the provider has been seen, and after."""


def _marks(scene: Scene, chosen: Sequence[Candidate]) -> list[Mark]:
    """The markers that count, ascending; candidates are none where they do not."""
    marks = [one.mark for one in chosen]
    marks += scene.counting
    marks.sort(key=_at)
    return marks


_at = attrgetter("at")


def expected_bill(scene: Scene, chosen: Sequence[Candidate]) -> Expected:
    """What this request is expected to be billed for when the ledger is right."""
    marks = reaching(scene.tokens, _marks(scene, chosen), scene.facts.min_tokens)
    return charge(scene.facts, marks, scene.tokens, hit=_hit(scene, marks), total=scene.tokens(scene.last))


def _hit(scene: Scene, marks: Sequence[Mark]) -> int:
    if scene.facts.physics != "markers":
        return hit_of(scene.prefix, marks, scene.warm.__contains__, scene.facts.lookback_planned) if scene.warm else -1
    for mark in reversed(marks):
        hit = scene.found(mark.at)
        if hit >= 0:
            return hit
    return -1


def expected_cost(scene: Scene, chosen: Sequence[Candidate]) -> float:
    """The figure that is minimised; see the module's docstring."""
    marks = _marks(scene, chosen)
    hit = _hit(scene, marks)
    if not marks or marks[0].ttl == marks[-1].ttl:  # longer lifetimes come first, so all are the same
        cost, cold = _prices(scene, marks, scene.tokens(hit) if hit >= 0 else 0.0)
    else:
        cost, cold = _price(scene, marks, hit), _price(scene, marks, -1)
    if hit >= 0:
        alive = priors().entry_alive
        cost = alive * cost + (1 - alive) * cold
    return cost - _worth(scene, [mark.at for mark in marks if mark.at > hit])


def _prices(scene: Scene, marks: Sequence[Mark], read: float) -> tuple[float, float]:
    """The price of this request when `read` tokens are, and when none are, with `marks` of one lifetime."""
    total = scene.tokens(scene.last)
    ttl = scene.facts.ttl(marks[-1].ttl) if marks else None
    if ttl is None:
        return total - read + read * scene.facts.read, total
    reach = scene.tokens(marks[-1].at)
    written = max(reach - read, 0.0)
    premium = ttl.write - 1
    return total - read + read * scene.facts.read + written * premium, total + reach * premium


def _price(scene: Scene, marks: Sequence[Mark], hit: int) -> float:
    """The price of this request when the prefix up to `hit` is read, by the arithmetic of `ledger.charge`."""
    bill = charge(scene.facts, marks, scene.tokens, hit=hit, total=scene.tokens(scene.last))
    cost = bill.read * scene.facts.read + bill.uncached
    for label, tokens in bill.write.items():
        ttl = scene.facts.ttl(label)
        cost += tokens * (ttl.write if ttl is not None else 1.0)
    return cost


def _worth(scene: Scene, written: Sequence[int]) -> float:
    """What entries on this prompt's path are expected to save later, in uncached tokens; `written` end those new."""
    own = before = 0.0
    for n, (_, comes_back) in enumerate(scene.survival, 1):
        end = scene.survival[n][0] if n < len(scene.survival) else scene.last + 1
        tokens = scene.tokens(scene.held_before(end, written))
        if tokens > before:
            own += (tokens - before) * comes_back
            before = tokens
    shared = scene.kept
    for at in written:
        if at > scene.static:
            break
        shared = max(shared, scene.tokens(at) * scene.survives(at))
    again = 0.0
    if scene.repeated:
        last = scene.held_before(scene.last + 1, written)
        again = scene.repeated * max(scene.tokens(last) * scene.survives(last) - shared, 0.0)
    return scene.gain * (scene.going_on * own + scene.shared * shared + again)
