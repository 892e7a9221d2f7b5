"""Shell command lines: which of them only read, as our own executor would run them.

That executor takes the words as read here and starts each program without a shell, from the folders of the system, with
standard input empty, a scrubbed environment (`agentaccel.effects.early`), a time limit and a cap on output. So aliases,
functions, variables and start-up files do not exist for it, and every other trick has to stand in the words.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentaccel.effects import clients, git, rules, xargs
from agentaccel.effects.lines import Command, turns
from agentaccel.effects.options import Form, Options, form_of, taken_apart
from agentaccel.effects.parse import read_line
from agentaccel.effects.places import Surroundings, plain
from agentaccel.effects.tables import table
from agentaccel.effects.unnamed import goes_over, paired
from agentaccel.effects.verdict import Refused, Verdict, analysed, judged, worse
from agentaccel.effects.words import Word
from agentaccel.types import Effect


@functools.cache
def _forms() -> Mapping[str, tuple[Form, bool]]:
    data = table("shell")
    telling = {name: set[str]() for names in data["versions"].values() for name in names}
    for option, names in data["versions"].items():
        for name in names:
            telling[name].add(option)
    versions = {
        name: (Form(name=name, long=frozenset(told), needs_one=frozenset(told), most=0), True)
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
                xargs.names_files(before, command, place)
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
        return Effect.READ_LOCAL, git.read_only(words, there)
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
    inner = xargs.handed_to(command.words[1:])
    form, needs_option = _forms().get(inner[0].text, (Form(name=inner[0].text), False))
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


def _form_reads(command: Command, form: Form, needs_option: bool, there: Surroundings) -> None:
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


def _parts(form: Form, words: Sequence[Word], there: Surroundings) -> tuple[Options, Sequence[Word]]:
    """The options of a listed program, and its operands that are files."""
    if form.operands == "rule":
        if form.name == "find":
            starts = any(word.text == "-exec" for word in words)
            files = rules.find(words, plain_only=starts and xargs.looked_through(words, there))
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
