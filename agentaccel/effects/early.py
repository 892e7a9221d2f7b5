"""How an allowed command is run early: its words and its environment, as values. Nothing here starts anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are looked for: folders of the system, never the current one."""

GIT_SETTINGS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "diff.autoRefreshIndex=false", "core.pager=cat")
"""Given to git on its command line. Without the third, `git diff` of 2.39 writes the index in any environment."""


def environment(home: str) -> Mapping[str, str]:
    """All that a command finds in its environment."""
    return {
        "PATH": PATH,
        "HOME": home,
        "LC_ALL": "C.UTF-8",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
    }


def argv(words: Sequence[str]) -> tuple[str, ...]:
    """The words to start the program with.

    >>> argv(["git", "diff"])[-1], argv(["ls"])
    ('diff', ('ls',))
    """
    if not words or words[0] != "git":
        return tuple(words)
    settings = [part for setting in GIT_SETTINGS for part in ("-c", setting)]
    return ("git", *settings, *words[1:])
