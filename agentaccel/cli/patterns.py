"""`agentaccel patterns`: what was learned of tool calls, shown, taken elsewhere, or cleared."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from agentaccel.cli.options import confirm, layout, read_text, say, write
from agentaccel.errors import ConfigError, TraceError
from agentaccel.hashing import digest
from agentaccel.predict.merge import exported, imported, loaded
from agentaccel.predict.redaction import FLEET, Parts
from agentaccel.predict.show import Shown, show
from agentaccel.report.numbers import clean
from agentaccel.report.render import drawn, terminal
from agentaccel.store.database import DAMAGED, store_path
from agentaccel.store.ownership import load_key
from agentaccel.store.patterns import Shelf, add_to_shelf, clear_shelf, known_lessons, read_shelf
from agentaccel.store.store import Store, check_before_writing, explain_nothing, open_reader

# --- How learned patterns look on a terminal --------------------------------------------------------------------------

NOTHING = "nothing was learned yet: agents teach while they run, and `agentaccel learn TRACES...` takes recorded runs\n"


def to_text(shown: Shown, width: int, *, color: bool) -> str:
    """The patterns for a terminal of `width` columns."""
    from rich.table import Table

    if not shown.steps and not shown.patterns:
        return NOTHING
    console = terminal(width, color=color)

    def table(title: str, rows: Iterable[tuple[str, ...]]) -> None:
        grid = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for row in rows:
            grid.add_row(*(f"  {clean(row[0])}", *map(clean, row[1:])))
        if grid.row_count:
            console.print(title, style="bold")
            console.print(grid)

    table("workloads", ((name.removeprefix("agent "),) for name in shown.workloads))
    table("what comes next", ((one.after, one.then, f"{one.times} of {one.of}") for one in shown.steps))
    table(
        "calls, and where their arguments come from",
        ((f"{one.right} of {one.met}", one.words) for one in shown.patterns),
    )
    table(
        "values that are kept",
        ((f"{one.tool}.{one.argument}", repr(one.value), f"{one.sessions} sessions") for one in shown.values),
    )
    return drawn(console)


store_option = click.option(
    "--store",
    "store",
    type=click.Path(path_type=Path),
    help="The trace store; by default yours.",
)
workload_option = click.option("--workload", metavar="NAME", help="The agent that it is about.")


@click.command("patterns")
@workload_option
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--export", "export", type=click.Path(path_type=Path), help="Write a file of them.")
@click.option("--import", "import_", type=click.Path(path_type=Path), help="Add those of such a file.")
@click.option("--clear", is_flag=True, help="Remove them.")
@click.option("--yes", is_flag=True, help="Do not ask before removing.")
def patterns_command(
    workload: str | None,
    store: Path | None,
    as_json: bool,
    export: Path | None,
    import_: Path | None,
    clear: bool,
    yes: bool,
) -> None:
    """Show what was learned of tool calls: what follows what, where arguments come from, and every value that is kept.

    With --export, --import or --clear: take it elsewhere, add what was learned elsewhere, or remove it.
    """
    if sum((export is not None, import_ is not None, clear)) > 1:
        raise ConfigError("give one of --export, --import and --clear")
    path = store_path(store)
    if import_ is not None:
        _import(path, import_)
    elif clear:
        _clear(path, workload, yes)
    elif export is not None:
        _write(export, exported(_of(_shelf(path), workload)))
        say(f"patterns written to {export}")
    else:
        _show(_of(_shelf(path), workload), workload, as_json)


def named(workload: str) -> str:
    """The workload of an agent of that name; one that is named in full, as the list has it, is itself."""
    return workload if workload.startswith(("agent ", "tools ")) else f"agent {workload}"


@contextmanager
def opened(path: Path, *, new: bool = False) -> Iterator[Store]:
    """The trace store at `path`, to be written; what SQLite raises is raised as `TraceError`.

    Unless it may be `new`, one that holds something must be there.
    """
    check_before_writing(path, new=new)
    try:
        store = Store(path)
        try:
            yield store
        finally:
            store.close()
    except DAMAGED as error:
        raise TraceError(f"{path} cannot be used: {error}") from error


def key_of(path: Path) -> bytes:
    """The key of the store at `path`, made where there is none yet and one can be. Raises `TraceError`."""
    try:
        return load_key(path)
    except OSError as error:
        raise TraceError(f"there can be no trace store at {path}: {error.strerror}") from error


def _shelf(path: Path) -> Shelf:
    with open_reader(path) as store:
        try:
            shelf = read_shelf(store)
        except DAMAGED as error:
            raise TraceError(f"{path} cannot be read: {error}") from error
        if not shelf.parts:
            explain_nothing(store)
    for workload, why in shelf.barred.items():
        say(f"note: the patterns of {workload or 'all workloads'} are left alone: {why}", err=True)
    return shelf


def _of(shelf: Shelf, workload: str | None) -> Parts:
    if workload is None:
        return dict(shelf.parts)
    name = named(workload)
    if name not in shelf.parts:
        known = ", ".join(sorted(one.removeprefix("agent ") for one in shelf.parts if one)) or "none"
        raise TraceError(f"nothing was learned of {workload!r}; known are {known}")
    return {one: part for one, part in shelf.parts.items() if one in (name, FLEET)}


def _show(parts: Parts, workload: str | None, as_json: bool) -> None:
    shown = show(loaded(parts), None if workload is None else named(workload))
    if as_json:
        write(json.dumps(asdict(shown), indent=2) + "\n")
    else:
        width, color = layout()
        write(to_text(shown, width, color=color))


def _clear(path: Path, workload: str | None, yes: bool) -> None:
    what = "everything that was learned of tool calls" if workload is None else f"what follows what in {workload}"
    if not yes:
        confirm(f"Remove {what} from {path}?")
    with opened(path) as store:
        gone = clear_shelf(store, None if workload is None else named(workload))
    say(f"{gone} parts removed from {path}")


def _import(path: Path, file: Path) -> None:
    check_before_writing(path, new=True)
    data = read_text(file).encode()
    try:
        imported(data, b"")  # before a key is left beside the store
    except ValueError as error:
        raise TraceError(f"{file} cannot be imported: {error}") from error
    key = key_of(path)
    news = imported(data, key)
    lesson = digest(data, key)
    with opened(path, new=True) as store:
        if lesson in known_lessons(store):
            raise TraceError(f"{file} was imported before; once more would count everything twice")
        add_to_shelf(store, news, now=time.time(), lessons=[lesson])
    say(f"{len(news.parts)} parts added to {path}")


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise TraceError(f"{path} cannot be written: {error.strerror}") from error
