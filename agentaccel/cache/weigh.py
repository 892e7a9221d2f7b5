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

from collections.abc import Sequence
from dataclasses import dataclass

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.ledger import Bill, Mark, bill
from agentaccel.cache.marks import marks_of, reaching, turn_of
from agentaccel.cache.places import TAIL, find
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.scale import Scale, scale
from agentaccel.cache.state import State
from agentaccel.facts import CacheFacts, priors


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A segment that could carry a marker of ours."""

    at: int
    ttl: str
    reason: str


@dataclass(frozen=True, slots=True)
class Scene:
    """One request with all that its evaluation needs."""

    prefix: Prefixes
    view: View
    tokens: Scale
    survival: tuple[tuple[int, float], ...]
    """Ascending (segment, probability that the prefixes from there on come back)."""
    existing: tuple[Mark, ...]
    """The user's markers."""
    going_on: float
    """That the conversation goes on in time."""
    static: int
    """The last segment of the static part; -1 where there is none."""
    warm: frozenset[int]
    """Segments whose prefix is believed to be held now."""

    @property
    def facts(self) -> CacheFacts:
        return self.prefix.facts

    @property
    def gain(self) -> float:
        """What a token read from an entry of ours saves over writing it then: w - r, for the lifetime we mark with."""
        ttl = self.facts.ttl(self.view.ttl) or self.facts.ttls[0]
        return ttl.write - self.facts.read

    def survives(self, i: int) -> float:
        value = 1.0
        for start, probability in self.survival:
            if start > i:
                break
            value = probability
        return value

    def live(self, i: int) -> bool:
        return i in self.warm


def scene_of(prefix: Prefixes, view: View) -> Scene:
    prompt, state = prefix.prompt, view.state
    known = {hash_: entry.tokens for hash_, entry in state.ledger.entries.items() if entry.tokens is not None}
    static = [i for i, segment in enumerate(prompt.segments) if segment.level != "messages"]
    return Scene(
        prefix=prefix,
        view=view,
        tokens=scale(prefix, known, view.beliefs.bytes_per_token(prompt.model)),
        survival=survival(prefix, view),
        existing=marks_of(prefix, prompt.markers),
        going_on=view.beliefs.goes_on(turn_of(prompt), tools=any(s.level == "tools" for s in prompt.segments)),
        static=static[-1] if static else -1,
        warm=frozenset(index for hash_, index in prefix.index.items() if state.ledger.live(hash_, view.now))
        if state.ledger.entries
        else frozenset(),
    )


def survival(prefix: Prefixes, view: View) -> tuple[tuple[int, float], ...]:
    """The probability that prefixes come back, as steps at the places that have been seen to change."""
    beliefs = view.beliefs
    steps: list[tuple[int, float]] = [(0, beliefs.stable("any"))]
    for name in beliefs.unstable_places():
        if name in ("any", TAIL):
            continue
        place = find(prefix, name)
        if place is not None:
            steps.append((place.index, beliefs.stable(name)))
    if view.cut:
        steps.append((max(len(prefix.hashes) - view.cut, 0), beliefs.stable(TAIL)))
    steps.sort()
    value, product = 1.0, []
    for start, probability in steps:
        value *= probability
        product.append((start, value))
    return tuple(product)


def reaches_minimum(scene: Scene, at: int) -> bool:
    """Whether the prefix may reach the minimum. A marker below it does nothing, so doubt is resolved in its favour."""
    slack = _SLACK_CALIBRATED if scene.tokens.calibrated else _SLACK_UNCALIBRATED
    return scene.tokens(at) * slack >= scene.facts.min_tokens


_SLACK_CALIBRATED = 1.15
_SLACK_UNCALIBRATED = 2.0
"""Tokens may be this many times the estimate before a count of the provider has been seen, and after."""


def _marks(scene: Scene, chosen: Sequence[Candidate]) -> tuple[Mark, ...]:
    added = (Mark(one.at, one.ttl) for one in chosen)
    marks = sorted((*scene.existing, *added), key=lambda mark: mark.at)
    return tuple(mark for mark in marks if reaches_minimum(scene, mark.at))


def bill_now(scene: Scene, chosen: Sequence[Candidate]) -> Bill:
    """What this request is expected to do when the ledger is right."""
    marks = reaching(scene.tokens, _marks(scene, chosen), scene.facts.min_tokens)
    return bill(scene.prefix, marks, scene.live, scene.tokens, scene.facts.lookback_planned)


def _price(scene: Scene, done: Bill) -> float:
    write = sum(_write_price(scene, label) * tokens for label, tokens in done.expected.write.items())
    return done.expected.read * scene.facts.read + write + done.expected.uncached


def _write_price(scene: Scene, label: str) -> float:
    ttl = scene.facts.ttl(label)
    return ttl.write if ttl is not None else 1.0


def expected_cost(scene: Scene, chosen: Sequence[Candidate]) -> float:
    """The figure that is minimised; see the module's docstring."""
    marks = _marks(scene, chosen)
    facts, alive = scene.facts, priors().entry_alive
    warm = bill(scene.prefix, marks, scene.live, scene.tokens, facts.lookback_planned)
    cost = _price(scene, warm)
    if warm.hit >= 0:
        cold = bill(scene.prefix, marks, lambda i: False, scene.tokens, facts.lookback_planned)
        cost = alive * cost + (1 - alive) * _price(scene, cold)
    held = {mark.at for mark in warm.written} | scene.warm
    return cost - _worth(scene, held)


def _worth(scene: Scene, held: frozenset[int] | set[int]) -> float:
    """What entries on this prompt's path are expected to save later, in uncached tokens."""
    own = before = 0.0
    for at in sorted(held):
        tokens = scene.tokens(at)
        own += (tokens - before) * scene.survives(at)
        before = tokens
    shared_at = max((at for at in held if at <= scene.static), default=-1)
    shared = scene.tokens(shared_at) * scene.survives(shared_at) if shared_at >= 0 else 0.0
    beliefs = scene.view.beliefs
    again = 0.0
    if held and not turn_of(scene.prefix.prompt):
        last = max(held)
        again = beliefs.repeated() * (scene.tokens(last) * scene.survives(last) - shared)
    return scene.gain * (scene.going_on * own + beliefs.shared() * shared + again)
