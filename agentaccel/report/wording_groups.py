"""A report's tables of groups as words and numbers for people, and the figures that every table writes alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentaccel.report.bill import Costs, Tokens
from agentaccel.report.figures import CauseRow, Group, Report
from agentaccel.report.numbers import NA, PROSE, Block, Row, clean, exact, share, short, usd
from agentaccel.report.period import moment
from agentaccel.types import Cause

GROUPS_SHOWN = 40
"""Groups in a table for people; the JSON form has all."""

FULL = 1_000_000_000
"""Tokens from which a table of groups writes millions."""

SESSION = "session"
MODEL = "model"

TOTAL = "total"
"""What the last row of a table is called, which is over everything."""


def tokens_by_group(report: Report) -> Block:
    rows = _by_group(report, lambda group: (f"{group.requests:,}", *_counters(group.tokens)))
    header = (report.by, "requests", "uncached", "read", "written", "output")
    return Block(title=f"By {report.by} (tokens)", header=header, rows=rows)


def costs_by_group(report: Report) -> Block:
    rows = _by_group(
        report,
        lambda group: (
            share(group.tokens.hit_rate),
            usd(group.costs.paid),
            output_usd(group.costs),
            total_usd(group.costs),
        ),
    )
    header = (report.by, "hit rate", "input", "output", TOTAL)
    more = len(report.groups) + report.more - GROUPS_SHOWN
    after = f"And {more:,} more: --format json has them all." if more > 0 else ""
    return Block(title=f"By {report.by} (USD)", header=header, rows=rows, after=after)


def _by_group(report: Report, figures: Callable[[Group], Row]) -> tuple[Row, ...]:
    """A row for each group that is shown, and the total, which is over all of them."""
    rows = [(clean(group.name), *figures(group)) for group in report.groups[:GROUPS_SHOWN]]
    return (*rows, (TOTAL, *figures(report.total))) if len(report.groups) > 1 else tuple(rows)


def _counters(tokens: Tokens) -> Row:
    """Uncached, read, written and output tokens; in full while a column can hold them."""

    def shown(count: int | None) -> str:
        return NA if count is None else exact(count) if count < FULL else short(count)

    if not tokens.known:
        return NA, NA, NA, output(tokens)
    return shown(tokens.uncached), shown(tokens.read), shown(tokens.written), output(tokens)


def largest_misses(report: Report) -> Block:
    rows = tuple(
        (
            f"{moment(row.started, report.period.zone):%m-%d %H:%M}" if row.started else NA,
            clean(row.session),
            short(row.tokens),
            ": ".join(part for part in (named(row.cause, row.inferred), clean(row.detail)) if part),
        )
        for row in report.examples
    )
    title = f"Largest misses (times in {report.period.zone})"
    return Block(title=title, header=("when", SESSION, "tokens", PROSE), rows=rows)


def causes_by_group(report: Report) -> Block:
    rows = tuple(
        (clean(group.name), *cause_cells(row, report.total))
        for group in report.groups[:GROUPS_SHOWN]
        for row in group.causes
    )
    if len(rows) > 1:
        rows += ((TOTAL, "", *all_causes(report.total)),)
    header = (report.by, *cause_header(report.total))
    return Block(title=f"Causes by {report.by}", header=header, rows=rows)


def output(tokens: Tokens) -> str:
    """Output tokens, marked where there may have been more."""
    return f"{'≥' if tokens.partial else ''}{exact(tokens.output)}" if tokens.outputs else NA


def output_usd(costs: Costs) -> str:
    """What was paid for output, marked where it may have been more."""
    bound = "≥" if costs.output_partial and costs.output_at_least is not None else ""
    return f"{bound}{usd(costs.output_at_least)}"


def total_usd(costs: Costs) -> str:
    """What was paid in all, marked where it may have been more."""
    return f"{'≥' if costs.output_partial else ''}{usd(costs.total)}"


def cause_header(group: Group) -> Row:
    """The columns of a table of causes: with seconds where a server of the user's own computed tokens again."""
    return ("cause", "times", "tokens", "USD", *(("seconds",) if group.engine is not None else ()))


def cause_cells(row: CauseRow, total: Group) -> Row:
    """One cause in these columns."""
    cells = named(row.cause, row.inferred), f"{row.misses:,}", exact(row.tokens), usd(row.usd)
    return cells if total.engine is None else (*cells, seconds(row.seconds))


def all_causes(group: Group) -> Row:
    """The misses of all causes, in all columns but the first."""
    misses, tokens = sum(row.misses for row in group.causes), sum(row.tokens for row in group.causes)
    cells = f"{misses:,}", exact(tokens), usd(_sum([row.usd for row in group.causes]))
    return cells if group.engine is None else (*cells, seconds(_sum([row.seconds for row in group.causes])))


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def seconds(value: float | None) -> str:
    """A time of an engine."""
    return NA if value is None else f"{value:,.1f}"


def named(cause: Cause, inferred: bool) -> str:
    """A cause, with the label of an inference; *unexplained* claims nothing and needs none."""
    return f"{cause} (inferred)" if inferred and cause is not Cause.UNKNOWN else str(cause)
