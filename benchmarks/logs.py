"""Reading logs into a report takes at most twice as long as parsing their lines with `json.loads`, in under 300 MB, and
with advice at most three times as long as without.
Session logs are made up, as large as asked, in the form in which Claude Code writes them: a line per content block of a
reply, tool results with the structured result beside them, and progress of hooks and commands in between. Parsing alone
and the whole report are timed in turns on the same files; peak memory is that of a process of its own.

*Messages alone* is the worst case: nothing but lines that count, each as short as they get. No bound is set for it.
"""

from __future__ import annotations

import functools
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from agentaccel.cli.report import ReportOptions, read_report
from agentaccel.report import report, to_json
from agentaccel.report.period import EVER
from agentaccel.sources.logs import ImportTally, read_logs
from benchmarks.conversation import text
from benchmarks.measure import Action, alternated
from benchmarks.registry import Cell, Result, Table, benchmark

SPEED, MEMORY, ADVICE = 0.5, 300, 3.0
"""At least this share of the speed of `json.loads`; at most so many MB; at most so many times a report without it."""
KINDS = {"short": (200, True), "middling": (1_400, True), "long": (6_000, True), "messages alone": (200, False)}
"""Bytes of text per block, and whether progress is logged as well."""


@benchmark()
@click.option("--megabytes", default=100, show_default=True, help="Size of each set of logs for peak memory.")
@click.option("--rounds", default=31, show_default=True, help="Rounds of the timing, on a tenth of that.")
def logs(megabytes: int, rounds: int) -> Result:
    return measure(megabytes=megabytes, rounds=rounds)


