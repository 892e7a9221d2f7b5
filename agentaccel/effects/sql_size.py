"""Queries that make rows or text out of nothing: bounded by the numbers that stand in them, or refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentaccel.effects.sql_counts import (
    Own,
    aliases_of,
    counts_to,
    date_in,
    is_named,
    least,
    limit_of,
    number_of,
    parts_of,
    sources_of,
    starts,
    whose,
)
from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused

# --- Queries that call themselves: how often they do, by what stands in them, or refused ------------------------------
# Such a query ends by a limit, where it counts a column of its own up or down to a number or a date, or where each
# round follows the rows of another table by a column that it then replaces.


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


# --- following --------------------------------------------------------------------------------------------------------


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


MOST_MADE = 1_000_000
"""Rows that a statement may make without reading them anywhere, and characters of a value of it."""
MOST_TEXT = 10_000_000
"""Characters that all of these rows may hold."""


class Size(NamedTuple):
    """How much a query gives at most, as far as it is made out of nothing: what a table holds counts as one."""

    rows: float = 1.0
    work: float = 1.0
    """Rows that are gone through on the way."""
    tables: int = 0
    """Tables whose rows are multiplied by one another."""
    text: float = 1.0
    """Characters of its longest value."""


_Known = Mapping[str, Size]
_STORED = Size(tables=1)


def bounded(root: Any, exp: Any) -> None:
    """Raises `Refused` for a parsed query that may make far more than it reads. `exp`: the nodes of sqlglot.

    Rows of several makers may be joined, so they multiply; so do texts that are made of one another.
    """
    for node in root.find_all(exp.Func):
        _format(node, exp)
    _query(root, {}, exp)


def _query(query: Any, known: _Known, exp: Any) -> Size:
    for cte in query.ctes if isinstance(query, exp.Query) else ():
        size = _calling(cte, known, exp) if calls_itself(cte, exp) else _query(cte.this, known, exp)
        known = {**known, cte.alias.lower(): size}
    if isinstance(query, exp.SetOperation):
        sizes = [_query(one, known, exp) for one in parts_of(query, exp)]
        size = _joined(sizes, rows=sum(one.rows for one in sizes))
    elif isinstance(query, exp.Subquery):
        size = _source(query, known, exp)
    elif isinstance(query, exp.Select | exp.Values):
        size = _select(query, known, exp)
    else:
        size = _STORED
    _check(size)
    limit = limit_of(query, exp)
    return size if limit is None else size._replace(rows=limit if size.tables else min(size.rows, limit), tables=0)


def _check(size: Size) -> None:
    if max(size.rows, size.work, size.text) > MOST_MADE or size.rows * size.text > MOST_TEXT:
        raise Refused(f"it may make more than {MOST_MADE} rows or characters out of nothing")
    if size.tables > 2:  # two tables side by side may be meant
        raise Refused("it multiplies the rows of several tables by one another")


def _joined(sizes: list[Size], rows: float) -> Size:
    work = max(rows, sum(one.work for one in sizes))
    tables = max((one.tables for one in sizes), default=0)
    return Size(rows, work, tables, max((one.text for one in sizes), default=1.0))


def _source(node: Any, known: _Known, exp: Any) -> Size:
    """What stands in the place of a table; a function that makes rows is counted where it is called."""
    if isinstance(node, exp.Table):
        size = known.get(node.name.lower(), _STORED) if isinstance(node.this, exp.Identifier) else Size()
        size = _STORED if node.db else size
    elif isinstance(node, exp.Subquery):
        inner = node.this
        size = _source(inner, known, exp) if isinstance(inner, exp.Table) else _query(inner, known, exp)
    elif isinstance(node, exp.Values):
        size = _query(node, known, exp)
    else:
        size = Size()
    for join in node.args.get("joins") or ():  # in parentheses
        other = _source(join.this, known, exp)
        size = _joined([size, other], size.rows * other.rows)._replace(tables=size.tables + other.tables)
    return size


def _select(select: Any, known: _Known, exp: Any) -> Size:
    """One SELECT, or VALUES: the product of its tables, of what makes rows, and of the queries that stand in it."""
    places = [] if isinstance(select, exp.Values) else sources_of(select)
    names = {one.alias_or_name.lower() for one in select.find_all(exp.Table)}  # of which t.items is a list in a row
    places = [one for one in places if not (isinstance(one, exp.Table) and one.db and one.db.lower() in names)]
    sources = {id(one): _source(one, known, exp) for one in places}
    known = {**known, "": _joined([*sources.values(), known.get("", Size())], 1.0)}
    nodes, inner = list[Any](), dict[int, Size]()
    left = [one for one in select.iter_expressions() if not isinstance(one, exp.With)]
    while left:
        node = left.pop()
        if isinstance(node, exp.Query):
            if id(node) not in sources:
                inner[id(node)] = _query(node, known, exp)
            continue
        nodes.append(node)
        left += node.iter_expressions()
    rows = math.prod(one.rows for one in sources.values()) * math.prod(
        _made(one, sources, places, exp) for one in nodes
    )
    rows *= max(1.0, sum(one.work for one in inner.values() if one.work > 1))
    rows *= len(select.expressions) if isinstance(select, exp.Values) else 1
    text = _longest(nodes, known[""].text, {place: one.text for place, one in inner.items()}, exp)
    if any(_is(node, "gathers", exp) for node in nodes):
        text *= rows
    size = _joined([*sources.values(), *inner.values()], rows)
    size = size._replace(tables=_loose(select, sum(one.tables for one in sources.values()), exp), text=text)
    _check(size)
    return size._replace(rows=1.0, tables=0) if _is_one_row(select, exp) else size


def _loose(select: Any, tables: int, exp: Any) -> int:
    """Tables that no condition ties to another; a condition that names two columns is taken for a tie."""
    if tables < 2:
        return tables
    joins, where = select.args.get("joins") or (), select.args.get("where")
    ties = [one.args["on"] for one in joins if one.args.get("on")] + ([where] if where else [])
    tied = sum(bool(one.args.get("using") or one.args.get("method")) for one in joins)
    tied += sum(sum(1 for _ in one.find_all(exp.Column)) // 2 for one in ties)
    return max(1, tables - tied)


def _is_one_row(select: Any, exp: Any) -> bool:
    """An aggregate without groups."""
    if isinstance(select, exp.Values) or select.args.get("group"):
        return False
    if any(_is(node, "makes_rows", exp) for one in select.expressions for node in one.walk()):
        return False
    return any(isinstance(one.unalias(), exp.AggFunc) for one in select.expressions)


# --- rows -------------------------------------------------------------------------------------------------------------


def _is(node: Any, kind: str, exp: Any) -> bool:
    names = table("sql")["nodes"][kind]
    return type(node).__name__ in names or (isinstance(node, exp.Func) and node.name.lower() in names)


def _made(node: Any, sources: Mapping[int, Size], places: list[Any], exp: Any) -> float:
    """Rows that a node makes by itself."""
    if not _is(node, "makes_rows", exp):
        return 1.0
    made = {one.alias_or_name.lower() for one in places if not sources[id(one)].tables}
    if any(not one.table or one.table.lower() in made for one in node.find_all(exp.Column)) and made - {""}:
        others = [one for one in places if all(held is not node for held in one.walk())]
        if any(not sources[id(one)].tables for one in others):
            raise Refused("how much it makes is worked out, and not seen")
    return _steps(node, exp) or _largest(node, exp)


def _largest(node: Any, exp: Any) -> float:
    """The largest number of a call that makes rows or text. Numbers that are worked out could be any."""
    if node.find(exp.Mul, exp.Pow, exp.BitwiseXor):
        raise Refused("how much it makes is worked out, and not seen")
    told = [number_of(one, exp) for one in node.find_all(exp.Literal) if not one.is_string]
    numbers: list[float] = [abs(one) for one in told if one is not None]
    if len(numbers) < len(told):
        raise Refused("how much it makes is no plain number")
    return max([1.0, *numbers]) / min([1.0, *(one for one in numbers if one)])


def _steps(node: Any, exp: Any) -> float | None:
    """Steps between two dates, by the finest unit that is named; None where it counts numbers."""
    units = table("sql")["units"]
    texts = [one.name.lower() for one in node.find_all(exp.Literal) if one.is_string]
    days = [day for one in texts if (day := date_in(one)) is not None]
    words = [word for one in texts if date_in(one) is None for word in re.findall(r"[^\W\d]+|:", one)]
    words += [unit.name.lower() for one in node.find_all(exp.Interval) if (unit := one.args.get("unit")) is not None]
    named = {one.removesuffix("s") for one in (*words, *(var.name.lower() for var in node.find_all(exp.Var)))}
    found = [float(units[one]) for one in named if one in units]
    if any(one.removesuffix("s") not in units for one in words):
        raise Refused("it counts in steps that are not known")
    if not found and not days:
        return None
    step = min(found, default=units["day"])
    if len(days) == 2:
        return float(abs((days[1] - days[0]).total_seconds()) / step + 1)
    if step < units["day"]:
        raise Refused("it counts in steps so fine that there may be any number of them")
    return 1.0


# --- text -------------------------------------------------------------------------------------------------------------


def _format(node: Any, exp: Any) -> None:
    if not {type(node).__name__, node.name.lower(), node.sql_name().lower()} & set(table("sql")["nodes"]["formats"]):
        return
    for one in node.find_all(exp.Literal):
        if one.is_string and re.search(r"[%:][^a-zA-Z%]*(?:\d{4}|\*)", one.this):
            raise Refused("a format makes more than it is given")


def _longest(nodes: list[Any], column: float, inner: Mapping[int, float], exp: Any) -> float:
    """Characters of the longest value among `nodes`, of which each stands before those within it."""
    found = dict(inner)
    for node in reversed(nodes):
        parts = [found.get(id(one), 1.0) for one in node.iter_expressions()]
        found[id(node)] = _characters(node, parts, column, found, exp)
    return max(found.values(), default=1.0)


def _characters(node: Any, parts: list[float], column: float, found: Mapping[int, float], exp: Any) -> float:
    if isinstance(node, exp.Column):
        return column
    if isinstance(node, exp.Literal):
        return max(1.0, len(node.this)) if node.is_string else 1.0
    if _is(node, "makes_text", exp):
        width = node.args.get("times") or node.args.get("expression") or node
        if width.find(exp.Column, exp.Query):
            raise Refused("how much it makes is worked out, and not seen")
        return _largest(node, exp) * max(parts, default=1.0)
    if _is(node, "replaces", exp):
        given = list(node.iter_expressions())
        instead = found.get(id(given[2]), 1.0) if len(given) > 2 else 1.0
        plain = isinstance(node, exp.Replace) and isinstance(given[1], exp.Literal)
        return parts[0] * max(1.0, instead / max(1, len(given[1].this)) if plain else instead + 1)
    if _is(node, "doubles", exp):
        return 2 * sum(parts)
    if isinstance(node, exp.DPipe | exp.Add) or (isinstance(node, exp.Func) and not isinstance(node, exp.Binary)):
        return sum(parts)
    return max(parts, default=1.0)


# --- queries that call themselves -------------------------------------------------------------------------------------


def _calling(cte: Any, known: _Known, exp: Any) -> Size:
    name = cte.alias.lower()
    for inner in cte.this.ctes if isinstance(cte.this, exp.Query) else ():
        known = {**known, inner.alias.lower(): _query(inner.this, known, exp)}
    seen = rounds(cte, {one: not size.tables for one, size in known.items() if one}, exp)
    anchors = [_query(one, known, exp) for one in seen.anchors]
    first = _joined(anchors, rows=sum(one.rows for one in anchors))
    parts = [_query(one, {**known, name: first}, exp) for one in seen.parts]
    most = seen.most
    if seen.limit is None and any(one.rows > first.rows for one in parts):
        raise Refused("each time that it calls itself it makes more")
    grown = sum(_grown(one, name, seen, exp) for one in seen.parts)
    step = max(one.text for one in parts)
    rows = seen.limit if seen.limit is not None else first.rows * (most + 1)
    tables = 1 if seen.follows else 0 if seen.limit is not None else first.tables
    return Size(rows, max(rows, first.work), tables, max(first.text, step) + (most * step if grown else 0.0))


def _grown(part: Any, name: str, seen: Rounds, exp: Any) -> int:
    """How many texts of one round go into longer ones of the next: each at most once, or they double each time."""
    own, aliases = seen.own, set(aliases_of(part, name, exp))
    uses, grows = list[str](), list[str]()
    for column in (held for one in part.expressions for held in one.find_all(exp.Column)):
        held = column.name.lower()
        if held in seen.counted or whose(column, own, aliases) is False:
            continue
        uses.append(held)
        above = list(_above(column, part))
        if any(_is(node, kind, exp) for node in above for kind in ("makes_text", "replaces", "doubles")):
            raise Refused("each time that it calls itself it makes longer text")
        joins = exp.DPipe if held in seen.numbers else exp.DPipe | exp.Add
        if any(isinstance(node, joins) or _is(node, "joins_text", exp) for node in above):
            grows.append(held)
    if any(uses.count(one) > 1 for one in grows):
        raise Refused("each time that it calls itself it makes longer text")
    return len(grows)


def _above(node: Any, top: Any) -> Any:
    while node.parent is not None and node.parent is not top:
        node = node.parent
        yield node
