"""Every allowed form of a command as a line that can be run, made of the data files themselves.

A form is one option (or sub-command, or operand) of one program, in each spelling that is taken. What stands behind an
option is in `forms.toml`: a program, or an option with a value, that is not there fails, so who adds one says how it is
tried.
"""

from __future__ import annotations

import functools
import itertools
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agentaccel.effects import early
from agentaccel.effects.tables import table

Row = Mapping[str, Any]


class Form(NamedTuple):
    """One line, and what it tries."""

    program: str
    """The word that is started; "" where any will do."""
    tried: str
    """The sub-command and the option, as the data file spells them."""
    line: str


@functools.cache
def said() -> Row:
    return tomllib.loads((Path(__file__).parent / "forms.toml").read_text(encoding="utf-8"))


def path_of(folder: Path) -> str:
    """Where programs are looked for: Debian's other names for some, our executor's folders, and those of the root."""
    links = folder / "programs"
    links.mkdir(exist_ok=True)
    path = f"{early.PATH}:/usr/sbin:/sbin"
    for name, called in said()["called"].items():
        program = shutil.which(called, path=path)
        if program is not None and not (links / name).exists():
            (links / name).symlink_to(program)
    return f"{links}:{path}"


def forms() -> list[Form]:
    """All of them, each line once."""
    found = itertools.chain(_commands(), _git(), _clients(), _versions(), _find(), _lines(), _prefixes())
    return list(dict.fromkeys(found))


def _commands() -> Iterator[Form]:
    data = table("shell")
    for row in data["command"]:
        if row.get("operands") != "rule":
            yield from _of((row["name"],), _whole(row, data["groups"]))
        if row.get("filters", False):
            yield from _fed(row["name"])


def _fed(name: str) -> Iterator[Form]:
    """What reads its input, in a pipe and from a file. Those that are given archives read one."""
    words = {"jq": "jq .", "grep": "grep a", "egrep": "egrep a", "fgrep": "fgrep a", "zgrep": "zgrep a"}
    words |= {"sed": "sed s/a/b/", "awk": "awk '{print $1}'", "tr": "tr a-z A-Z", "cut": "cut -c 1-3"}
    call, file = words.get(name, name), "names.txt"
    operands = _known("operands", (name,), "") if name not in words else [file]
    given = operands[0].split()[-1:] or [file]
    call = " ".join(filter(None, (call, _known("always", (name,), "", [""])[0] if call == name else "")))
    yield Form(name, "input", f"cat {given[0]} | {call}")
    yield Form(name, "input", f"{call} < {given[0]}")


def _git() -> Iterator[Form]:
    data = table("git")
    for row in data["command"]:
        for verb in row.get("verbs", [""]):
            together = "" in row.get("verbs", ()) and not verb  # else the value would be taken for a sub-command
            yield from _of(("git", *filter(None, (row["name"], verb))), _whole(row, data["groups"]), together=together)


def _clients() -> Iterator[Form]:
    for row in table("clients")["client"]:
        for name in (row["name"], *row.get("same", ())):
            for verb in row["verb"]:
                whole = _whole({**verb, "groups": ["anywhere"]}, {"anywhere": row["anywhere"]})
                yield from _crossed(name, verb["words"], whole, row["anywhere"])


def _crossed(name: str, words: str, row: Row, anywhere: Row) -> Iterator[Form]:
    """Each option with each sub-command of the row."""
    called = alternatives(words)
    assert all(re.fullmatch(words, one) for one in called), words
    for place, verb in enumerate(called):
        yield from _of((name, *filter(None, [verb])), row, ways_of=2 if not place else 1)
    if called[0]:
        for option, ways in options(anywhere).items():
            for way in _spelled((name, called[0]), option, ways):
                operands = _known("operands", (name, called[0]), option)[0]
                yield Form(name, f"{option} {called[0]}", _joined(name, way, called[0], operands))


def _versions() -> Iterator[Form]:
    for option, names in table("shell")["versions"].items():
        for name in names:
            yield Form(name, option, f"{name} {option}")


def _find() -> Iterator[Form]:
    known = table("shell")["find"]
    for option in known["leading"]:
        yield Form("find", option, f"find {option} src -maxdepth 1 -type f")
    yield Form("find", "", "find src")
    for option in (*known["tests"], *known["values"], "-exec"):
        lines = said()["lines"].get(f"find {option}")
        value = "" if lines or option in known["tests"] else _known("values", ("find",), option)[0]
        for line in lines or [_joined("find", "src", option, value)]:
            yield Form("find", option, line)


def _lines() -> Iterator[Form]:
    for name, lines in said()["lines"].items():
        if " " not in name and name != "prefix":
            for line in lines:
                yield Form({"cd": ""}.get(name, name), "", line)


def _prefixes() -> Iterator[Form]:
    for prefix in table("shell")["prefixes"]:
        for line in said()["lines"]["prefix"]:
            yield Form(line.split()[0], prefix, f"{prefix} {line}")


