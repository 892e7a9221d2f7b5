"""How an allowed command is run early: its words and its environment, as values. Nothing here starts anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentaccel.effects.tables import table

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
        "GIT_CONFIG_SYSTEM": table("git")["system"][0],
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        **table("clients")["environment"],
    }


def argv(words: Sequence[str], *, unasked: bool = True) -> tuple[str, ...]:
    """The words to start the program with, `unasked` or on time. `git config` alone shows settings, and is given none.

    >>> argv(["git", "diff"])[-1], argv(["ls"]), argv(["git", "config", "--list"])[1]
    ('diff', ('ls',), 'config')
    """
    if words and unasked and words[0] in table("clients")["unasked"]:
        return (words[0], *table("clients")["unasked"][words[0]]["inserted"], *words[1:])
    inserted = table("clients")["inserted"].get(words[0]) if words else None
    if inserted is not None:
        return (words[0], *inserted, *words[1:])
    if not words or words[0] != "git" or _verb(words) == "config":
        return tuple(words)
    settings = [part for setting in GIT_SETTINGS for part in ("-c", setting)]
    return ("git", *settings, *words[1:])


def has_failed(program: str, status: int) -> bool:
    """Whether an early run of it may have failed by what was inserted: on time it is started without."""
    return program in table("clients")["unasked"] and status == table("clients")["unasked"][program]["failed"]


def homeless(program: str) -> bool:
    """It would make folders below the home for settings that it is not given."""
    return program in table("clients")["homeless"]


def _verb(words: Sequence[str]) -> str:
    """The sub-command, behind options as `agentaccel.effects.shell` takes them."""
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-"):
            return word
        if word == "-C":
            next(rest, None)
    return ""
