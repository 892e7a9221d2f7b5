"""A report for programs: the figures with their own names, `null` where one is not known."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from agentaccel.report.figures import Group, Report

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

VERSION = 1
"""Of the form; raised when a name changes its meaning or goes away, not when one is added."""


def to_json(report: Report) -> dict[str, Json]:
    """The report as plain values for `json.dumps`."""
    return {
        "version": VERSION,
        "by": report.by,
        "first": report.first,
        "last": report.last,
        "since": report.period.since,
        "until": report.period.until,
        "tz": str(report.period.zone),
        "total": _group(report.total),
        "groups": [_group(group) for group in report.groups],
        "causes_by_agent": _plain(report.causes_by_agent),
        "advice": _plain(report.advice),
        "examples": _plain(report.examples),
        "notes": list(report.notes),
    }


def _group(group: Group) -> Json:
    """The stored figures and, beside them, those that follow from them."""
    form = _plain(group)
    assert isinstance(form, dict)
    tokens, costs, tools = form["tokens"], form["costs"], form["tools"]
    assert isinstance(tokens, dict)
    assert isinstance(costs, dict)
    assert isinstance(tools, dict)
    form["hit_rate"] = group.tokens.hit_rate
    form["perfect_hit_rate"] = group.tokens.perfect_rate
    form["rewrite_factor"] = group.tokens.rewrite
    tokens["written"] = group.tokens.written
    del tokens["told"], tokens["outputs"]
    tokens["total"] = group.tokens.input + group.tokens.output if group.metered else None
    if not group.metered:
        tokens.update(input=None, output=tokens["output"] or None)
    if not group.tokens.known:
        tokens.update(dict.fromkeys(("read", "write", "uncached", "needed", "reusable")))
    costs["saved"] = group.costs.saved
    costs["total"] = group.costs.total
    tools["share"] = group.tools.share
    early = form["early"]
    assert isinstance(early, dict)
    early["waste_per_hit"] = group.early.waste_per_hit
    return form


def _plain(value: object) -> Json:
    """A figure with what it holds: enumerations are strings, tuples become lists. `asdict` would copy every leaf."""
    if value is None or type(value) in (int, float, str, bool):
        return cast("Json", value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return cast("Json", value)
