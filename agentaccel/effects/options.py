"""Positive lists of options: a word that begins with a dash is listed in exactly this spelling, or refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

LARGE = re.compile(r"\d{4}")
"""A number that is too large for a width: `date +%999999999d` fills the memory."""

Operands = str
"""What the words are that are no options: `path`, `pattern` (one, then paths), `text`, `revision`, `rule` or `none`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandForm:
    """What of one program, or of one of its sub-commands, is known to be a read."""

    name: str
    short: frozenset[str] = frozenset()
    """Letters without a value; they may stand together behind one dash."""
    short_values: frozenset[str] = frozenset()
    """Letters with a value, in the same word or the next."""
    long: frozenset[str] = frozenset()
    """Whole words without a value, two dashes (or one, as `find` has them) included."""
    long_values: frozenset[str] = frozenset()
    """Whole words with a value behind = or in the next word."""
    file_values: frozenset[str] = frozenset()
    """Options whose value is a file to read."""
    long_optional: frozenset[str] = frozenset()
    """Whole words with a value behind = or none."""
    number: bool = False
    """-5 is an option."""
    least: int = 0
    most: int | None = None
    """Of the operands; None is any number."""
    operands: Operands = "path"
    allowed: Mapping[str, str] = field(default_factory=dict)
    """Regular expression that the whole value of an option (or, under "operand", each operand) must match."""
    needs: tuple[frozenset[str], int] | None = None
    """Operands beyond this number are read only where one of these options stands."""
    needs_all: frozenset[str] = frozenset()
    """It is read only where all of these options stand."""
    needs_one: frozenset[str] = frozenset()
    """It is read only where one of these options stands."""
    pure: bool = False
    """Nothing is read."""
    widths: frozenset[str] = frozenset()
    """Options (or "operand") whose value may say how much is written, or how many threads run."""
    recursive: frozenset[str] = frozenset()
    """Options with which it goes over all that lies below a folder; "always" needs none."""
    follows: frozenset[str] = frozenset()
    """Options with which it goes through links, out of the folder."""
    shallow: frozenset[str] = frozenset()
    """Options with which it does not."""
    filters: bool = False
    """It reads standard input where it is given no file, and where a file is named "-"."""
    no_input: frozenset[str] = frozenset()
    """Options with which it does not."""
    opens_nothing: bool = False
    """It tells of files what they are, and opens none: pipes and devices are no danger."""
    completes: tuple[str, ...] = ()
    """Endings with which it looks for a file that is not there by the name that it is given."""
    pairs: bool = False
    """Of a folder and a file it reads the file of that name in the folder."""
    opens_below: bool = False
    """What lies below a folder, it opens where it goes on into folders."""
    lists: tuple[str, ...] = ()
    """Names of files that say what to leave out, in the folders that it goes over and in those above."""
    any_names: bool = False
    """No option of it writes, waits or runs anything, so files may be given that are named like one."""
    reads_worktree: bool = False
    """git only: it looks at files of the work tree, so filters would run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments of one command, taken apart."""

    given: frozenset[str]
    """Options as spelled, without their values."""
    operands: tuple[Word, ...]
    values: tuple[tuple[str, str], ...] = ()
    """Options that were given a value, with it, in order."""
    files: tuple[Word, ...] = ()
    """Values of options that are files to read."""


def form_of(row: Mapping[str, Any], groups: Mapping[str, Mapping[str, Any]]) -> CommandForm:
    """The form that a row of a data file describes, with the groups of options that it names."""
    rows = [row, *(groups[name] for name in row.get("groups", ()))]

    def union(key: str) -> frozenset[str]:
        return frozenset(one for each in rows for one in each.get(key, ()))

    allowed = {key: value for each in reversed(rows) for key, value in each.get("allowed", {}).items()}
    least, most = row.get("count", (0, -1))
    needs = row.get("needs")
    return CommandForm(
        name=row["name"],
        short=union("short"),
        short_values=union("short_values"),
        long=union("long"),
        long_values=union("long_values"),
        long_optional=union("long_optional"),
        file_values=union("file_values"),
        number=any(each.get("number", False) for each in rows),
        least=least,
        most=None if most < 0 else most,
        operands=row.get("operands", "path"),
        allowed=allowed,
        needs=(frozenset(needs["one_of"]), needs["beyond"]) if needs else None,
        needs_all=union("needs_all"),
        needs_one=union("needs_one"),
        pure=row.get("pure", False),
        widths=union("widths"),
        recursive=union("recursive"),
        follows=union("follows"),
        shallow=union("shallow"),
        filters=any(each.get("filters", False) for each in rows),
        no_input=union("no_input"),
        opens_nothing=row.get("opens_nothing", False),
        completes=tuple(row.get("completes", ())),
        pairs=row.get("pairs", False),
        opens_below=any(each.get("opens_below", False) for each in rows),
        lists=tuple(one for each in rows for one in each.get("lists", ())),
        any_names=row.get("any_names", False),
        reads_worktree=row.get("reads_worktree", False),
    )


