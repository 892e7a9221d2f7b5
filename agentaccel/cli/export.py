"""`agentaccel selfhost export`: recorded conversations as files to train a draft model on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from agentaccel.cli.options import progress, refuse, say, sensitive_option
from agentaccel.report.numbers import plural

if TYPE_CHECKING:
    from agentaccel.replay.export import Chat, ExportTally, Form

TRAIN, HELD_OUT = "train.jsonl", "held-out.jsonl"
_NO_CONSENT = """what was said in these conversations would be written as training data, and a model that is trained
on it may say it again. Give --consent if those who speak there, your contracts and the terms of the models' providers
allow that. Nothing was read or written."""
_UNKNOWN = "in no format that holds conversations"
_SAME = "a draft learns best from replies of the very model that it drafts for"


@click.command("export")
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A folder that is not there yet.")
@click.option("--consent", is_flag=True, help="You may use what was said in these conversations to train a model.")
@click.option(
    "--held-out",
    "share",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.1,
    show_default=True,
    help="The share of tasks that is not trained on.",
)
@click.option(
    "--form",
    type=click.Choice(("conversations", "messages")),
    default="conversations",
    show_default=True,
    help="The field that holds the messages: as trainers of drafts want it, or those of chat models.",
)
@sensitive_option
def export_command(
    traces: tuple[Path, ...], out: Path, consent: bool, share: float, form: Form, sensitive: tuple[str, ...]
) -> None:
    """Write recorded conversations as training data for a draft model, or an EAGLE-3 head, of your own.

    TRACES are files and folders of agent runs, Claude Code's logs (~/.claude/projects), or trace stores that keep
    content. Each conversation is one line of JSON, once; all conversations of a task lie in one of two files,
    train.jsonl and held-out.jsonl. Keys, passwords and what --sensitive names are masked. Names, addresses and all else
    that people say stay as they are: what is written is as private as what was recorded, and only you may read it.
    """
    from agentaccel.errors import AgentAccelError
    from agentaccel.policy import StorePolicy
    from agentaccel.replay.events import recorded
    from agentaccel.replay.export import ExportTally, chosen
    from agentaccel.sources.tally import ImportTally

    if not consent:
        refuse("export", _NO_CONSENT)
    if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
        refuse("export", f"{out} is there already, and nothing is overwritten: name a new folder, or remove this one")
    read, tally = ImportTally(), ExportTally()
    try:
        is_sensitive = StorePolicy(sensitive=sensitive).is_sensitive
        with progress() as told:
            runs = recorded(traces, read, lambda done, total: told("reading", done, total))
            write_files(out, chosen(runs, tally, share=share, sensitive=is_sensitive), form)
    except AgentAccelError as error:
        refuse("export", str(error))
    except OSError as error:
        refuse("export", f"{out} cannot be written: {error.strerror}")
    notes = [*read.notes(_UNKNOWN), *_left_out(tally)]
    if not tally.tasks:
        refuse("export", "; ".join(notes) or "there is no conversation in these records")
    say(*_written(tally, out), *(f"note: {one}" for one in (*notes, *_to_know(tally, share))))


def write_files(folder: Path, chats: Iterable[tuple[Chat, bool]], form: Form) -> None:
    """Write the conversations into `folder`, which appears when all is there; nothing where there is none.

    Raises OSError where it cannot be written, or has come to be there in the meantime.
    """
    from agentaccel.replay.export import line_of

    place = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))  # mode 0700
    try:
        with ExitStack() as opened:
            files: dict[bool, BinaryIO] = {}
            for chat, held_out in chats:
                if held_out not in files:
                    files[held_out] = opened.enter_context(_new(place / (HELD_OUT if held_out else TRAIN)))
                files[held_out].write(line_of(chat, form))
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
        if files:
            if folder.is_dir():
                folder.rmdir()
            place.rename(folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _new(path: Path) -> BinaryIO:
    """A file that nobody else may read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "wb")


def _written(tally: ExportTally, out: Path) -> Iterator[str]:
    tasks = Counter(tally.tasks.values())
    for held_out, name in ((False, TRAIN), (True, HELD_OUT)):
        if tally.chats[held_out]:
            of = f"{plural(tally.chats[held_out], 'conversation')} of {plural(tasks[held_out], 'task')}"
            yield f"{out / name}: {of}"
    replies = "1 reply" if tally.replies == 1 else f"{tally.replies:,} replies"
    yield f"in all {replies} and {plural(tally.calls, 'call')}; secrets masked: {tally.masked:,}"


def _left_out(tally: ExportTally) -> list[str]:
    found = {
        f"conversations without a reply to anything that a user said, left out: {tally.bare:,}": tally.bare,
        f"conversations that were there already, left out: {tally.twice:,}": tally.twice,
        f"conversations that end early, at a call without a result: {tally.cut:,}": tally.cut,
    }
    return [note for note, any_ in found.items() if any_]


def _to_know(tally: ExportTally, share: float) -> Iterator[str]:
    """What to know before training."""
    from agentaccel.facts import known_model
    from agentaccel.sources.tally import some_of

    if share and not tally.chats[True]:
        yield f"no task is held out, of {plural(len(tally.tasks), 'task')}: a larger --held-out may have some"
    if not tally.chats[False]:
        yield "every task is held out, and there is nothing to train on: give a smaller --held-out"
    named = [f"{name} ({n:,})" for name, n in tally.models.most_common()]
    if not named:
        yield f"which model replied is not recorded; {_SAME}"
    elif len(named) > 1:
        yield f"replies are of {len(named)} models: {some_of(named)}; {_SAME}: let that one reply again"
    else:
        yield f"replies are of {named[0]}; {_SAME}: if you serve another one, let that one reply again"
    if sold := [name for name in tally.models if known_model(name)]:
        yield f"the terms of providers may forbid to train on what their models reply, such as {some_of(sorted(sold))}"
