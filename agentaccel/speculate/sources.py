"""Where the value of an argument may come from: a constant, or a pick from a place, plain or transformed.

A source says how to find a value in any session; it holds no value of a session, except for constants, and for short
literals in front of or behind a value.

    last       the newest group of the place, in order: its first value, its second, …
    end        the newest group, from its end
    fresh      all groups, the newest first, without what this argument has already had
    first      the oldest group that is kept
    mentioned  all groups, only what the user has mentioned

More than one value is a fan-out: an agent that looks at each of a list asks for them side by side or one by one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal, NamedTuple

from agentaccel.speculate.scene import Group, Place, Scene, key_of

MOST_YIELDED = 12
Pick = Literal["last", "end", "fresh", "first", "mentioned"]
PICKS: tuple[Pick, ...] = ("last", "fresh", "mentioned", "end", "first")


class Source(NamedTuple):
    """Where a value may come from."""

    place: Place | None
    """None for a constant."""
    pick: Pick
    change: str = ""
    """What is done with the value: the name of a transformation and its operands, between spaces."""
    constant: str = ""
    """Key of the constant; the table that holds the source has its value."""

    @property
    def kind(self) -> str:
        """What the re-ranker is told of it."""
        if self.place is None:
            return "constant"
        if self.change:
            return "changed"
        if self.place.kind == "result":
            return "text" if "~" in self.place.path else "result"
        return self.place.kind

    def __str__(self) -> str:
        if self.place is None:
            return "constant"
        kind, tool, path = self.place
        where = f"{kind} {tool}{path if path.startswith('.') else f'({path})'}" if tool else f"{kind} {path}"
        return f"{self.change.split(' ', 1)[0]}({where}, {self.pick})" if self.change else f"{where}, {self.pick}"


class Yield(NamedTuple):
    """One value that a source offers now."""

    value: Any
    step: int
    """When it came up."""


def yields(source: Source, scene: Scene, symbol: str, argument: str) -> list[Yield]:
    """What a source that is no constant offers for an argument, best first, at most `MOST_YIELDED`."""
    groups = scene.places.get(source.place) if source.place is not None else None
    if not groups:
        return []
    picked = list(islice(_picked(source.pick, groups, scene, symbol, argument), MOST_YIELDED))
    if not source.change:
        return picked
    changed = (Yield(changed_by(source.change, one.value), one.step) for one in picked)
    return [one for one in changed if one.value is not None]


def _picked(pick: Pick, groups: tuple[Group, ...], scene: Scene, symbol: str, argument: str) -> Iterator[Yield]:
    if pick == "last":
        step, values = groups[0]
        return (Yield(value, step) for value in values)
    if pick == "end":
        step, values = groups[0]
        return (Yield(value, step) for value in values[::-1])
    if pick == "first":
        step, values = groups[-1]
        return (Yield(value, step) for value in values)
    every = (Yield(value, group.step) for group in groups for value in group.values)
    if pick == "mentioned":
        return _once(one for one in every if scene.mentions(one.value)[0])
    used = scene.used.get((symbol, argument), {})
    return _once(one for one in every if key_of(one.value) not in used)


def _once(yielded: Iterator[Yield]) -> Iterator[Yield]:
    seen = set[str]()
    for one in yielded:
        key = key_of(one.value)
        if key not in seen:
            seen.add(key)
            yield one


MOST_FOUND = 14
"""Sources that are looked for behind one value."""


def explaining(value: Any, scene: Scene, symbol: str, argument: str) -> list[tuple[Source, int]]:
    """Sources that would have offered `value`, each with the rank at which it does; best places first."""
    key = key_of(value)
    found: list[tuple[Source, int]] = []
    for place in reversed(scene.where.get(key, ())):
        groups = scene.places.get(place)
        if groups is None:
            continue
        old, several = len(groups) > 1, len(groups[0].values) > 1
        tells = {"end": several, "first": old, "mentioned": place.kind == "result" and (several or old)}
        for pick in PICKS:
            if not tells.get(pick, True):
                continue
            source = Source(place, pick)
            for rank, one in enumerate(yields(source, scene, symbol, argument)):
                if key_of(one.value) == key:
                    found.append((source, rank))
                    break
        if len(found) >= MOST_FOUND:
            break
    return found or _changed_into(value, scene, symbol, argument)


# --- transformations ------------------------------------------------------------------------------------------------


MOST_TRIED = 48
"""Values, the newest first, that are tried as what a value was made from."""
_SEPARATORS = ("_", "-", "/", ".", ":", "@", "T", " ", ",", "#")


def changed_by(change: str, value: Any) -> Any:
    """`value` after a transformation; None where that does not apply.

    >>> changed_by("basename", "/a/b.txt"), changed_by("split _ 0", "mia_li_3668"), changed_by("add 1", 4)
    ('b.txt', 'mia', 5)
    """
    name, _, rest = change.partition(" ")
    try:
        if name == "add":
            return value + int(rest) if isinstance(value, int) and not isinstance(value, bool) else None
        if name == "number":
            return _number(value)
        if name == "text":
            return None if isinstance(value, str | list | dict) else str(value)
        if name == "list":
            return None if isinstance(value, list | dict) else [value]
        return _changed_text(name, rest, value) if isinstance(value, str) else None
    except (ValueError, IndexError, OverflowError):
        return None


def _changed_text(name: str, rest: str, value: str) -> str | None:
    match name:
        case "lower":
            return value.lower()
        case "upper":
            return value.upper()
        case "strip":
            return value.strip(" \t\n'\"`.,;:!?#@()<>")
        case "basename":
            return posixpath.basename(value.rstrip("/")) or None
        case "dirname":
            return posixpath.dirname(value.rstrip("/")) or None
        case "split":
            separator, at = rest.rsplit(" ", 1)
            parts = value.split(separator)
            return parts[int(at)] if len(parts) > 1 else None
        case "slice":
            length = int(rest)
            return value[:length] if len(value) > length else None
        case "prefix":
            return rest + value
        case "suffix":
            return value + rest
        case "join":
            separator = rest or " "
            parts = value.split()
            return separator.join(parts).lower() if len(parts) > 1 else None
    return None


def _number(value: Any) -> int | float | None:
    if not isinstance(value, str) or len(value) > 20:
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None
    plain = value.strip().replace(",", "").lstrip("$€£")
    return float(plain) if "." in plain else int(plain)


def _changed_into(value: Any, scene: Scene, symbol: str, argument: str) -> list[tuple[Source, int]]:
    """Sources that offer `value` once something is done with what they pick; the newest places first."""
    found: list[tuple[Source, int]] = []
    tried = 0
    for place in reversed(scene.places):
        if place.kind == "argument" and place.tool == symbol and place.path != argument:
            continue
        for rank, one in enumerate(scene.places[place][0].values[:6]):
            tried += 1
            for change in _changes(one, value):
                found.append((Source(place, "last", change), rank))
        if tried > MOST_TRIED or len(found) >= 4:
            break
    return found


def _changes(old: Any, new: Any) -> Iterator[str]:
    """Transformations that make `new` of `old`."""
    if isinstance(new, bool) or isinstance(old, bool):
        return
    if isinstance(new, int) and isinstance(old, int):
        if abs(new - old) == 1:
            yield f"add {new - old}"
    elif isinstance(new, int | float):
        if isinstance(old, str) and changed_by("number", old) == new and type(changed_by("number", old)) is type(new):
            yield "number"
    elif isinstance(new, list):
        if len(new) == 1 and new[0] == old:
            yield "list"
    elif isinstance(new, str) and new:
        yield from _text_changes(old if isinstance(old, str) else str(old), new, plain=isinstance(old, str))


def _text_changes(old: str, new: str, *, plain: bool) -> Iterator[str]:
    if not plain:
        if old == new:
            yield "text"
        return
    if len(old) > 300 or len(new) > 300 or old == new:
        return
    for name in ("lower", "upper", "strip", "basename", "dirname"):
        if _changed_text(name, "", old) == new:
            yield name
            return
    if len(new) >= 2 and new in old:
        for separator in _SEPARATORS:
            parts = old.split(separator)
            if len(parts) > 1 and new in parts:
                at = parts.index(new)
                yield f"split {separator} {at - len(parts) if at == len(parts) - 1 and at else at}"
        if old.startswith(new) and len(new) >= 4:
            yield f"slice {len(new)}"
    elif len(old) >= 3 and len(new) - len(old) <= 12 and old in new:
        if new.endswith(old):
            yield f"prefix {new[: -len(old)]}"
        elif new.startswith(old):
            yield f"suffix {new[len(old) :]}"
    elif " " in old and re.sub(r"[^a-z0-9]", "", old.lower()) == re.sub(r"[^a-z0-9]", "", new):
        for separator in ("_", "-", "."):
            if _changed_text("join", separator, old) == new:
                yield f"join {separator}"
