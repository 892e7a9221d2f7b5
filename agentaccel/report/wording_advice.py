"""What to change first, and what a control group says, as words and numbers for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentaccel.report.block import PROSE, Block, Row
from agentaccel.report.control import LEAST_SESSIONS
from agentaccel.report.figures import Group, Report
from agentaccel.report.numbers import NA, clean, plural, share, short, usd

if TYPE_CHECKING:
    from agentaccel.report.advise.nouns import Advice

NOTHING = "Nothing was found that would save 2 % of the bill, or of the time at work."

BLIND = "No request says what its cache did, so only times were looked at."

TOO_SMALL, SET_HOLDOUT = " below is too small.", "; set Policy(holdout=0.05)."

MODELLED = (
    "Savings are modelled, by replays of these requests; each comes on top of those above it for the same agent. "
    "Shares are of the bill, output included where it is known, or of the time at work."
)


def advised(report: Report) -> Block:
    """The advice; no block where nobody asked."""
    if report.advice is None:
        return Block(title="", rows=())
    rows = tuple((one.kind, _saving(one), share(one.share), _why(one)) for one in report.advice)
    return Block(
        title="What to change first",
        header=("fault", "saving", "share", PROSE) if rows else (),
        rows=rows,
        after=MODELLED if rows else NOTHING if report.total.tokens.known else f"{NOTHING} {BLIND}",
    )


def _saving(advice: Advice) -> str:
    return f"{_amount(advice.saving, advice)} {_UNITS[advice.unit]}"


_UNITS = {"USD": "USD", "tokens": "tokens", "seconds": "s"}


def _amount(value: float, advice: Advice) -> str:
    if advice.unit == "USD":
        return usd(value)
    return short(round(value)) if advice.unit == "tokens" else f"{value:,.0f}"


def _why(advice: Advice) -> str:
    where = f", {clean(advice.where)}" if advice.where else ""
    off = f" ± {_amount(advice.error, advice)}" if advice.error is not None else ""
    return f"{clean(advice.workload)}{where}: {clean(advice.todo)} ({advice.sure.capitalize()}{off}.)"


def against_control(group: Group) -> Block:
    """Sessions left as written beside the others; no block without both."""
    found = group.control
    if found is None:
        return Block(title="", rows=())
    rows: list[Row] = [
        ("control group", usd(found.usd_control), f"{plural(found.sessions, 'session')} left as written"),
        ("with agentaccel", usd(found.usd_others), plural(found.others, "session")),
        ("measured saving", usd(found.saved), _interval(found.low, found.high, found.usd_control)),
    ]
    after = ""
    if found.low is None or found.high is None:
        after = f"Too small to tell: it takes {LEAST_SESSIONS} sessions in each group."
    elif found.low <= 0 <= found.high:
        after = "The interval holds zero: this may be chance."
    return Block(title="Against the control group (USD per 1,000 input tokens)", rows=tuple(rows), after=after)


def _interval(low: float | None, high: float | None, base: float) -> str:
    if low is None or high is None or not base:
        return NA
    return f"{share(low / base)} to {share(high / base)} of the control's cost, with 95 % confidence"
