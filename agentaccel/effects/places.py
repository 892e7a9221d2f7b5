"""Where a command would run, and what stands at the places that its operands name."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import posixpath
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

# --- The names of files that match a pattern, as a shell puts them in, without a walk over the whole disk for them ----

MOST_LISTED = 10_000
"""Names that are looked at for one pattern; more refuse, for the verdict is made while everything else waits."""
MOST_OPENED = 1_000
"""Folders that are opened for it: each takes as long as some ten names."""
DEEPEST = 100
"""Folders below one another that a pattern names; more refuse."""
_MAGIC = re.compile(r"[*?\[]")


@dataclass(slots=True)
class _Look:
    """What has been looked at for one pattern."""

    root: str
    listed: int = 0
    opened: int = 0

    def matching(self, before: str, parts: list[str]) -> Iterator[str]:
        """The names below `before`, which is there, of which each part matches."""
        if not parts:
            yield before
            return
        part, rest = parts[0], parts[1:]
        if not _MAGIC.search(part):
            name = posixpath.join(before, part)
            if os.path.lexists(self._at(name)):  # of a name that ends in a slash, "" is the last part: a folder
                yield from self.matching(name, rest)
            return
        for name in self._names(before, part):
            whole = posixpath.join(before, name)
            if not rest or os.path.isdir(self._at(whole)):
                yield from self.matching(whole, rest)

    def _names(self, folder: str, pattern: str) -> list[str]:
        matches = re.compile(fnmatch.translate(pattern.replace("[^", "[!"))).match
        self.opened += 1
        if self.opened > MOST_OPENED or _of_kernel(self._at(folder)):
            raise Refused("a pattern for file names goes over too many folders, or those of the kernel")
        found = []
        try:
            with os.scandir(self._at(folder)) as entries:
                for entry in entries:
                    self.listed += 1
                    if self.listed > MOST_LISTED:
                        raise Refused(f"a pattern for file names goes over more than {MOST_LISTED} names")
                    if matches(entry.name) and (pattern.startswith(".") or not entry.name.startswith(".")):
                        found.append(entry.name)
        except OSError:
            return []  # it is none, or not to be read: a shell passes it by
        return found

    def _at(self, name: str) -> str:
        return posixpath.join(self.root, name)


def _of_kernel(folder: str) -> bool:
    """Names there come and go, and to list them all takes minutes."""
    real = Path(os.path.realpath(folder))
    return any(real.is_relative_to(one) for one in table("shell")["kernel"]["folders"])


def matching(pattern: str, root: str) -> Iterator[str]:
    """The names that match `pattern`, seen from the folder `root`, in no order; none where it cannot match.

    Raises `Refused` where more would have to be looked at than a verdict has time for.
    """
    top = re.match("/*", pattern)
    assert top is not None
    parts = pattern[top.end() :].split("/")
    if len(parts) > DEEPEST:
        raise Refused("a pattern for file names goes too deep")
    yield from _Look(root=root).matching(top[0], parts)


_DEVICES = re.compile(r"/+(?:dev|proc|sys|inet6?|inet4|net|run|\.\.)(?:/|$)")
_PLAIN = re.compile(
    r"/dev/null|/proc/(?:cpuinfo|meminfo|version|loadavg|uptime|stat|mounts|filesystems|partitions|swaps|diskstats|vmstat"
    r"|cmdline|devices|interrupts|modules|mdstat|(?:self|\d+)/(?:status|stat|statm|limits|cgroup|comm|mounts)"
    r"|sys/(?:fs|vm|kernel|net)/[a-z0-9_.-]+(?:/[a-z0-9_.-]+)*)"
    r"|/sys/(?:class/net|devices/[\w./:-]+/net)/[\w.-]+/(?:address|mtu|operstate|carrier|statistics/\w+)"
    r"|/sys/fs/cgroup/(?:memory|cpu|pids)\.[a-z.]+"
)
"""Files of the kernel that end, and tell everybody the same."""
MOST_BELOW = 10_000
"""Names below a folder that are looked at; more refuse."""
MOST_MATCHES = 1_000
"""Names that match one pattern and are looked at; more refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The folders that a command line runs in. What is not known is not looked at."""

    cwd: Path | None = None
    home: Path | None = None
    root: Path = Path("/")
    """Where the settings of the machine are."""

    def inside(self, folder: Word) -> Surroundings:
        """After `cd folder`, or under `git -C folder`."""
        if folder.home:
            base = self.home
            if base is None:
                return replace(self, cwd=None)
            return replace(self, cwd=base / folder.text[2:])
        if folder.text.startswith("/"):
            return replace(self, cwd=Path(folder.text))
        return replace(self, cwd=None if self.cwd is None else self.cwd / folder.text)


def plain(word: Word, there: Surroundings) -> None:
    """Raises `Refused` where `word` names a device, a kernel file or, as far as can be seen, no plain file or folder.

    Reading a pipe takes what it holds from its reader, and opening a device may do anything.
    """
    text = word.text
    if "\0" in text or text.startswith("//"):
        raise Refused(f"{text!r} is not a plain path")
    whole = posixpath.normpath(text)
    rooted = whole if whole.startswith("/") else "/" + re.sub(r"^(?:\.\./?)+", "", whole)
    climbs = whole.startswith(("/", ".."))
    _no_device(rooted if climbs else "", whole, text)
    if there.cwd is not None and text and not word.home:
        joined = posixpath.normpath(there.cwd / text)
        _no_device(joined, joined, text)
    for path in named(word, there):
        _look(path, text)


def _no_device(path: str, whole: str, text: str) -> None:
    if _DEVICES.match(path) and not _PLAIN.fullmatch(whole):
        raise Refused(f"{text!r} lies among devices and files of the kernel")


def only_plain(folder: Path, *, apart: bool) -> None:
    """Raises `Refused` unless all that lies below is plain files and folders, as far as `MOST_BELOW` names tell.

    Names that a program would take for several words, or for an option, refuse as well, where nothing tells them
    `apart`.
    """
    left, seen = [folder], 0
    while left:
        try:
            found = list(itertools.islice(left.pop().iterdir(), MOST_BELOW + 1))
            modes = [one.lstat().st_mode for one in found]
        except OSError:
            raise Refused("what lies below the folder cannot be looked at") from None
        seen += len(found)
        if seen > MOST_BELOW or not all(stat.S_ISREG(mode) or stat.S_ISDIR(mode) for mode in modes):
            raise Refused("there are links, pipes or devices below the folder, or too many files")
        if not (apart or all(re.fullmatch(r"[!#-&(-\[\]-~]+", one.name) for one in found)):
            raise Refused("there are names with blanks or quotes in them below the folder")
        left += [one for one, mode in zip(found, modes, strict=True) if stat.S_ISDIR(mode)]


def expanded(word: Word, there: Surroundings) -> list[str]:
    """The words that a program gets for `word`: its home folder put in, and the names of files that match it, sorted.

    A pattern that matches nothing stays as it is, as in a shell. Raises `Refused` for more than `MOST_MATCHES`, for
    a pattern that goes over too much (`agentaccel.effects.places`), and for a name that a program would take for an
    option. The verdict and the executor both ask here, so that what runs is what was looked at.

    >>> expanded(Word(text="~/notes", home=True), Surroundings(home=Path("/home/dev")))
    ['/home/dev/notes']
    """
    if word.home and there.home is not None and not re.fullmatch(r"[\w./@+-]+", str(there.home)):
        raise Refused("the home folder has a name that may become several words")
    text = f"{there.home}{word.text[1:]}" if word.home and there.home is not None else word.text
    if not word.glob or (there.cwd is None and not text.startswith("/")):
        return [text]
    fixed = f"{glob.escape(str(there.home))}{word.text[1:]}" if word.home and there.home is not None else word.text
    try:
        found = sorted(itertools.islice(matching(fixed, str(there.cwd or "")), MOST_MATCHES + 1))
    except (ValueError, re.error):
        raise Refused(f"{word.text!r} is no pattern that can be looked at") from None
    if len(found) > MOST_MATCHES:
        raise Refused(f"{word.text!r} may match more than {MOST_MATCHES} files")
    if any(name.startswith("-") for name in found):
        raise Refused(f"{word.text!r} matches a name that begins with a dash")
    return found or [text]


def named(word: Word, there: Surroundings) -> list[Path]:
    """The places that `word` names, as far as they are known: a relative one only where the folder is known."""
    if not word.text or word.text in ("-", "~") or (word.home and there.home is None):
        return []
    names = expanded(word, there)
    if there.cwd is None:
        return [Path(name) for name in names if name.startswith("/")]
    return [there.cwd / name for name in names]


def of_kernel(path: str) -> bool:
    """True if what a whole path names, which leads through no link, is a device or a file of the kernel that may never
    end, or hand out what it holds only once.

    >>> of_kernel("/proc/kmsg"), of_kernel("/proc/meminfo"), of_kernel("/dev/null")
    (True, False, False)
    """
    return _DEVICES.match(path) is not None and _PLAIN.fullmatch(path) is None


def _look(path: Path, text: str) -> None:
    try:
        mode = path.stat().st_mode
        real = path.resolve()
    except (OSError, ValueError, RuntimeError):
        return  # it is not there, or not to be read: the command says so
    if of_kernel(str(real)):
        raise Refused(f"{text!r} leads to {str(real)!r}, among devices and files of the kernel")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(real) == "/dev/null"):
        raise Refused(f"{text!r} is no plain file or folder")
