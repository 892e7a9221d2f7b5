"""A report of a trace store takes at most 0.04 ms of CPU for each turn and 200 MB, and starts in 1.5 times what loading
the libraries and the price list takes.
Stores are made of the demo's: its 72 turns and their tool calls, as often as it takes, each time a little later and in
sessions of their own, over ninety days. A report is the command in a process of its own; its CPU time is without what
the command takes for the demo's store by itself, which is beside it. `select` is `count(*)` and the sum of the input
tokens over the same rows, in SQLite alone: what only reading costs.

With a million turns the file has four gigabytes, in the folder for temporary files.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import click

from agentaccel.demo.run import run_demo
from agentaccel.policy import CachePolicy
from benchmarks.registry import Cell, Result, Table, benchmark

BOUND_MS, BOUND_MB, BOUND_START = 0.04, 200, 1.5
"""CPU time of a report for each turn, its peak memory, and that of a small one in times of what loading alone takes."""
DAYS, LAST = 90, 0.1
"""Days that a store is of, and the share of them that `--since` names."""

_MOVED = ", ".join(f"'$.{name}', json_extract(record, '$.{name}') + :later" for name in ("first_byte", "finished"))
_RECORD = f"json_set(record, '$.session', session || :tag, '$.started', started + :later, {_MOVED})"
_COPIES = (
    "INSERT INTO turns (session, started, tools, system, messages, record)"
    f" SELECT session || :tag, started + :later, tools, system, messages, {_RECORD} FROM demo.turns LIMIT :left",
    f"INSERT INTO tools (session, started, record) SELECT session || :tag, started + :later, {_RECORD} FROM demo.tools",
)


@benchmark()
@click.option(
    "--turns", multiple=True, type=int, default=(10_000,), show_default=True, help="Turns; as often as wanted."
)
@click.option("--rounds", default=3, show_default=True, help="Reports of each store; the quickest counts.")
def store(turns: tuple[int, ...], rounds: int) -> Result:
    return measure(turns=turns, rounds=rounds)


def measure(*, turns: tuple[int, ...] = (10_000,), rounds: int = 3, quick: bool = False) -> Result:
    """The benchmark; `quick` makes one small store."""
    if quick:
        turns, rounds = (1_000,), 1
    rows: list[tuple[Cell, ...]] = []
    broken: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder) / "demo.db"
        run_demo(demo, lambda what: None, provider="anthropic", cache=CachePolicy())
        begun, loading = started(demo, rounds)
        if not quick and begun > BOUND_START * loading:
            broken.append(
                f"a start takes {begun / loading:.2f} times what loading does, and {BOUND_START} is the bound"
            )
        start, _ = reported(demo, rounds)
        for count in turns:
            path = Path(folder) / f"{count}.db"
            tools, last = make(path, demo, count)
            whole, peak = reported(path, rounds)
            since, less = reported(path, rounds, "--since", last)
            rows.append((count, tools, start, whole - start, peak, since - start, less, selected(path)))
            each = (whole - start) / count * 1e3
            if not quick and each > BOUND_MS:
                broken.append(f"{count:,} turns: {each:.3f} ms of CPU a turn, and {BOUND_MS} is the bound")
            if max(peak, less) > BOUND_MB:
                broken.append(f"{count:,} turns: {max(peak, less):.0f} MB, and {BOUND_MB} MB is the bound")
            path.unlink()
    turns_at_last, _, _, cpu, most, *_ = rows[-1]
    assert isinstance(cpu, float)
    assert isinstance(turns_at_last, int)
    each = cpu / turns_at_last * 1e3
    return Result(
        figure=f"A report of {turns_at_last:,} turns takes {each:.3f} ms of CPU a turn, and {most:.0f} MB.",
        inputs={"rounds": rounds, "share of the days since": LAST},
        n=len(rows) * rounds,
        tables=(
            Table(
                title="Reporting a store",
                columns=("turns", "tool calls", "start, s", "report, s", "MB", "--since, s", "MB", "select, s"),
                rows=tuple(rows),
                notes=(
                    "CPU time; `report` and `--since` are beyond what a start takes.",
                    f"A report of a small store takes {begun:.3f} s, and loading libraries and prices {loading:.3f} s.",
                ),
            ),
        ),
        broken=tuple(broken),
    )


def make(path: Path, demo: Path, turns: int) -> tuple[int, str]:
    """Write a store of so many turns; how many tool calls it has, and when its last tenth begins."""
    with closing(sqlite3.connect(demo)) as connection:
        connection.execute("VACUUM INTO ?", (str(path),))
        (each,) = connection.execute("SELECT count(*) FROM turns").fetchone()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; DELETE FROM turns; DELETE FROM tools"
        )
        connection.execute("ATTACH ? AS demo", (str(demo),))
        copies = -(-turns // each)
        for number in range(copies):
            values = {"tag": f" #{number}", "later": DAYS * 86_400 * number / copies, "left": turns - number * each}
            for statement in _COPIES:
                connection.execute(statement, values)
        connection.commit()
        (tools,) = connection.execute("SELECT count(*) FROM tools").fetchone()
        first, last = connection.execute("SELECT min(started), max(started) FROM turns").fetchone()
    since = time.gmtime(last - LAST * (last - first))
    return tools, time.strftime("%Y-%m-%dT%H:%M:%S", since)


_REPORT = """
import sys, time
from agentaccel.cli import main
main(["report", *sys.argv[1:]], standalone_mode=False)
took = time.process_time()
from benchmarks.logs import peak_here
print(took, peak_here(), file=sys.stderr)
"""
_LOADING = "import click, rich, sqlite3, orjson; from genai_prices.data_snapshot import get_snapshot as load; load()"


def started(path: Path, rounds: int) -> tuple[float, float]:
    """CPU seconds of the command for a small store, and of loading what it needs alone; the quickest of some, in turns.

    Of whole processes, from their start to their end.
    """
    found = [(spent("-m", "agentaccel", "report", str(path)), spent("-c", _LOADING)) for _ in range(3 * rounds)]
    return min(start for start, _ in found), min(loading for _, loading in found)


def spent(*arguments: str) -> float:
    """CPU seconds of a process."""
    before = os.times()
    python(*arguments)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def reported(path: Path, rounds: int, *options: str) -> tuple[float, float]:
    """CPU seconds of the quickest of some reports, and the most MB that one of them took."""
    found = []
    for _ in range(rounds):
        seconds, peak = python("-c", _REPORT, str(path), *options).split()[-2:]
        found.append((float(seconds), float(peak)))
    return min(seconds for seconds, _ in found), max(peak for _, peak in found)


def python(*arguments: str) -> str:
    """What a process says on standard error. As where it was installed, our package is compiled once."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stderr


def selected(path: Path) -> float:
    """CPU seconds of counting and summing the same rows."""
    with closing(sqlite3.connect(path)) as connection:
        began = time.process_time()
        connection.execute("SELECT count(*), sum(json_extract(record, '$.usage.input')) FROM turns").fetchone()
        connection.execute("SELECT count(*) FROM tools WHERE record IS NOT NULL").fetchone()
        return time.process_time() - began
