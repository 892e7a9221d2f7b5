"""`xargs`, where all that it can hand on is proven to be names of plain files, to a program that only reads them.

Names come from `find -type f -print0` or from git's index. A name with a blank in it becomes two words without -0, and
one of them may be a device: so names from `find` must be told apart by -0, and those of the index must hold no blank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentaccel.effects import rules
from agentaccel.effects.lines import Command
from agentaccel.effects.places import Surroundings, only_plain, plain
from agentaccel.effects.repository import names_plain_files
from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

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
