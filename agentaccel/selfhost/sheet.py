"""The options of one engine while they are being filled in: what is placed where, and the reasons. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost.tables import has_by, name_of, numbered

Row = Mapping[str, Any]
"""A row of the facts."""


class Sheet:
    """What is placed so far, by the facts of `engine`, in the version that is asked for or the newest known."""

    def __init__(self, engine: str, asked: str | None) -> None:
        self.known: Row = table("launch")["engines"][engine]
        self.name = name_of(engine)
        self.placed: dict[str, Any] = {}
        """Values by option, or by the first part of a place in the engine's file."""
        self.reasons: list[str] = []
        self.words = set[str]()
        """What holds of the plan, as `when` of the facts has it."""
        first, last = self.known["known"][0], self.known["known"][-1]
        if "not_run" in self.known:
            self.say(self.known["not_run"])
        own = numbered(asked)
        if asked is not None and (own is None or not (numbered(first) or ()) <= own <= (numbered(last) or ())):
            known = first if first == last else f"{first} to {last}"
            self.say(f"the options known are those of {self.name} {known}, not of {asked}")
        self.version = last if asked is None or own is None else asked
        """The version whose options these are."""

    def has(self, row: Row) -> bool:
        """True if the version has what the row says."""
        return has_by(self.version, row.get("since"), row.get("until")) is not False

    def lacks(self, what: str, row: Row | None = None) -> NoReturn:
        """Raise: the engine has no such thing or, as the row says, its version has not."""
        instead = (row or {}).get("instead") or self.known.get("lacks", {}).get(what) or "leave it out"
        when = "" if row is None else f" {self.version}"
        bound = [f"{word} {row[word]}" for word in ("since", "until") if row and word in row]
        there = f" (it is there {' '.join(bound)})" if bound else ""
        raise ConfigError(f"{self.name}{when} has no {what}{there}; {instead}")

    def applies(self, row: Row) -> bool:
        """True if all words of its `when` hold."""
        return self.words.issuperset(row.get("when", ()))

    def place(self, at: str, value: Any) -> None:
        put(self.placed, at.split("."), value)

    def place_all(self, row: Row) -> None:
        """Place what the row sets by itself."""
        for at, value in row.get("put", {}).items():
            self.place(at, value)

    def say(self, why: str | None, what: str | None = None) -> None:
        if why is not None:
            self.reasons.append(f"{what}: {why}" if what else why)


def put(into: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set what stands at a path of nested objects."""
    for part in path[:-1]:
        into = into.setdefault(part, {})
    into[path[-1]] = value


def options(known: Row) -> frozenset[str]:
    """Every option that the facts of an engine name a place in."""
    speculation, connectors = known["speculation"], known.get("connectors", {})
    chosen = [row for kind in ("offload", "roles") for row in known.get(kind, {}).values()]
    found = {speculation["name"]["at"], speculation["model"]["at"], *known.get("reads", ())[:1]}
    found |= {f"{speculation['prefix']}{name}" for name in speculation["settings"]}
    for row in (*known["settings"].values(), *known["methods"], *known["own"], *chosen, connectors):
        found |= {row[word] for word in ("at", "off") if word in row} | set(row.get("put", ()))
        inner = (*row.get("tokens", ()), *(row[word] for word in ("gib", "schedule") if word in row))
        found |= {one["at"] for one in inner}
    return frozenset(at.partition(".")[0] for at in found if at.startswith("-"))
