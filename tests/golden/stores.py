"""Stores and exported patterns of older versions: what is reported of them, and what they still teach.

The agent of `tests.golden.agents` wrote the files under `files/`, with the code of their time: formats 4, 5 and 6 of
the trace store, and format 1 of exported patterns.
"""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from agentaccel.cli import main
from tests.golden.agents import reported, worked
from tests.golden.form import Case, Rows, stored_rows

FILES = Path(__file__).with_name("files")
FORMATS = (4, 5, 6)
LATER = 7_200.0
"""Seconds from the clock's beginning to the session after those that are stored."""


def cases() -> Iterator[tuple[str, Case]]:
    for number in FORMATS:
        yield f"report of a store of format {number}", partial(_told, number)
        yield f"session after a store of format {number}", partial(_gone_on, number)
    yield "patterns of format 1", _imported


def unpacked(number: int, folder: Path) -> Path:
    """A store of that format with its key."""
    store = folder / "trace.db"
    store.write_bytes(lzma.decompress((FILES / f"format_{number}.db.xz").read_bytes()))
    shutil.copy(FILES / "key", folder / "trace.db.key")
    for path in folder.iterdir():
        path.chmod(0o600)
    return store


def _told(number: int, folder: Path) -> Rows:
    store = unpacked(number, folder)
    return [reported(store), _patterns(store)]


def _gone_on(number: int, folder: Path) -> Rows:
    return session_after(unpacked(number, folder))


def session_after(store: Path) -> Rows:
    """What the agent sends, runs and records in a session after those that are stored."""
    return [*worked("anthropic", store, range(12, 13), LATER), *stored_rows(store)]


def _imported(folder: Path) -> Rows:
    store = folder / "trace.db"
    done = CliRunner().invoke(main, ["patterns", "--store", str(store), "--import", str(FILES / "patterns_1.json")])
    assert done.exit_code == 0, done.output
    return [_patterns(store), *worked("anthropic", store, range(1))]


def _patterns(store: Path) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["patterns", "--store", str(store), "--json"])
    assert done.exit_code == 0, done.output
    return {"patterns": json.loads(done.stdout)}
