"""A proven command line, run without a shell: the words as they were judged, pipes, lists and `cd`.

Where a name is looked up or a pattern matched, a thread does it: a folder may be large, or on a disk that is slow.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from agentaccel.effects import early, lines
from agentaccel.effects.lines import Command
from agentaccel.effects.places import Surroundings, expanded
from agentaccel.effects.spec import NotProven, is_early
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word
from agentaccel.executors.processes import Processes, Stream, Streams

Pipelines = Mapping[int, Sequence[Command]]

NOT_FOUND = 127
"""Exit status of a shell where there is no such program, or it cannot be started."""
_LONGEST = 512
"""Bytes of a word of ours: a pipe that takes any takes so many (POSIX, PIPE_BUF)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningLine:
    """What a line runs in."""

    processes: Processes
    environment: Mapping[str, str]
    path: str
    """Folders in which programs are looked for."""
    still_proven: Callable[[], Awaitable[None]]
    """Called before each pipeline but the first. Raises where the line may not go on."""


class LineSurroundings(NamedTuple):
    """What is around a pipeline."""

    there: Surroundings
    streams: Streams
    name: str | None = None
    """The file that a loop tells in this turn."""


async def run_line(read: lines.Line, there: Surroundings, line: RunningLine) -> int:
    """Run the line as `&&`, `||`, `;`, loops and branches say; the exit status of the last pipeline that ran."""
    pipelines = {number: list(found) for number, found in groupby(read.commands, key=lambda one: one.pipeline)}
    return await _items(read.items, LineSurroundings(there, line.processes.streams), pipelines, line)


async def _items(items: Sequence[lines.Item], around: LineSurroundings, pipelines: Pipelines, line: RunningLine) -> int:
    status = 0
    for number, item in enumerate(items):
        after = item.after if isinstance(item, lines.PipelineBlock) else pipelines[item][0].after
        if number or around.streams != line.processes.streams:
            await line.still_proven()
        if (after == "&&" and status) or (after == "||" and not status):
            continue
        if isinstance(item, lines.PipelineBlock):
            status = await _block(item, around, pipelines, line)
        elif pipelines[item][0].words[0].text == "cd":
            status, there = await _moved(pipelines[item][0], around, line)
            around = around._replace(there=there)
        else:
            status = await _pipeline([lines.in_turn(one, around.name) for one in pipelines[item]], around, line)
    return status


async def _block(block: lines.PipelineBlock, around: LineSurroundings, pipelines: Pipelines, line: RunningLine) -> int:
    """Run a block, before it what reads its output; the exit status of the one that stands last."""
    inside = around._replace(streams=_redirected(block.redirects, around.streams))
    if block.feeds is None:
        return await _inside(block, inside, pipelines, line)
    reading, writing = os.pipe()
    try:
        consumers = [lines.in_turn(one, around.name) for one in pipelines[block.feeds]]
        try:
            started = await _started(consumers, around._replace(streams=around.streams._replace(given=reading)), line)
        finally:
            os.close(reading)
        fed = around._replace(streams=around.streams._replace(out=writing))
        await _inside(block, fed._replace(streams=_redirected(block.redirects, fed.streams)), pipelines, line)
    finally:
        os.close(writing)
    return await _last_status(consumers, started)


async def _inside(block: lines.PipelineBlock, around: LineSurroundings, pipelines: Pipelines, line: RunningLine) -> int:
    status = 0
    if block.over is not None:
        for name in await asyncio.to_thread(lines.told, block.over, around.there):
            await line.still_proven()
            status = await _items(block.parts[0], around._replace(name=name), pipelines, line)
    elif block.kind == "if":
        tested, then, otherwise = block.parts
        branch = otherwise if await _items(tested, around, pipelines, line) else then
        status = await _items(branch, around, pipelines, line)
    else:
        status = await _items(block.parts[0], around, pipelines, line)
    return status


async def _moved(command: Command, around: LineSurroundings, line: RunningLine) -> tuple[int, Surroundings]:
    inside = await asyncio.to_thread(around.there.inside, command.words[1])
    if await asyncio.to_thread(_may_enter, inside.cwd):
        return 0, inside
    streams = _redirected(command.redirects, around.streams)
    await _say(f"cd: {command.words[1].text}: No such file or directory", streams)
    return 1, around.there


def _may_enter(folder: Path | None) -> bool:
    return folder is not None and folder.is_dir() and os.access(folder, os.X_OK)


async def _pipeline(commands: Sequence[Command], around: LineSurroundings, line: RunningLine) -> int:
    """Start all commands, each reading what the one before it writes, and wait for all; the status of the last one."""
    started = await _started(commands, around, line)
    return await _last_status(commands, started)


