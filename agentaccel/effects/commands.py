"""Arguments of tools that may be run as command lines: then each line has to be proven a read, as any other.

What may be run is told by the tool (it speaks of commands, or is named as a program), by the name of the argument, and
by how the text is built: behind a separator, a redirection or a substitution of a shell nearly anything may stand.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentaccel.effects.clients import clients
from agentaccel.effects.declared import Named
from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import programs
from agentaccel.effects.tables import table
from agentaccel.effects.texts import MOST_READ, deeds, joined, own, parsed, worded
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

WORD = "\0word"
"""Stands for the name of an argument, for a word of a line that is judged as a whole."""
_OPTION = re.compile(r"(?:^|\s)--?[A-Za-z]")
_ASSIGNED = re.compile(r"\s*[A-Za-z_]\w*\+?=\S*\s+[^\s=]+(?:\s|$)")
_FORM = re.compile(r"[\w.%+-]+=[\w.%+,:/-]*(?:&[\w.%+-]+=[\w.%+,:/-]*)+")
"""Fields of a form: to a shell, variables that are set and forgotten."""
_IDENTIFIER = re.compile(r"[A-Za-z]?\d[\d.,:-]*|[0-9a-fA-F]{7,}(?:-[0-9a-fA-F]+)*")
_PAIR = re.compile(r"(?<![\w-])([\w-]+)[\"\\']{0,3}\s{0,3}:\s{0,3}[\"\\']{0,3}([^\"'\n{},]+)")
Leaves = Sequence[tuple[str, str | float]]
_APART = re.compile(r"[\n;]|\s&(?=\s)")


def is_line(name: str, value: str, tool: Named) -> bool:
    """True if the argument is surely a line, by its own name or by what the tool speaks of; an identifier is none."""
    known, last = table("mcp"), own(name)[-1]
    if tool.runs:
        place = last in known["folders"] and re.fullmatch(r"[\w.~/@][\w./@-]*", value)
        return not place and re.fullmatch(r"[\d.]+", value) is None
    return runs(name) and not (_IDENTIFIER.fullmatch(value) or _identifies(last, value))


def folder_of(leaves: Leaves, there: Surroundings, tool: Named) -> Surroundings:
    """Where lines among the arguments run. Raises `Refused` where something beside one may change what it does."""
    known, texts = table("mcp"), [(name, one) for name, one in leaves if isinstance(one, str) and one.strip()]
    if not any(is_line(name, one, tool) for name, one in texts if name != WORD):
        return there
    harmless = {*known["beside_lines"], *known["folders"]}
    for name, one in leaves:
        last, judged = own(name)[-1], isinstance(one, str) and (is_line(name, one, tool) or name == WORD or parsed(one))
        around = re.search(known["around"], name)
        if around or not (judged or one is False or one == "" or last in harmless or _identifies(last, one)):
            raise Refused(f"{name!r} stands beside a command line, and may change what it does")
    for name, one in texts:
        if own(name)[-1] in known["folders"]:
            there = there.inside(Word(text=one, home=one.startswith("~/")))
    return there


def line_of_git(leaves: Leaves, tool: Named) -> str | None:
    """The line that a tool would run which is named for a sub-command of git; None for any other tool."""
    known, words = table("mcp"), list(tool.words[:2])
    if words[:1] != ["git"] or len(words) < 2 or not {words[1]} & {*deeds(), *known["of_git"]}:
        return None
    for name, one in leaves:
        last, option = own(name)[-1], "--" + "-".join(own(name))
        if name == WORD or last in {*known["opened"], *known["below"], *known["identifying"], "repo", "repository"}:
            continue
        if isinstance(one, str) and one.strip():
            words.append(shlex.quote(one if last in known["operands"] else f"{option}={one}"))
        elif one is True:
            words.append(option)
    return " ".join(words)


def lines_of(name: str, value: str, tool: Named) -> list[str]:
    """The command lines that this argument may be run as: all have to be reads. None where it is no command.

    >>> from agentaccel.effects.declared import named
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
        return [value] if is_line(name, value, tool) else []
    if is_line(name, value, tool):
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
    ordered = last in known["orders"] and re.fullmatch(r"-\w+", value)
    if "_".join(own(name)) in known["arguments"] or (option and not ordered and value.lstrip().startswith("-")):
        return [value if first_word(value) in known["programs"] else _behind(tool, value)]
    return [value] if signs or _is_command(name, value, option is not None, tool) else _held(value, last)


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
    if last in known["patterns"]:
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


def _held(value: str, last: str) -> list[str]:
    """Lines that stand within a text as a program's settings are written: `run: make`, `{'command': 'make'}`."""
    text = value if "{" in value or last not in table("mcp")["searches"] else ""
    return [one[2] for one in _PAIR.finditer(text) if runs("_".join(worded(one[1])))]


def _is_command(name: str, value: str, option: bool, tool: Named) -> bool:
    """By its first word; a sentence that is looked for may begin with that of a program."""
    known, first = table("mcp"), first_word(value)
    last, several = own(name)[-1], len(value.split()) > 1
    if last in known["patterns"]:
        return False
    searched = last in known["searches"]
    begun = re.match(r"\s*(?:\.|~)/\S*\s|\s*\S+\.(?:sh|bash|py|pl|rb|js|bat|cmd|ps1|exe)\s", value) is not None
    if several and option and (first in programs() or not is_prose(value)):
        return True
    if several and (begun or (first in known["programs"] and (not searched or re.match(r"\s*[({!\\]", value)))):
        return True
    if not (may_run(name) or (tool.may_run and last not in known["identifying"])):
        return False
    if re.match(r"\s*\./", value) and set(worded(value)) & deeds():
        return True
    return first in known["programs"] or (several and not _is_told(value))


def _is_told(value: str) -> bool:
    """True if it is a sentence by its small words, or nothing but names, each with a capital."""
    names = all(re.fullmatch(r"[A-Z][a-z]+[.,]?|\d+|&", word) for word in value.split())
    return is_prose(value) and (not set(worded(value)) & deeds() if names else is_prose("a " + value.lower()))


def _identifies(last: str, value: str | float) -> bool:
    """By the last word of its name, and as one word that is no program's name."""
    one_word = re.fullmatch(r"[\w.:+-]*", str(value)) is not None and str(value) not in table("mcp")["programs"]
    return one_word and last in table("mcp")["identifying"]


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
