"""Queries that count up or down: how far it is to the end, by the numbers and dates that stand in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from agentaccel.effects.tables import table

# --- Parts of a parsed query, as the readers of its size ask for them. `exp`: the nodes of sqlglot --------------------


class Own(NamedTuple):
    """The query as its own parts see it."""

    name: str
    columns: list[str]
    anchors: list[Any]


def parts_of(query: Any, exp: Any) -> list[Any]:
    """The queries that UNION and the like join; one with a name or a limit of its own stays whole."""
    found, left = list[Any](), [query.left, query.right]
    while left:
        node = left.pop()
        if isinstance(node, exp.SetOperation) and not (node.args.get("with_") or node.args.get("limit")):
            left += [node.left, node.right]
        elif isinstance(node, exp.Subquery) and set(_given(node)) == {"this"}:
            left.append(node.this)
        else:
            found.append(node)
    return found[::-1]


def limit_of(query: Any, exp: Any) -> float | None:
    """Rows after which it ends; those that it passes over count, too."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    most = number_of(limit.expression, exp) if isinstance(limit, exp.Limit) else None
    passed = number_of(offset.expression, exp) if offset is not None else 0.0
    return None if most is None or passed is None or min(most, passed) < 0 else most + passed


def number_of(node: Any, exp: Any) -> float | None:
    """A number that stands there, with its sign; None for all else."""
    if isinstance(node, exp.Paren | exp.Alias):
        return number_of(node.this, exp)
    if isinstance(node, exp.Neg):
        number = number_of(node.this, exp)
        return None if number is None else -number
    if isinstance(node, exp.Add | exp.Sub):
        left, right = number_of(node.left, exp), number_of(node.right, exp)
        if left is None or right is None:
            return None
        return left + right if isinstance(node, exp.Add) else left - right
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return float(node.this)
    except ValueError:  # the parser reads `1e0+2` as one
        return None


def _given(node: Any) -> list[str]:
    return [name for name, value in node.args.items() if value]


def is_named(held: Any, name: str) -> bool:
    return bool(held.name.lower() == name and not held.db)


def sources_of(part: Any) -> list[Any]:
    start = part.args.get("from_") or part.args.get("from")
    joined = [*(part.args.get("joins") or ()), *(part.args.get("laterals") or ())]
    return [one.this for one in ([start] if start else [])] + [getattr(one, "this", one) for one in joined]


def aliases_of(part: Any, name: str, exp: Any) -> list[str]:
    """What the query is called among the tables of this part of it."""
    return [one.alias_or_name.lower() for one in sources_of(part) if isinstance(one, exp.Table) and is_named(one, name)]


def least(condition: Any, known: Callable[[Any], Any], exp: Any) -> Any:
    """The best of what is known by one of several conditions, or by each of those of which one is enough; else None."""
    if isinstance(condition, exp.Paren):
        return least(condition.this, known, exp)
    if isinstance(condition, exp.And | exp.Or):
        both = [least(one, known, exp) for one in (condition.left, condition.right)]
        found = [one for one in both if one is not None]
        if isinstance(condition, exp.And):
            return min(found, default=None)
        return max(found) if len(found) == 2 else None
    return known(condition)


def whose(column: Any, own: Own, aliases: set[str]) -> bool | None:
    """Whether a column is one of the query itself; None where that is not seen."""
    if column is None:
        return None
    if column.table:
        return column.table.lower() in aliases
    return column.name.lower() in own.columns if own.columns else None


_DAY = 86_400.0


def counts_to(part: Any, own: Own, exp: Any) -> tuple[float, str] | None:
    """`select n + 1 from own where n < 10`, or downwards, from a number that stands there: how often, and the column.

    Beside another table each round would multiply the rows.
    """
    where = part.args.get("where")
    if where is None or len(sources_of(part)) != 1 or part.find(exp.Star):
        return None
    found: tuple[float, str] | None = least(where.this, lambda one: _counted(one, part, own, exp), exp)
    return found


def _counted(bound: Any, part: Any, own: Own, exp: Any) -> tuple[float, str] | None:
    if isinstance(bound, exp.LT | exp.LTE):
        pairs = [(bound.left, bound.right, 1), (bound.right, bound.left, -1)]
    elif isinstance(bound, exp.GT | exp.GTE):
        pairs = [(bound.right, bound.left, 1), (bound.left, bound.right, -1)]
    elif isinstance(bound, exp.Between):
        pairs = [(bound.this, bound.args["high"], 1), (bound.this, bound.args["low"], -1)]
    else:
        return None
    for counted, end, sign in pairs:
        ahead = number_of(counted.right, exp) if isinstance(counted, exp.Add | exp.Sub) else None
        column = counted if ahead is None else counted.left
        name = column.name.lower() if isinstance(column, exp.Column) else ""
        place = own.columns.index(name) if name in own.columns else len(part.expressions)
        step = _step(part.expressions[place], name, exp) if place < len(part.expressions) else None
        if step is None or step[0] * sign <= 0 or (ahead is not None and step[1] is not None):
            continue
        most = [_span(start, end, step, exp) for start in starts(own.anchors, place, exp)]
        found = [one for one in most if one is not None]
        if most and len(found) == len(most):
            return max(found) + abs(ahead or 0.0), name
    return None


