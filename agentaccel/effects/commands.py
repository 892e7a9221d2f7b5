"""Arguments of tools that may be run as command lines: then each line has to be proven a read, as any other.

What may be run is told by the tool (it speaks of commands, or is named as a program), by the name of the argument, and
by how the text is built: behind a separator, a redirection or a substitution of a shell nearly anything may stand.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel.effects.clients import clients
from agentaccel.effects.shell import programs
from agentaccel.effects.tables import table
from agentaccel.effects.texts import MOST_READ, joined, own, parsed, worded
from agentaccel.effects.verdict import Refused

WORD = "\0word"
"""Stands for the name of an argument, for a word of a line that is judged as a whole."""
_OPTION = re.compile(r"(?:^|\s)--?[A-Za-z]")
_ASSIGNED = re.compile(r"\s*[A-Za-z_]\w*\+?=\S*\s+[^\s=]+(?:\s|$)")
_FORM = re.compile(r"[\w.%+-]+=[\w.%+,:/-]*(?:&[\w.%+-]+=[\w.%+,:/-]*)+")
"""Fields of a form: to a shell, variables that are set and forgotten."""
_IDENTIFIER = re.compile(r"[A-Za-z]?\d[\d.,:-]*|[0-9a-fA-F]{7,}(?:-[0-9a-fA-F]+)*")
_APART = re.compile(r"[\n;]|\s&(?=\s)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What the declaration of a tool says of how it takes its arguments."""

    words: tuple[str, ...]
    """Of its name, from that of a program on, where there is one."""
    runs: bool
    """It speaks of commands."""
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
    schema = tool.get("inputSchema", tool.get("input_schema"))
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    told = [one for one in properties.values() if isinstance(one, Mapping)] if isinstance(properties, Mapping) else []
    words = tuple(worded(tool.get("name", "")))
    texts = [" ".join(words), *(one.get("description") for one in (tool, *told))]
    said = "\n".join(text for text in texts if isinstance(text, str))
    known = table("mcp")
    first = next((place for place, word in enumerate(words) if word in known["programs"]), None)
    return Named(
        words=words[first or 0 :],
        runs=re.search(known["about_commands"], said, re.IGNORECASE) is not None,
        program=first is not None,
        language=re.search(known["about_languages"], said, re.IGNORECASE) is not None,
    )


def lines_of(name: str, value: str, tool: Named) -> list[str]:
    """The command lines that this argument may be run as: all have to be reads. None where it is no command.

    >>> lines_of("args", "push origin", named({"name": "git"}))
    ['git push origin < /dev/null']
    >>> look = named({"name": "look"})
    >>> lines_of("query", "pip install x", look), lines_of("target", "touch x", look)
    ([], ['touch x'])
    >>> lines_of("query", "ls && touch x", look)
    ['ls && touch x']
    """
    known, last = table("mcp"), own(name)[-1]
    if name == WORD:
        return []
    if len(value) > MOST_READ:
        raise Refused(f"the argument {name!r} is too long to be looked at")
    if tool.runs:
        place = last in known["folders"] and re.fullmatch(r"[\w.~/@][\w./@-]*", value)
        return [] if place or re.fullmatch(r"[\d.]+", value) else [value]
    if runs(name) and not (_IDENTIFIER.fullmatch(value) or (last in known["identifying"] and _one_word(value))):
        whole = tool.program and tool.words[0] in (*clients(), "git") and first_word(value) != tool.words[0]
        return [f"{tool.words[0]} {value}" if whole else value]
    if re.fullmatch(r"[\d.,:TZ/ +-]*", value.strip()):
        return []
    option = _OPTION.search(re.sub(r"(?:^|\s)-\w+:\S+", " ", value) if last in known["searches"] else value)
    words = last in known["with_words"]
    signs = not tool.language and parsed(value) is None and has_signs(value, last)
    if tool.program and (option or words or signs):
        return [_behind(tool, value)]
    if tool.program and len(tool.words) == 1:
        return [_behind(tool, shlex.quote(value))]
    if "_".join(own(name)) in known["arguments"] or (option and value.lstrip().startswith("-")):
        return [value if first_word(value) in known["programs"] else _behind(tool, value)]
    return [value] if signs or _is_command(name, value, option is not None) else []