async def _started(
    commands: Sequence[Command], around: LineSurroundings, line: RunningLine
) -> list[asyncio.subprocess.Process | int]:
    started, ends = list[asyncio.subprocess.Process | int](), list[int]()
    try:
        given, last, err = around.streams
        for command in commands:
            reading, out = asyncio.subprocess.DEVNULL, last
            if command is not commands[-1]:
                reading, out = os.pipe()
                ends += (reading, out)
            streams = _redirected(command.redirects, Streams(given, out, err))
            started.append(await _given(command, streams, around.there, line))
            given = reading
    finally:
        for end in ends:
            os.close(end)
    return started


async def _given(
    command: Command, streams: Streams, there: Surroundings, line: RunningLine
) -> asyncio.subprocess.Process | int:
    """Start the command, with the file that it reads, if any."""
    if command.given is None:
        return await _start(command, streams, there, line)
    names = await asyncio.to_thread(expanded, command.given, there)
    try:
        # of a pipe that came there since the verdict, nothing is taken
        reading = os.open(
            (there.cwd or Path("/")) / names[0], os.O_RDONLY | os.O_NOCTTY | (os.O_NONBLOCK if is_early() else 0)
        )
    except OSError as failure:
        if is_early():
            raise
        await _say(f"{command.given.text}: {failure.strerror}", streams)
        return 1
    try:
        if is_early():
            opened = os.fstat(reading)
            if not (stat.S_ISREG(opened.st_mode) or os.path.samestat(opened, os.stat(os.devnull))):
                raise NotProven(f"{command.given.text} is no plain file any more")
            os.set_blocking(reading, True)
        return await _start(command, streams._replace(given=reading), there, line)
    finally:
        os.close(reading)


async def _start(
    command: Command, streams: Streams, there: Surroundings, line: RunningLine
) -> asyncio.subprocess.Process | int:
    """The command's process; or its exit status, and a word about it, where none has to or can be started."""
    name = command.words[0].text
    cwd = there.cwd or Path("/")
    try:
        words = await asyncio.to_thread(_expanded, command.words, there)
        if name == "command":
            return await _looked_up(words[2], streams, line, cwd)
        program = await asyncio.to_thread(find_program, name, line.path, cwd)
        if program is None:
            await _say(f"{name}: command not found", streams)
            return NOT_FOUND
        homeless = {"HOME": os.devnull} if early.homeless(name) else {}
        environment = {**line.environment, **homeless, **dict(command.settings)}
        argv = early.argv(words, unasked=is_early())
        return await line.processes.start(argv, streams, cwd=cwd, environment=environment, program=str(program))
    except (OSError, Refused) as failure:
        if is_early():
            raise
        await _say(f"{name}: {failure}", streams)
        return NOT_FOUND


def _expanded(words: Sequence[Word], there: Surroundings) -> list[str]:
    return [one for word in words for one in expanded(word, there)]


async def _looked_up(name: str, streams: Streams, line: RunningLine, cwd: Path) -> int:
    """`command -v NAME`, which is no program but a word of shells."""
    program = await asyncio.to_thread(find_program, name, line.path, cwd)
    if program is None:
        return 1
    await _say(str(program), Streams(streams.given, streams.out, streams.out))
    return 0


async def _last_status(commands: Sequence[Command], started: Sequence[asyncio.subprocess.Process | int]) -> int:
    """That of the last of the commands, once all have ended."""
    return [await _status(command, process) for command, process in zip(commands, started, strict=True)][-1]


async def _status(command: Command, process: asyncio.subprocess.Process | int) -> int:
    if isinstance(process, int):
        return process
    code = await process.wait()
    if is_early() and code < 0 and code != -signal.SIGPIPE:  # by the system, where memory ran out: not so on time
        raise ChildProcessError(f"ended by signal {-code}")
    if is_early() and early.has_failed(command.words[0].text, code):
        raise ChildProcessError(f"{command.words[0].text} may have enough room on time")
    return shell_status(code)


def shell_status(code: int) -> int:
    """As shells tell it: 128 and the number of the signal that ended it.

    >>> shell_status(1), shell_status(-9)
    (1, 137)
    """
    return code if code >= 0 else 128 - code


def _redirected(redirects: Sequence[lines.Redirect], streams: Streams) -> Streams:
    """After these redirections, in their order."""
    table: dict[int, Stream] = {1: streams.out, 2: streams.err}
    for stream, other in redirects:
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
    with contextlib.suppress(BrokenPipeError):  # whoever read it has ended; a shell goes on, too
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
