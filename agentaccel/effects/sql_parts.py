"""Parts of a parsed query, as the readers of its size ask for them. `exp`: the nodes of sqlglot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


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
