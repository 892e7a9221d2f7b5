"""Whether a report holds what somebody demands of it: each demand is judged alone, and what is not known never holds.

What the known part of the source breaks is broken, whatever the rest says. What it holds is n/a where the rest could
break it: a request whose cost nobody knows has no upper bound, and a row that cannot be read may tell of anything.

The figures are those of the report: this module compares, and adds nothing up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Literal

from agentaccel.checks import is_amount
from agentaccel.errors import ConfigError, TraceError
from agentaccel.report.figures import Group, Report
from agentaccel.report.numbers import clean, plural
from agentaccel.types import Cause

Outcome = Literal["holds", "broken", "n/a"]

NO_REQUEST = "there is no request"
"""What is said of an agent that is not there."""

MAKE_BASELINE = "agentaccel report --format json > BASELINE.json"
"""What writes a baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The causes of misses that were there before."""

    agents: Mapping[str, AbstractSet[str]] | None
    """By agent; None where the report is of a version that did not tell them apart, and `all` stands in for each."""
    all: AbstractSet[str]
    """Of all agents."""

    def of(self, agent: str) -> AbstractSet[str]:
        """The causes that `agent` had; none for one that was not there."""
        return self.all if self.agents is None else self.agents.get(agent, frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What is demanded; None for what is not."""

    hit_rate: float | None = None
    """Share of input tokens read from the cache, at least; 0 to 1."""
    cost: float | None = None
    """USD of input in all, at most."""
    cost_per_request: float | None = None
    """USD of input for each request, at most."""
    baseline: Baseline | None = None
    """No cause of misses beyond these."""

    def __post_init__(self) -> None:
        if self.hit_rate is not None and not 0 <= self.hit_rate <= 1:
            raise ConfigError(f"the hit rate demanded is {self.hit_rate:g}; give a share from 0 to 1, such as 0.8")
        for what, usd in (("cost", self.cost), ("cost per request", self.cost_per_request)):
            if usd is not None and not is_amount(usd):
                raise ConfigError(f"the {what} allowed is {usd!r}; give USD, 0 or more")
        if (self.hit_rate, self.cost, self.cost_per_request, self.baseline) == (None, None, None, None):
            raise ConfigError(
                "nothing is demanded: give --min-hit-rate, --max-cost, --max-cost-per-request or --no-new-cause"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One demand, and whether it holds."""

    demand: Literal["hit rate", "cost", "cost per request", "no new cause"]
    agent: str | None
    """Whose figures they are; None for everything."""
    outcome: Outcome
    why: str
    """A sentence with the figure, the limit, and what they are over."""
    value: float | tuple[str, ...] | None
    """The figure; for causes, the new ones. None where it is not known."""
    limit: float | None
    """What was demanded; None for causes."""


def baseline_of(report: Any) -> Baseline:
    """The causes in a report as JSON, as `report.to_json` makes it. Raises TraceError for what is none."""
    try:
        agents = report.get("causes_by_agent")
        if agents is None and report["by"] == "agent":
            agents = {group["name"]: _met(group) for group in _listed(report["groups"])}
        by_agent = None if agents is None else {name: _causes(causes) for name, causes in agents.items()}
        return Baseline(agents=by_agent, all=_causes(_met(report["total"])))
    except (KeyError, TypeError, AttributeError):
        raise TraceError(f"it is no report with the causes of misses: make one with `{MAKE_BASELINE}`") from None


def _met(group: Mapping[str, Any]) -> list[object]:
    return [row["cause"] for row in _listed(group["causes"])]


def _listed(value: object) -> list[Any]:
    """`value`, if it is a list: a text would be taken for one of its letters. Raises TypeError."""
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


def _causes(named: object) -> frozenset[str]:
    """A list of the names of causes, also of those that only another version knows. Raises TypeError."""
    causes = _listed(named)
    if not all(isinstance(one, str) for one in causes):
        raise TypeError("a cause that is no text")
    return frozenset(causes)


def judge(report: Report, demands: Demands, agents: Sequence[str] = ()) -> list[Judged]:
    """Every demand on a report by agent; on each of `agents`, where any is named, and else on everything."""
    named = {group.name: group for group in report.groups}
    groups: list[tuple[str | None, Group | None]] = [(name, named.get(name)) for name in agents]
    found = [one for agent, group in groups or [(None, report.total)] for one in _judged(agent, group, demands)]
    if demands.baseline is not None:
        chosen = {name: named.get(name) for name in agents} if agents else named
        found.append(_new_causes(chosen, demands.baseline))
    return [_in_doubt(one) for one in found] if report.gaps else found


def _in_doubt(judged: Judged) -> Judged:
    """`judged` of a source of which a part could not be read."""
    if judged.outcome != "holds":
        return judged
    return replace(judged, outcome="n/a", why=f"{judged.why}; not all of the source could be read, as the notes say")


def _outcome(known: bool, holds: bool, whole: bool) -> Outcome:
    """What a demand comes to, by whether the figure is `known`, `holds`, and is over the `whole`."""
    return "n/a" if not known else "broken" if not holds else "holds" if whole else "n/a"


def _judged(agent: str | None, group: Group | None, demands: Demands) -> Iterator[Judged]:
    of = f" of {clean(agent)}" if agent is not None else ""

    def judged(demand: Any, value: float | None, limit: float, outcome: Outcome, why: str) -> Judged:
        said = NO_REQUEST if group is None else why
        return Judged(
            demand=demand, agent=agent, outcome=outcome, why=f"{demand}{of}: {said}", value=value, limit=limit
        )

    if demands.hit_rate is not None:
        rate = group.tokens.hit_rate if group is not None else None
        outcome = _outcome(rate is not None, rate is not None and rate >= demands.hit_rate, whole=True)
        yield judged("hit rate", rate, demands.hit_rate, outcome, _rate_words(group, rate, demands.hit_rate))
    for demand, limit in (("cost", demands.cost), ("cost per request", demands.cost_per_request)):
        if limit is not None:
            usd = _usd(group, demand)
            outcome = _outcome(usd is not None, usd is not None and usd <= limit, whole=not _unknown_costs(group))
            yield judged(demand, usd, limit, outcome, _cost_words(group, usd, limit))


def _unknown_costs(group: Group | None) -> int:
    """Requests whose cost nobody knows."""
    return 0 if group is None else group.requests - group.costs.priced


def _usd(group: Group | None, demand: str) -> float | None:
    """USD of input, in all or for each request that has a price."""
    if group is None or group.costs.paid is None:
        return None
    return group.costs.paid if demand == "cost" else group.costs.paid / group.costs.priced


def _rate_words(group: Group | None, rate: float | None, limit: float) -> str:
    if group is None or rate is None:
        return "n/a, no request reported what the cache did"
    silent = f"; {group.unreported:,} more did not report what the cache did" if group.unreported else ""
    over = plural(group.requests - group.unreported, "request")
    return f"{100 * rate:.6g} %, at least {100 * limit:.6g} %, over {over}{silent}"


def _cost_words(group: Group | None, usd: float | None, limit: float) -> str:
    if group is None or usd is None:
        return "n/a, no request has a price"
    unknown = _unknown_costs(group)
    more = f"; {unknown:,} more {'has' if unknown == 1 else 'have'} no price, or no cache counters" if unknown else ""
    return f"{usd:.6g} USD of input, at most {limit:.6g}, over {plural(group.costs.priced, 'request')}{more}"


def _new_causes(groups: Mapping[str, Group | None], baseline: Baseline) -> Judged:
    """A cause is new where its kind did not occur for that agent; a first request is no fault of anybody's.

    An agent of which nothing is known may have had any.
    """
    told = {name: group for name, group in groups.items() if group is not None and group.requests > group.unreported}
    new = [
        (name, row.cause.value)
        for name, group in told.items()
        for row in group.causes
        if row.cause is not Cause.FIRST and row.cause.value not in baseline.of(name)
    ]
    outcome = _outcome(bool(told), not new, whole=len(told) == len(groups))
    why = ", ".join(f"{cause} of {clean(name)}" for name, cause in new) or ("none" if told else "n/a")
    whose = "" if baseline.agents is not None else " (the baseline tells no agents apart)"
    values = tuple(dict.fromkeys(cause for _, cause in new)) if told else None
    return Judged(
        demand="no new cause",
        agent=None,
        outcome=outcome,
        why=f"new causes of misses{whose}: {why}{_not_known(groups, told.keys())}",
        value=values,
        limit=None,
    )


def _not_known(groups: Mapping[str, Group | None], told: AbstractSet[str]) -> str:
    """Of whom nothing is known, and why, as the end of a sentence."""
    absent = [clean(name) for name, group in groups.items() if group is None]
    silent = [clean(name) for name, group in groups.items() if group is not None and name not in told]
    parts = [f"; not known of {', '.join(absent)}, where {NO_REQUEST}"] if absent else []
    if silent:
        parts.append(f"; not known of {', '.join(silent)}, where no request reported what the cache did")
    return "".join(parts)
