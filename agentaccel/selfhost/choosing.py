"""How an engine should guess tokens ahead for what is said to it: pure arithmetic over what a replay has found.

    choice = choose(candidates, Circumstances(engine="vllm", concurrency=8, step=step))
    choice.chosen.method, choice.chosen.speed, choice.plan

Decoding with a method is as many times as fast as it gives tokens a step, over what a step costs with it. The cost of a
step follows from how many tokens it verifies, at that many requests at once (`step_time`), and from what drafting costs
by itself; what was measured takes the place of both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agentaccel.facts import table
from agentaccel.selfhost.plan import Setting, Speculation
from agentaccel.selfhost.step_time import StepTime, Sureness, between
from agentaccel.selfhost.tables import has_by

MOST_REQUESTS = 4096
"""Requests at once up to which a break-even is looked for."""
Known = Literal["measured", "replayed", "stated", "assumed"]
"""Where the tokens of a step come from: an engine's counters, recorded replies, what a user says, or none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRates:
    """What a method makes of replies."""

    tokens_per_step: float
    drafted_per_token: float
    """Tokens drafted for each token of a reply."""
    known: Known

    @property
    def verified(self) -> float:
        """Tokens of each request that a step computes."""
        return 1 + self.drafted_per_token * self.tokens_per_step


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftMethod:
    """One method with its settings, and what it makes of the replies of one site."""

    method: str
    rates: DraftRates
    tokens: int | None = None
    """Drafted at once."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    model: str | None = None
    """The draft model, or the head."""
    draft_cost: float = 0.0
    """Of each token that a draft model or a head drafts, in steps of the model."""
    costs: tuple[tuple[int, float], ...] = ()
    """As measured: by requests at once, a step with it in steps without."""
    fewer: tuple[tuple[int, DraftRates], ...] = ()
    """The same with fewer tokens drafted at once, by how many: what a schedule may fall back to."""
    note: str | None = None
    """What the engine does otherwise than was replayed, and the like."""

    @property
    def label(self) -> str:
        """The method and its settings in a few words."""
        drafted = [] if self.tokens is None else [f"{self.tokens} token{'s' * (self.tokens != 1)}"]
        short = (f"{_short(name)} {value}" for name, value in self.settings.items())
        return ", ".join((self.method, *drafted, *([] if self.model is None else [self.model]), *short))


def _short(name: str) -> str:
    """A setting without the words that all of its method's settings begin with."""
    return name.removeprefix("suffix_decoding_").removeprefix("speculative-ngram-").removeprefix("spec-")


