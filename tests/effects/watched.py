"""Lines run by our executor in a process of its own, and what a tracer saw its programs ask of the kernel.

`python -m tests.effects.watched JOB` is that process: before each line it asks for a folder to be taken away that is
not there, so that whoever traces it knows which line is on.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from agentaccel.effects import early
from agentaccel.effects.shell import commands
from agentaccel.effects.spec import NotProven, running_early
from agentaccel.executors import Shell
from tests.effects.forms import path_of, said
from tests.effects.sandbox import snapshot

ROOT = Path(__file__).parents[2]
MARK = "/the/line/that/is/on"
WRITES: tuple[str, ...] = tuple(said()["changing"].split())
"""Calls that change something whatever is handed to them."""
LOOKED_INTO = ("open", "openat", "openat2", "connect", "sendto", "sendmsg", "sendmmsg", "ioctl", "syslog")
"""Calls that do so or not."""
_CALL = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\w+)(?: (E\w+))?.*")
_HARMLESS = re.compile(r'"/dev/(?:null|tty)"|"/proc/self/(?:fd/\d+|task/\d+/comm|coredump_filter)"|<pipe:')
_CHANGES = {
    "ioctl": r"SIOC(?:S|ADD|DEL)|TIOCSTI|BLKROSET|RTC_SET|FS_IOC_SET|FIFREEZE",
    "syslog": r"SYSLOG_ACTION_(?:CLEAR|READ_CLEAR|CONSOLE|READ,)",
    "sendto": r"RTM_(?:NEW|DEL|SET)",
    "sendmsg": r"RTM_(?:NEW|DEL|SET)",
    "sendmmsg": r"RTM_(?:NEW|DEL|SET)",
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """Lines and where they run."""

    work: str
    home: str
    lines: list[str]
    path: str
    alone: bool = False
    """In a network of its own, in which there is this machine and nobody else."""
    pointed: dict[str, str] = field(default_factory=dict)
    """Variables that lead a client to a server of ours: its program is then started as by our executor, with them."""

    def __post_init__(self) -> None:
        assert all("\n" not in line for line in self.lines)


class Seen(NamedTuple):
    """What came of one line."""

    line: str
    status: int | None
    """None where it was stopped, or not proven."""
    text: str
    calls: list[str]
    """Of the kernel, that change something or speak to somebody."""


async def _run(job: Job) -> list[tuple[int | None, str]]:
    environment = {"PATH": job.path, "HOME": job.home}
    shell = Shell(cwd=job.work, home=job.home, environment=environment, path=job.path, timeout=30)
    found = list[tuple[int | None, str]]()
    for number, line in enumerate(job.lines):
        shell.judge(line)  # so that the verdict is at hand: an early run does not wait long for one
        _mark(number)
        try:
            with running_early():
                found.append(_pointed(job, line) if job.pointed else await _proven(shell, line))
        except NotProven:
            found.append((None, f"not proven: {shell.judge(line).evidence[0].why}"))
        except TimeoutError:
            found.append((None, "it waits"))
    _mark(len(job.lines))
    return found


def _mark(number: int) -> None:
    with suppress(FileNotFoundError):
        os.rmdir(f"{MARK}/{number}")


async def _proven(shell: Shell, line: str) -> tuple[int | None, str]:
    ran = await shell.execute(line)
    return ran.status, ran.err or ran.out


def _pointed(job: Job, line: str) -> tuple[int | None, str]:
    words = early.argv([word.text for word in commands(line)[0].words])
    environment = {**early.environment(job.home), "PATH": job.path, **job.pointed}
    try:
        ran = subprocess.run(
            words, cwd=job.work, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=30
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return ran.returncode, (ran.stderr or ran.stdout).decode(errors="replace")


def watched(job: Job, folder: Path) -> list[Seen]:
    """Run the job under `strace` where that works, else unseen."""
    given, log = folder / "job.json", folder / "calls.log"
    given.write_text(json.dumps(asdict(job)))
    traced = ",".join(f"?{call}" for call in (*WRITES, *LOOKED_INTO))  # ? is: where there is such a call
    tracer = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "200", "-y", "-e", f"trace={traced}", "-e", "signal=none"]
    command = [sys.executable, "-m", "tests.effects.watched", str(given)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = [*tracer, "-o", str(log), *command] if traces() else command
    started = [*ALONE, *started] if job.alone else started
    ran = subprocess.run(started, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True, timeout=1700)
    calls: Mapping[int, list[str]] = calls_of(log.read_text(errors="replace").splitlines()) if traces() else {}
    found = json.loads(ran.stdout)
    return [Seen(line, *one, calls.get(n, [])) for n, (line, one) in enumerate(zip(job.lines, found, strict=True))]


def harmless(
    root: Path,
    lines: Sequence[str],
    *,
    asked: bool = False,
    alone: bool = False,
    pointed: Mapping[str, str] | None = None,
) -> None:
    """Assert that these lines change nothing below `root/place`, write no file elsewhere and speak to nobody.

    Clients that were `asked` for may speak to this machine, and ask for names where they are `alone`.
    """
    place, beside = root / "place", dict(pointed or {})
    path = path_of(root)
    job = Job(work=f"{place}/work", home=f"{place}/home", lines=[*lines], path=path, alone=alone, pointed=beside)
    before = snapshot(place)
    seen = watched(job, root)
    wrong = [f"{one.line}: {call}" for one in seen for call in one.calls if not _excused(one.line, call, asked, alone)]
    wrong += [f"{one.line}: {one.text}" for one in seen if one.status is None]
    changed = sorted(set(before.items()) ^ set(snapshot(place).items()))
    assert not [*wrong, *changed], "\n".join([*wrong[:9], *map(str, changed[:9])])


def _excused(line: str, call: str, asked: bool, alone: bool) -> bool:
    if asked and re.search(r'inet_addr\("127\.|inet_pton\(AF_INET6, "::(?:1|ffff:127[.\d]+)"', call):
        return True
    if asked and alone and "htons(53)" in call:
        return True
    rules = said()["exception"]
    return any(re.fullmatch(one["lines"], line) and re.fullmatch(one["calls"], call) for one in rules)


ALONE = ("unshare", "-rn", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")
"""Words before those that start a program in a network of its own."""


def can_be_alone() -> bool:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return not subprocess.run([*ALONE, "true"], capture_output=True, timeout=30).returncode


def traces() -> bool:
    """Whether there is a tracer that may trace here."""
    program = shutil.which("strace")
    return (
        program is not None
        and not subprocess.run(
            [program, "-f", "--seccomp-bpf", "-o", "/dev/null", "true"], capture_output=True, timeout=30
        ).returncode
    )


def calls_of(log: Sequence[str]) -> dict[int, list[str]]:
    """By line: what its programs asked for that changes something, or speaks to somebody elsewhere."""
    found, ours, on = dict[int, list[str]](), "", -1
    for process, text in _whole(log):
        ours = ours or process
        if mark := re.search(rf'"{MARK}/(\d+)"', text):
            on = int(mark[1])
        elif process != ours and on >= 0 and (asked := _asked(text, f"{process} {text}")):
            found.setdefault(on, []).append(asked)
    return found


def _whole(log: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Process and call; what was interrupted in the log is put together where it ended."""
    open_calls = dict[str, str]()
    for line in log:
        process, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            open_calls[process] = text.removesuffix("<unfinished ...>")
        elif resumed := re.match(r"<\.\.\. \w+ resumed>(.*)", text):
            yield process, open_calls.pop(process, "") + resumed[1]
        else:
            yield process, text


def _asked(text: str, whole: str) -> str | None:
    match = _CALL.fullmatch(whole)
    if match is None:
        return None
    name, given, error = match[2], match[3], match[5]
    if name.startswith("open") or name == "creat":
        changes = re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND", given) and not _HARMLESS.search(given)
    elif name in WRITES:
        changes = not ('"/dev/null' in given and error in ("ENOTDIR", "EEXIST"))
    else:
        changes = re.search(_CHANGES.get(name, "(?!)"), given) or (name != "ioctl" and "sa_family=AF_INET" in given)
    return text if changes else None


def main() -> None:
    job = Job(**json.loads(Path(sys.argv[1]).read_text()))
    sys.stdout.write(json.dumps(asyncio.run(_run(job))))


if __name__ == "__main__":
    main()
