"""What git would run by itself in a folder: its settings, and sub-modules, which have settings of their own.

git starts programs that no word of the command line names: a file-system monitor, text conversion, filters, hooks. A
repository is read by git only where every setting, its own, the user's and the machine's, is known to start none.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from agentaccel.effects.places import Surroundings, plain
from agentaccel.effects.tables import table
from agentaccel.effects.unnamed import below, led_to, plain_files, shared, small_text, stands
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

MAX_INDEX = 64 * 1024 * 1024
_GITLINK = b"\x00\x00\xe0\x00"
"""The mode of a sub-module in an index. Times and sizes may hold these bytes by accident, which then refuses too."""
_PLAIN_MODES = (0o100644, 0o100755)
MOST_NAMES = 20_000
"""Of an index whose names are looked at one by one."""
_BLANKS = " \t\r"
"""All that git takes for white space within a line; a carriage return stands at its end alone."""
_SECTION = re.compile(r'\[[ \t]*([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\["\\])*)")?[ \t]*\][ \t]*')
_ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?")
_HEAD = re.compile(r"ref:[ \t]*refs/[^\n\0]*\n?|[0-9a-f]{40}(?:[0-9a-f]{24})?\n?")
"""What stands in the HEAD of a git folder. Where it does not, git goes on looking in the folders around it."""
_OFF = {"", "false", "no", "off", "0", "/dev/null"}


def starts_nothing(there: Surroundings, reads_worktree: bool) -> str:
    """What was found, in words. Raises `Refused` where git could start a program, or where that cannot be seen."""
    if there.cwd is None:
        raise Refused("git: the folder it would run in is not known, and its settings may start programs")
    if there.home is None:
        raise Refused("git: the home folder is not known, and its settings may start programs")
    users = (there.home / name for name in table("git")["users"])
    for file in (*map(Path, table("git")["system"]), *users):
        _check(file, there, reads_worktree)
    plain_files(there.home / name for name in table("git")["opens"]["of_users"])
    placed = _repository(_real(there.cwd))
    if placed is None:
        plain_files(there.cwd / name for name in table("git")["opens"]["lists"])
        return "no repository is there"
    root, found = placed
    common = shared(found)
    _opens_plain({str(_real(one)) for one in (found, common, *_within(root))})
    for own in dict.fromkeys((common / "config", found / "config.worktree", common / "config.worktree")):
        _check(own, there, reads_worktree)
    if reads_worktree:
        _no_submodules(found)
    return "its settings start no program"


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        raise Refused("git: a folder cannot be looked at") from None


def _within(root: Path) -> list[Path]:
    """The git folders in the work tree at `root`, its own among them: git asks of each what it is at. Raises `Refused`
    where a list in the tree is a pipe."""
    found, left = list[Path](), deque([str(root)])
    for entry in below(left):
        if entry.name == ".git":
            found.append(led_to(Path(entry.path)))
        elif entry.is_dir(follow_symlinks=False):
            left.append(entry.path)
        elif entry.name in table("git")["opens"]["lists"]:
            plain_files([entry.path])
    return found


def _opens_plain(folders: set[str]) -> None:
    """Raises `Refused` where anything in these git folders, and in those that they lead to, is a pipe, or lies in yet
    another place."""
    left, passed_by = deque(folders), table("git")["opens"]["not_looked_into"]
    for entry in below(left):
        parent = posixpath.dirname(entry.path)
        if parent in folders and entry.name in passed_by:
            continue
        if entry.name == "alternates" or (entry.is_symlink() and entry.is_dir()):
            raise Refused("git: some of what it keeps lies in another folder")
        if entry.name == "commondir" and (other := str(_real(shared(Path(parent))))) not in folders:
            folders.add(other)
            left.append(other)
        if entry.is_dir(follow_symlinks=False):
            left.append(entry.path)
        elif not entry.is_file(follow_symlinks=False):
            plain_files([entry.path])


def _repository(cwd: Path) -> tuple[Path, Path] | None:
    """The work tree, and the git folder, that git would find from `cwd`; a bare one refuses, for it may lie hidden in
    any download."""
    for folder in (cwd, *cwd.parents):
        dot = folder / ".git"
        if dot.is_dir():
            return folder, _whole(dot)
        if dot.is_file():
            if not (target := led_to(dot)).is_dir():
                raise Refused("git: a .git file there cannot be followed")
            return folder, _whole(target)
        if stands(dot):
            raise Refused("git: what stands at .git is no folder and no file")
        plain_files([folder / "HEAD"])  # git opens it, to see whether the folder is a bare repository
        if stands(folder / "HEAD") and (stands(folder / "objects") or stands(folder / "commondir")):
            raise Refused("git: the folder looks like a bare repository")
    return None


def _whole(found: Path) -> Path:
    """`found`. Raises `Refused` where git would not take it for a git folder, and go on looking."""
    head, common = found / "HEAD", shared(found)
    try:
        whole = not head.is_symlink() and _HEAD.fullmatch(_text(head) or "") is not None
        for name in ("objects", "refs"):
            whole = whole and (common / name).is_dir()
            (common / name / "x").is_symlink()  # it can be looked into
    except OSError:
        whole = False
    if not whole:
        raise Refused("git: what stands at .git is not whole, and git may take another one")
    return found


def _no_submodules(found: Path) -> bytes:
    """What stands in the index, nothing where there is none. Raises `Refused` where it may name sub-modules."""
    if next(found.glob("sharedindex.*"), None) is not None:
        raise Refused("git: its index is split, and is not looked at")
    index = found / "index"
    if not index.exists():
        return b""
    try:
        held = index.read_bytes() if index.is_file() and index.stat().st_size <= MAX_INDEX else _GITLINK
    except OSError:
        raise Refused("git: its index cannot be read") from None
    if _GITLINK in held:
        raise Refused("git: it may have sub-modules, which have settings of their own")
    return held


def names_plain_files(there: Surroundings, *, apart: bool) -> None:
    """Raises `Refused` where git's index may name anything but plain files, or where something else stands there now.

    Names that `xargs` would take for several words refuse as well, where nothing tells them `apart`.
    """
    placed = _repository(_real(there.cwd)) if there.cwd is not None else None
    if placed is None:
        return
    root, found = placed
    held = _no_submodules(found)
    if not held:
        return
    if held[:4] != b"DIRC" or held[4:8] not in (b"\0\0\0\2", b"\0\0\0\3") or _number(held[8:12]) > MOST_NAMES:
        raise Refused("git: its index is large, or of a form that is not looked at")
    place = 12
    for _ in range(_number(held[8:12])):
        start = place + (64 if held[place + 60 : place + 61] >= b"\x40" else 62)
        end = held.find(b"\0", start)
        if _number(held[place + 24 : place + 28]) not in _PLAIN_MODES:
            raise Refused("git: its index may name links")
        if not apart and not re.fullmatch(rb"[!#-&(-\[\]-~]+", held[start:end]):
            raise Refused("git: its index names files with blanks or quotes in their names")
        if not _plain_there(root / held[start:end].decode(errors="surrogateescape")):
            raise Refused("git: a file of its index is a link, a pipe or a device by now")
        place += (end - place + 8) & ~7


def _plain_there(file: Path) -> bool:
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _number(held: bytes) -> int:
    return int.from_bytes(held, "big")


def _text(file: Path) -> str | None:
    text = small_text(file)
    if text is not None and "\r" in text.replace("\r\n", "\n"):
        raise Refused(f"git: {file.name} has a carriage return within a line")
    return text


def lists_of_user(there: Surroundings) -> None:
    """Raises `Refused` where a list of what to leave out that the user's settings of git name is no plain file: other
    programs read it, too."""
    for name in table("git")["users"] if there.home is not None else ():
        for value in re.findall(r"(?im)excludesfile\s*=(.*)", small_text(there.home / name) or ""):
            if not _plain_value(value, there):
                raise Refused(f"{name} names a list of what to leave out that is not looked at")


def _plain_value(value: str, there: Surroundings) -> bool:
    """True if it names a plain file or none, wherever the program runs, and without comments and escapes. Raises
    `Refused` where it names a pipe or a device."""
    match = re.fullmatch(r'"?((?:~?/[\w./@+ -]+)?)"?', value.strip(_BLANKS))
    if match is not None:
        plain(Word(text=match[1], home=match[1].startswith("~")), there)
    return match is not None


def _check(file: Path, there: Surroundings, reads_worktree: bool) -> None:
    text = _text(file)
    for name, value in _settings(text) if text else ():
        if not _harmless(name, value, there, reads_worktree):
            raise Refused(f"git: the setting {name} may start a program or lead elsewhere")


def _harmless(name: str, value: str, there: Surroundings, reads_worktree: bool) -> bool:
    rules = table("git")["settings"]

    def listed(key: str) -> bool:
        return any(re.fullmatch(pattern, name, re.DOTALL) for pattern in rules[key])

    if listed("off"):
        return value.strip(_BLANKS).strip('"').lower() in _OFF
    if listed("files"):
        return _plain_value(value, there)
    return listed("harmless") or (not reads_worktree and listed("objects_only"))


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Names as git spells them, with their values. A line that is not understood refuses."""
    section = None
    for line in text.removeprefix("\ufeff").split("\n"):
        rest = line.strip(_BLANKS)
        if rest.endswith("\\"):
            raise Refused("git: a setting goes on over a line's end")
        if match := _SECTION.match(rest):
            section = match[1].lower() + (f".{match[2]}" if match[2] is not None else "")
            rest = rest[match.end() :]
        if not rest or rest[0] in "#;":
            continue
        entry = _ENTRY.fullmatch(rest)
        if section is None or entry is None:
            raise Refused("git: a line of its settings is not understood")
        yield f"{section}.{entry[1].lower()}", entry[2] if entry[2] is not None else "true"
