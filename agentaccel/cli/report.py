"""`agentaccel report`: what the cache did, from the trace store or from logs already on disk."""

from __future__ import annotations

import contextlib
import gc
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from agentaccel.cache.price import Override
from agentaccel.cli.options import (
    Bounds,
    format_option,
    layout,
    period_options,
    prices_option,
    progress,
    read_period,
    read_prices,
    say,
    write,
)
from agentaccel.errors import AgentAccelError, TraceError
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.report import By, Report, render_markdown, render_text, to_json
from agentaccel.report import report as fold
from agentaccel.report.period import Period
from agentaccel.report.wording import WHAT_TO_DO
from agentaccel.report.wording_groups import GROUPS_SHOWN
from agentaccel.sources.tally import ImportTally, some_of
from agentaccel.store.database import is_sqlite, store_path

if TYPE_CHECKING:
    from agentaccel.report.advise.nouns import RecordedSession


@click.command("report")
@click.argument("sources", nargs=-1, metavar="[STORE | LOGS]...", type=click.Path(path_type=Path))
@click.option("--by", type=click.Choice(get_args(By)), default="session", help="What to group by.")
@click.option("--causes", is_flag=True, help="Show the causes of misses by group, and the largest misses.")
@click.option("--advise", is_flag=True, help="Say what to change first, with the expected saving.")
@period_options
@format_option
@prices_option
def report_command(
    sources: tuple[Path, ...],
    by: By,
    causes: bool,
    advise: bool,
    bounds: Bounds,
    form: str,
    price_file: Path | None,
) -> None:
    """Show hit rate, cost and the causes of cache misses.

    Without an argument: of the trace store. Otherwise of a trace store, or of log files and folders of them, such as
    ~/.claude/projects.
    """
    with _uncollected():
        try:
            prices, period = read_prices(price_file), read_period(bounds)
            most = None if form == "json" else GROUPS_SHOWN
            asked = ReportOptions(by=by, causes=causes, advise=advise, prices=prices, period=period, most=most)
            found = read_report(sources, asked)
        except AgentAccelError as error:
            say(f"agentaccel report: {error}", err=True)
            if not sources and isinstance(error, TraceError) and not store_path(None).exists():
                say(*WHAT_TO_DO.splitlines(), err=True)
            sys.exit(2)
        write(_shown(found, form))


def read_report(sources: tuple[Path, ...], asked: ReportOptions) -> Report:
    """The report on the trace store, where nothing is named, on the one that is, or on logs. Raises TraceError."""
    read = _from_logs if _are_logs(sources) else _from_store
    return read(sources, asked)


def _are_logs(sources: tuple[Path, ...]) -> bool:
    """Whether the sources are logs; a trace store stands alone. Raises TraceError for a mixture."""
    stores = [path for path in sources if is_sqlite(path)]
    if stores and len(sources) > 1:
        raise TraceError(f"report on one trace store at a time, and not together with logs: {stores[0]}")
    return bool(sources) and not stores


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What the report is to say."""

    by: By
    causes: bool = False
    advise: bool = False
    prices: Override | None
    period: Period
    most: int | None = None
    """Groups that are shown; None for all."""
    sound: bool = False
    """True if a damaged store is refused also where some of it can be read."""


def _from_store(sources: tuple[Path, ...], asked: ReportOptions) -> Report:
    from agentaccel.store.evidence import evidence
    from agentaccel.store.store import check, explain_nothing, open_reader

    with open_reader(sources[0] if sources else None) as reader:
        records = evidence(reader, asked.period.since, asked.period.until)
        found = fold(records, asked.by, asked.causes, prices=asked.prices, period=asked.period, most=asked.most)
        skipped = reader.skipped
        if found.empty:
            explain_nothing(reader)
        elif asked.sound:
            check(reader)
        if asked.advise:
            from agentaccel.report.advise.reading import talks_of_store

            found = _advised(found, partial(talks_of_store, reader, asked.period), asked)
    if not skipped:
        return found
    gap = f"rows of the store that could not be read, and were skipped: {skipped:,}"
    return replace(found, notes=(*found.notes, gap), gaps=(*found.gaps, gap))


def _from_logs(sources: tuple[Path, ...], asked: ReportOptions) -> Report:
    from agentaccel.sources.logs import read_logs

    tally = ImportTally()
    with progress(in_bytes=True) as bar:
        told = partial(bar, "reading logs")
        records: Iterable[TurnRecord | ToolRecord] = read_logs(sources, progress=told, tally=tally)
        if asked.advise:
            records = [one for one in records if not asked.period.bounded or asked.period.holds(one.started)]
        found = fold(
            records, asked.by, asked.causes, prices=asked.prices, tally=tally, period=asked.period, most=asked.most
        )
    if found.empty and (tally.unrecognised or tally.unreadable or tally.skipped or not tally.files):
        nothing = f"there is no log in {some_of([str(path) for path in sources])}"
        raise TraceError("; ".join((*(found.notes or (nothing,)), *_for_others(sources))))
    if not asked.advise:
        return found
    from agentaccel.report.advise.reading import talks_of_logs

    return _advised(found, partial(talks_of_logs, records), asked)


def _advised(found: Report, talks: Callable[[], Sequence[RecordedSession]], asked: ReportOptions) -> Report:
    """`found` with what to change first; what replays is much to load, and nothing else needs it."""
    from agentaccel.report.advise.choose import advise

    with progress() as told:
        told("rebuilding prompts", 0, 1)
        return replace(found, advice=advise(talks(), prices=asked.prices, tell=partial(told, "trying what to change")))


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for cycles: a million records have none, nor has the price list, and looking for them takes a
    sixth of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _for_others(sources: tuple[Path, ...]) -> list[str]:
    """What is there that is no log, and how it is read; looked for where no log was."""
    from agentaccel.replay.read import groups_of

    there = [path for path in sources if path.is_dir() or path.is_file()]
    groups = groups_of(there, ImportTally())
    traces = [str(file) for group in groups if group.kind == "geometry" for file in group.files]
    inside = (file for path in there if path.is_dir() for file in sorted(path.rglob("*")))
    stores = [str(file) for file in inside if file.is_file() and is_sqlite(file)]
    found = {
        f"for `agentaccel replay`, which reads prefix traces: {some_of(traces)}": traces,
        f"a trace store is read where it is named itself: {some_of(stores)}": stores,
    }
    return [sentence for sentence, any_ in found.items() if any_]


def _shown(report: Report, form: str) -> str:
    if form == "json":
        return json.dumps(to_json(report), indent=2) + "\n"
    if form == "markdown":
        return render_markdown(report)
    width, color = layout()
    return render_text(report, width, color=color)
