"""Where the value of an argument comes from: six kinds of rules, each counted by how often it was right.

A constant, the argument of the same name of an earlier call, a path into a result, the next unused element of a list,
and words of the same shape in what the user said or in the last result.

A rule is learned from one call whose value it explains, and is credited or debited by every later call for which it
yields anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from benchmarks.speculation.baseline.context import Context, Place, shape_of

Kind = Literal["constant", "argument", "path", "unused", "user", "result"]

YIELD = 3
"""Values of a rule that are considered, at most."""

CREDIT = (1.0, 0.4, 0.4)
"""For a value that stands first, second, third among those that a rule yields."""

DISCOUNT = (1.0, 0.45, 0.25)
"""Of a rule's precision, for its first, second and third value."""

KEPT = 60
"""Rules and constants that are kept for one argument; the least credited one goes."""

LONGEST_CONSTANT = 200
"""Bytes of a value that is remembered as such."""


class Rule(NamedTuple):
    """Where a value comes from."""

    kind: Kind
    of: str = ""
    """The tool whose argument or result it is; empty for what the user said."""
    at: str = ""
    """The argument, the path or the shape."""
    value: bytes = b""
    """Of a constant."""


class Offer(NamedTuple):
    """A value that an argument may have."""

    value: bytes
    score: float
    kind: Kind


def yields(rule: Rule, place: Place, context: Context) -> list[bytes]:
    """The values of `rule` for an argument, best first."""
    if rule.kind == "constant":
        return [rule.value]
    if rule.kind == "argument":
        value = context.latest.get((rule.of, rule.at))
        return [] if value is None else [value]
    if rule.kind in ("path", "unused") and rule.of not in context.results:
        return []
    if rule.kind == "path":
        value = context.results[rule.of].paths.get(rule.at)
        return [] if value is None else [value]
    if rule.kind == "unused":
        return _unused(context.results[rule.of].patterns.get(rule.at, ()), place, context)
    if rule.kind == "user":
        return _unused([value for words in context.said for value in words.get(rule.at, ())], place, context)
    return _unused(context.shown.get(rule.at, ()), place, context) if rule.of == context.shown_by else []


def _unused(values: Sequence[bytes], place: Place, context: Context) -> list[bytes]:
    """The first distinct ones that the argument has not had."""
    used, found = context.used.get(place, frozenset()), list[bytes]()
    for value in values:
        if value not in used and value not in found:
            found.append(value)
            if len(found) == YIELD:
                break
    return found


def explanations(value: bytes, place: Place, context: Context) -> Iterator[Rule]:
    """Every rule that yields `value` here."""
    if len(value) <= LONGEST_CONSTANT:
        yield Rule("constant", value=value)
    for (tool, name), latest in context.latest.items():
        if name == place[1] and latest == value:
            yield Rule("argument", tool, name)
    candidates = set[Rule]()
    for tool, held in context.results.items():
        candidates |= {Rule("path", tool, path) for path, one in held.paths.items() if one == value}
        candidates |= {Rule("unused", tool, pattern) for pattern, values in held.patterns.items() if value in values}
    shape = shape_of(value)
    if shape is not None:
        candidates |= {Rule("user", at=shape), Rule("result", context.shown_by, shape)}
    yield from (rule for rule in sorted(candidates) if value in yields(rule, place, context))


@dataclass(slots=True)
class Rules:
    """The rules of one argument. Mutable: it learns."""

    counted: dict[Rule, list[float]] = field(default_factory=dict)
    """By rule, the credit and how often it yielded anything."""

    def learn(self, value: bytes, place: Place, context: Context) -> None:
        """In `context` the argument was `value`."""
        for rule, counts in self.counted.items():
            found = yields(rule, place, context)
            if found:
                counts[1] += 1
                counts[0] += CREDIT[found.index(value)] if value in found else 0.0
        for rule in explanations(value, place, context):
            if rule in self.counted:
                continue
            if len(self.counted) >= KEPT:
                del self.counted[min(self.counted, key=lambda one: self.counted[one][0])]
            self.counted[rule] = [CREDIT[yields(rule, place, context).index(value)], 1.0]

    def offers(self, place: Place, context: Context) -> Iterator[Offer]:
        """The values that the rules yield here."""
        for rule, (credit, tries) in self.counted.items():
            for value, discount in zip(yields(rule, place, context), DISCOUNT, strict=False):
                yield Offer(value, discount * credit / (tries + 2), rule.kind)


def best(offers: Iterable[Offer]) -> dict[bytes, Offer]:
    """By value, best first, each by the rule that speaks for it most."""
    found: dict[bytes, Offer] = {}
    for offer in offers:
        if offer.value not in found or offer.score > found[offer.value].score:
            found[offer.value] = offer
    return dict(sorted(found.items(), key=lambda one: (-one[1].score, one[0])))
