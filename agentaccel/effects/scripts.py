"""`awk` programs that only print: read as tokens, each of which is on a list.

The language can write (`print > "f"`), start programs (`system`, `|`, `getline`), and grow without an end. What is
taken has no pipe, no loop but `for (k in a)`, no function but listed ones, no `>` behind `print`, and no variable that
holds text: only numbers are added up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\[tn"\\])*")|(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<sign>\+\+|--|\+=|-=|&&|\|\||==|!=|<=|>=|!~|[-+*%$(){}\[\],;!=<>?:~])"""
)
_PATTERN = re.compile(r"/(?:[^/\\\n\[\]]|\\[^\n]|\[\^?[^\]\[/\\\n]+\])+/")
_DIVISION = re.compile(r"/(?!=)")
_CHANGES = {"=", "+=", "-=", "++", "--"}
_BEFORE_PATTERN = {"", "{", "}", ";", "&&", "||", "!", "~", "!~", "(", ","}
"""Tokens behind which a slash can only begin a pattern."""


def only_prints(program: str) -> None:
    """Raises `Refused` where the program may do more than to read its files and to print.

    >>> only_prints('NR > 1 && /a/ {n[$2]++; s += $3} END {for (k in n) print k, n[k], s / NR}')
    >>> only_prints('{print $1 > "out"}')
    Traceback (most recent call last):
    agentaccel.effects.verdict.Refused: awk: > behind print writes a file
    """
    if program.startswith("-"):
        raise Refused(f"awk {program} is not on the list of options that only read")
    tokens = _tokens(program)
    if not tokens:
        raise Refused("awk: the program is empty")
    printing = False
    for place, token in enumerate(tokens):
        printing = token in ("print", "printf") or (printing and token not in (";", "}"))
        if printing and token == ">":
            raise Refused("awk: > behind print writes a file")
        if token in _CHANGES:
            _change(tokens, place)
        if re.fullmatch(r"[A-Za-z_]\w*", token):
            _name(tokens, place)


def _tokens(program: str) -> list[str]:
    found, place = list[str](), 0
    known = table("shell")["awk"]
    while place < len(program):
        before = found[-1] if found else ""
        if program[place] == " ":
            place += 1
            continue
        match = _TOKEN.match(program, place)
        if program[place] == "/" and before in _BEFORE_PATTERN:
            match = _PATTERN.match(program, place)
        elif program[place] == "/" and (before.isdigit() or (before.isidentifier() and before not in known["words"])):
            match = _DIVISION.match(program, place)
        if match is None:
            raise Refused(f"awk: {program[place]!r} in the program is not known to be a read")
        if match[0][0] == '"' and re.search(r"%[-+ #0]*(?:\d{4}|\d*\.\d{4}|\d*\.?\*)", match[0]):
            raise Refused("awk: a format makes more than it is given")
        found.append(match[0])
        place = match.end()
    return found


def _change(tokens: Sequence[str], place: int) -> None:
    """A number is counted up, a field is set, or a separator is, to a fixed text: nothing grows for long."""
    known = table("shell")["awk"]
    before, after = [*[""] * 2, *tokens[:place]][-2:], [*tokens[place + 1 :], "", ""][:2]
    if before[0] == "$" or (after[0] == "$" and tokens[place] in ("++", "--")):
        if before[0] == "$" and re.fullmatch(r"\d{1,3}", before[1]) and _put_in(tokens[place + 1 :]).count("$") < 2:
            return  # the next line forgets it
    elif tokens[place] != "=":
        if {before[1], after[0]} & {*known["variables"], ")"}:
            raise Refused("awk: a variable of its own is changed")
        return
    elif before[1] in known["separators"] and after[0].startswith('"') and after[1] in ("", ";", "}"):
        return
    raise Refused("awk: what is set may grow without an end")