def starts(anchors: list[Any], place: int, exp: Any) -> list[Any]:
    """What the column holds before the first round; an empty list where that is not seen."""
    found = list[Any]()
    for anchor in anchors:
        rows = [anchor] if isinstance(anchor, exp.Select) else anchor.expressions
        if isinstance(anchor, exp.Select) and isinstance(_lone_values(anchor, exp), exp.Values):
            rows = _lone_values(anchor, exp).expressions
        for row in rows if isinstance(anchor, exp.Select | exp.Values) else ():
            if len(row.expressions) <= place:
                return []
            found.append(row.expressions[place])
    return found


def _lone_values(select: Any, exp: Any) -> Any:
    """`values (1)` is read as `select * from (values (1))`."""
    sources = sources_of(select)
    starred = len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star)
    return sources[0] if starred and len(sources) == 1 and isinstance(sources[0], exp.Values) else None


def _step(node: Any, name: str, exp: Any) -> tuple[float, float | None] | None:
    """What is added to the column in each round: an amount, and its unit in seconds; None where that is not seen."""
    casts = list[Any]()
    while isinstance(node, exp.Alias | exp.Paren | exp.Cast):
        casts += [node.to.this] if isinstance(node, exp.Cast) else []
        node = node.this
    if any(one not in exp.DataType.TEMPORAL_TYPES for one in casts):
        return None  # what is text is above every number
    if isinstance(node, exp.Add | exp.Sub):
        sides = [(node.left, node.right)] + ([(node.right, node.left)] if isinstance(node, exp.Add) else [])
        sign = 1 if isinstance(node, exp.Add) else -1
    elif type(node).__name__ in table("sql")["nodes"]["adds_time"]:
        sides, sign = [(node.this, node)], (-1 if "Sub" in type(node).__name__ else 1)
    else:
        return _modified(node, name, exp)
    for column, amount in sides:
        while isinstance(column, exp.Cast | exp.Paren | exp.TsOrDsToDate):
            column = column.this
        if not isinstance(column, exp.Column) or column.name.lower() != name:
            continue
        step = _amount(amount, exp)
        if step is None or (casts and (step[1] is None or step[1] < _DAY)):
            return None
        return step[0] * sign, step[1]
    return None


def _amount(node: Any, exp: Any) -> tuple[float, float | None] | None:
    number = number_of(node, exp)
    if number is not None:  # less than one may be rounded off
        return (number, None) if number.is_integer() else None
    if isinstance(node, exp.Interval):
        amount, unit = node.this, node.args.get("unit")
    else:
        amount, unit = node.args.get("expression"), node.args.get("unit")
        if isinstance(amount, exp.Interval):
            return _amount(amount, exp)
    seconds = table("sql")["units"].get(unit.name.lower().removesuffix("s")) if unit is not None else None
    if seconds is None or amount is None:
        return None
    text = amount.name if isinstance(amount, exp.Literal) else str(number_of(amount, exp))
    return (float(text), float(seconds)) if re.fullmatch(r"-?\d{1,9}(?:\.0)?", text) else None


def _modified(node: Any, name: str, exp: Any) -> tuple[float, float | None] | None:
    """`date(day, '+1 day')` of SQLite; date() drops hours."""
    call = node.name.lower() if isinstance(node, exp.Anonymous) else type(node).__name__.lower()
    parts = list(node.iter_expressions())
    if call not in ("date", "datetime") or len(parts) != 2 or not isinstance(parts[0], exp.Column):
        return None
    match = re.fullmatch(r"([+-]?\d{1,6}) (\w+?)s?", parts[1].name.lower())
    seconds = table("sql")["units"].get(match[2]) if match else None
    if match is None or seconds is None or parts[0].name.lower() != name or (call == "date" and seconds < _DAY):
        return None
    return float(match[1]), float(seconds)


_EXACT = 2.0**53
"""From here on a step of 1 may change nothing (IEEE 754)."""


def _span(start: Any, end: Any, step: tuple[float, float | None], exp: Any) -> float | None:
    """Rounds from `start` to `end`. Between dates that a table holds there are few enough days, but not hours."""
    amount, unit = step
    if unit is None:
        first, last = number_of(start, exp), number_of(end, exp)
        if first is None or last is None or max(abs(first), abs(last)) >= _EXACT:
            return None
        return abs(last - first) / abs(amount) + 1
    if end.find(exp.Column) is not None and end.find(exp.Query) is None:
        return None
    days = [_date_of(one, exp) for one in (start, end)]
    if unit < _DAY and not any(":" in one.name for one in start.find_all(exp.Literal)):
        return None  # a day may be kept without its hours
    if None not in days:
        return float(abs((days[1] - days[0]).total_seconds()) / abs(amount * unit) + 1)
    texts = [one.name for one in end.find_all(exp.Literal) if one.is_string]
    said = all(date_in(one) or re.fullmatch(table("sql")["words"]["of_now"], one.lower()) for one in texts)
    return 1.0 if said and unit >= _DAY and number_of(end, exp) is None else None


def _date_of(node: Any, exp: Any) -> Any:
    texts = list(node.find_all(exp.Literal))
    return date_in(texts[0].name) if len(texts) == 1 and node.find(exp.Column) is None else None


def date_in(text: str) -> datetime | None:
    """The day, and perhaps the time, that a text is.

    >>> date_in("2026-02-01"), date_in("now")
    (datetime.datetime(2026, 2, 1, 0, 0), None)
    """
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None
