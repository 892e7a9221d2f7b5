"""What a user has measured of an engine, as candidates and as what its steps take: pure.

One JSON object for each method and number of requests at once:

    [{"method": "none", "requests": 1, "step": 0.020},
     {"method": "suffix", "requests": 1, "step": 0.024, "acceptance": 0.6, "drafted_per_token": 1.1, "tokens": 16}]

`step` is what a step takes, in any unit; tokens a step stand there as such, or as acceptance, with tokens drafted for
each token of a reply. What was measured twice counts as its mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentaccel.checks import is_amount
from agentaccel.errors import ConfigError
from agentaccel.selfhost.choosing import DraftMethod, DraftRates
from agentaccel.selfhost.plan import Setting
from agentaccel.selfhost.step_time import StepTime, between, fitted

_NUMBERS = ("step", "acceptance", "drafted_per_token", "tokens_per_step")
_FIELDS = {"method", "requests", "tokens", "settings", "model", *_NUMBERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What steps cost with a method, in the words of a row; None for what it leaves open."""

    method: str
    tokens: int | None
    settings: Mapping[str, Setting] | None
    model: str | None
    costs: tuple[tuple[int, float], ...]
    """By requests at once, a step in steps without."""

    def of(self, candidate: DraftMethod) -> bool:
        """True if it was measured of this candidate, as far as it says."""
        said = (self.method, self.tokens, self.settings, self.model)
        owns = (candidate.method, candidate.tokens, dict(candidate.settings), candidate.model)
        return all(given is None or given == own for given, own in zip(said, owns, strict=True))

    @property
    def says(self) -> int:
        """How much it says of what was measured."""
        return sum(one is not None for one in (self.tokens, self.settings, self.model))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What was measured, by method and settings."""

    base: tuple[tuple[int, float], ...]
    """Without speculation: by requests at once, what a step takes."""
    candidates: tuple[DraftMethod, ...]
    """Those of which the tokens of a step were measured, too."""
    costs: tuple[Measured, ...]
    """The others."""
    outside: tuple[str, ...] = ()
    """Steps with a method whose cost nothing tells, for want of steps without speculation: in sentences."""

    def step_time(self) -> StepTime | None:
        """What any step takes, where steps without speculation were measured at several numbers of requests."""
        return fitted(self.base)

    def applied(self, candidate: DraftMethod) -> DraftMethod:
        """A candidate with the costs that were measured of it, if they were: those that say most of it."""
        fitting = [one for one in self.costs if one.costs and one.of(candidate)]
        return replace(candidate, costs=max(fitting, key=lambda one: one.says).costs) if fitting else candidate

    def unused(self, candidates: Sequence[DraftMethod]) -> Iterator[str]:
        """What was measured and does not count for any of `candidates`, in sentences."""
        yield from self.outside
        used = any(one.costs for one in self.costs) or any(one.costs for one in self.candidates)
        if self.base and self.step_time() is None and (len(self.base) > 1 or not used):
            yield (
                "your steps without speculation do not tell what other steps take: give those of two numbers of "
                "requests at once, where the more of them take longer"
            )
        for one in self.costs:
            alike = [candidate.label for candidate in candidates if candidate.method == one.method]
            if not alike:
                yield f"your steps with {one.method}: it is no candidate here (a head needs --heads)"
            elif not any(one.of(candidate) for candidate in candidates):
                others = "; ".join(alike)
                yield f"your steps with {one.method}: their tokens, settings or model are those of none of {others}"


def read_measurements(value: object) -> Measurements:
    """From the JSON that a user gives. Raises `ConfigError` for what is none, with what to give."""
    if not isinstance(value, list) or not value:
        raise ConfigError('measurements are a list of objects such as {"method": "none", "requests": 1, "step": 0.02}')
    for row in value:
        _check(row)
    base = _means((row["requests"], row["step"]) for row in value if row["method"] == "none")
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in value:
        if row["method"] != "none":
            groups.setdefault(json.dumps([row.get(name) for name in _SAME], sort_keys=True), []).append(row)
    candidates, costs, outside = list[DraftMethod](), list[Measured](), list[str]()
    for rows in groups.values():
        rates, steps = _rates(rows), _means(_costs(rows, base, outside))
        method, (tokens, settings, model) = rows[0]["method"], map(rows[0].get, _SAME[1:])
        if rates is None:
            costs.append(Measured(method=method, tokens=tokens, settings=settings, model=model, costs=steps))
        else:
            candidates.append(
                DraftMethod(
                    method=method, rates=rates, tokens=tokens, settings=settings or {}, model=model, costs=steps
                )
            )
    return Measurements(base=base, candidates=tuple(candidates), costs=tuple(costs), outside=tuple(outside))


_SAME = ("method", "tokens", "settings", "model")


def _means(measured: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """By requests at once, what was measured in the mean."""
    found: dict[int, list[float]] = {}
    for requests, value in measured:
        found.setdefault(requests, []).append(value)
    return tuple((requests, sum(values) / len(values)) for requests, values in sorted(found.items()))


def _check(row: object) -> None:
    if not isinstance(row, Mapping) or not isinstance(row.get("method"), str) or not row["method"]:
        raise ConfigError(f"a measurement is {row!r}; give an object with a method, such as none or suffix")
    if wrong := sorted(set(row) - _FIELDS):
        raise ConfigError(f"a measurement of {row['method']} has {wrong[0]!r}; known are {', '.join(sorted(_FIELDS))}")
    requests, tokens = row.get("requests"), row.get("tokens", 1)
    if type(requests) is not int or requests < 1 or type(tokens) is not int or tokens < 1:
        given = f"requests {requests!r} and tokens {tokens!r}"
        raise ConfigError(f"a measurement of {row['method']} has {given}; give whole numbers of 1 or more")
    for name in _NUMBERS:
        if name in row and (not is_amount(row[name]) or (name == "step" and not row[name])):
            raise ConfigError(f"{name} of {row['method']} is {row[name]!r}; give a number above 0")
    if row.get("acceptance", 0) > 1 or row.get("tokens_per_step", 1) < 1:
        raise ConfigError(f"of {row['method']}, acceptance is at most 1 and tokens_per_step at least 1: give such")
    if not isinstance(row.get("model", ""), str):
        raise ConfigError(f"model of {row['method']} is {row['model']!r}; give its name")
    if not isinstance(row.get("settings", {}), Mapping):
        raise ConfigError(f"settings of {row['method']} are {row['settings']!r}; give an object by their names")
    _check_sense(row)


def _check_sense(row: Mapping[str, Any]) -> None:
    """What stands in a row says something, and can be."""
    method, rates = row["method"], {"acceptance", "tokens_per_step"} & set(row)
    if "step" not in row and (method == "none" or not rates):
        raise ConfigError(f"a measurement of {method} says nothing: give its step")
    if rates and "drafted_per_token" not in row:
        raise ConfigError(f"of {method}, {min(rates)} says too little by itself: give drafted_per_token with it")
    given = _tokens_per_step(row)
    if given is not None and 1 - 1 / given > row["drafted_per_token"] + _ROUNDED:
        raise ConfigError(
            f"of {method}, {given:g} tokens a step cannot come from {row['drafted_per_token']:g} drafted for each token"
        )


_ROUNDED = 0.01
"""By how much figures that are rounded may contradict each other."""


def _rates(rows: Sequence[Mapping[str, Any]]) -> DraftRates | None:
    """Tokens of a step, over all numbers of requests: they hardly depend on those. None where nothing tells them."""
    drafted = [row["drafted_per_token"] for row in rows if "drafted_per_token" in row]
    given = [one for row in rows if (one := _tokens_per_step(row)) is not None]
    if not given or not drafted:
        return None
    mean = len(given) / sum(1 / one for one in given)  # the same replies each time: their steps add up
    return DraftRates(tokens_per_step=mean, drafted_per_token=sum(drafted) / len(drafted), known="measured")


def _tokens_per_step(row: Mapping[str, Any]) -> float | None:
    """N / (N - A), with A accepted of N tokens."""
    if "tokens_per_step" in row:
        return float(row["tokens_per_step"])
    if "acceptance" not in row or "drafted_per_token" not in row:
        return None
    accepted = row["acceptance"] * row["drafted_per_token"]
    if accepted >= 1:
        raise ConfigError(
            f"of {row['method']}, acceptance times drafted_per_token is {accepted:g}; give figures of one window: "
            "fewer tokens are accepted than there are in the replies"
        )
    return float(1 / (1 - accepted))


def _costs(
    rows: Sequence[Mapping[str, Any]], base: Sequence[tuple[int, float]], outside: list[str]
) -> Iterator[tuple[int, float]]:
    """By requests at once: a step in steps without, where those were measured at as many, or between; of others, a
    sentence is added to `outside`."""
    for row in rows:
        load = row["requests"]
        if "step" in row and base and base[0][0] <= load <= base[-1][0]:
            yield load, row["step"] / between(base, load)
        elif "step" in row:
            outside.append(
                f"your step with {row['method']} at requests {load}: give one without speculation there, too"
            )
