"""What a user has measured of an engine, as candidates and as what its steps take: pure.

One JSON object for each method and number of requests at once:

    [{"method": "none", "requests": 1, "step": 0.020},
     {"method": "suffix", "requests": 1, "step": 0.024, "acceptance": 0.6, "drafted_per_token": 1.1, "tokens": 16}]

`step` is what a step takes, in any unit; tokens a step stand there as such, or as acceptance and tokens drafted for
each token of a reply.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentaccel.checks import is_amount
from agentaccel.errors import ConfigError
from agentaccel.selfhost.choosing import DraftMethod, DraftRates
from agentaccel.selfhost.step_time import StepTime, between, fitted

_NUMBERS = ("step", "acceptance", "drafted_per_token", "tokens_per_step")
_FIELDS = {"method", "requests", "tokens", "settings", "model", *_NUMBERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What was measured, by method and settings."""

    base: tuple[tuple[int, float], ...]
    """Without speculation: by requests at once, what a step takes."""
    candidates: tuple[DraftMethod, ...]
    """Those of which the tokens of a step were measured, too."""
    costs: Mapping[str, tuple[tuple[int, float], ...]]
    """Of the others: by their key, and by requests at once, a step in steps without."""

    def step_time(self) -> StepTime | None:
        """What any step takes, where steps without speculation were measured at several numbers of requests."""
        return fitted(self.base)

    def applied(self, candidate: DraftMethod) -> DraftMethod:
        """A candidate with the costs that were measured of it, or of its method whatever it drafts, if they were."""
        own = self.costs.get(_key(candidate.method, candidate.tokens))
        return replace(candidate, costs=own or self.costs.get(_key(candidate.method, None), ()))


def read_measurements(value: object) -> Measurements:
    """From the JSON that a user gives. Raises `ConfigError` for what is none, with what to give."""
    if not isinstance(value, list) or not value:
        raise ConfigError('measurements are a list of objects such as {"method": "none", "requests": 1, "step": 0.02}')
    for row in value:
        _check(row)
    base = tuple((row["requests"], row["step"]) for row in value if row["method"] == "none" and "step" in row)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in value:
        if row["method"] != "none":
            groups.setdefault(json.dumps([row.get(name) for name in _SAME], sort_keys=True), []).append(row)
    candidates, costs = [], {}
    for rows in groups.values():
        rates, steps = _rates(rows), tuple(_costs(rows, base))
        if rates is None:
            costs[_key(rows[0]["method"], rows[0].get("tokens"))] = steps
        else:
            first = rows[0]
            settings = first.get("settings") or {}
            candidates.append(
                DraftMethod(
                    method=first["method"],
                    rates=rates,
                    tokens=first.get("tokens"),
                    settings=settings,
                    model=first.get("model"),
                    costs=steps,
                )
            )
    return Measurements(base=base, candidates=tuple(candidates), costs=costs)


_SAME = ("method", "tokens", "settings", "model")


def _key(method: str, tokens: int | None) -> str:
    return f"{method} {tokens}"


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
    if not isinstance(row.get("settings", {}), Mapping):
        raise ConfigError(f"settings of {row['method']} are {row['settings']!r}; give an object by their names")


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


def _costs(rows: Sequence[Mapping[str, Any]], base: Sequence[tuple[int, float]]) -> Iterator[tuple[int, float]]:
    """By requests at once: a step in steps without, where those were measured at as many, or between."""
    if not base:
        return
    loads = [load for load, _ in base]
    for row in rows:
        if "step" in row and min(loads) <= row["requests"] <= max(loads):
            yield row["requests"], row["step"] / between(base, row["requests"])
