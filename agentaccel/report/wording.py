"""A report as words and numbers for people, before any layout: the text and the Markdown form share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentaccel.report.bill import Costs
from agentaccel.report.control import LEAST_SESSIONS
from agentaccel.report.figures import EngineFigures, Group, Latency, Report, verdict_block
from agentaccel.report.numbers import NA, PROSE, Block, Row, clean, exact, factor, plural, share, short, usd
from agentaccel.report.period import moment
from agentaccel.report.wording_groups import (
    SESSION,
    TOTAL,
    all_causes,
    cause_cells,
    cause_header,
    causes_by_group,
    costs_by_group,
    largest_misses,
    output,
    output_usd,
    seconds,
    tokens_by_group,
    total_usd,
)
from agentaccel.types import Cause

if TYPE_CHECKING:
    from agentaccel.report.advise.nouns import Advice


# --- What to change first, and what a control group says, as words and numbers for people -----------------------------

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


WORDS = (SESSION, "cause", PROSE)
"""Headers of columns that hold words, wherever they stand."""

WHAT_TO_DO = """What to do:
  agentaccel report ~/.claude/projects   read the logs of a coding agent here
  client = agentaccel.Accel().wrap(AsyncAnthropic())
                                         record an agent of your own, and then
                                         run `agentaccel report`