def has_signs(text: str, last: str = "") -> bool:
    """True if a shell would see more than one plain command in it: a separator, a redirection, a substitution, or a
    variable that is set for what stands behind it. `last` is the last word of the argument's name.

    >>> has_signs("a; touch x"), has_signs("X=1 touch x"), has_signs("a > x"), has_signs("how to cut a branch")
    (True, True, True, False)
    """
    known, text = table("mcp"), text.strip()
    if re.fullmatch(r"https?://[!-~]+", text) or _FORM.fullmatch(text):
        return False
    if re.search(r"`|\$[({]", text) or _ASSIGNED.match(text):
        return True
    if last in known["patterns"] and not re.search(r"\s", text):
        text = re.sub(known["signs_of_patterns"], "", text)
    if last in known["searches"]:
        text = re.sub(known["signs_of_searches"], "", text)
        pieces = _APART.split(text)
        if len(pieces) > 1 and all(is_prose(piece) for piece in pieces if piece.strip()):
            text = " ".join(pieces)
    return re.search(r"[|&;<>\n]", text) is not None


def is_prose(text: str) -> bool:
    """True if it is a sentence of English, as far as its small words tell; it does not begin with a program's name.

    >>> is_prose("write to the editor"), is_prose("touch the file"), is_prose("dbt run")
    (True, False, False)
    """
    known, words = table("mcp"), re.findall(r"[\w'-]+", text)
    if not words or first_word(text).lower() in known["programs"] or re.match(r"\s*[./~\\]", text):
        return False
    return words[0][0].isupper() or bool({word.lower() for word in words[1:]} & set(known["small_words"]))


def started(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The command line of an object that names a program, and beside it the words for it. Raises `Refused` for one that
    names another tool, and beside it what that is given: what it does nobody has declared.

    >>> list(started({"program": "rm", "args": ["-r", "x"]}))
    [('command', 'rm -r x')]
    """
    known = table("mcp")
    named = {"_".join(worded(key)): one for key, one in value.items()}
    for key in known["runs"]:
        for other in known["with_words"]:
            program, words = named.get(key), named.get(other)
            words = joined(words) or (words[0] if isinstance(words, list) and len(words) == 1 else words)
            if not isinstance(program, str) or not isinstance(words, str) or not words.strip():
                continue
            if key not in ("tool", "program") or first_word(program) in known["programs"]:
                yield "command", f"{program} {words}"
    for key in known["calls"]:
        called = named.get(key)
        if isinstance(called, str) and set(named) & set(known["called_with"]) and not _reads(called):
            raise Refused(f"it calls {called[:40]!r}, which is not declared to read")


def runs(name: str) -> bool:
    """True if a word anywhere in the name of the argument, or of what it stands in, speaks of running something.

    >>> runs("bash_line"), runs("command.first"), runs("cmdline"), runs("description"), runs("transcript")
    (True, True, True, False, False)
    """
    return any(re.fullmatch(table("mcp")["running"], word) for word in re.split(r"[._]", name.replace("dry_run", "")))


def may_run(name: str) -> bool:
    """True if the argument may be named for what is run, or for something else."""
    known, words = table("mcp"), set(own(name))
    return bool(words & set(known["inputs"])) and words <= {*known["inputs"], *known["beside_inputs"]}


def first_word(text: str) -> str:
    """Its first word, as far as the name of a program goes; without quotes and the folder that it is in."""
    found = re.match(r"[\s({!'\"\\]*(?:[\w.~-]*/)*([\w.-]+)[\"']?(?=\s|$)", text)
    return found[1] if found else ""


def _is_command(name: str, value: str, option: bool) -> bool:
    """By its first word; a sentence that is looked for may begin with that of a program."""
    known, first = table("mcp"), first_word(value)
    searched, several = own(name)[-1] in known["searches"], len(value.split()) > 1
    begun = re.match(r"\s*(?:\.|~)/\S*\s|\s*\S+\.(?:sh|bash|py|pl|rb|js|bat|cmd|ps1|exe)\s", value) is not None
    if several and option and (first in programs() or not is_prose(value)):
        return True
    if several and (begun or (first in known["programs"] and (not searched or re.match(r"\s*[({!\\]", value)))):
        return True
    if not may_run(name):
        return False
    return first in known["programs"] or (several and not is_prose(value))


def _one_word(value: str) -> bool:
    return re.fullmatch(r"[\w.:+-]*", value) is not None and first_word(value) not in table("mcp")["programs"]


def _behind(tool: Named, words: str) -> str:
    """The line that a tool named as a program would run; nobody waits for its input."""
    begun = first_word(words) == tool.words[0] if tool.words else False
    return f"{words if begun else ' '.join([*tool.words, words])} < /dev/null"


def _reads(called: str) -> bool:
    """By the name of a tool, or of a method of HTTP."""
    known, words = table("mcp"), worded(called)
    if called.upper() in table("http")["methods"]:
        return True
    return bool(set(words[:1]) & set(known["reading"])) and not set(words) & {
        *known["writing"],
        *known["writing_first"],
    }


def told(value: Sequence[object], name: str) -> str | None:
    """A list of words as the line that it may be; None where it is none."""
    line = joined(value)
    return line if may_run(name) or runs(name) or own(name)[-1] in table("mcp")["with_words"] else None
