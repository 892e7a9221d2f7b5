"""Which of the predicted calls are run early: those whose expected benefit exceeds what they cost.

A run of `L` seconds that is begun now and needed in `R` hides min(L, R) of them. With p the probability that the call
is made, a candidate is worth

    p · E[min(L, R)]  -  (1 - p) · λ · c  -  start  -  privacy  -  what giving its slot back delays

seconds, where c is what a run costs and λ the price of a wasted second, which rises with load, with the use of the rate
limit and while too much is wasted. What is worth more than a margin is launched, best value for its cost first, as far
as budgets, breakers and slots go (reference: Cost-Aware Speculation, 2606.07846). A probability is that of the very
call, whatever else is launched, so guesses of which at most one can be right need no discount of their own.

Nothing is asked about what a tool, a model or a workload is called: all of them are told apart by what they did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from agentaccel.predict.breaker import ALL, LaunchPrices, stated
from agentaccel.predict.experience import Experience
from agentaccel.predict.latency import Runway
from agentaccel.types import Launchable, Prediction

Refusal = Literal[
    "its effect forbids it",
    "guesses may not leave the machine",
    "its pattern is given up",
    "speculation does not pay here",
    "the rate limit is nearly used up",
    "not worth it",
    "no slot to spare",
    "enough at one moment",
    "enough for one session",
    "enough altogether",
]
"""Why a candidate is not launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCandidate:
    """A predicted call, and what of its tool matters to the decision."""

    prediction: Prediction
    launchable: Launchable
    """What the verdict about its effect allows."""
    egress: bool = False
    """Its owner allows guesses of it to leave the machine: what may be run once the model has asked may then be run on
    a prediction, at the price of privacy."""
    host: str = ""
    """Whose slots a run takes."""
    cost: float | None = None
    """What a run that nobody asks for costs, in seconds; None for as long as it takes."""
    gives_back: float | None = None
    """Seconds until its slot is free once it is cancelled; None where it goes on to its end, as a thread does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What runs tools, and how busy it is."""

    free: int | None = None
    """Slots that nothing takes; None where their number is not limited."""
    slots: int | None = None
    """All of them."""
    needed: int = 1
    """Slots that real calls have been seen to need at once, of late."""
    headroom: float = 1.0
    """The share of its rate limit that is left."""
    rate: int | None = None
    """Runs that its rate limit allows, of which that is a share; None where they are not counted."""

    @property
    def load(self) -> float:
        """The greater of the shares that are used of its slots and of its rate limit."""
        taken = 0.0 if self.free is None or not self.slots else 1.0 - self.free / self.slots
        return max(taken, 1.0 - self.headroom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much is under way."""

    hosts: Mapping[str, Host] = field(default_factory=dict)
    """By name; one that is not listed has no limits."""
    kept: int = 0
    """Early runs and results that wait in this session."""
    running: int = 0
    """Early runs under way in all sessions."""
    start: float | None = None
    """Seconds that starting a run was measured to cost the event loop; None for what is stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is launched now, best first, and why the others are not."""

    launch: tuple[Prediction, ...] = ()
    refused: tuple[tuple[Prediction, Refusal], ...] = ()


def decide(
    candidates: Sequence[LaunchCandidate],
    *,
    experience: Experience,
    runway: Runway,
    load: Load,
    now: float,
    budget: int | None = None,
) -> Decision:
    """Launch or abstain, for each candidate. `now` is wall time; `budget` is the most that may be launched at this
    moment (None: what is stated), 0 launches nothing.

    >>> from agentaccel.types import ToolCall
    >>> learned = Experience()
    >>> for _ in range(20):
    ...     learned.latencies.saw("search", 2.0)
    ...     learned.replied(3.0)
    >>> def guess(p):
    ...     call = ToolCall(name="search", arguments={"query": str(p)})
    ...     return LaunchCandidate(prediction=Prediction(call=call, probability=p), launchable="predicted")
    >>> done = decide([guess(0.6), guess(0.001)], experience=learned, runway=learned.runway(), load=Load(), now=0.0)
    >>> [one.probability for one in done.launch], [why for _, why in done.refused]
    ([0.6], ['not worth it'])
    """
    prices = stated()
    room = _Room(experience, load, prices, now, prices.per_trigger if budget is None else budget)
    if (why := room.none()) is not None:
        return Decision(refused=tuple((one.prediction, _forbidden(one, load, prices) or why) for one in candidates))
    scale = _Scale(experience, runway, load, prices)
    refused: list[tuple[Prediction, Refusal]] = []
    worth: list[tuple[float, int]] = []
    for at in sorted(range(len(candidates)), key=lambda i: -_likely(candidates[i].prediction)):
        candidate = candidates[at]
        if (why := _forbidden(candidate, load, prices)) is None and room.slots(candidate) <= 0:
            why = "no slot to spare"
        if why is None:
            net, cost = scale.weigh(candidate)
            if net > prices.margin:
                worth.append((-net / cost, at))
                continue
            why = "not worth it"
        refused.append((candidate.prediction, why))
    launch = []
    for _, at in sorted(worth):
        why = room.take(candidates[at])
        if why is None:
            launch.append(candidates[at].prediction)
        else:
            refused.append((candidates[at].prediction, why))
    return Decision(launch=tuple(launch), refused=tuple(refused))


def _likely(prediction: Prediction) -> float:
    return max(prediction.soon, prediction.probability)


def _forbidden(candidate: LaunchCandidate, load: Load, prices: LaunchPrices) -> Refusal | None:
    if candidate.launchable == "asked" and not candidate.egress:
        return "guesses may not leave the machine"
    if candidate.launchable not in ("predicted", "asked"):
        return "its effect forbids it"
    host = load.hosts.get(candidate.host)
    if host is not None and host.headroom < prices.headroom:
        return "the rate limit is nearly used up"
    return None


class _Scale:
    """What candidates are worth, in seconds."""

    def __init__(self, experience: Experience, runway: Runway, load: Load, prices: LaunchPrices) -> None:
        self._experience, self._runway, self._load, self._prices = experience, runway, load, prices
        self._start = prices.start if load.start is None else load.start
        self._known: dict[tuple[str, str], _Run] = {}

    def weigh(self, candidate: LaunchCandidate) -> tuple[float, float]:
        """The net benefit, and what a run costs."""
        prediction = candidate.prediction
        run = self._run(prediction.call.name, candidate.host)
        believed = self._experience.breakers.trust(prediction.rule)
        next_, ever = prediction.probability * believed, _likely(prediction) * believed
        cost = run.whole if candidate.cost is None else candidate.cost
        net = next_ * run.next + (ever - next_) * run.later - (1.0 - ever) * run.price * cost - self._start
        if candidate.launchable == "asked":
            net -= self._prices.privacy
        if candidate.gives_back:
            net -= (1.0 - next_) * run.pressed * candidate.gives_back
        return net, max(cost, self._start)

    def _run(self, tool: str, name: str) -> _Run:
        found = self._known.get((tool, name))
        if found is None:
            latencies, host = self._experience.latencies, self._load.hosts.get(name)
            soon, whole = latencies.overlap(tool, self._runway.next), latencies.mean(tool)
            found = self._known[tool, name] = _Run(
                next=soon,
                later=latencies.overlap(tool, self._runway.later),
                whole=whole,
                price=self._prices.of_load(host.load if host is not None else 0.0) + self._experience.surcharge,
                pressed=1.0 - soon / whole if _presses(host) and whole > 0.0 else 0.0,
            )
        return found


class _Run(NamedTuple):
    """A run of a tool on a host, in seconds."""

    next: float
    """Of it, what the next reply hides."""
    later: float
    """The same for a later one."""
    whole: float
    price: float
    """Of a second that is wasted."""
    pressed: float
    """How likely it is in the way of a real call, if it is not what that asks for."""


def _presses(host: Host | None) -> bool:
    """Whether real calls may need a slot that an early run takes."""
    return host is not None and host.free is not None and host.free <= max(host.needed, 1)


class _Room:
    """What budgets, breakers and slots leave, as launches take it."""

    def __init__(self, experience: Experience, load: Load, prices: LaunchPrices, now: float, budget: int) -> None:
        self._breakers, self._load, self._prices, self._now = experience.breakers, load, prices, now
        self._budgets: list[tuple[int, Refusal]] = [
            (self._breakers.room(ALL, now), "speculation does not pay here"),
            (budget, "enough at one moment"),
            (prices.per_session - load.kept, "enough for one session"),
            (prices.altogether - load.running, "enough altogether"),
        ]
        self._launched = 0
        self._by_rule: dict[str, int] = {}
        self._by_host: dict[str, int] = {}

    def none(self) -> Refusal | None:
        """Why there is no room for anything; None where there is some."""
        return next((why for most, why in self._budgets if self._launched >= most), None)

    def take(self, candidate: LaunchCandidate) -> Refusal | None:
        """Make room for a launch, or say why there is none."""
        rule, host = candidate.prediction.rule, candidate.host
        if (why := self.none()) is not None:
            return why
        if self._by_rule.get(rule, 0) >= self._breakers.room(rule, self._now):
            return "its pattern is given up"
        if self._by_host.get(host, 0) >= self.slots(candidate):
            return "no slot to spare"
        self._launched += 1
        self._by_rule[rule] = self._by_rule.get(rule, 0) + 1
        self._by_host[host] = self._by_host.get(host, 0) + 1
        return None

    def slots(self, candidate: LaunchCandidate) -> int:
        """The slots of its host that it may take. The last free one stays with real calls, and so do as many as they
        need: only a run that gives its slot back at once may stand in one of those until a real call comes. Nor does
        what is begun at one moment reach into the share of the rate limit that is theirs."""
        host = self._load.hosts.get(candidate.host)
        most = self._prices.altogether
        if host is not None and host.rate is not None:
            most = min(most, int((host.headroom - self._prices.headroom) * host.rate + 1e-9))
        if host is None or host.free is None:
            return most
        at_once = candidate.gives_back is not None and candidate.gives_back <= self._prices.gives_back
        return min(most, host.free if at_once else host.free - max(host.needed, 1))