_NOTHING = DraftRates(tokens_per_step=1.0, drafted_per_token=0.0, known="measured")
NONE = DraftMethod(method="none", rates=_NOTHING)
"""No speculation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Where, and under what load, an engine is to run."""

    engine: str
    version: str
    concurrency: int
    """Requests at once, as usual."""
    peak: int
    """The same at most."""
    step: StepTime

    @property
    def loads(self) -> tuple[int, ...]:
        """The numbers of requests that a choice must do for."""
        return tuple(dict.fromkeys((self.concurrency, self.peak)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A candidate under the circumstances."""

    candidate: DraftMethod
    rates: DraftRates
    """Its own, or those with as many tokens as its schedule drafts at the usual number of requests."""
    speed: float
    """Decoding with it, against without, at the usual number of requests."""
    at_peak: float
    cost: float
    """A step with it, in steps without."""
    sure: Sureness
    """How its cost is known."""
    pays_up_to: int
    """Requests at once up to which it is faster than none; 0 if it never is, `MOST_REQUESTS` if it always is."""
    schedule: tuple[tuple[int, int], ...] = ()
    """By requests at once: how many tokens it should draft. Empty where always all, or the engine has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen for one site, or for all."""

    chosen: Option
    options: tuple[Option, ...]
    """All of them, none included, the fastest first; of those that are equal, the one that pays longest."""
    circumstances: Circumstances

    @property
    def best(self) -> Option | None:
        """The fastest of the methods, chosen or not; None where there is no method."""
        return next((option for option in self.options if option.candidate.method != "none"), None)

    @property
    def plan(self) -> Speculation:
        """The choice as `render` takes it."""
        one = self.chosen.candidate
        if one.method == "none":
            return Speculation()
        return Speculation(
            method=one.method,
            model=one.model,
            tokens=one.tokens,
            schedule=self.chosen.schedule,
            settings=dict(one.settings),
        )


def choose(candidates: Iterable[DraftMethod], circumstances: Circumstances) -> Choice:
    """The method that makes decoding fastest over the loads, if it does by more than the margin of what is known."""
    options = [_option(one, circumstances) for one in (NONE, *candidates)]
    options.sort(key=lambda one: (_worth(one), one.pays_up_to), reverse=True)
    none = next(option for option in options if option.candidate is NONE)
    worthy = [one for one in options if _worth(one) > math.log1p(margin_of(one))]
    return Choice(chosen=worthy[0] if worthy else none, options=tuple(options), circumstances=circumstances)


def margin_of(option: Option) -> float:
    """By how much it must be faster than none to be chosen: as sure as the less sure of its cost and its tokens."""
    margins: Mapping[str, float] = table("drafting")["margins"]
    return margins["assumed" if option.candidate.rates.known == "assumed" else option.sure]


def _worth(option: Option) -> float:
    """The mean of its logarithmic speed, usual and at peak: twice as fast makes up for half as fast."""
    return (math.log(option.speed) + math.log(option.at_peak)) / 2


def _option(candidate: DraftMethod, under: Circumstances) -> Option:
    """A method whose schedule drafts nothing at some load costs nothing there."""
    gates = candidate.tokens is not None and _has_schedule(under, candidate.method)
    schedule = _schedule(candidate, under.step) if gates else ()
    rates = [_drafted(candidate, schedule, load) for load in under.loads]
    costs = [_cost(candidate, one, load, under.step) for one, load in zip(rates, under.loads, strict=True)]
    return Option(
        candidate=candidate,
        rates=rates[0],
        speed=rates[0].tokens_per_step / costs[0],
        at_peak=rates[-1].tokens_per_step / costs[-1],
        cost=costs[0],
        sure=_sure(candidate, under),
        pays_up_to=_pays_up_to(candidate, schedule, under.step),
        schedule=schedule,
    )


def _cost(candidate: DraftMethod, rates: DraftRates, requests: int, step: StepTime) -> float:
    """A step with the method, in steps without."""
    if rates is _NOTHING:
        return 1.0
    modelled = _modelled(candidate, rates, requests, step)
    if candidate.costs:
        # What the model is wrong by where it was measured, it is taken to be wrong by elsewhere.
        errors = [(at, cost / _modelled(candidate, candidate.rates, at, step)) for at, cost in candidate.costs]
        return modelled * between(errors, requests)
    return modelled * (1.0 if not rates.drafted_per_token else table("drafting")["assumed"]["overhead"])


def _modelled(candidate: DraftMethod, rates: DraftRates, requests: int, step: StepTime) -> float:
    drafting = candidate.draft_cost * (rates.verified - 1)
    return step.cost(requests, rates.verified) + drafting


def speed(candidate: DraftMethod, rates: DraftRates, requests: int, step: StepTime) -> float:
    """Decoding with a method that gives such tokens a step, against without, at so many requests at once."""
    return rates.tokens_per_step / _cost(candidate, rates, requests, step)


def _sure(candidate: DraftMethod, under: Circumstances) -> Sureness:
    """Costs are measured between the loads at which they were; beyond them, they are as sure as what steps take."""
    loads = [load for load, _ in candidate.costs]
    if candidate.method == "none" or (loads and min(loads) <= under.concurrency and under.peak <= max(loads)):
        return "measured"
    return under.step.sure


def _pays_up_to(candidate: DraftMethod, schedule: tuple[tuple[int, int], ...], step: StepTime) -> int:
    """With what its schedule drafts, if it has one. Of powers of two the last at which it pays, and from there by
    bisection. It may pay at more requests and not at few: experts that are read anyway, long contexts that are read
    once for all that is verified."""

    def pays(requests: int) -> bool:
        return speed(candidate, _drafted(candidate, schedule, requests), requests, step) > 1

    powers = [power for power in range(MOST_REQUESTS.bit_length()) if pays(1 << power)]
    if not powers:
        return 0
    low, high = 1 << powers[-1], 2 << powers[-1]
    if low >= MOST_REQUESTS:
        return MOST_REQUESTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if pays(middle) else (low, middle)
    return low


# --- drafting less under load -----------------------------------------------------------------------------------------

_LOADS = tuple(1 << power for power in range(MOST_REQUESTS.bit_length()))
"""Numbers of requests between which a schedule may change. Beyond the last of a schedule, engines go on as there."""


def _has_schedule(under: Circumstances, method: str) -> bool:
    rows: Sequence[Mapping[str, Any]] = table("launch")["engines"][under.engine]["methods"]
    fitting = (row for row in rows if method in (row["name"], row["of"]))
    row = next((row for row in fitting if has_by(under.version, row.get("since"), row.get("until")) is not False), {})
    return "schedule" in row


def _schedule(candidate: DraftMethod, step: StepTime) -> tuple[tuple[int, int], ...]:
    """By requests at once, as many tokens as are best there; empty where those are always all, or none."""
    found: list[tuple[int, int]] = []
    for load in _LOADS:
        ways = [(0, 1.0), *((tokens, speed(candidate, one, load, step)) for tokens, one in _ways(candidate))]
        tokens = max(ways, key=lambda way: way[1])[0]
        if found and tokens == found[-1][1]:
            found.pop()
        found.append((load, tokens))
    return tuple(found) if {tokens for _, tokens in found} not in ({0}, {candidate.tokens}) else ()


def _ways(candidate: DraftMethod) -> Iterator[tuple[int, DraftRates]]:
    yield from candidate.fewer
    yield candidate.tokens or 0, candidate.rates


def _drafted(candidate: DraftMethod, schedule: tuple[tuple[int, int], ...], requests: int) -> DraftRates:
    """What it makes of replies with what the schedule drafts at that load."""
    if not schedule:
        return candidate.rates
    tokens = next((tokens for load, tokens in schedule if requests <= load), schedule[-1][1])
    return dict(_ways(candidate)).get(tokens, _NOTHING)
