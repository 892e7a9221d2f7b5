"""`agentaccel patterns`: what was learned of tool calls, shown, taken elsewhere, or cleared."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from agentaccel.canonical import digest
from agentaccel.cli.options import confirm, layout, read_text, say, write
from agentaccel.cli.patterns_text import to_text
from agentaccel.errors import ConfigError, TraceError
from agentaccel.speculate.exchange import exported, imported, loaded
from agentaccel.speculate.private import FLEET, Parts
from agentaccel.speculate.show import show
from agentaccel.trace.database import DAMAGED, store_path
from agentaccel.trace.key import load_key
from agentaccel.trace.shelf import Shelf, add_to_shelf, clear_shelf, known_lessons, read_shelf
from agentaccel.trace.soundness import check_before_writing, explain_nothing
from agentaccel.trace.store import Store, open_reader

store_option = click.option(
    "--store",
    "store",
    type=click.Path(path_type=Path),
    help="The trace store; by default yours.",
)
workload_option = click.option("--workload", metavar="NAME", help="The agent that it is about.")
sensitive_option = click.option(
    "--sensitive",
    multiple=True,
    metavar="TOOL.ARGUMENT",
    help="An argument whose values are not to be kept, as in StorePolicy; * stands for anything.",
)


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
