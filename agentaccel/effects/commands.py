"""Arguments of tools that are command lines: by their names, by the program that they begin with, by how they go on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from agentaccel.effects.tables import table
from agentaccel.effects.texts import spelled

_NEXT = re.compile(r"(?:\s(?:&&|\|\|?)|;)\s+(?:\S*/)?([\w.-]+)(?=\s|$)")


def is_command(name: str, value: str, *, runs: bool = False) -> bool:
    """True if this argument may be handed to a shell: then it is judged as a command line.

    `runs`: the tool speaks of commands, so that no argument of it is for what is looked for.

    >>> is_command("run_command", "make all"), is_command("target", "touch x"), is_command("query", "pip install x")
    (True, True, False)
    >>> is_command("query", "ls && touch x")
    True
    """
    known = table("mcp")
    if name in known["commands"] or last_word(name) in known["command_words"]:
        return True
    programs = set(known["programs"])
    if any(program in programs for program in _NEXT.findall(value)):
        return True
    if _first(value) not in programs:
        return False
    searched = last_word(name) in known["searches"] and not runs and not re.search(r"\s--?[A-Za-z]", value)
    return name in known["inputs"] or (len(value.split()) > 1 and not searched)


def speaks_of_commands(tool: Mapping[str, Any]) -> bool:
    """True if its name, its description, or that of an argument says that it is for commands.

    >>> speaks_of_commands({"name": "terminal"}), speaks_of_commands({"name": "look", "description": "Finds notes."})
    (True, False)
    """
    schema = tool.get("inputSchema", tool.get("input_schema"))
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    told = [one for one in properties.values() if isinstance(one, Mapping)] if isinstance(properties, Mapping) else []
    texts = [spelled(tool.get("name", "")).replace("_", " "), *(one.get("description") for one in (tool, *told))]
    about = table("mcp")["about_commands"]
    return any(isinstance(text, str) and re.search(about, text, re.IGNORECASE) is not None for text in texts)


def started(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The command line of an object that names a program, and beside it the words for it.

    >>> list(started({"program": "rm", "args": ["-r", "x"]}))
    [('command', 'rm -r x')]
    """
    known = table("mcp")
    named = {spelled(key): one for key, one in value.items()}
    programs = [named[key] for key in known["runs"] if isinstance(named.get(key), str)]
    for program in programs:
        for key in known["with_words"]:
            words = named.get(key)
            if isinstance(words, list) and all(isinstance(word, str) for word in words):
                words = shlex.join(words)
            surely = _first(program) in known["programs"] or "program" not in named
            if surely and isinstance(words, str) and words.strip():
                yield "command", f"{program} {words}"


def last_word(name: str) -> str:
    """Of the name of an argument, spelled as `agentaccel.effects.texts.spelled` does."""
    return name.rsplit("_", 1)[-1]


def _first(text: str) -> str:
    """Its first word, as far as the name of a program goes; without the folder that it is in."""
    found = re.match(r"\s*(?:[\w.-]*/)*([\w.-]+)(?=\s|$)", text)
    return found[1] if found else ""
