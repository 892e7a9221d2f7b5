"""Files that a program opens though no word names them: what lies below a folder, lists of what to leave out; and those
that an argument of a tool names, whatever it is called.

To open a pipe takes what its reader waits for, and to open a device may do anything. So the places where a program
looks are looked at before, each time: which of its versions would pass a pipe by is not known.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from agentaccel.effects.options import Form
from agentaccel.effects.places import Surroundings, expanded, named, plain
from agentaccel.effects.tables import table
from agentaccel.effects.texts import own
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

MOST_LOOKED_AT = 100_000
"""Names below one folder; more refuse. A tenth of a second on a machine of 2020, where nothing is opened."""
MOST_PIECES = 20
"""Names in one text that are looked at."""
MOST_FOLDERS = 3
"""Folders among the arguments below which the others may be."""
LONGEST = 4_096
"""Characters of a path (PATH_MAX of Linux)."""
_OF_WINDOWS = re.compile(r"[\\/]{2}[.?][\\/].*|(?:con|prn|aux|nul|com\d|lpt\d)(?:\.\w+)?", re.IGNORECASE)
_OF_KERNEL = re.compile(r"/+(?:dev|proc|sys)/\S*$")


def goes_over(form: Form, files: Sequence[Word], there: Surroundings) -> None:
    """Raises `Refused` where a program that goes into folders would open a pipe or a device there, or read its lists
    of what to leave out from one."""
    for word in files or (Word(text="."),) if form.opens_below or form.lists else ():
        for path in named(word, there):
            folder = Path(os.path.realpath(path))
            plain_below(folder, form.lists, others=form.opens_below)
            plain_around(folder, form.lists)


def paired(files: Sequence[Word]) -> tuple[Word, ...]:
    """What `diff FOLDER FILE` reads: the file of that name in the folder. Which one is a folder is not asked."""
    if len(files) != 2:
        return ()
    return tuple(
        replace(one, text=f"{one.text}/{posixpath.basename(other.text.rstrip('/'))}")
        for one, other in (files, files[::-1])
    )


def plain_below(folder: Path, names: Collection[str], *, others: bool = False, without: Collection[str] = ()) -> None:
    """Raises `Refused` where a pipe or a device below `folder` has one of these `names`, or any, where `others` stands.

    Links are followed only where they have one of the names: a walk does not follow them. Folders that are named in
    `without` are left out.
    """
    left, seen = deque([os.fspath(folder)]), 0
    while left:
        try:
            with os.scandir(left.popleft()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST_LOOKED_AT:
                        raise Refused(f"there are more than {MOST_LOOKED_AT} names below {folder.name!r}")
                    if entry.is_dir(follow_symlinks=False):
                        left += [entry.path] if entry.name not in without else []
                    elif entry.is_file(follow_symlinks=False):
                        continue
                    elif entry.name in names or (others and not entry.is_symlink()):
                        plain_files([entry.path])
        except OSError:
            continue  # it is not there, or not to be looked into: neither for the program


def plain_around(folder: Path, names: Iterable[str]) -> None:
    """Raises `Refused` where a file of these names in the folder, or in one above it, is a pipe or a device."""
    above = (folder, *folder.parents)
    plain_files(one / name for name in names for one in above)


def plain_files(files: Iterable[str | Path]) -> None:
    """Raises `Refused` where one of the files is a pipe or a device; it need not be there."""
    for file in files:
        try:
            mode = os.stat(file).st_mode
            harmless = os.path.realpath(file) == os.devnull
        except (OSError, ValueError):
            continue
        if not harmless and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
            raise Refused(f"{os.path.basename(file)!r}, which would be opened, is a pipe or a device")


def beginning(file: Path, most: int) -> bytes:
    """The first bytes of a plain file. Raises `OSError` for what is none: to open a pipe would wait for a writer."""
    if not file.is_file():
        raise OSError(f"{file.name} is no plain file")
    with file.open("rb") as opened:
        return opened.read(most)


def no_pipe(leaves: Sequence[tuple[str, str | float]], there: Surroundings) -> None:
    """Raises `Refused` where an argument names a pipe or a device, as far as can be seen now.

    A relative name is looked for below the folder of this process, where no other is known.
    """
    there, known = _here(there), table("mcp")
    texts = [(own(name)[-1], one) for name, one in leaves if isinstance(one, str) and 0 < len(one.strip()) <= LONGEST]
    places = {*known["opened"], *known["below"]}
    cwd = there.cwd or Path()
    folders = [cwd / next(_read(one, there)) for last, one in texts if last in places][:MOST_FOLDERS]
    if any(set(own(name)) & set(known["recursing"]) and one in (True, "true", "yes") for name, one in leaves):
        for folder in folders:
            plain_below(folder, (), others=True)
    for last, one in texts:
        opened = last in known["opened"]
        for text in _read(one, there, pieces=opened):
            plain_files(os.path.join(base, text) for base in (cwd, *folders))
            if opened and _OF_WINDOWS.fullmatch(text):
                raise Refused(f"{text!r} is the name of a device")
            if opened or (_OF_KERNEL.match(posixpath.normpath(text)) and last not in known["places"]):
                plain(Word(text=text), there)
            if (opened or last in known["globs"]) and re.search(r"[*?\[]", text):
                plain_files(os.path.join(cwd, match) for match in _matches(text, there))


def _matches(pattern: str, there: Surroundings) -> list[str]:
    """What a pattern of files stands for; none where it may be another pattern, or too many match."""
    try:
        return expanded(Word(text=pattern, glob=True), there)
    except Refused:
        return []


def _here(there: Surroundings) -> Surroundings:
    try:
        return replace(there, cwd=there.cwd or Path.cwd(), home=there.home or Path.home())
    except (OSError, RuntimeError):  # the folder is gone, or nobody's home is known
        return there


def _read(text: str, there: Surroundings, *, pieces: bool = False) -> Iterator[str]:
    """The names that a server may read in the text: first what is likeliest."""
    bare = re.sub(r"^file:(?://[^/]*)?", "", text.strip(), flags=re.IGNORECASE).strip().removeprefix("@")
    whole = unquote(bare)
    if there.home is not None:
        whole = re.sub(r"^(?:~|\$HOME|\$\{HOME\})(?=/|$)", lambda _: str(there.home), whole)
    within = re.split(r"[,;\s]+", whole, maxsplit=MOST_PIECES) if pieces else []
    found = [whole, re.sub(r"(?::\d+(?:[:-]\d+)*|[#?].*)$", "", whole), bare, text, *within]
    yield from (one for one in dict.fromkeys(found) if one)
