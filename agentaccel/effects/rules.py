"""Programs whose arguments are a small language: each is read by a rule of its own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentaccel.effects.options import CommandForm, Options
from agentaccel.effects.places import Surroundings, named
from agentaccel.effects.scripts import jq, only_prints
from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word


def find(words: Sequence[Word], *, plain_only: bool = False) -> tuple[Word, ...]:
    """The folders that `find` walks. Only tests, printing and -exec are listed: no -delete, no -fprint, no -ok.

    What -exec starts is in `started`. What opens files is given plain ones: `-type f` certainly stands before it, or
    all that is there was seen to be plain (`plain_only`).
    """
    known = table("shell")["find"]
    rest = list(words)
    leading, folders = list[str](), list[Word]()
    while rest and rest[0].text in known["leading"]:
        leading.append(rest.pop(0).text)
    while rest and not rest[0].text.startswith("-") and rest[0].text not in ("!", "(", ")", ","):
        folders.append(rest.pop(0))
    if any(word.glob for word in rest):
        raise Refused("find: one of its tests would become the names of files that match")
    tests = list[str]()  # as find takes them: what stands behind an -exec are words for another program
    while rest:
        word = rest.pop(0)
        if word.text == "-exec":
            end = _end_of_exec(rest)
            plain_files = plain_only or (set(leading) <= {"-P"} and only_plain_files(tests))
            if not plain_files and not _row(rest[0].text).get("opens_nothing", False):
                raise Refused("find -exec opens files only behind -type f, which nothing makes uncertain")
            rest = rest[end + 1 :]
            continue
        tests.append(word.text)
        if word.text in known["values"]:
            tests.append(_value(word.text, rest))
        elif word.text not in known["tests"]:
            raise Refused(f"find {word.text} is not on the list of tests that only read")
    return tuple(folders)


def _value(test: str, rest: list[Word]) -> str:
    bounds = table("shell")["find"]["bounded"]
    if not rest or rest[0].text in ("(", ")", "-exec"):
        raise Refused(f"find {test} has no value, or one that is read in two ways")
    value = rest.pop(0).text
    if not re.fullmatch(bounds.get(test, ".*"), value, re.DOTALL):
        raise Refused(f"find {test} has a value that makes more than is found, or finds all there is")
    return value


def only_plain_files(tests: Sequence[str]) -> bool:
    """Whatever passes these tests of `find` is a plain file: -type f is one of them, in no parentheses and no "or"."""
    depth, certain = 0, False
    for before, test, value in zip(("", *tests), tests, (*tests[1:], ""), strict=False):
        depth += {"(": 1, ")": -1}.get(test, 0)
        if depth == 0 and test in table("shell")["find"]["leads_on"]:
            return False
        certain |= depth == 0 and (test, value) == ("-type", "f") and before not in ("!", "-not")
    return certain


def started(words: Sequence[Word]) -> tuple[tuple[Word, ...], ...]:
    """The commands that `find` starts, with {} where it puts the name of a plain file; where it puts as many names as
    there are, with a pattern for them. They begin with a folder."""
    found, rest = list[tuple[Word, ...]](), list(words)
    while rest:
        if rest.pop(0).text == "-exec":
            end = _end_of_exec(rest)
            many = rest[end].text == "+"
            names = {"{}": Word(text="./{}", glob=True)} if many else {}
            found.append(tuple(names.get(word.text, word) for word in rest[:end]))
            rest = rest[end + 1 :]
    return tuple(found)


def _end_of_exec(rest: Sequence[Word]) -> int:
    texts = [word.text for word in rest]
    ends = (place for place, text in enumerate(texts) if text == ";" or texts[place - 1 : place + 1] == ["{}", "+"])
    end = next(ends, 0)
    if texts[1:end].count("{}") != 1 or any("{}" in text and text != "{}" for text in texts[:end]):
        raise Refused("find -exec is understood only with {} once, and ; or + behind it")
    return end


def echo(words: Sequence[Word]) -> tuple[Word, ...]:
    """No files: every word is text, for which the program and the builtin of a shell print the same."""
    if any(word.glob for word in words):
        raise Refused("echo would print the names of files that match")
    texts = [word.text for word in words]
    known = table("shell")["echo"]
    escaped = any(re.fullmatch("-[nE]*e[neE]*", text) for text in texts)
    if texts in known["alone"] or (escaped and re.search(known["escapes"], " ".join(texts))):
        raise Refused("echo is a word of the shell that prints this otherwise than the program")
    return ()


def where(options: Options, there: Surroundings) -> None:
    """Raises `Refused` where `pwd` of a shell tells the links that `cd` went through, and the program does not."""
    if there.cwd is not None and "-P" not in options.given and real(there.cwd) != Path(posixpath.normpath(there.cwd)):
        raise Refused("pwd would tell where a link leads, and a shell tells the link")


def printf(words: Sequence[Word]) -> tuple[Word, ...]:
    """No files: a fixed format of texts and numbers, for which the program and the builtin print the same."""
    if any(word.glob or word.home for word in words):
        raise Refused("printf would print the names of files that match")
    text = words[0].text if words else "-"
    if not re.fullmatch(table("shell")["printf"]["format"], text) or text.startswith("-"):
        raise Refused("printf has no format that is known to be a read")
    numbers = re.search("%-?[0-9]*d", text.replace("%%", "")) is not None
    if numbers and not all(re.fullmatch("0|-?[1-9][0-9]{0,9}", word.text) for word in words[1:]):
        raise Refused("printf prints a number of what is none")
    return ()


def looked_up(words: Sequence[Word]) -> str:
    """Why `command -v NAME` only reads. Raises `Refused` for any other `command`."""
    texts = [word.text for word in words]
    fixed = len(texts) == 2 and texts[0] == "-v" and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", texts[1])
    if not fixed or texts[1] in table("shell")["builtins"]:
        raise Refused("command is understood only as command -v PROGRAM")
    return "command -v only looks for a program"


def wrapped(words: Sequence[Word]) -> tuple[Word, ...]:
    """The command that `timeout 5` and its like start; none where that is not known."""
    known: Mapping[str, str] = table("shell")["wrappers"]
    pattern = known.get(words[0].text, "(?!)")
    for place in range(min(4, len(words)), 0, -1):
        if re.fullmatch(pattern, " ".join(word.text for word in words[1:place])):
            return tuple(words[place:])
    return ()


def sed(words: Sequence[Word]) -> tuple[Word, ...]:
    """The files of `sed -n 5,10p` or `sed s/a/b/`."""
    known = _row("sed")
    rest, scripts = list(words), list[Word]()
    while rest and rest[0].text in ("-n", "-E", "-r", "-e"):
        if rest.pop(0).text == "-e" and rest:
            scripts.append(rest.pop(0))
    if not scripts and rest:
        scripts.append(rest.pop(0))
    if not scripts or any(script.glob for script in scripts):
        raise Refused("sed has no fixed script")
    growth = 1
    for script in scripts:
        match = next(filter(None, (re.fullmatch(one, script.text, re.ASCII) for one in known["scripts"])), None)
        if match is None:
            raise Refused("sed: the script is not one that only prints lines")
        growth *= 1 + len(match.groupdict().get("instead") or "")
    if len(scripts) > 1 and growth > known["growth"]:
        raise Refused("sed: one substitution after the other may make far more than it is given")
    return _files("sed", rest, many=True)


def awk(words: Sequence[Word]) -> tuple[Word, ...]:
    """The files of an `awk` that only prints."""
    rest = list(words)
    while rest and rest[0].text[:2] in ("-F", "-v"):
        name, value = rest[0].text[:2], rest.pop(0).text[2:]
        if not value and rest:
            value = rest.pop(0).text
        if name == "-v" and not re.fullmatch(table("shell")["awk"]["setting"], value):
            raise Refused("awk -v sets something else than a variable of its own to a plain value")
        if value.startswith("-"):
            raise Refused(f"awk {name} has a value that looks like an option")
    if not rest or rest[0].glob:
        raise Refused("awk has no fixed program")
    only_prints(rest.pop(0).text)
    if any("=" in word.text for word in rest):
        raise Refused("awk: a word with = is a setting, not a file")
    return _files("awk", rest, many=True)


def test(words: Sequence[Word]) -> tuple[Word, ...]:
    """The file of `test -f FILE`, or none where two texts are compared."""
    known = table("shell")["test"]
    rest = list(words)
    if rest and rest[0].text == "!":
        rest.pop(0)
    if any(word.glob for word in rest):
        raise Refused("test would get as many operands as files match")
    if len(rest) == 2 and rest[0].text in known["of_files"]:
        return _files("test", rest[1:])
    if len(rest) == 2 and rest[0].text in known["of_texts"]:
        return ()
    if len(rest) == 3 and rest[1].text in known["comparisons"]:
        return ()
    raise Refused("test with these operands is not known to be a read")


def tar(words: Sequence[Word]) -> tuple[Word, ...]:
    """The archive of `tar -tzf ARCHIVE`. One with a colon in its name would lie on another machine."""
    if len(words) != 2 or words[0].glob or not re.fullmatch(table("shell")["tar"]["listing"], words[0].text):
        raise Refused("tar is understood only as tar -tf ARCHIVE")
    if ":" in words[1].text:
        raise Refused("tar: the archive may lie on another machine")
    return _files("tar", list(words[1:]))


def _files(name: str, words: list[Word], *, many: bool = False) -> tuple[Word, ...]:
    """Where `many` may stand, a pattern is taken whose names begin with a fixed folder: no option, and no setting."""
    for word in words:
        fixed = not word.glob or (many and re.match(r"[\w.-]*/", word.text))
        if (word.text.startswith("-") and word.text != "-") or not fixed:
            raise Refused(f"{name}: {word.text!r} stands where a file should")
    return tuple(words)


def _row(name: str) -> Mapping[str, Any]:
    row: Mapping[str, Any] = next((row for row in table("shell")["command"] if row["name"] == name), {})
    return row


RULES: Mapping[str, Callable[[Sequence[Word]], tuple[Word, ...]]] = {
    "find": find,
    "echo": echo,
    "printf": printf,
    "sed": sed,
    "awk": awk,
    "tar": tar,
    "test": test,
}
"""By program; each returns the operands that are files, or raises `Refused`."""

PROGRAMS: Mapping[str, Callable[[Sequence[Word]], None]] = {"jq": jq}
"""By program: what its first operand, a program itself, may be; each raises `Refused`."""


def paths(kind: str, options: Options) -> tuple[Word, ...]:
    """The operands that name files, as far as the form tells. Raises `Refused` for a pattern that is no fixed word."""
    if kind == "path":
        return options.operands
    if kind == "pattern":
        given = options.given & {"-e", "-f", "--regexp", "--file", "--files", "--type-list"}
        if not given and options.operands and options.operands[0].glob:
            raise Refused("what is looked for would be the names of files that match")
        return options.operands if given else options.operands[1:]
    return ()


def recursive(form: CommandForm, options: Options) -> bool:
    """The program goes on into folders, and into all that lies below them. Raises `Refused` where it leaves them."""
    if options.given & form.shallow or not ("always" in form.recursive or options.given & form.recursive):
        return False
    if options.given & form.follows:
        raise Refused(f"{form.name} would follow links, out of the folder and perhaps over the whole disk")
    return True


def waits(form: CommandForm, options: Options, files: Sequence[Word]) -> bool:
    """The program reads standard input: it is given no file, or one that is named "-"."""
    if any(word.text == "-" for word in files):
        return True
    return form.filters and not files and not options.given & form.no_input and not recursive(form, options)


def whole_disk(name: str, files: Sequence[Word], there: Surroundings) -> None:
    """Raises `Refused` where a program that goes into folders would read every file of the machine.

    Those of the kernel would be among them: some of them never end, or hand out what they hold only once. Even their
    names take minutes. A folder that is not named is the current one.
    """
    for word in files or (Word(text="."),):
        if word.home and word.text in ("~", "~/"):
            raise Refused(f"{name} would go over the whole home folder")
        for path in named(word, there):
            if path.is_absolute() and real(path) in (Path("/"), *map(Path, table("shell")["kernel"]["folders"])):
                raise Refused(f"{name} would go over the whole disk, devices and files of the kernel included")


def climbs(path: Path) -> bool:
    """Whether some .. in it leads from where a link leads elsewhere than from the link."""
    return real(path) != real(Path(posixpath.normpath(path)))


def real(path: Path) -> Path:
    """Where `path` leads. Raises `Refused` where that cannot be seen."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        raise Refused(f"{str(path)!r} cannot be looked at") from None
