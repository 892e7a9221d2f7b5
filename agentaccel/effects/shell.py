"""Shell command lines: which of them only read, as our own executor would run them.

That executor takes the words as read here and starts each program without a shell, from the folders of the system, with
standard input empty, a scrubbed environment (`agentaccel.effects.early`), a time limit and a cap on output. So aliases,
functions, variables and start-up files do not exist for it, and every other trick has to stand in the words.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentaccel.effects import clients, rules
from agentaccel.effects.lines import Command, Line, turns
from agentaccel.effects.options import CommandForm, Options, form_of, taken_apart
from agentaccel.effects.places import Surroundings, only_plain, plain
from agentaccel.effects.reader import TreeReader
from agentaccel.effects.repository import names_plain_files, starts_nothing
from agentaccel.effects.tables import table
from agentaccel.effects.unnamed import goes_over, paired
from agentaccel.effects.verdict import Refused, Verdict, analysed, judged, worked_out_once, worse
from agentaccel.effects.words import Word
from agentaccel.errors import MissingExtraError
from agentaccel.types import Effect

# --- Which calls of git only read -------------------------------------------------------------------------------------


@functools.cache
def _git_forms() -> Mapping[str, tuple[CommandForm, tuple[str, ...] | None]]:
    data = table("git")
    rows: list[Mapping[str, Any]] = data["command"]
    verbs = {row["name"]: tuple(row["verbs"]) if "verbs" in row else None for row in rows}
    return {row["name"]: (form_of(row, data["groups"]), verbs[row["name"]]) for row in rows}


def read_only(words: Sequence[Word], there: Surroundings) -> str:
    """Why this call of git, without the word git, is a read. Raises `Refused`."""
    rest = list(words)
    if [word.text for word in rest] == ["--version"]:  # it reads settings of its log, which may be a file to write
        return f"git --version only reads; {starts_nothing(there, reads_worktree=False)}"
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0)
        if option.text == "-C" and rest and not rest[0].glob and rest[0].text:
            there = there.inside(rest.pop(0))
        elif option.text not in ("--no-pager", "-P"):
            raise Refused(f"git {option.text} before the sub-command is not on the list of options that only read")
    if not rest:
        raise Refused("git without a sub-command is not known to be a read")
    name = rest.pop(0).text
    if name not in _git_forms():
        raise Refused(f"git {name} is not on the list of sub-commands that only read")
    form, verbs = _git_forms()[name]
    _verb(name, verbs, rest)
    options = taken_apart(form, rest)
    operands = options.operands if form.operands in ("path", "revision") else ()
    for word in (*operands, *(paired(operands) if form.pairs else ())):
        plain(word, there)  # what is no revision is taken for a file
    return f"git {name} with these options only reads; {starts_nothing(there, form.reads_worktree)}"


def _verb(name: str, verbs: tuple[str, ...] | None, words: Sequence[Word]) -> None:
    if verbs is None:
        return
    if "" in verbs:  # options may stand before it, and it may be missing
        words = [word for word in words if not word.text.startswith("-")]
    verb = words[0].text if words else ""
    if verb not in verbs:
        raise Refused(f"git {name} {verb} is not on the list of sub-commands that only read".replace("  ", " "))


# --- A command line as words, pipes and blocks, or a refusal: the part of the language that needs no shell ------------
# tree-sitter-bash reads the text; every word is then decoded (`agentaccel.effects.words`), and `shlex` must read the
# same words and operators. Loops over fixed words are written out, a variable that is set once to a fixed text is put
# in. What stands in a node that is not listed (a substitution, another expansion, a here-document, a job in the
# background, a redirection to anything but /dev/null) refuses the whole text.

MAX_LENGTH = 8_000
"""Characters of a command line that are looked at; a longer one is refused."""
_KEPT = 64
"""Lines whose words are kept: a line is judged several times before it runs, and each time its files are looked at."""


@functools.cache
def _parser() -> Any:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise MissingExtraError("effects", "tree-sitter-bash") from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def commands(text: str) -> tuple[Command, ...]:
    """The commands of a line in order. Raises `Refused` for all that is not plain words, pipes, lists and blocks.

    >>> [[word.text for word in one.words] for one in commands("for n in 2 5; do git log -$n | head -n 2; done")]
    [['git', 'log', '-2'], ['head', '-n', '2'], ['git', 'log', '-5'], ['head', '-n', '2']]
    """
    return read_line(text).commands


def read_line(text: str) -> Line:
    """The line with its blocks. Raises `Refused`, as `commands` does."""
    _plain(text)
    _parser()
    return _read(text)


@worked_out_once("shell", _KEPT)
def _read(text: str) -> Line:
    root = _parser().parse(text.encode()).root_node
    if root.has_error:
        raise Refused("it does not parse as shell")
    reader = TreeReader(text.encode())
    reader.read(root)
    reader.close()
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        seen = list(lexer)
    except ValueError:
        raise Refused("its quotes do not close") from None
    if _apart(seen) != _apart(reader.tokens):
        raise Refused("two readers of shell syntax see different words in it")
    if not reader.found:
        raise Refused("it holds no command")
    return Line(commands=tuple(reader.found), items=tuple(reader.items), chained=reader.chained)


def _apart(tokens: Iterable[str]) -> list[str]:
    """Operators that touch one another are one token for shlex."""
    return [one for token in tokens for one in (token if token and not set(token) - set("();<>|&") else (token,))]


def _plain(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise Refused(f"it is longer than {MAX_LENGTH} characters")
    for character in text:
        if not (character.isprintable() or character in "\n\t") or 0xD800 <= ord(character) < 0xE000:
            raise Refused(f"it holds the character U+{ord(character):04X}")


# --- `xargs`, where all that it can hand on is proven to be names of plain files, to a program that only reads them ---
# Names come from `find -type f -print0` or from git's index. A name with a blank in it becomes two words without -0,
# and one of them may be a device: so names from `find` must be told apart by -0, and those of the index must hold no
# blank.

NAME = Word(text="./name")
"""Stands for a name that is handed on."""


def handed_to(words: Sequence[Word]) -> tuple[Word, ...]:
    """The command that `xargs` starts, with one name behind it. Raises `Refused` for options that are not listed."""
    rest = list(words)
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        if option == "-n" and rest and rest[0].text.isdecimal():
            rest.pop(0)
        elif option not in table("shell")["xargs"]["options"]:
            raise Refused(f"xargs {option} is not on the list of options that only read")
    if not rest or any(word.glob or word.home for word in rest):
        raise Refused("xargs is given no fixed command")
    return (*rest, NAME)


def names_files(before: Sequence[Command], command: Command, there: Surroundings) -> None:
    """Raises `Refused` where what stands `before` xargs in its pipeline may write anything but names of plain files."""
    known, words = table("shell")["xargs"], command.words[1:]
    if command.over is not None or any(one.given is not None for one in (*before, command)):
        raise Refused("xargs is given names that are not looked at")
    source = [word.text for word in before[0].words] if before else [""]
    if any(set(command.redirects) - {(2, None)} for command in before):
        raise Refused("xargs is given errors, too, which are no names")
    if not all(_chooses([word.text for word in command.words]) for command in before[1:]):
        raise Refused("xargs is given lines that may be no names")
    apart = any(word.text in ("-0", "--null", "-0r", "-r0") for word in words)
    if source[0] == "find" and apart == (source[-1] == "-print0") and (len(before) == 1 or not apart):
        tests = source[1:-1] if apart else source[1:]
        if set(tests) & set(known["other_output"]):
            raise Refused("find hands on more than names")
        if not (apart and rules.only_plain_files(tests)):
            _looked_through(rules.find(before[0].words[1:]), there, apart)
    elif source[:2] == ["git", "ls-files"] and apart == ("-z" in source):
        if any(word.startswith("-") and word not in ("-z", "--") for word in source[2:]):
            raise Refused("git ls-files hands on more than names of its index")
        names_plain_files(there, apart=apart)
    else:
        raise Refused("xargs is given names only by find -type f -print0, or by git ls-files")


def _looked_through(folders: Sequence[Word], there: Surroundings, apart: bool) -> None:
    """Raises `Refused` where something below these folders of `find` is no plain file or folder."""
    for word in folders or (Word(text="."),):
        if there.cwd is None or word.glob or word.home or not re.fullmatch(r"[\w./@+-]+", word.text):
            raise Refused("find hands on names of files that are not looked at")
        folder = there.cwd / word.text
        plain(word, there)
        if folder.is_symlink() or not folder.is_dir():
            raise Refused("find hands on names of files that may be no plain ones")
        only_plain(folder, apart=apart)


def looked_through(words: Sequence[Word], there: Surroundings) -> bool:
    """Whether all that `find` with these words goes over is plain files and folders."""
    try:
        _looked_through(rules.find(words, plain_only=True), there, apart=True)
    except Refused:
        return False
    return True


def _chooses(words: Sequence[str]) -> bool:
    """It hands on whole lines of its input, fewer or in another order."""
    if words[0] == "grep":
        options, pattern = words[1:-1], words[-1]
        return not pattern.startswith("-") and all(re.fullmatch("-[viEFw]+", option) for option in options)
    return re.fullmatch(table("shell")["xargs"]["choosing"], " ".join(words)) is not None


@functools.cache
def _forms() -> Mapping[str, tuple[CommandForm, bool]]:
    data = table("shell")
    telling = {name: set[str]() for names in data["versions"].values() for name in names}
    for option, names in data["versions"].items():
        for name in names:
            telling[name].add(option)
    versions = {
        name: (CommandForm(name=name, long=frozenset(told), needs_one=frozenset(told), most=0), True)
        for name, told in telling.items()
    }
    known = {row["name"]: (form_of(row, data["groups"]), row.get("needs_option", False)) for row in data["command"]}
    return {**versions, **known}


@functools.cache
def programs() -> frozenset[str]:
    """Names of all that a line may start."""
    return frozenset({*_forms(), *clients.clients(), *table("shell")["wrappers"], "git", "xargs", "command"})


@judged("shell")
def judge_shell(text: str, there: Surroundings) -> Verdict:
    """The verdict about a command line that would run in `there`."""
    effect, why = Effect.PURE, list[str]()
    line = read_line(text)
    places: dict[tuple[int, ...], list[Surroundings]] = {(): [there]}
    for number, command in enumerate(line.commands):
        known = _places(places, command.scope)
        if command.words[0].text == "cd":
            moved = [_moved(command, place) for place in known]
            # elsewhere what follows may run though cd failed
            places[command.scope] = moved if line.chained else [*known, *moved]
            continue
        for place in known:
            for turn in turns(command, place):
                one, because = _judge(turn, place)
                effect = worse(effect, one)
                why.append(because)
            if command.words[0].text == "xargs":
                before = [other for other in line.commands[:number] if other.pipeline == command.pipeline]
                names_files(before, command, place)
    return analysed(effect, "shell: " + ("; ".join(dict.fromkeys(why)) or "it only changes the folder"))


def _places(places: dict[tuple[int, ...], list[Surroundings]], scope: tuple[int, ...]) -> list[Surroundings]:
    """Where commands of this subshell may run: at first, where those around it do."""
    if scope not in places:
        places[scope] = _places(places, scope[:-1])
    return places[scope]


def _judge(command: Command, there: Surroundings) -> tuple[Effect, str]:
    head, words = command.words[0], command.words[1:]
    name = head.text
    if head.glob or head.home:
        raise Refused("the program is named by a pattern")
    if command.given is not None:
        plain(command.given, there)
    if name == "git":
        return Effect.READ_LOCAL, read_only(words, there)
    if name == "xargs":
        return _handed_on(command, there)
    if name == "command":
        return Effect.READ_LOCAL, rules.looked_up(words)
    if name in table("shell")["wrappers"]:
        return _wrapped(command, there)
    if name in clients.clients():
        return clients.read_only(name, words, there)
    if name not in _forms():
        raise Refused(f"{name} is not on the list of programs that only read")
    _form_reads(command, *_forms()[name], there)
    return (
        Effect.PURE if _forms()[name][0].pure and command.given is None and command.over is None else Effect.READ_LOCAL,
        f"{name} with these options only reads",
    )


def _handed_on(command: Command, there: Surroundings) -> tuple[Effect, str]:
    """What xargs starts may take a name for an option, so no option of it may do harm."""
    inner = handed_to(command.words[1:])
    form, needs_option = _forms().get(inner[0].text, (CommandForm(name=inner[0].text), False))
    if not form.any_names or form.operands not in ("path", "pattern"):
        raise Refused(f"xargs {form.name} is not known to be a read whatever the names are")
    _form_reads(replace(command, words=inner, fed=False), form, needs_option, there)
    return Effect.READ_LOCAL, f"xargs {form.name} with these options only reads"


def _wrapped(command: Command, there: Surroundings) -> tuple[Effect, str]:
    """What `timeout` and its like start has to be a program of the list itself."""
    name, inner = command.words[0].text, rules.wrapped(command.words)
    if not inner or inner[0].text not in _forms() or inner[0].text in table("shell")["alone"]:
        raise Refused(f"{name} is not known to start a program that only reads")
    _form_reads(replace(command, words=inner), *_forms()[inner[0].text], there)
    return Effect.READ_LOCAL, f"{name} {inner[0].text} with these options only reads"


def _form_reads(command: Command, form: CommandForm, needs_option: bool, there: Surroundings) -> None:
    """Raises `Refused` for a call of a listed program that is not known to be a read."""
    name, words = form.name, command.words[1:]
    if any(word.wild for word in words) and not form.any_names:
        raise Refused(f"{name} could take a file's name that matches for an option")
    options, files = _parts(form, words, there)
    if rules.recursive(form, options):
        rules.whole_disk(name, files, there)
        goes_over(form, files, there)
    clients.settings(name, table("shell")["settings"].get(name, {}), replace(there, home=there.home or there.root))
    if not command.fed and rules.waits(form, options, files):
        raise Refused(f"{name} would wait for input that nobody gives")
    if name == "pwd":
        rules.where(options, there)
    if needs_option and not options.given:
        raise Refused(f"{name} without an option runs programs")
    for word in (*files, *options.files, *(paired(files) if form.pairs else ())):
        for ending in ("", *form.completes):
            plain(replace(word, text=word.text + ending), there)
    for inner in rules.started(words) if name == "find" else ():
        rules.whole_disk(name, files, there)
        if inner[0].text not in _forms() or inner[0].text in table("shell")["alone"]:
            raise Refused(f"find -exec {inner[0].text} is not on the list of programs that only read")
        _form_reads(replace(command, words=inner), *_forms()[inner[0].text], there)


def _parts(form: CommandForm, words: Sequence[Word], there: Surroundings) -> tuple[Options, Sequence[Word]]:
    """The options of a listed program, and its operands that are files."""
    if form.operands == "rule":
        if form.name == "find":
            starts = any(word.text == "-exec" for word in words)
            files = rules.find(words, plain_only=starts and looked_through(words, there))
        else:
            files = rules.RULES[form.name](words)
        return Options(given=frozenset(word.text for word in words), operands=files), files
    options = taken_apart(form, words)
    if form.name in rules.PROGRAMS:
        rules.PROGRAMS[form.name](options.operands[:1])
    return options, rules.paths(form.operands, options)


def _moved(command: Command, there: Surroundings) -> Surroundings:
    """Where the commands behind `cd FOLDER &&` run."""
    if (
        command.given is not None
        or command.settings
        or command.piped
        or command.after not in ("", "&&")
        or len(command.words) != 2
    ):
        raise Refused("cd is understood only as cd FOLDER, first or behind &&")
    folder = command.words[1]
    if folder.glob or not folder.text or folder.text.startswith("-") or folder.text == "~":
        raise Refused("cd is understood only with a fixed folder")
    plain(folder, there)
    inside = there.inside(folder)
    if inside.cwd is not None and rules.climbs(inside.cwd):
        raise Refused("cd leaves a folder behind a link, where a shell goes back to the link")
    return inside