def _put_in(rest: Sequence[str]) -> Sequence[str]:
    """What is set: two fields in it would double the line, one time after the other."""
    end = next((place for place, token in enumerate(rest) if token in (";", "}")), len(rest))
    return rest[:end]


def _loop(rest: Sequence[str]) -> None:
    """Behind `for (k in a)` an element is named by a variable alone: a[k k] would make one, twice as long each time."""
    for place, token in enumerate(rest):
        if token == "[" and not (
            "".join(rest[place + 1 : place + 2]).isidentifier() and rest[place + 2 :][:1] == ["]"]
        ):
            raise Refused("awk: the loop may make elements without an end")


def _name(tokens: Sequence[str], place: int) -> None:
    known, name = table("shell")["awk"], tokens[place]
    if name == "for":
        if (
            tokens[place + 1 : place + 2] != ["("]
            or tokens[place + 3 : place + 4] != ["in"]
            or ")" not in tokens[place + 5 : place + 6]
        ):
            raise Refused("awk: the loop may never end")
        _loop(tokens[place:])
    elif name in ("printf", "sprintf"):
        given = [one for one in tokens[place + 1 : place + 4] if one != "("]
        if not given or given[0][0] != '"' or given[1:2] not in ([], [","], [")"], [";"], ["}"]):
            raise Refused("awk: a format that is not written there makes more than it is given")
    elif name in ("exit", "sub", "gsub"):
        _bounded(name, tokens[place + 1 :])
    elif name in known["refused"]:
        raise Refused(f"awk: {name} is not known to be a read")
    elif name in known["words"] or name in known["variables"]:
        return
    elif not re.fullmatch(r"[a-z][a-z0-9_]*", name) or tokens[place + 1 : place + 2] == ["("]:
        raise Refused(f"awk: {name} is not on the list of what only reads")


def _bounded(name: str, rest: Sequence[str]) -> None:
    """`exit` without a value ends sooner, and a substitution that puts nothing in makes less."""
    if name == "exit" and rest[:1] not in ([], [";"], ["}"]):
        raise Refused("awk: exit with a value is not known to be a read")
    if name != "exit" and (rest[:1] != ["("] or rest[2:5] != [",", '""', ")"]):
        raise Refused(f"awk: {name} that puts something in may make far more than it is given")


# --- `jq` programs that may never end, or may make far more than they are given ---------------------------------------
# The language writes nothing and starts nothing, so how long a program runs is all that remains to look at.

MOST_TIMES = 100_000
"""What a text may be repeated, all numbers of a program together: of a short text, some megabytes."""


def jq(program: Sequence[Word]) -> None:
    """Raises `Refused` where the program, if one is given, may never end or may grow over and over."""
    known = table("shell")["jq"]
    for word in program:
        code = _code(word.text)
        if any(re.search(pattern, word.text) for pattern in known["endless"]) or re.search(known["flagged"], code):
            raise Refused("jq: the program may never end")
        if re.search(known["assigns"], code) and re.search(known["computed_place"], word.text):
            raise Refused("jq: the program sets a place that is worked out, and fills what lies before it")
        if "*" in code:
            _times(code)


def _code(text: str) -> str:
    """The program without its texts; where one holds a program itself, with all of them."""
    return text if r"\(" in text else re.sub(r'"(?:\\.|[^"\\])*"', '""', text, flags=re.DOTALL)


def _times(code: str) -> None:
    """Raises `Refused` where a text may be repeated too often: a number makes as many copies of one."""
    known = table("shell")["jq"]
    many = code.count("*") > 1
    if re.search(known["large"], code) or (many and len(re.findall(known["times"], code)) < code.count("*")):
        raise Refused("jq: the program may repeat a text without a bound that is seen")
    numbers = [int(one) for one in re.findall(r"(?<![\w.$])\d+", code)]
    if max(numbers, default=0) > MOST_TIMES or (many and math.prod(filter(None, numbers)) > MOST_TIMES):
        raise Refused("jq: the program may repeat a text over and over")