"""

EMPTY = f"Nothing to report: there is no request in these records.\n\n{WHAT_TO_DO}"


def headline(report: Report) -> str:
    """What the report is over, in one line."""
    total = report.total
    main = total.sessions - total.subagents
    parts = [plural(main, "session")]
    if total.subagents:
        parts.append(plural(total.subagents, "sub-agent"))
    parts.append(plural(total.requests, "request"))
    if report.first is not None and report.last is not None:
        first, last = (f"{moment(at, report.period.zone):%Y-%m-%d}" for at in (report.first, report.last))
        parts.append(first if first == last else f"{first} to {last}")
    return ", ".join(parts)


def blocks(report: Report) -> list[Block]:
    """The whole report, most important first."""
    total = report.total
    found = [advised(report), _cache(total), _cost(total), _engine(total), against_control(total), _causes(total)]
    found += [
        _beside(total),
        verdict_block(total.verdicts),
        _time(total),
        _early(total),
        _limits(total),
        _requests(total),
        _modes(total),
    ]
    if len(report.groups) > 1 or report.by != "session":
        found += [tokens_by_group(report), costs_by_group(report)]
    if report.causes:
        found += [causes_by_group(report), largest_misses(report)]
    return [block for block in found if block.rows or block.after]


def _cache(group: Group) -> Block:
    tokens = group.tokens
    written = ", ".join(f"{exact(count)} for {clean(label)}" for label, count in sorted(tokens.write.items()))
    known = bool(tokens.known)
    rows: list[Row] = [
        ("hit rate", share(tokens.hit_rate), "cache reads / all input tokens"),
        ("  possible", share(tokens.perfect_rate), "had every earlier prefix been read"),
        ("input", exact(tokens.input) if group.metered else NA, _without_telemetry(group)),
        ("  read", exact(tokens.read) if known else NA, ""),
        ("  written", NA if tokens.written is None else exact(tokens.written), written),
        ("  neither", exact(tokens.uncached) if known else NA, ""),
        ("re-write factor", factor(tokens.rewrite), "written / had to be written once"),
        ("output", output(tokens), _at_least(tokens.partial, group.requests) if tokens.outputs else ""),
    ]
    return Block(title="Prompt cache (tokens)", rows=tuple(rows))


def _at_least(partial: int, requests: int) -> str:
    """That some replies may have had more output than was counted."""
    return f"at least; {partial:,} of {requests:,} recorded incompletely" if partial else ""


def _without_telemetry(group: Group) -> str:
    blind = group.tokens.input - group.tokens.known
    return f"{exact(blind)} of them without cache telemetry" if blind else ""


def _cost(group: Group) -> Block:
    costs = group.costs
    if group.engine is not None and not costs.priced:
        return Block(title="", rows=())
    rows: list[Row] = [
        ("paid for input", usd(costs.paid), _not_priced(group)),
        ("as you wrote it", usd(costs.as_written), _added(costs)),
        ("without cache", usd(costs.without), _against(costs.paid, costs.without)),
        ("perfect cache", usd(costs.perfect), _against(costs.paid, costs.perfect)),
    ]
    for name, ours in (("  pre-warming", group.prewarmed), ("  keeping alive", group.kept)):
        if ours.requests:
            what = f"{plural(ours.requests, 'request')} of our own, in what was paid and in no other figure"
            rows.insert(1, (name, usd(ours.usd), what))
    rows += [
        ("output", output_usd(costs), _at_least(costs.output_partial, costs.priced)),
        ("input and output", total_usd(costs), ""),
    ]
    return Block(title="Cost (USD)", rows=tuple(rows), after=_how_known(group))


def _how_known(group: Group) -> str:
    """Whether the saving was measured; nothing where there is none to speak of."""
    if group.control is not None and group.control.low is not None:
        sessions = plural(group.control.sessions, "session")
        return f"That is modelled. What a control group of {sessions} measured is below."
    if not group.costs.modelled:
        return ""
    return f"Modelled: {'the' if group.control else 'no'} control group{TOO_SMALL if group.control else SET_HOLDOUT}"


def _not_priced(group: Group) -> str:
    """How many requests are in no row: without a price, without cache counters, or without any usage."""
    unpriced = group.requests - group.costs.priced
    return f"{plural(unpriced, 'request')} not priced, in no row" if unpriced else ""


def _added(costs: Costs) -> str:
    """What we did to the bill, a loss in plain words."""
    saved = costs.saved
    if saved is None:
        return "agentaccel changed nothing here" if costs.priced and not costs.unmodelled else ""
    part = f" ({share(abs(saved) / costs.as_written)})" if costs.as_written else ""
    rest = f"; {costs.unmodelled:,} not modelled" if costs.unmodelled else ""
    if saved < 0:
        return f"agentaccel cost {usd(-saved)} more{part}{rest}"
    return f"agentaccel saved {usd(saved)}{part}{rest}"


def _against(paid: float | None, other: float | None) -> str:
    if not paid or other is None:
        return ""
    return f"{other / paid:.2f} times what was paid"


def _causes(group: Group) -> Block:
    rows = tuple(cause_cells(row, group) for row in group.causes)
    after = ""
    if any(row.cause is Cause.FIRST for row in group.causes):
        after = "A first request has nothing of its own session to read."
    elif not rows and group.tokens.known:
        after = "Nothing was missed."
    if len(rows) > 1:
        rows += ((TOTAL, *all_causes(group)),)
    return Block(title="Why tokens were not read", header=cause_header(group), rows=rows, after=after)


def _beside(group: Group) -> Block:
    """What was missed beside middleware that is known to cost something; no block where none stood there."""
    if not group.beside:
        return Block(title="", rows=())
    header = ("middleware", "requests", *cause_header(group))
    none = ("none", "0", "0", *(NA,) * (len(header) - 5))
    rows = tuple(
        (clean(row.name), f"{row.requests:,}", *cells)
        for row in group.beside
        for cells in [cause_cells(cause, group) for cause in row.causes] or [none]
    )
    after = "Misses of the kinds that each brings about, while it stood beside; some may have another cause."
    if any(cause.cause is Cause.FIRST for row in group.beside for cause in row.causes):
        after += " Conversations of your own have first requests, too."
    after += "".join(f" {clean(row.name)}: {row.says}." for row in group.beside)
    return Block(title="Beside other middleware", header=header, rows=rows, after=after)


def _engine(group: Group) -> Block:
    """What servers that the user runs had to compute; no block without any."""
    work = group.engine
    if work is None:
        return Block(title="", rows=())
    rows: list[Row] = [
        (
            "computed",
            exact(work.computed),
            f"of {exact(work.input)} tokens of prompts: {share(work.computed / work.input if work.input else None)}",
        ),
        ("  as you wrote it", exact(work.as_written), _engine_saved(work)),
        (
            "  in",
            f"{seconds(work.prefill)} s",
            f"{work.computed / work.prefill:,.0f} tokens a second" if work.prefill else "",
        ),
    ]
    if work.output is not None and work.decode:
        rows.append(
            (
                "made",
                exact(work.output),
                f"in {seconds(work.decode)} s, {work.output / work.decode:,.1f} tokens a second",
            )
        )
    if work.drafted is not None:
        accepted = share((work.accepted or 0) / work.drafted) if work.drafted else NA
        steps = f"{'at most ' if work.at_most else ''}{factor(work.tokens_per_step)}"
        rows += [
            ("tokens a step", steps, "of replies with drafts"),
            ("accepted", accepted, f"of {exact(work.drafted)} drafted"),
        ]
    after = ""
    if work.requests < group.requests:
        after = f"Over {work.requests:,} of {plural(group.requests, 'request')}: of the others that is not told."
    return Block(title="Engine", rows=tuple(rows), after=after)


def _engine_saved(work: EngineFigures) -> str:
    if work.as_written is None or work.saved is None:
        return ""
    tokens, less = work.as_written - work.computed, work.saved >= 0
    return f"agentaccel {'saved' if less else 'cost'} {exact(abs(tokens))} tokens and {seconds(abs(work.saved))} s"


def _time(group: Group) -> Block:
    tools = group.tools
    rows: list[Row] = []
    for name, latency in (("warm", group.warm), ("cold", group.cold)):
        if latency.count or group.warm.count or group.cold.count:
            rows.append((f"first byte, {name}", _latency(latency), f"p50 / p90 of {latency.count:,}"))
    if not rows:
        whole = "no reply was streamed, so each came as a whole"
        rows.append(("first byte", NA, whole if group.unstreamed else "not recorded in these records"))
    if group.holds.count:
        times = f"{group.holds.count:,}, {group.holds.seconds:,.1f} s in all"
        rows.append(("held back", times, "until another request had written what both begin with"))
    failed = f", {tools.failed:,} failed" if tools.failed else ""
    rows.append(("tool calls", f"{tools.calls:,}{failed}", _unfinished(tools.unfinished)))
    rows.append(("share in tools", share(tools.share), "of the time at work, pauses left out"))
    return Block(title="Time", rows=tuple(rows))


def _early(group: Group) -> Block:
    early = group.early
    if not early.launched and not early.remembered:
        return Block(title="", rows=())
    lost = ((early.stale, "stale"), (early.failed, "failed"), (early.unused, "unused"))
    rows: list[Row] = [
        ("begun early", f"{early.launched:,}", ", ".join(f"{count:,} {why}" for count, why in lost if count)),
        ("served", f"{early.served:,}", f"{early.remembered:,} more from earlier calls" if early.remembered else ""),
        ("waste per hit", NA if early.waste_per_hit is None else f"{early.waste_per_hit:.2f}", "not served / served"),
        ("hidden", f"{early.hidden:,.1f} s", "of runs for which no call waited; not the same as saved"),
        ("wasted", f"{early.wasted:,.1f} s", "of runs that answered no call"),
    ]
    return Block(title="Tools", rows=tuple(rows))


def _unfinished(count: int) -> str:
    return f"{count:,} without a recorded end" if count else ""


def _latency(latency: Latency) -> str:
    if latency.p50 is None or latency.p90 is None:
        return NA
    return f"{latency.p50:.2f} / {latency.p90:.2f} s"


def _limits(group: Group) -> Block:
    limits = group.limits
    if limits.counted is None:
        return Block(title="Rate limit (input tokens)", rows=(("counted", NA, ""),))
    rows = (
        ("counted", exact(limits.counted), _peak(limits.peak_counted)),
        ("with cache reads", exact(limits.everything), _peak(limits.peak_everything)),
    )
    return Block(title="Rate limit (input tokens)", rows=rows)


def _peak(tokens: int | None) -> str:
    return f"{exact(tokens)} in the busiest minute" if tokens is not None else ""


def _requests(group: Group) -> Block:
    rows: list[Row] = [("answered", f"{group.requests:,}", "")]
    if group.unreported:
        blind = plural(group.sessions_unreported, "session")
        rows.append(("no telemetry", f"{group.unreported:,}", f"n/a in the figures; {blind} without any"))
    rows += [(outcome, f"{count:,}", "counted apart") for outcome, count in sorted(group.attempts.items())]
    return Block(title="Requests", rows=tuple(rows))


def _modes(group: Group) -> Block:
    if len(group.modes) < 2:
        return Block(title="", rows=())
    rows = [
        (clean(row.mode), f"{row.requests:,}", share(row.hit_rate), _mean(row.paid, row.priced)) for row in group.modes
    ]
    requests, priced = sum(row.requests for row in group.modes), sum(row.priced for row in group.modes)
    paid = sum(row.paid or 0.0 for row in group.modes)
    rows.append((TOTAL, f"{requests:,}", share(group.tokens.hit_rate), _mean(paid, priced)))
    header = ("mode", "requests", "hit rate", "USD a request")
    after = "USD of input. Holdout and bypass are left as written."
    return Block(title="By mode", header=header, rows=tuple(rows), after=after)


def _mean(paid: float | None, priced: int) -> str:
    return usd(paid / priced if paid is not None and priced else None)
