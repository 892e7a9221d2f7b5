"""What an engine counts, read from the text of its /metrics: pure.

    before, after = read(text, "vllm"), read(later, "vllm")
    seen = observed({"http://127.0.0.1:8000": (before, after)})
    seen.hit_rate, seen.acceptance, str(seen)

A counter is a series for each set of labels. The difference is taken for each series and added up over labels and
replicas. A counter that fell says that its engine was started anew in between: then what it counts now is the
difference, of all its counters. A figure is None where a replica does not report what it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agentaccel.errors import MissingExtraError
from agentaccel.selfhost.tables import row

Series = Mapping[tuple[tuple[str, str], ...], float]
"""The values of a family, by labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What one replica counted at one time."""

    counters: Mapping[str, Mapping[str, Series]] = field(default_factory=dict)
    """By figure and family; a figure is there if all its families are."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    """As of now: "running" and "waiting" requests, "kv_use" as the share of the fullest rank."""


def read(text: str, dialect: str) -> Scrape:
    """What the text of a dialect's /metrics counts. Raises `ValueError` for what is no such text, and
    `MissingExtraError` without the extra `selfhost`."""
    known = row(dialect)
    families = _families(text)
    counters = {
        figure: {name: families[name] for name in names}
        for figure, names in known.get("counters", {}).items()
        if all(name in families for name in names)
    }
    only = frozenset(known.get("only", {}).items())
    gauges = {}
    for figure, names in known.get("gauges", {}).items():
        values = [value for name in names for labels, value in families.get(name, {}).items() if _kept(labels, only)]
        if values:
            gauges[figure] = max(values) if figure in _SHARES else sum(values)
    return Scrape(counters=counters, gauges=gauges)


_SHARES = ("kv_use",)
"""Gauges that are shares, which are not added up."""


def _kept(labels: tuple[tuple[str, str], ...], only: frozenset[tuple[str, str]]) -> bool:
    """True unless a label has another value than the one that alone is kept."""
    names = {name for name, _ in only}
    return all(pair in only for pair in labels if pair[0] in names)


def _families(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Every series of a text, by the name of its samples; what is no number is left out."""
    try:
        from prometheus_client import parser
    except ImportError:
        raise MissingExtraError("selfhost", "prometheus-client") from None
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            if math.isfinite(sample.value):
                found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFigures:
    """What engines did between two looks, all replicas together. None is *not reported*, never 0."""

    prompt: float | None = None
    """Prompt tokens, those from the cache included."""
    cached: float | None = None
    """Prompt tokens that were read from the cache."""
    output: float | None = None
    """Tokens generated."""
    steps: float | None = None
    """Passes that verified a draft."""
    drafted: float | None = None
    accepted: float | None = None
    """Drafted tokens that were accepted; those behind a stop are counted, too."""
    positions: Mapping[int, float] = field(default_factory=dict)
    """Accepted tokens by their position in the draft; empty where not reported."""
    running: float | None = None
    """Requests that are computed now, at the second look."""
    waiting: float | None = None
    """Requests that wait now."""
    kv_use: float | None = None
    """Share of the memory for keys and values in use now, on the fullest rank."""
    missing: tuple[str, ...] = ()
    """Replicas that did not answer at one of the looks, or not with counters: then every total is None."""
    restarted: tuple[str, ...] = ()
    """Replicas that were started anew in between: what they counted before that is lost."""

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens that was read from the cache."""
        return _ratio(self.cached, self.prompt)

    @property
    def acceptance(self) -> float | None:
        """Share of drafted tokens that was accepted; None where nothing was drafted."""
        return _ratio(self.accepted, self.drafted)

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens that a pass with a draft gave: 1 + accepted / steps. It flatters methods that often have no draft."""
        share = _ratio(self.accepted, self.steps)
        return None if share is None else 1 + share

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens for each pass of the model, those without a draft included: what speculation earns.

        A pass without a draft gives one token, so output - accepted is at least their number, and steps is what was
        verified; accepted tokens behind a stop make the difference too small, hence the larger of both.
        """
        if self.output is None or self.steps is None or self.accepted is None:
            return None
        return _ratio(self.output, max(self.steps, self.output - self.accepted))

    def accepted_at(self, position: int) -> float | None:
        """Share of the passes with a draft in which the token at `position`, from 0, was accepted."""
        return _ratio(self.positions.get(position), self.steps)

    def __str__(self) -> str:
        lines = [
            f"prompt tokens        {as_count(self.prompt)}, from the cache {_of(self.cached, self.hit_rate)}",
            f"output tokens        {as_count(self.output)}",
            f"drafted tokens       {as_count(self.drafted)}, accepted {_of(self.accepted, self.acceptance)}",
            f"tokens a step        {as_number(self.tokens_per_step)}, "
            f"with a draft {as_number(self.mean_accepted_length)}",
            f"now                  {as_count(self.running)} running, {as_count(self.waiting)} waiting, "
            f"{as_percent(self.kv_use)} of its KV memory",
        ]
        lines += [f"no counters from     {name}" for name in self.missing]
        lines += [f"started anew         {name}: what it counted before is lost" for name in self.restarted]
        return "\n".join(lines)


_NOW = ("running", "waiting", "kv_use")


def observed(looks: Mapping[str, tuple[Scrape | None, Scrape | None]]) -> ServerFigures:
    """What happened between two looks at each replica, by its name; None stands for a look that was not answered."""
    pairs = {name: (first, last) for name, (first, last) in looks.items() if first is not None and last is not None}
    missing = tuple(name for name in looks if name not in pairs)
    if missing or not pairs:
        return ServerFigures(missing=missing)
    anew = {name for name, pair in pairs.items() if _fell(*pair)}
    now = {figure: [last.gauges.get(figure) for _, last in pairs.values()] for figure in _NOW}
    return ServerFigures(
        prompt=_total("prompt", pairs, anew),
        cached=_total("cached", pairs, anew),
        output=_total("output", pairs, anew),
        steps=_total("steps", pairs, anew),
        drafted=_total("drafted", pairs, anew),
        accepted=_total("accepted", pairs, anew),
        positions=_positions(pairs, anew),
        running=_added(now["running"]),
        waiting=_added(now["waiting"]),
        kv_use=None if None in now["kv_use"] else max(one for one in now["kv_use"] if one is not None),
        restarted=tuple(name for name in pairs if name in anew),
    )


Pairs = Mapping[str, tuple[Scrape, Scrape]]


def _fell(first: Scrape, last: Scrape) -> bool:
    """True if some counter is lower than it was."""
    return any(
        last.counters.get(figure, {}).get(name, {}).get(labels, value) < value
        for figure, families in first.counters.items()
        for name, series in families.items()
        for labels, value in series.items()
    )


def _total(figure: str, pairs: Pairs, anew: set[str]) -> float | None:
    """The difference of a figure over all replicas; None where one of them does not report it."""
    return _added([_difference(figure, *pair, anew=name in anew) for name, pair in pairs.items()])


def _difference(figure: str, first: Scrape, last: Scrape, *, anew: bool) -> float | None:
    if figure not in last.counters:
        return None
    before = {} if anew else first.counters.get(figure, {})
    return sum(
        value - before.get(name, {}).get(labels, 0.0)
        for name, series in last.counters[figure].items()
        for labels, value in series.items()
    )


def _positions(pairs: Pairs, anew: set[str]) -> Mapping[int, float]:
    totals: dict[int, float] = {}
    for name, (first, last) in pairs.items():
        before = {} if name in anew else first.counters.get("positions", {})
        for family, series in last.counters.get("positions", {}).items():
            for labels, value in series.items():
                position = dict(labels).get("position", "")
                if position.isdecimal():
                    more = value - before.get(family, {}).get(labels, 0.0)
                    totals[int(position)] = totals.get(int(position), 0.0) + more
    return totals


def _added(values: Iterable[float | None]) -> float | None:
    """The sum; None where one is not known."""
    known = list(values)
    return None if None in known else sum(one for one in known if one is not None)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def as_count(value: float | None) -> str:
    """A whole number, for people."""
    return "n/a" if value is None else f"{value:,.0f}"


def _of(value: float | None, share: float | None) -> str:
    return as_count(value) if share is None else f"{as_count(value)} ({as_percent(share)})"


def as_number(value: float | None) -> str:
    """A number with two digits."""
    return "n/a" if value is None else f"{value:.2f}"


def as_percent(value: float | None) -> str:
    """A share, in percent."""
    return "n/a" if value is None else f"{value:.1%}"