def measure(*, megabytes: int = 100, rounds: int = 31, quick: bool = False) -> Result:
    """The benchmark; `quick` reads a few megabytes a few times."""
    if quick:
        megabytes, rounds = 3, 3
    rows: list[tuple[Cell, ...]] = []
    broken: list[str] = []
    for name, (content, whole) in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            timed, large = Path(folder) / "timed", Path(folder) / "large"
            count = write(timed, content, whole, max(megabytes * 20_000, 1_000_000))
            write(large, content, whole, megabytes * 1_000_000)
            times = alternated(
                {
                    "json.loads": Action(run=parse, prepare=functools.partial(Path, timed)),
                    "report": Action(run=read, prepare=functools.partial(Path, timed)),
                },
                rounds=rounds,
            )
            beside = {
                "report": Action(run=command, prepare=functools.partial(Path, timed)),
                "advice": Action(run=functools.partial(command, advise=True), prepare=functools.partial(Path, timed)),
            }
            advice = alternated(beside, rounds=max(rounds // 6, 1)).ratio("advice", to="report")
            peak = peak_of(large)
            speed = times.ratio("json.loads", to="report")
            volume = sum(path.stat().st_size for path in timed.iterdir())
        rows.append((name, volume / count, volume / times.median("report") / 1e6, speed, peak, advice))
        if whole and speed < SPEED:
            broken.append(f"{name}: {speed:.2f} of the speed of json.loads, and {SPEED} is the bound")
        if whole and advice > ADVICE:
            broken.append(
                f"{name}: a report with advice takes {advice:.2f} times as long, and {ADVICE:.0f} is the bound"
            )
        if peak > MEMORY:
            broken.append(f"{name}: {peak:.0f} MB, and {MEMORY} MB is the bound")
    slowest = min(float(row[3]) for row in rows[:-1] if isinstance(row[3], float))
    return Result(
        figure=f"Whole logs are read into a report at {slowest:.2f} or more of the speed of json.loads.",
        inputs={"rounds": rounds, "MB for peak memory": megabytes},
        n=rounds,
        tables=(
            Table(
                title="Reading logs",
                columns=("logs", "bytes a line", "MB a second", "speed of json.loads", "peak MB", "with advice"),
                rows=tuple(rows),
                notes=('"with advice" is the CPU time of a report with advice as a multiple of one without',),
            ),
        ),
        broken=tuple(broken),
    )


def parse(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            for line in file:
                json.loads(line)


def read(folder: Path) -> None:
    tally = ImportTally()
    to_json(report(read_logs([folder], tally=tally), tally=tally))


def command(folder: Path, *, advise: bool = False) -> None:
    """What `agentaccel report` does with `folder`, but for showing it."""
    read_report((folder,), ReportOptions(by="session", advise=advise, prices=None, period=EVER))


def peak_of(folder: Path) -> float:
    """Peak resident memory in MB of a process that does nothing but the report."""
    script = "import resource, sys; from pathlib import Path; from benchmarks.logs import read, peak_here\n"
    script += "read(Path(sys.argv[1])); print(peak_here())"
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def peak_here() -> float:
    """Peak resident memory of this process in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # what the system call says includes the process that started this one
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(peak.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def write(folder: Path, content: int, whole: bool, size: int) -> int:
    """Session logs of about `size` bytes with about `content` bytes of text per block; returns the number of lines."""
    folder.mkdir()
    lines = written = session = 0
    while written < size:
        with (folder / f"session-{session:05}.jsonl").open("w", encoding="utf-8") as file:
            for entry in _session(session, content, whole):
                line = json.dumps(entry, separators=(",", ":")) + "\n"
                file.write(line)
                written += len(line)
                lines += 1
        session += 1
    return lines


def _session(number: int, content: int, whole: bool, turns: int = 60) -> Iterator[dict[str, Any]]:
    """A session: for each turn a reply of two lines, one per block, progress, and a tool's result."""
    chance = random.Random(number)
    prompt = 20_000
    common = {"sessionId": f"session-{number}", "version": "2.1.0", "cwd": "/home/user/project", "isSidechain": False}
    for turn in range(turns):
        at = f"2026-11-{1 + number % 28:02}T{turn // 60:02}:{turn % 60:02}:"
        name = f"{number}-{turn}"
        added = chance.randint(100, 3_000)
        for place, block in enumerate(_blocks(turn, name, content)):
            message = {
                "id": f"msg_{name}", "type": "message", "role": "assistant", "model": "claude-sonnet-5",
                "content": [block], "stop_reason": None, "usage": _usage(prompt, added),
            }  # fmt: skip
            line = {"type": "assistant", "uuid": f"a{name}-{place}", "message": message, "requestId": f"req_{name}"}
            yield {**line, **common, "timestamp": f"{at}0{place}.000Z"}
        prompt += added
        for kind in ("hook_progress", "bash_progress") if whole else ():
            data = {"type": kind, "output": _code(turn, content), "elapsedTimeSeconds": 2}
            yield {"type": "progress", "uuid": f"p{name}", "data": data, **common, "timestamp": f"{at}03.000Z"}
        output = _code(turn + 1, content)
        result = {"type": "tool_result", "tool_use_id": f"toolu_{name}", "content": output}
        line = {"type": "user", "uuid": f"u{name}", "message": {"role": "user", "content": [result]}}
        twin = {"toolUseResult": {"stdout": output, "stderr": "", "interrupted": False}} if whole else {}
        yield {**line, **twin, **common, "timestamp": f"{at}05.000Z"}


def _code(seed: int, size: int) -> str:
    """So many bytes of something like source code: lines, indents, quotes, and an umlaut here and there."""
    chance = random.Random(seed)
    lines, length = [], 0
    while length < size:
        words = text(chance.randrange(1_000_000), chance.randint(10, 60)).split()
        line = "    " * chance.randint(0, 3) + f'{words[0]}["{words[-1]}"] = {" + ".join(words)}  # über {len(words)}'
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[:size]


def _blocks(turn: int, name: str, content: int) -> tuple[dict[str, Any], dict[str, Any]]:
    call = {"type": "tool_use", "id": f"toolu_{name}", "name": "Bash", "input": {"command": text(turn, 80)}}
    return {"type": "text", "text": _code(turn, content)}, call


def _usage(read: int, written: int) -> dict[str, Any]:
    return {
        "input_tokens": 3,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 4,
        "service_tier": "standard",
    }
