"""Queries that make rows or text out of nothing: bounded by the numbers that stand in them, or refused."""

from __future__ import annotations

import math
import re
from typing import Any

from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused

MOST_MADE = 1_000_000
"""Rows or characters that a statement may make without reading them anywhere."""


def bounded(root: Any, exp: Any) -> None:
    """Raises `Refused` for a parsed query that may make far more than it reads. `exp`: the nodes of sqlglot.

    Rows of several makers may be joined, so they multiply; so do texts that are made of one another.
    """
    rows, text = 1.0, 1.0
    for node in root.walk():
        if isinstance(node, exp.CTE):
            _calls_itself(node, exp)
        if isinstance(node, exp.Select):
            _multiplies(node, exp)
        if not isinstance(node, exp.Func):
            continue
        _format(node, exp)
        if _makes(node, "makes_rows"):
            rows *= _largest(node, exp)
        if _makes(node, "makes_text"):
            inner = (one for one in node.find_all(exp.Func) if _makes(one, "makes_text"))
            text = max(text, math.prod(_largest(one, exp) for one in inner))
    if rows * text > MOST_MADE:
        raise Refused(f"it may make more than {MOST_MADE} rows or characters out of nothing")


def _makes(node: Any, kind: str) -> bool:
    names = table("sql")["nodes"][kind]
    return type(node).__name__ in names or node.name.lower() in names


def _largest(node: Any, exp: Any) -> float:
    """The largest number of a call that makes rows or text. Numbers that are worked out could be any."""
    if node.find(exp.Mul, exp.Pow, exp.BitwiseXor):
        raise Refused("how much it makes is worked out, and not seen")
    steps = table("sql")["words"]["fine_steps"]
    texts = [
        one.name.lower() for one in node.find_all(exp.Literal, exp.Var) if isinstance(one, exp.Var) or one.is_string
    ]
    if any(re.search(rf"\b(?:{steps})\b", text) for text in texts):
        raise Refused("it counts in steps so fine that there may be any number of them")
    return max([1.0, *(abs(float(one.this)) for one in node.find_all(exp.Literal) if not one.is_string)])


def _format(node: Any, exp: Any) -> None:
    if not {type(node).__name__, node.name.lower(), node.sql_name().lower()} & set(table("sql")["nodes"]["formats"]):
        return
    for one in node.find_all(exp.Literal):
        if one.is_string and re.search(r"[%:][^a-zA-Z%]*(?:\d{4}|\*)", one.this):
            raise Refused("a format makes more than it is given")


def _calls_itself(cte: Any, exp: Any) -> None:
    """Such a query ends by a limit, by a bound on what it counts, or where it follows the rows of another table.

    Several systems do not ask for the word RECURSIVE.
    """
    own = cte.alias.lower()
    if _limited(cte.this, exp):
        return
    for part in cte.this.find_all(exp.Select):
        tables = [one.name.lower() for one in part.find_all(exp.Table)]
        ends = (_limited(part, exp), _counts_to(part, exp), _follows(part, own, exp))
        if own in tables and not any(ends):
            raise Refused("it calls itself without an end that is seen")


def _multiplies(select: Any, exp: Any) -> None:
    """Two tables side by side may be meant; three that nothing ties to one another are the product of their rows."""
    joins = select.args.get("joins") or ()
    if len(joins) < 2:
        return
    names = {one.alias_or_name.lower() for one in select.find_all(exp.Table)}
    tables = [one.this for one in joins if isinstance(one.this, exp.Table | exp.Subquery)]
    tables = [one for one in tables if isinstance(one, exp.Subquery) or isinstance(one.this, exp.Identifier)]
    tables = [
        one for one in tables if isinstance(one, exp.Subquery) or one.db.lower() not in names
    ]  # not a list in a row
    where = select.args.get("where")
    ties = [one.args["on"] for one in joins if one.args.get("on")] + ([where] if where else [])
    tied = sum(bool(one.args.get("using") or one.args.get("method")) for one in joins)
    tied += sum(sum(1 for _ in one.find_all(exp.Column)) // 2 for one in ties)
    if len(tables) - tied >= 2:
        raise Refused("it multiplies the rows of several tables by one another")


def _limited(node: Any, exp: Any) -> bool:
    limit = node.args.get("limit")
    number: Any = limit.expression if isinstance(limit, exp.Limit) else None
    return isinstance(number, exp.Literal) and not number.is_string and float(number.this) <= MOST_MADE


def _counts_to(part: Any, exp: Any) -> bool:
    """`n + 1 … where n < 10`, or downwards."""
    where = part.args.get("where")
    if where is None or where.find(exp.Or, exp.Not):
        return False
    falls = any(one.find(exp.Sub) for one in part.expressions)
    for one in where.find_all(exp.LT, exp.LTE, exp.GT, exp.GTE):
        small, large = (one.left, one.right) if isinstance(one, exp.LT | exp.LTE) else (one.right, one.left)
        counted, end = (large, small) if falls else (small, large)
        numbers = [float(number.this) for number in end.find_all(exp.Literal) if not number.is_string]
        if counted.find(exp.Column) and not end.find(exp.Mul, exp.Pow) and max(numbers, default=0) <= MOST_MADE:
            return True
    return False


def _follows(part: Any, own: str, exp: Any) -> bool:
    """It is joined, by an equation of columns, with a table that is not itself."""
    if not {one.name.lower() for one in part.find_all(exp.Table)} - {own}:
        return False
    where = part.args.get("where")
    conditions = [one.args.get("on") for one in part.args.get("joins") or ()] + [where]
    if any(one.args.get("using") for one in part.args.get("joins") or ()):
        return True
    equations = (one for condition in conditions if condition is not None for one in condition.find_all(exp.EQ))
    return any(one.left.find(exp.Column) and one.right.find(exp.Column) for one in equations)
