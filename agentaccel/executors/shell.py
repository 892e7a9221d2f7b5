"""A shell for agents: command lines that are proven to read are run without a shell, all others as in any shell tool.

What is proven is decided by the words alone, not by who asks: so a call that ran early printed what it would have
printed on time. The analyser's verdict holds for exactly this executor (`agentaccel.effects.shell`).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agentaccel.effects import early
from agentaccel.effects.clients import clients, is_set_up, led_elsewhere
from agentaccel.effects.lines import Command
from agentaccel.effects.places import Surroundings
from agentaccel.effects.rules import started, wrapped
from agentaccel.effects.shell import commands, handed_to, judge_shell, read_line
from agentaccel.effects.spec import Arguments, NotProven, ToolSpec, is_early
from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Verdict, analysed, judged
from agentaccel.effects.words import Word
from agentaccel.errors import ConfigError
from agentaccel.executors.line import NOT_FOUND, RunningLine, find_program, run_line, shell_status
from agentaccel.executors.processes import Processes
from agentaccel.former import former_fields
from agentaccel.tools.permission import is_proven
from agentaccel.types import Effect

_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
"""A time zone by its name; the variable may also name any file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command line did. Its `str` is what the model sees."""

    status: int | None
    """Exit status as a shell tells it; None where the line was stopped at the time limit, or never started."""
    out: str
    """Standard output; where it was longer than the cap, its beginning and its end with a word between them."""
    err: str
    """Standard error, likewise."""
    note: str = ""
    """Why there is no exit status."""

    def __str__(self) -> str:
        """Output, then errors under a heading, then the exit status where it is not 0.

        >>> print(Ran(status=1, out="", err="no such file"))
        [errors]
        no such file
        [exit status 1]
        """
        parts = [self.out.rstrip("\n")] if self.out.strip("\n") else []
        if self.err.strip("\n"):
            parts += ["[errors]", self.err.rstrip("\n")]
        if self.status != 0:
            parts.append(f"[{self.note}]" if self.status is None else f"[exit status {self.status}]")
        return "\n".join(parts) or "[no output]"


@former_fields(output_cap="max_result_bytes", fresh_for="max_age")
@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A shell tool: `accel.tools({"bash": Shell(cwd=".").run})`. Linux and macOS; raises `ConfigError` on Windows.

    Every line starts afresh in `cwd`, with empty standard input and no terminal. When it is over, processes that it
    left behind are ended, unless they made sessions of their own (`setsid`).
    """

    cwd: str | os.PathLike[str] = "."
    """The folder of every line; must be there when the tool is made."""
    environment: Mapping[str, str] | None = None
    """Of lines that are not proven; None is this process's own. Proven ones see none of it but its HOME and TZ."""
    home: str | os.PathLike[str] | None = None
    """Where ~ leads in proven lines; None is HOME of the environment."""
    path: str = early.PATH
    """Folders of the programs of proven lines. A program that `environment` would find elsewhere is not proven."""
    timeout: float = 120.0
    """Seconds that a line may take."""
    max_result_bytes: int = 60_000
    """Bytes of output, and of errors, that are kept; of more, the beginning and the end."""
    max_age: float | None = 30.0
    """Seconds that an early result may wait for its call: what other processes write is not seen (`ToolSpec`)."""
    _there: Surroundings = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if sys.platform == "win32":
            raise ConfigError("agentaccel.executors.Shell needs Linux or macOS: it runs lines with bash or sh")
        cwd = Path(self.cwd).resolve()
        if not cwd.is_dir():
            raise ConfigError(f"cwd must be a folder that is there; got {str(self.cwd)!r}")
        if not all(map(os.path.isabs, self.path.split(os.pathsep))):
            raise ConfigError(f"path must name folders from the root on; got {self.path!r}")
        if self.timeout <= 0 or self.max_result_bytes <= 0:
            raise ConfigError("timeout and max_result_bytes must be above 0")
        home = self.home if self.home is not None else self._surrounding().get("HOME")
        there = Surroundings(cwd=cwd, home=Path(home) if home and os.path.isabs(home) else None)
        object.__setattr__(self, "_there", there)

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """Of `run`: each call by its command line; safe beside anything, for every run has processes of its own."""
        spec = ToolSpec(kind="shell", concurrent=True, max_age=self.max_age, judge=self._judge_call, own=True)
        return {"run": spec}

    def _judge_call(self, arguments: Arguments) -> Verdict:
        command = arguments.get("command")
        if set(arguments) != {"command"} or not isinstance(command, str):
            return analysed(Effect.UNKNOWN, "shell: its arguments are not one command line")
        return self.judge(command)

    @judged("shell")
    def judge(self, command: str) -> Verdict:
        """What this line would do now: settings of repositories and the files that it names are looked at.

        A line is a proven read only where, besides, a shell would start the same programs.
        """
        verdict = judge_shell(command, self._there)
        if verdict.launchable == "never":
            return verdict
        why = next(filter(None, map(self._differs, commands(command))), None)
        return verdict if why is None else analysed(Effect.UNKNOWN, f"shell: {why}")

    def _differs(self, command: Command) -> str | None:
        """Why the user's own environment would give another answer than the scrubbed one."""
        name, *words = (word.text for word in command.words)
        if name == "cd":
            return None
        if (why := self._leads_elsewhere(name)) is not None:
            return why
        looked_up = words if name == "which" else words[1:] if name == "command" else None
        for one in (name, *(looked_up or (inner[0].text for inner in _started(command)))):
            if one == "command":
                continue  # our executor looks for the program itself
            ours = find_program(one, self.path, self._folder)
            theirs = find_program(one, self._surrounding().get("PATH", os.defpath), self._folder)
            if (ours is None and one == name) or not (ours == theirs if looked_up else _same(ours, theirs)):
                return f"{one} is not the program of that name in {self.path}"
        return None

    def _leads_elsewhere(self, name: str) -> str | None:
        surrounding = self._surrounding()
        if name == "git" and (elsewhere := sorted(set(table("git")["environment"]) & set(surrounding))):
            return f"{elsewhere[0]} is set in the environment, and git would look elsewhere"
        if name in clients():
            variable = led_elsewhere(name, surrounding)
            if variable is not None:
                return f"{variable} is set in the environment, and {name} would look elsewhere"
            if not is_set_up(name, self._there):
                return f"{name} is not set up: it would write settings first, or start what keeps its key"
        return None

    async def run(self, command: str) -> str:
        """Run a shell command line and return what it printed.

        It starts in the project folder with empty standard input. Output comes first, then errors under "[errors]",
        then "[exit status N]" where that is not 0. Output that is too long is cut in the middle, and said to be.
        """
        return str(await self.execute(command))

    async def execute(self, command: str) -> Ran:
        """The same, as a value. Raises nothing that the line does, except in an early run (`running_early`)."""
        if "\0" in command or any("\ud800" <= character <= "\udfff" for character in command):
            return Ran(status=None, out="", err="", note="not run: it holds a character that no command line can")
        proven = await is_proven(partial(self.judge, command))
        if is_early() and not proven:
            raise NotProven("the line is not proven to be a read")
        processes = Processes(self.max_result_bytes, gentle=not proven)
        try:
            async with asyncio.timeout(self.timeout), processes:
                status = await (self._without_shell if proven else self._in_shell)(command, processes)
        except TimeoutError:
            if is_early():
                raise
            return _ran(None, processes, f"stopped after {self.timeout:g} seconds")
        except OSError as failure:  # the line is too long for the system, or the system has no more to give
            if is_early():
                raise
            return _ran(None, processes, f"not run: {failure}")
        return _ran(status, processes)

    async def _without_shell(self, command: str, processes: Processes) -> int:
        async def still_proven() -> None:
            if is_early() and not await is_proven(partial(self.judge, command)):
                raise NotProven("the line is no longer proven to be a read")

        zone = self._surrounding().get("TZ", "")
        environment = {**early.environment(str(self._there.home or "/")), "PATH": self.path}
        if _ZONE.fullmatch(zone):
            environment["TZ"] = zone
        line = RunningLine(processes=processes, environment=environment, path=self.path, still_proven=still_proven)
        return await run_line(read_line(command), self._there, line)

    async def _in_shell(self, command: str, processes: Processes) -> int:
        # without it, bash would take over the name by which the user's own shell went there, and `cd ..` from that
        environment = {**self._surrounding(), "PWD": str(self._folder)}
        program = await asyncio.to_thread(_shell_along, environment.get("PATH"))
        if program is None:
            processes.err.feed(b"there is neither bash nor sh\n")
            return NOT_FOUND
        process = await processes.start(
            ["bash", "-c", command], processes.streams, cwd=self._folder, environment=environment, program=program
        )
        return shell_status(await process.wait())

    def _surrounding(self) -> Mapping[str, str]:
        return os.environ if self.environment is None else self.environment

    @property
    def _folder(self) -> Path:
        assert self._there.cwd is not None
        return self._there.cwd


def _shell_along(path: str | None) -> str | None:
    return next(filter(None, (shutil.which(one, path=path) for one in ("bash", "sh"))), None)


def _started(command: Command) -> tuple[tuple[Word, ...], ...]:
    """The commands that a program starts for this one."""
    if command.words[0].text == "xargs":
        return (handed_to(command.words[1:]),)
    if inner := wrapped(command.words):
        return (inner,)
    return started(command.words[1:]) if command.words[0].text == "find" else ()


def _same(one: Path | None, other: Path | None) -> bool:
    if one is None or other is None:
        return one is other
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _ran(status: int | None, processes: Processes, note: str = "") -> Ran:
    return Ran(status=status, out=processes.out.text(), err=processes.err.text(), note=note)
