"""Where to put markers: the set with the least expected cost over this request and the next.

A marker costs a write premium on the tokens between the longest live entry and the last marker; markers before the
last one cost nothing. It pays if another request reads what it wrote: if the conversation goes on in time, and if
nothing up to the marker has changed by then. Both are probabilities, stated first and learned later (`beliefs`).

With w and r the prices of a written and a read token, p that the next request comes in time and s(i) that the prefix
up to i comes back, the figure minimised over sets of markers M is, in uncached tokens,

    cost of this request with M  -  (w - r) · p · Σ over entries held afterwards of (their tokens beyond the one
    before) · s(i)  -  the same for the static part, with the probability that another session shares it

The second term uses w - r because what is not held then would be written then. For one tail marker this gives the rule
of thumb of the field: write it if p·s > (w - 1)/(w - r), 0.22 for a 5-minute entry read at a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.ledger import Bill, Mark, bill
from agentaccel.cache.places import TAIL, find
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.price import PriceCard
from agentaccel.cache.scale import Scale, scale
from agentaccel.cache.state import State
from agentaccel.facts import CacheFacts, Ttl, priors
from agentaccel.types import CachePlan, Marker, Prompt, show_path


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
    price: PriceCard | None = None
    """Only for stating the cost in money; the choice is made in multiples of an uncached token."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A segment that could carry a marker of ours."""

    at: int
    ttl: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Scene:
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

    def survives(self, i: int) -> float:
        value = 1.0
        for start, probability in self.survival:
            if start > i:
                break
            value = probability
        return value

    def live(self, i: int) -> bool:
        return i in self.warm


def plan(prefix: Prefixes, view: View) -> CachePlan:
    """The markers to add to the request of `prefix`, each with its reason; possibly none."""
    prompt = prefix.prompt
    refusal = _refusal(prompt)
    if refusal:
        return CachePlan(reasons=(refusal,))
    scene = _scene(prefix, view)
    room = scene.facts.max_markers - len(prompt.markers)
    candidates = [one for one in _candidates(scene) if _reaches_minimum(scene, one.at)]
    chosen = _choose(scene, candidates, room) if room > 0 else ()
    reasons = list(_remarks(scene, candidates, chosen, room))
    bill_, cost = _cost(scene, chosen)
    bare = _expected_cost(scene, ())
    return CachePlan(
        markers=tuple(Marker(path=_path(prefix, one.at), ttl=one.ttl, reason=one.reason, ours=True) for one in chosen),
        reasons=tuple(reasons),
        expected=bill_.expected,
        expected_cost=None if view.price is None else cost * view.price.input,
        saving=bare - _expected_cost(scene, chosen),
    )


def marks_of(prefix: Prefixes, markers: Sequence[Marker]) -> tuple[Mark, ...]:
    """`markers` of a request as the segments whose prefix they end, ascending; a nested one ends its block's.

    The top-level marker stands on the last block that can carry one; where none can, it does nothing.
    """
    segments = prefix.prompt.segments
    by_path = {segment.path: i for i, segment in enumerate(segments)}
    marks: list[Mark] = []
    for marker in markers:
        at = by_path.get(marker.path)
        if marker.path == ():
            at = next((i for i in reversed(range(len(segments))) if segments[i].markable), None)
        elif at is None:
            at = next(
                (by_path[marker.path[:n]] for n in range(len(marker.path), 0, -1) if marker.path[:n] in by_path), None
            )
        if at is not None:
            marks.append(Mark(at, marker.ttl))
    return tuple(sorted(marks, key=lambda mark: mark.at))


def reaching(scene_tokens: Scale, marks: Sequence[Mark], minimum: int) -> tuple[Mark, ...]:
    """The marks whose prefix reaches the model's minimum: the others are silently ignored by the provider."""
    return tuple(mark for mark in marks if scene_tokens(mark.at) >= minimum)


def _refusal(prompt: Prompt) -> str:
    """Why this request is left exactly as it is; empty where it can be planned."""
    if prompt.held:
        return f"left as it is: the provider holds the history ({prompt.held})"
    if prompt.illegal:
        return f"left as it is: the provider will reject it as written ({prompt.illegal[0]})"
    if not prompt.messages or not prompt.segments:
        return "left as it is: it has no messages"
    return ""


