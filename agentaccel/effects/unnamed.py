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

from agentaccel.effects.options import CommandForm
from agentaccel.effects.places import Surroundings, expanded, named, of_kernel, plain
from agentaccel.effects.tables import table
from agentaccel.effects.texts import LONGEST, own
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

MOST_LOOKED_AT = 100_000
"""Names of one walk; more refuse. A tenth of a second on a machine of 2020, where nothing is opened."""
MAX_BYTES = 256 * 1024
"""Of a settings file that is looked at; a longer one refuses."""
BESIDE = ("-journal", "-wal", "-shm")
"""Endings of what SQLite keeps beside a database (SQLite, Temporary Files, 2)."""
MOST_PIECES = 20
"""Names in one text that are looked at."""
MOST_FOLDERS = 3
"""Folders among the arguments below which the others may be."""
_OF_WINDOWS = re.compile(r"[\\/]{2}[.?][\\/].*|(?:con|prn|aux|nul|com\d|lpt\d)(?:\.\w+)?", re.IGNORECASE)
_OF_KERNEL = re.compile(r"/+(?:dev|proc|sys)/\S*$")


def goes_over(form: CommandForm, files: Sequence[Word], there: Surroundings) -> None:
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


def plain_below(folder: Path, names: Collection[str], *, others: bool = False) -> None:
    """Raises `Refused` where a pipe or a device below `folder` has one of these `names`, or any, where `others` stands.

    Of a name with folders in it the last part counts. Links are followed only where they have one of the names: a walk
    does not follow them. A file at .git is followed as git follows it, for its lists may lie there.
    """
    ends, left = {posixpath.basename(name) for name in names}, deque([os.fspath(folder)])
    for entry in below(left):
        if names and entry.name == ".git":
            _plain_beside(Path(entry.path))
        if entry.is_dir(follow_symlinks=False):
            left.append(entry.path)
        elif entry.is_file(follow_symlinks=False):
            continue
        elif entry.name in ends or (others and not entry.is_symlink()):
            plain_files([entry.path])


def below(left: deque[str]) -> Iterator[os.DirEntry[str]]:
    """All that lies in the folders of `left`, to which the caller adds those that it goes into. Raises `Refused` for
    more than `MOST_LOOKED_AT`."""
    seen = 0
    while left:
        folder = left.popleft()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST_LOOKED_AT:
                        raise Refused(f"more than {MOST_LOOKED_AT} names are to be looked at")
                    yield entry
        except OSError:
            continue  # it is not there, or not to be looked into: neither for the program


def plain_around(folder: Path, names: Iterable[str]) -> None:
    """Raises `Refused` where a file of these names in the folder, or in one above it, is a pipe or a device."""
    for one in (folder, *folder.parents) if names else ():
        plain_files(one / name for name in names)
        _plain_beside(one / ".git")


def plain_files(files: Iterable[str | Path]) -> None:
    """Raises `Refused` where one of the files is a pipe or a device; it need not be there."""
    for file in files:
        try:
            mode = os.stat(file).st_mode
            real = os.path.realpath(file)
        except (OSError, ValueError):
            continue
        device = (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and real != os.devnull
        if device or stat.S_ISFIFO(mode) or (of_kernel(real) and not stat.S_ISDIR(mode)):
            raise Refused(f"{os.path.basename(file)!r}, which would be opened, is a pipe or a device")


def small_text(file: Path) -> str | None:
    """The text of a small plain file; None where there is none. Raises `Refused` for anything else."""
    try:
        if not stands(file):
            return None
        plain_files([file])
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            raise Refused(f"{file.name} is no small plain file")
        return file.read_bytes().decode()
    except (OSError, ValueError):
        raise Refused(f"{file.name} cannot be read") from None


def stands(path: Path) -> bool:
    """True if something is there, a link to nothing too, or if that cannot be seen."""
    try:
        return path.is_symlink() or path.exists()
    except OSError:
        return True


def led_to(dot: Path) -> Path:
    """The git folder that stands at `dot`, or that a file there leads to."""
    text = small_text(dot) if os.path.isfile(dot) else None
    if text is None or not text.startswith("gitdir: "):
        return dot
    match = re.fullmatch(r"gitdir: ([^\n\0]+)\n?", text)
    if match is None:
        raise Refused("git: a .git file there cannot be followed")
    return dot.parent / match[1]


def shared(found: Path) -> Path:
    """Where the git folder `found` keeps what it shares with others: itself, or what a file there leads to."""
    text = small_text(found / "commondir")
    return found if text is None else found / text.rstrip("\r\n")


def _plain_beside(dot: Path) -> None:
    """Raises `Refused` where a list that a linked work tree shares with others, or the way there, is a pipe."""
    if os.path.isfile(dot):
        plain_files([shared(led_to(dot)) / "info/exclude"])


def left_beside(database: Path) -> set[str]:
    """Endings of what stands beside a database of SQLite, where it really lies; links and pipes too, as "other"."""
    real, found = os.path.realpath(database), set[str]()
    for ending in filter(lambda one: os.path.lexists(real + one), BESIDE):
        found.add(ending if stat.S_ISREG(os.lstat(real + ending).st_mode) else "other")
    return found


def no_pipe(leaves: Sequence[tuple[str, str | float]], there: Surroundings) -> None:
    """Raises `Refused` where an argument names a pipe or a device, as far as can be seen now.

    A relative name is looked for below the folder of this process, where no other is known.
    """
    there, known = _here(there), table("mcp")
    told = [(own(name)[-1], one) for name, one in leaves if isinstance(one, str) and 0 < len(one.strip()) <= LONGEST]
    texts = list(dict.fromkeys(told))
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
