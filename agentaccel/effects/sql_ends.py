"""Queries that call themselves: how often they do, by what stands in them, or refused.

Such a query ends by a limit, where it counts a column of its own up or down to a number or a date, or where each round
follows the rows of another table by a column that it then replaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from agentaccel.effects.sql_counts import counts_to, starts
from agentaccel.effects.sql_parts import (
    Own,
    aliases_of,
    is_named,
    least,
    limit_of,
    number_of,
    parts_of,
    sources_of,
    whose,
)
from agentaccel.effects.verdict import Refused


class Rounds(NamedTuple):
    """A query that calls itself, taken apart."""

    anchors: list[Any]
    parts: list[Any]
    """The SELECTs that call it."""
    most: float
    """How often, at most; 1 where a table that it follows decides, or the dates of one."""
    limit: float | None
    follows: bool
    own: Own
    counted: frozenset[str]
    """Its columns that count, by name."""
    numbers: frozenset[str]
    """Its columns that begin as numbers, which + adds up and does not join."""


def calls_itself(cte: Any, exp: Any) -> bool:
    """Several systems do not ask for the word RECURSIVE."""
    return any(is_named(one, cte.alias.lower()) for one in cte.this.find_all(exp.Table))


def rounds(cte: Any, made: Mapping[str, bool], exp: Any) -> Rounds:
    """How a query ends that calls itself; `made`: names of queries, and whether their rows are made out of nothing."""
    name, query = cte.alias.lower(), cte.this
    parts = parts_of(query, exp) if isinstance(query, exp.Union) else [query]
    calling = [one for one in parts if any(is_named(held, name) for held in one.find_all(exp.Table))]
    anchors = [one for one in parts if not any(one is other for other in calling)]
    seen = sum(len(aliases_of(one, name, exp)) for one in calling if isinstance(one, exp.Select))
    if not anchors or seen != sum(is_named(one, name) for one in query.find_all(exp.Table)):
        raise Refused("it calls itself without an end that is seen")
    own = Own(name, _columns(cte, anchors[0], exp), anchors)
    counts = [counts_to(one, own, exp) for one in calling]
    follows = [one is None and _follows(part, own, made, exp) for one, part in zip(counts, calling, strict=True)]
    limit = limit_of(query, exp)
    counted = frozenset(found[1] for found in counts if found is not None)
    begun = {one: starts(anchors, place, exp) for place, one in enumerate(own.columns)}
    numbers = frozenset(one for one, held in begun.items() if held and None not in [number_of(at, exp) for at in held])
    if limit is not None:
        return Rounds(anchors, calling, limit, limit, False, own, counted, numbers)
    ends = [found is not None or other for found, other in zip(counts, follows, strict=True)]
    if not all(ends) or (len(calling) > 1 and not all(follows)):
        raise Refused("it calls itself without an end that is seen")
    most = max(found[0] if found is not None else 1.0 for found in counts)
    return Rounds(anchors, calling, most, None, any(follows), own, counted, numbers)


def _columns(cte: Any, anchor: Any, exp: Any) -> list[str]:
    named = [one.name.lower() for one in cte.args["alias"].args.get("columns") or ()]
    if named or not isinstance(anchor, exp.Select) or anchor.find(exp.Star):
        return named
    return [one.alias_or_name.lower() for one in anchor.expressions]


# --- following ------------------------------------------------------------------------------------------------------


def _follows(part: Any, own: Own, made: Mapping[str, bool], exp: Any) -> bool:
    """It is joined, by an equation of columns, with a table that is not itself, and takes its next value from there."""
    aliases = set(aliases_of(part, own.name, exp))
    others = {
        one.alias_or_name.lower(): made.get(one.name.lower(), False) if isinstance(one, exp.Table) else True
        for one in sources_of(part)
        if isinstance(one, exp.Expression) and one.alias_or_name.lower() not in aliases
    }
    if not others or any(others.values()) or len(aliases) != 1:
        return False
    joins = part.args.get("joins") or ()
    conditions = [one.args["on"] for one in joins if one.args.get("on")]
    conditions += [part.args["where"].this] if part.args.get("where") else []
    shared = [one.name.lower() for join in joins for one in join.args.get("using") or ()]
    if any(_moves(part, name, name, (own, aliases, others), exp) for name in shared):
        return True

    def tied(condition: Any) -> float | None:
        if not isinstance(condition, exp.EQ):
            return None
        sides = [_column(condition.left, exp), _column(condition.right, exp)]
        for mine, other in (sides, sides[::-1]):
            if whose(mine, own, aliases) is True and whose(other, own, aliases) is False:
                return 0.0 if _moves(part, mine.name.lower(), other.name.lower(), (own, aliases, others), exp) else None
        return None

    return any(least(one, tied, exp) is not None for one in conditions)


def _column(node: Any, exp: Any) -> Any:
    while isinstance(node, exp.Paren | exp.Cast | exp.Lower | exp.Upper | exp.Trim):
        node = node.this
    return node if isinstance(node, exp.Column) else None


def _moves(part: Any, mine: str, other: str, seen: tuple[Own, set[str], Mapping[str, bool]], exp: Any) -> bool:
    """What it goes on by is, in the next round, another column of the other table than the one it was found by."""
    own, aliases, others = seen
    next_ones = part.expressions
    if mine in own.columns and not part.find(exp.Star):
        next_ones = next_ones[own.columns.index(mine) :][:1]
    elif not any(isinstance(one, exp.Column) and isinstance(one.this, exp.Star) for one in next_ones):
        next_ones = [one for one in next_ones if one.alias_or_name.lower() == mine]
    else:  # all columns of the other table, in its order
        return other != mine and any(one.table.lower() in others for one in next_ones if isinstance(one.this, exp.Star))
    columns = [held for one in next_ones for held in one.find_all(exp.Column)]
    return bool(columns) and all(whose(one, own, aliases) is not True and one.name.lower() != other for one in columns)