def taken_apart(form: CommandForm, words: Sequence[Word]) -> Options:
    """Options and operands of `words`. Raises `Refused` for an option, a value or a number of operands not listed."""
    given, operands, values = set[str](), list[Word](), list[tuple[str, str]]()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.text == "--":
            operands += rest
            break
        if not word.text.startswith("-") or word.text == "-":
            operands.append(word)
        elif form.number and re.fullmatch(r"-\d+", word.text):
            given.add("-NUMBER")
        elif word.text in form.long:
            given.add(word.text)
        elif word.text.startswith("--") or word.text in form.long_values:
            given.add(_long(form, word, rest, values))
        else:
            given |= _short(form, word, rest, values)
    _count(form, given, operands)
    if form.needs_all - given or (form.needs_one and not form.needs_one & given):
        wanted = min(form.needs_all - given or form.needs_one)
        raise Refused(f"{form.name} without {wanted} is not known to be a read")
    files = [Word(text=value, home=value.startswith("~/")) for name, value in values if name in form.file_values]
    return Options(given=frozenset(given), operands=tuple(operands), values=tuple(values), files=tuple(files))


def _long(form: CommandForm, word: Word, rest: list[Word], values: list[tuple[str, str]]) -> str:
    name, equals, value = word.text.partition("=")
    if equals and name in form.long_values | form.long_optional:
        _value(form, name, value, values)
    elif not equals and name in form.long_values and (rest or name not in form.long_optional):
        _value(form, name, _next(form, name, rest), values)
    elif equals or name not in form.long_optional:
        raise Refused(f"{form.name} {name} is not on the list of options that only read")
    return name


def _short(form: CommandForm, word: Word, rest: list[Word], values: list[tuple[str, str]]) -> set[str]:
    given = set[str]()
    for place, letter in enumerate(word.text[1:], start=1):
        name = f"-{letter}"
        if letter in form.short_values:
            value = word.text[place + 1 :]
            _value(form, name, value or _next(form, name, rest), values)
            return {*given, name}
        if letter not in form.short:
            raise Refused(f"{form.name} {name} is not on the list of options that only read")
        given.add(name)
    return given


def _next(form: CommandForm, name: str, rest: list[Word]) -> str:
    if not rest:
        raise Refused(f"{form.name} {name} has no value")
    value = rest.pop(0)
    if value.glob:
        raise Refused(f"the value of {form.name} {name} would be as many words as files match")
    if value.text.startswith("-") and not re.fullmatch(r"-\d+", value.text):
        raise Refused(f"the value of {form.name} {name} looks like an option")
    return value.text


def _value(form: CommandForm, name: str, value: str, values: list[tuple[str, str]]) -> None:
    values.append((name, value))
    pattern = form.allowed.get(name)
    if pattern is not None and not re.fullmatch(pattern, value):
        raise Refused(f"{form.name} {name} has a value that is not known to be a read")
    _width(form, name, value)


def _width(form: CommandForm, name: str, value: str) -> None:
    if name in form.widths and LARGE.search(value):
        raise Refused(f"{form.name} {name} may make more than it is given, out of nothing")


def _count(form: CommandForm, given: set[str], operands: list[Word]) -> None:
    bounded = form.most is not None or form.needs is not None or form.operands in ("text", "rule")
    if bounded and any(word.glob for word in operands):
        raise Refused(f"{form.name} would get as many operands as files match")
    if len(operands) < form.least or (form.most is not None and len(operands) > form.most):
        raise Refused(f"{form.name} with {len(operands)} operands is not known to be a read")
    if form.needs is not None and len(operands) > form.needs[1] and not form.needs[0] & given:
        raise Refused(f"{form.name} with operands is a read only with {' or '.join(sorted(form.needs[0]))}")
    pattern = form.allowed.get("operand")
    for word in operands if pattern is not None else ():
        if not re.fullmatch(pattern or "", word.text):
            raise Refused(f"{form.name} with the operand {word.text!r} is not known to be a read")
    for word in operands if "operand" in form.widths else ():
        _width(form, "operand", word.text)
