"""What the declaration of a tool says of how it takes its arguments, by its name and by what it tells its readers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentaccel.effects.tables import table
from agentaccel.effects.texts import MOST_READ, worded

_RUNNER = frozenset({"runner", "executor", "launcher", "interpreter", "exec", "ipython", "jupyter"})
DEEPEST = 12
"""Levels of a declaration that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What the declaration of a tool says of how it takes its arguments."""

    words: tuple[str, ...]
    """Of its name, from that of a program on, where there is one."""
    runs: bool
    """It speaks of commands."""
    may_run: bool
    """It speaks of running something, and may mean a command."""
    program: bool
    """Its name begins with that of a program, or has it within."""
    language: bool
    """It speaks of a language in which questions are asked: signs of a shell are signs of that language there."""


def named(tool: Mapping[str, Any]) -> Named:
    """How the tool takes its arguments, by its name, its description, and those of its arguments.

    >>> named({"name": "terminal"}).runs, named({"name": "look", "description": "Finds notes."}).runs
    (True, False)
    >>> named({"name": "git_log"}).words, named({"name": "look"}).program
    (('git', 'log'), False)
    """
    known, words = table("mcp"), tuple(worded(tool.get("name", "")))
    shown = {key: tool.get(key) for key in ("title", "description", "inputSchema", "input_schema")}
    texts = [" ".join(words), *_texts(shown, 0)]
    said = "\n".join(texts)[:MOST_READ]
    reads = {*words[:1], *words[-1:]} & {*known["reading"], *known["told_of"]}
    joins = not reads or {"and", "or", "then"} & set(words)
    first = next((place for place, word in enumerate(words) if word in known["programs"]), None)
    return Named(
        words=words[first or 0 :],
        runs=re.search(known["about_commands"], said, re.IGNORECASE) is not None,
        may_run=bool({*(words if joins else ()), *(["runner"] if _RUNNER & set(words) else ())} & set(known["runners"]))
        or re.search(known["about_running"], said, re.IGNORECASE | re.MULTILINE) is not None,
        program=first is not None,
        language=re.search(known["about_languages"], said, re.IGNORECASE) is not None,
    )


def _texts(place: object, depth: int) -> Iterator[str]:
    """What a declaration says to its readers, at any depth."""
    if isinstance(place, list) and depth < DEEPEST:
        for one in place:
            yield from _texts(one, depth + 1)
    for key, one in place.items() if isinstance(place, Mapping) and depth < DEEPEST else ():
        for text in one if isinstance(one, list) and key == "examples" else (one,):
            if isinstance(text, str) and key in ("title", "description", "examples", "contentMediaType", "$comment"):
                yield text
        yield from _texts(one, depth + 1)