def _of(called: tuple[str, ...], row: Row, *, together: bool = False, ways_of: int = 9) -> Iterator[Form]:
    """The sub-command alone, and with each of its options in so many spellings."""
    name, verb = called[0], " ".join(called[1:])
    always, alone = _known("always", called, "", [""])[0], row.get("count") == [0, 0]
    if not (row.get("needs_one") and alone) and (always or not (row.get("needs_option") or row.get("needs_one"))):
        for operands in [""] if alone else _known("operands", called, ""):
            yield Form(name, verb, _joined(*called, always, operands))
    for option, ways in options(row).items():
        if lines := said()["lines"].get(_joined(*called, option)):
            yield from (Form(name, f"{verb} {option}".strip(), line) for line in lines)
            continue
        always = _known("always", called, option, _needed(row, option))[0]
        operands = "" if alone else _known("operands", called, option)[0]
        for way in _spelled(called, option, [one for one in ways if not (together and " " in one)][:ways_of]):
            beside = always if option not in always.split() else ""
            whole = always if option in always.split() else way
            words = (name, beside, whole, verb) if name in said()["first"] else (*called, beside, whole)
            yield Form(name, f"{verb} {option}".strip(), _joined(*words, operands))


def _needed(row: Row, option: str) -> list[str]:
    """What has to stand beside this option, as the row itself says."""
    needed = row.get("needs_one", [])
    return needed[:1] if needed and option not in needed else [""]


def options(row: Row) -> dict[str, list[str]]:
    """Each option of a row, with the spellings in which it is taken; {} stands for its value."""
    found: dict[str, list[str]] = {}
    for letter in row.get("short", ()):
        found.setdefault(f"-{letter}", []).append(f"-{letter}")
    for letter in row.get("short_values", ()):
        found.setdefault(f"-{letter}", []).extend((f"-{letter} {{}}", f"-{letter}{{}}"))
    for word in row.get("long", ()):
        found.setdefault(word, []).append(word)
    for word in row.get("long_values", ()):
        found.setdefault(word, []).extend((f"{word} {{}}", f"{word}={{}}") if word[:2] == "--" else [f"{word} {{}}"])
    for word in row.get("long_optional", ()):
        found.setdefault(word, []).extend((word, f"{word}={{}}"))
    if row.get("number", False):
        found["-NUMBER"] = ["-3"]
    return found


def _spelled(called: tuple[str, ...], option: str, ways: list[str]) -> Iterator[str]:
    for way in dict.fromkeys(ways):
        value = _known("values", called, option)[0] if "{}" in way else ""
        if not (value.startswith("-") and " {}" in way and not value[1:].isdecimal()):  # it would look like an option
            yield way.replace("{}", value)


def _known(of: str, called: tuple[str, ...], option: str, otherwise: list[str] | None = None) -> list[str]:
    """What `forms.toml` says, by the most special key."""
    name, verb, known = called[0], " ".join(called[1:]), said()[of]
    keys = [f"{name} {verb} {option}", f"{name} {option}", option] if option else []
    if of != "values":
        keys = [*keys[:2], f"{name} {verb}", name]
    for key in keys:
        value = known.get(" ".join(key.split()))
        if value is not None:
            return [value] if isinstance(value, str) else value
    assert otherwise is not None, f"forms.toml does not say {of} of {name} {verb} {option}"
    return otherwise


def _whole(row: Row, groups: Mapping[str, Row]) -> Row:
    """The row with the options of its groups."""
    rows = [row, *(groups[name] for name in row.get("groups", ()))]
    lists = {key: [one for each in rows for one in each.get(key, ())] for key in LISTS}
    return {**row, **lists, "number": any(each.get("number", False) for each in rows)}


LISTS = ("short", "short_values", "long", "long_values", "long_optional")
"""Keys of a row that list options."""


def alternatives(pattern: str) -> list[str]:
    """The words that a pattern of words, | and (?:…) stands for; `forms.toml` names some for any other.

    >>> alternatives("ps|(?:a|b) ls|")
    ['ps', 'a ls', 'b ls', '']
    """
    found = []
    for part in re.split(r"\|(?![^(]*\))", pattern):
        pieces = re.split(r"\(\?:([^()]*)\)", part)
        assert not re.search(r"[][(){}\\*+?^$.]", "".join(pieces)), f"what {part} stands for is not known"
        found += ["".join(way) for way in itertools.product(*(piece.split("|") for piece in pieces))]
    return found


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def programs(form: Form) -> set[str]:
    """What has to be installed for it; `command` and `[` are looked for by our executor itself."""
    piped = {part.split()[0] for part in form.line.split(" | ")[1:] if "'" not in form.line and part.split()}
    return ({form.program} | piped) - {"", "command"}


def installed(found: list[Form], path: str) -> tuple[list[Form], list[str]]:
    """Those forms whose programs are here, and the names of the programs that are not."""
    needed = {one for form in found for one in programs(form)}
    missing = {one for one in needed if shutil.which(one, path=path) is None}
    return [form for form in found if not programs(form) & missing], sorted(missing)


def told(path: str) -> str:
    """How many forms there are, and how many of them can be run here."""
    every = forms()
    here, missing = installed(every, path)
    count = len({form.program for form in every})
    said = f"{len(every):,} forms of {count} programs; {len(here):,} can be run here"
    return f"{said}; not installed: {', '.join(missing)}" if missing else said


if __name__ == "__main__" and sys.argv[1:] == ["packages"]:
    sys.stdout.write(said()["packages"] + "\n")
elif __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(told(path_of(Path(folder))) + "\n")
