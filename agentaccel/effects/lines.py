"""The nouns of a shell line that has been read: commands, blocks of them, and the line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from agentaccel.effects.places import Surroundings, expanded
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

Redirect = tuple[int, int | None]
"""A stream of a command (1 is output, 2 is errors), and the stream that it joins; None loses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program with its arguments."""

    words: tuple[Word, ...]
    piped: bool
    """It stands in a pipeline of several commands."""
    fed: bool = False
    """Something writes its standard input: the command before it, or a file. It is empty otherwise."""
    given: Word | None = None
    """The file that it reads as its standard input."""
    settings: tuple[tuple[str, str], ...] = ()
    """Variables that stand before it and are set for it alone."""
    after: str
    """The operator before its pipeline: "", "&&", "||" or ";" (also for a line's end)."""
    pipeline: int = 0
    """Which pipeline of the text it stands in, counted from 0."""
    redirects: tuple[Redirect, ...] = ()
    """In the order in which they take effect."""
    scope: tuple[int, ...] = ()
    """The subshells around it: in one of them `cd` moves only what is in there."""
    over: Word | None = None
    """The files that a loop around it tells one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineBlock:
    """Several pipelines that are one command of the line."""

    kind: Literal["group", "subshell", "if", "each"]
    parts: tuple[tuple[Item, ...], ...]
    """One list; of `if` three: what is tested, what follows then, and what else."""
    after: str
    redirects: tuple[Redirect, ...] = ()
    feeds: int | None = None
    """The pipeline that reads what it writes."""
    over: Word | None = None
    """The files of `each`."""


Item = int | PipelineBlock
"""A pipeline by its number, or a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line as it runs, and all its commands in order."""

    commands: tuple[Command, ...]
    items: tuple[Item, ...]
    chained: bool
    """Nothing but && stands between its commands: what follows `cd` runs only where that has worked."""


MOST_TURNS = 30
"""Files that a loop goes over; more refuse."""


def turns(command: Command, there: Surroundings) -> list[Command]:
    """The command as it runs in each turn of the loop around it. Raises `Refused` where that cannot be looked at."""
    if command.over is None:
        return [command]
    return [in_turn(command, name) for name in told(command.over, there)]


def told(over: Word, there: Surroundings) -> list[str]:
    """The names that a loop tells, in order."""
    if there.cwd is None:
        raise Refused("a loop goes over files of a folder that is not known")
    names = expanded(over, there)
    if len(names) > MOST_TURNS:
        raise Refused(f"a loop goes over more than {MOST_TURNS} files")
    return names


def in_turn(command: Command, name: str | None) -> Command:
    """The command where a loop tells `name`; None is no loop."""
    if name is None:
        return command
    given = None if command.given is None else command.given.at(name)
    return replace(command, words=tuple(word.at(name) for word in command.words), given=given)
