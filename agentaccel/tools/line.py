"""A proven command line, run without a shell: the words as they were judged, pipes, lists and `cd`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from agentaccel.effects import early
from agentaccel.effects.parse import Command
from agentaccel.effects.places import Surroundings, expanded
from agentaccel.effects.verdict import Refused
from agentaccel.tools.processes import Processes, Stream, Streams

NOT_FOUND = 127
"""Exit status of a shell where there is no such program, or it cannot be started."""
_LONGEST = 512
"""Bytes of a word of ours: a pipe that takes any takes so many (POSIX, PIPE_BUF)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a line runs in."""

    processes: Processes
    environment: Mapping[str, str]
    path: str
    """Folders in which programs are looked for."""
    still_proven: Callable[[], None]
    """Called before each pipeline but the first. Raises where the line may not go on."""


async def run_line(commands: Sequence[Command], there: Surroundings, line: Line) -> int:
    """Run the pipelines in order, as `&&`, `||` and `;` say; the exit status of the last one that ran."""
    status = 0
    for number, found in groupby(commands, key=lambda command: command.pipeline):
        pipeline = list(found)
        if number:
            line.still_proven()
        if (pipeline[0].after == "&&" and status) or (pipeline[0].after == "||" and not status):
            continue
        if pipeline[0].words[0].text == "cd":
            status, there = await _moved(pipeline[0], there, line)
        else:
            status = await _pipeline(pipeline, there, line)
    return status


async def _moved(command: Command, there: Surroundings, line: Line) -> tuple[int, Surroundings]:
    inside = there.inside(command.words[1])
    if inside.cwd is not None and inside.cwd.is_dir() and os.access(inside.cwd, os.X_OK):
        return 0, inside
    await _say(f"cd: {command.words[1].text}: No such file or directory", _streams(command, line.processes.streams))
    return 1, there


async def _pipeline(commands: Sequence[Command], there: Surroundings, line: Line) -> int:
    """Start all commands, each reading what the one before it writes, and wait for all; the status of the last one."""
    started, ends = list[asyncio.subprocess.Process | int](), list[int]()
    try:
        given, _, err = line.processes.streams
        for command in commands:
            reading, out = asyncio.subprocess.DEVNULL, line.processes.streams.out
            if command is not commands[-1]:
                reading, out = os.pipe()
                ends += (reading, out)
            started.append(await _start(command, _streams(command, Streams(given, out, err)), there, line))
            given = reading
    finally:
        for end in ends:
            os.close(end)
    return [await _status(process) for process in started][-1]


async def _start(
    command: Command, streams: Streams, there: Surroundings, line: Line
) -> asyncio.subprocess.Process | int:
    """The command's process; or its exit status, and a word about it, where none has to or can be started."""
    name = command.words[0].text
    cwd = there.cwd or Path("/")
    try:
        words = [one for word in command.words for one in expanded(word, there)]
        if name == "command":
            return await _looked_up(words[2], streams, line, cwd)
        program = find_program(name, line.path, cwd)
        if program is None:
            await _say(f"{name}: command not found", streams)
            return NOT_FOUND
        environment = {**line.environment, "HOME": os.devnull} if early.homeless(name) else line.environment
        argv = early.argv(words)
        return await line.processes.start(argv, streams, cwd=cwd, environment=environment, program=str(program))
    except (OSError, Refused) as failure:
        await _say(f"{name}: {failure}", streams)
        return NOT_FOUND


async def _looked_up(name: str, streams: Streams, line: Line, cwd: Path) -> int:
    """`command -v NAME`, which is no program but a word of shells."""
    program = find_program(name, line.path, cwd)
    if program is None:
        return 1
    await _say(str(program), Streams(streams.given, streams.out, streams.out))
    return 0


async def _status(process: asyncio.subprocess.Process | int) -> int:
    return process if isinstance(process, int) else shell_status(await process.wait())


def shell_status(code: int) -> int:
    """As shells tell it: 128 and the number of the signal that ended it.

    >>> shell_status(1), shell_status(-9)
    (1, 137)
    """
    return code if code >= 0 else 128 - code


def _streams(command: Command, streams: Streams) -> Streams:
    """After its redirections, in their order."""
    table: dict[int, Stream] = {1: streams.out, 2: streams.err}
    for stream, other in command.redirects:
        table[stream] = asyncio.subprocess.DEVNULL if other is None else table[other]
    return Streams(streams.given, table[1], table[2])


async def _say(words: str, streams: Streams) -> None:
    """A word of ours where the command's own errors would go, behind what others have written there."""
    if streams.err == asyncio.subprocess.DEVNULL:
        return
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(streams.err, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(streams.err)
    os.write(streams.err, f"{words}\n".encode(errors="replace")[:_LONGEST])


def find_program(name: str, path: str, cwd: Path) -> Path | None:
    """The file that a shell in `cwd` would start for `name`, looking along `path`; None where there is none.

    >>> find_program("sh", "/nowhere:/bin", Path("/")).as_posix()
    '/bin/sh'
    """
    if "/" in name or not name:
        return None
    for folder in path.split(os.pathsep):
        file = cwd / folder / name
        if file.is_file() and os.access(file, os.X_OK):
            return file
    return None
