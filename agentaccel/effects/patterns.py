"""The names of files that match a pattern, as a shell puts them in, without a walk over the whole disk for them."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused

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
