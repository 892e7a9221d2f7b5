"""Which calls of git only read."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from agentaccel.effects.options import Form, form_of, taken_apart
from agentaccel.effects.places import Surroundings, plain
from agentaccel.effects.repository import starts_nothing
from agentaccel.effects.tables import table
from agentaccel.effects.unnamed import paired
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word


@functools.cache
def _forms() -> Mapping[str, tuple[Form, tuple[str, ...] | None]]:
    data = table("git")
    rows: list[Mapping[str, Any]] = data["command"]
    verbs = {row["name"]: tuple(row["verbs"]) if "verbs" in row else None for row in rows}
    return {row["name"]: (form_of(row, data["groups"]), verbs[row["name"]]) for row in rows}


def read_only(words: Sequence[Word], there: Surroundings) -> str:
    """Why this call of git, without the word git, is a read. Raises `Refused`."""
    rest = list(words)
    if [word.text for word in rest] == ["--version"]:  # it reads settings of its log, which may be a file to write
        return f"git --version only reads; {starts_nothing(there, reads_worktree=False)}"
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0)
        if option.text == "-C" and rest and not rest[0].glob and rest[0].text:
            there = there.inside(rest.pop(0))
        elif option.text not in ("--no-pager", "-P"):
            raise Refused(f"git {option.text} before the sub-command is not on the list of options that only read")
    if not rest:
        raise Refused("git without a sub-command is not known to be a read")
    name = rest.pop(0).text
    if name not in _forms():
        raise Refused(f"git {name} is not on the list of sub-commands that only read")
    form, verbs = _forms()[name]
    _verb(name, verbs, rest)
    options = taken_apart(form, rest)
    operands = options.operands if form.operands in ("path", "revision") else ()
    for word in (*operands, *(paired(operands) if form.pairs else ())):
        plain(word, there)  # what is no revision is taken for a file
    return f"git {name} with these options only reads; {starts_nothing(there, form.reads_worktree)}"


def _verb(name: str, verbs: tuple[str, ...] | None, words: Sequence[Word]) -> None:
    if verbs is None:
        return
    if "" in verbs:  # options may stand before it, and it may be missing
        words = [word for word in words if not word.text.startswith("-")]
    verb = words[0].text if words else ""
    if verb not in verbs:
        raise Refused(f"git {name} {verb} is not on the list of sub-commands that only read".replace("  ", " "))