def _scene(prefix: Prefixes, view: View) -> _Scene:
    prompt, state = prefix.prompt, view.state
    known = {hash_: entry.tokens for hash_, entry in state.ledger.entries.items() if entry.tokens is not None}
    static = [i for i, segment in enumerate(prompt.segments) if segment.level != "messages"]
    return _Scene(
        prefix=prefix,
        view=view,
        tokens=scale(prefix, known, view.beliefs.bytes_per_token(prompt.model)),
        survival=_survival(prefix, view),
        existing=marks_of(prefix, prompt.markers),
        going_on=view.beliefs.goes_on(turn_of(prompt), tools=any(s.level == "tools" for s in prompt.segments)),
        static=static[-1] if static else -1,
        warm=frozenset(index for hash_, index in prefix.index.items() if state.ledger.live(hash_, view.now))
        if state.ledger.entries
        else frozenset(),
    )


def turn_of(prompt: Prompt) -> int:
    """How many replies the prompt holds: 0 for a first request, in whichever process it is made."""
    replies = {segment.path[1] for segment in prompt.segments if segment.role == "assistant"}
    return len(replies)


def _survival(prefix: Prefixes, view: View) -> tuple[tuple[int, float], ...]:
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


def _candidates(scene: _Scene) -> list[Candidate]:
    """Places worth a marker, most valuable first; at most one per segment."""
    prompt = scene.prefix.prompt
    segments = prompt.segments
    ends: list[tuple[int, str]] = []
    tail = _new_tail(prompt)
    previous = _before_last_reply(prompt)
    tools = max((i for i, s in enumerate(segments) if s.level == "tools"), default=-1)
    breaks = [start for start, _ in scene.survival if start > 0]
    ends.append((tail, "new tail: the next request of this conversation reads up to here"))
    ends.append((previous, "previous tail: the last request wrote here, so a lookback limit cannot lose it"))
    ends.append((scene.static, "end of system: every request with these instructions shares it"))
    ends.append((tools, "end of tools: survives a change of the system prompt"))
    ends.extend((start - 1, "last place before text that keeps changing") for start in reversed(breaks))
    ends.append((max(scene.warm, default=-1), "longest prefix that is still warm"))
    found: dict[int, Candidate] = {}
    taken = {mark.at for mark in scene.existing}
    for end, reason in ends:
        at = next((i for i in range(min(end, len(segments) - 1), -1, -1) if segments[i].markable), -1)
        if at < 0 or at in found or at in taken:
            continue
        ttl = _ttl_at(scene, at)
        if ttl is not None:
            found[at] = Candidate(at, ttl.label, reason)
    return list(found.values())


def _new_tail(prompt: Prompt) -> int:
    """The end of the prompt, or of what stands before a prefilled answer, which the next request will have replaced."""
    segments = prompt.segments
    end = len(segments) - 1
    if end >= 0 and segments[end].role == "assistant" and segments[end].kind == "text":
        while end >= 0 and segments[end].role == "assistant":
            end -= 1
    return end


def _before_last_reply(prompt: Prompt) -> int:
    """The end of the previous request: what stands before the last reply of the model; -1 on a first request."""
    segments = prompt.segments
    end = _new_tail(prompt)
    while end >= 0 and segments[end].role != "assistant":
        end -= 1
    while end >= 0 and segments[end].role == "assistant":
        end -= 1
    return end if end >= 0 and segments[end].level == "messages" else -1


def _ttl_at(scene: _Scene, at: int) -> Ttl | None:
    """The lifetime a marker of ours may have at `at`: longer ones must come first, and the user's stay as they are."""
    facts = scene.facts
    wanted = facts.ttl(scene.view.ttl) or facts.ttls[0]
    seconds = {ttl.label: ttl.seconds for ttl in facts.ttls}
    ceiling = min((seconds[mark.ttl] for mark in scene.existing if mark.at < at), default=float("inf"))
    floor = max((seconds[mark.ttl] for mark in scene.existing if mark.at > at), default=0.0)
    if wanted.seconds > ceiling or wanted.seconds < floor:
        wanted = next((ttl for ttl in facts.ttls if floor <= ttl.seconds <= ceiling), wanted)
    return wanted if floor <= wanted.seconds <= ceiling else None


def _reaches_minimum(scene: _Scene, at: int) -> bool:
    """Whether the prefix may reach the minimum. A marker below it does nothing, so doubt is resolved in its favour."""
    slack = _SLACK_CALIBRATED if scene.tokens.calibrated else _SLACK_UNCALIBRATED
    return scene.tokens(at) * slack >= scene.facts.min_tokens


_SLACK_CALIBRATED = 1.15
_SLACK_UNCALIBRATED = 2.0
"""Tokens may be this many times the estimate before a count of the provider has been seen, and after."""


