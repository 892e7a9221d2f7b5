"""Files that a program opens though no word names them: what lies below a folder, lists of what to leave out.

To open a pipe takes what its reader waits for, and to open a device may do anything. So the places where a program
looks are looked at before, each time: which of its versions would pass a pipe by is not known.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from agentaccel.effects.options import Form
from agentaccel.effects.places import Surroundings, named
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

MOST_LOOKED_AT = 100_000
"""Names below one folder; more refuse. A tenth of a second on a machine of 2020, where nothing is opened."""


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
