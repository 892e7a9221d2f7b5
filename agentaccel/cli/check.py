"""`agentaccel check`: whether what was recorded holds what is demanded of it, as an exit code."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from agentaccel.cli.options import (
    Bounds,
    period_options,
    prices_option,
    read_json,
    read_period,
    read_prices,
    say,
    write,
)
from agentaccel.cli.report import ReportOptions, read_report
from agentaccel.errors import AgentAccelError, TraceError
from agentaccel.report.gate import Baseline, Demands, Judged, baseline_of, judge

EXIT = {"holds": 0, "broken": 1, "n/a": 2}


@click.command("check")
@click.argument("sources", nargs=-1, metavar="[STORE | LOGS]...", type=click.Path(path_type=Path))
@click.option("--min-hit-rate", "hit_rate", type=float, metavar="SHARE", help="Of input tokens: 0.8 for 80 %.")
@click.option("--max-cost", "cost", type=float, metavar="USD", help="Of input, in all.")
@click.option("--max-cost-per-request", "per_request", type=float, metavar="USD", help="Of input, for each request.")
@click.option(
    "--no-new-cause",
    "baseline",
    type=click.Path(path_type=Path),
    metavar="BASELINE.json",
    help="No cause of misses beyond those in this report: what `report --format json` printed.",
)
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Judge this agent's requests alone.")
@period_options
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", help="How to show it.")
@prices_option
def check_command(
    sources: tuple[Path, ...],
    agents: tuple[str, ...],
    bounds: Bounds,
    form: str,
    price_file: Path | None,
    **demanded: Any,
) -> None:
    """Exit with 0 where the cache did what is demanded, with 1 where it did not, with 2 where that cannot be told.

    Of the sources that `report` takes, with its figures. What nobody reported never holds.
    """
    try:
        demands = _demands(**demanded)
        prices, period = read_prices(price_file), read_period(bounds)
        report = read_report(sources, ReportOptions(by="agent", prices=prices, period=period, sound=True))
        found = judge(report, demands, agents)
    except AgentAccelError as error:
        say(f"agentaccel check: {error}", err=True)
        sys.exit(2)
    outcome = outcome_of(found)
    if form == "json":
        shown = {"version": 1, "outcome": outcome, "demands": [asdict(one) for one in found], "notes": report.notes}
        write(json.dumps(shown, indent=2) + "\n")
    else:
        say(*(f"{one.outcome:<8}{one.why}" for one in found), *(f"note: {note}" for note in report.notes))
    sys.exit(EXIT[outcome])


def _demands(
    *, hit_rate: float | None, cost: float | None, per_request: float | None, baseline: Path | None
) -> Demands:
    before: Baseline | None = None
    if baseline is not None:
        try:
            before = baseline_of(read_json(baseline))
        except TraceError as error:
            raise TraceError(f"the baseline cannot be used: {error}") from error
    return Demands(hit_rate=hit_rate, cost=cost, cost_per_request=per_request, baseline=before)


def outcome_of(found: list[Judged]) -> str:
    """Broken where any demand is, else n/a where any is, else holds."""
    outcomes = {one.outcome for one in found}
    return next(one for one in ("broken", "n/a", "holds") if one in outcomes)