def _choose(scene: _Scene, candidates: Sequence[Candidate], room: int) -> tuple[Candidate, ...]:
    """The set of at most `room` candidates with the least expected cost; ties go to more markers, which are free."""
    best: tuple[float, int, tuple[Candidate, ...]] | None = None
    for size in range(min(room, len(candidates)), -1, -1):
        for chosen in combinations(candidates, size):
            cost = round(_expected_cost(scene, chosen), 6)
            # Among equals `combinations` gives the more valuable candidates first, and larger sets come first.
            if best is None or cost < best[0]:
                best = (cost, size, tuple(sorted(chosen, key=lambda one: one.at)))
    return best[2] if best is not None else ()


def _marks(scene: _Scene, chosen: Sequence[Candidate]) -> tuple[Mark, ...]:
    added = (Mark(one.at, one.ttl) for one in chosen)
    marks = sorted((*scene.existing, *added), key=lambda mark: mark.at)
    return tuple(mark for mark in marks if _reaches_minimum(scene, mark.at))


def _cost(scene: _Scene, chosen: Sequence[Candidate]) -> tuple[Bill, float]:
    """What this request is expected to do and cost, in uncached tokens, when the ledger is right."""
    marks = reaching(scene.tokens, _marks(scene, chosen), scene.facts.min_tokens)
    done = bill(scene.prefix, marks, scene.live, scene.tokens, scene.facts.lookback_planned)
    return done, _price(scene, done)


def _price(scene: _Scene, done: Bill) -> float:
    write = sum(_write_price(scene, label) * tokens for label, tokens in done.expected.write.items())
    return done.expected.read * scene.facts.read + write + done.expected.uncached


def _write_price(scene: _Scene, label: str) -> float:
    ttl = scene.facts.ttl(label)
    return ttl.write if ttl is not None else 1.0


def _expected_cost(scene: _Scene, chosen: Sequence[Candidate]) -> float:
    """The figure that is minimised; see the module's docstring."""
    marks = _marks(scene, chosen)
    facts, alive = scene.facts, priors().entry_alive
    warm = bill(scene.prefix, marks, scene.live, scene.tokens, facts.lookback_planned)
    cost = _price(scene, warm)
    if warm.hit >= 0:
        cold = bill(scene.prefix, marks, lambda i: False, scene.tokens, facts.lookback_planned)
        cost = alive * cost + (1 - alive) * _price(scene, cold)
    held = {mark.at for mark in warm.written} | scene.warm
    return cost - _worth(scene, held, facts)


def _worth(scene: _Scene, held: frozenset[int] | set[int], facts: CacheFacts) -> float:
    """What entries on this prompt's path are expected to save later, in uncached tokens."""
    gain = facts.ttls[0].write - facts.read
    own = before = 0.0
    for at in sorted(held):
        tokens = scene.tokens(at)
        own += (tokens - before) * scene.survives(at)
        before = tokens
    shared_at = max((at for at in held if at <= scene.static), default=-1)
    shared = scene.tokens(shared_at) * scene.survives(shared_at) if shared_at >= 0 else 0.0
    return gain * (scene.going_on * own + scene.view.beliefs.shared() * shared)


def _path(prefix: Prefixes, at: int) -> tuple[str | int, ...]:
    return prefix.prompt.segments[at].path


def _remarks(scene: _Scene, candidates: Sequence[Candidate], chosen: Sequence[Candidate], room: int) -> list[str]:
    """Why there are not more markers."""
    facts = scene.facts
    remarks: list[str] = []
    if scene.existing:
        remarks.append(f"{len(scene.existing)} marker(s) of the request kept; room for {max(room, 0)} more")
    if not candidates and not scene.existing:
        total = scene.tokens(len(scene.prefix.hashes) - 1)
        remarks.append(f"no marker: about {total:.0f} tokens, below the minimum of {facts.min_tokens}")
    for one in candidates:
        if one in chosen:
            continue
        place = show_path(_path(scene.prefix, one.at))
        survives, threshold = scene.survives(one.at), (facts.ttls[0].write - 1) / (facts.ttls[0].write - facts.read)
        if scene.going_on * survives < threshold:
            remarks.append(
                f"not at {place}: it comes back with probability {scene.going_on * survives:.2f}, "
                f"and a write pays from {threshold:.2f}"
            )
        else:
            remarks.append(f"not at {place}: a marker elsewhere does more")
    return remarks
