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
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from agentaccel.predict.context import Context, Place, ValueGroup, key_of, value_of

MOST_YIELDED = 12
Pick = Literal["last", "end", "fresh", "first", "mentioned"]
PICKS: tuple[Pick, ...] = ("last", "fresh", "mentioned", "end", "first")


class ValueSource(NamedTuple):
    """Where a value may come from."""

    place: Place | None
    """None for a constant."""
    pick: Pick
    change: str = ""
    """What is done with the value: the name of a transformation and its operands, between spaces."""
    constant: str = ""
    """Key of the constant."""

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

    @property
    def is_literal(self) -> bool:
        """Whether it holds a part of a value."""
        return self.place is None or self.change.startswith(("prefix ", "suffix "))

    def __str__(self) -> str:
        if self.place is None:
            return "constant"
        kind, tool, path = self.place
        where = f"{kind} {tool}{path if path.startswith('.') else f'({path})'}" if tool else f"{kind} {path}"
        return f"{self.change.split(' ', 1)[0]}({where}, {self.pick})" if self.change else f"{where}, {self.pick}"


class Argument(NamedTuple):
    """An argument of the calls of one symbol."""

    symbol: str
    name: str


class Yield(NamedTuple):
    """One value that a source offers now."""

    value: Any
    key: str
    step: int
    """When it came up."""


def yields(source: ValueSource, scene: Context, argument: Argument) -> list[Yield]:
    """What a source offers for an argument, best first, at most `MOST_YIELDED`."""
    if source.place is None:
        return [Yield(value_of(source.constant), source.constant, -1)]
    groups = scene.places.get(source.place)
    if not groups:
        return []
    asked: object = (source, argument) if source.pick == "fresh" else source
    known: list[Yield] | None = scene.offered.get(asked)
    if known is None:
        known = _picked(source.pick, groups, scene, argument)
        if source.change:
            changed = ((changed_by(source.change, one.value), one.step) for one in known)
            known = [Yield(value, key_of(value), step) for value, step in changed if value is not None]
        scene.offered[asked] = known
    return known


def _picked(pick: Pick, groups: tuple[ValueGroup, ...], scene: Context, argument: Argument) -> list[Yield]:
    if pick in ("last", "end", "first"):
        step, values, keys = groups[-1 if pick == "first" else 0]
        if pick == "end":
            values, keys = values[::-1], keys[::-1]
        return [Yield(value, key, step) for value, key in zip(values[:MOST_YIELDED], keys, strict=False)]
    without: Mapping[str, object] = {} if pick == "mentioned" else scene.used.get(argument, {})
    found: dict[str, Yield] = {}
    for step, values, keys in groups:
        for value, key in zip(values, keys, strict=True):
            if key not in found and key not in without and (pick == "fresh" or scene.mentions(value, key)[0]):
                found[key] = Yield(value, key, step)
                if len(found) == MOST_YIELDED:
                    return list(found.values())
    return list(found.values())


MOST_FOUND = 14
"""Sources that are looked for behind one value."""


def explaining(value: Any, scene: Context, argument: Argument) -> list[ValueSource]:
    """Sources that would have offered `value`, those of the newest places first."""
    key = key_of(value)
    found: list[ValueSource] = []
    for place in reversed(scene.where.get(key, ())):
        groups = scene.places.get(place)
        if groups is None:
            continue
        old, several = len(groups) > 1, len(groups[0].values) > 1
        tells = {"end": several, "first": old, "mentioned": place.kind == "result" and (several or old)}
        for pick in PICKS:
            if not tells.get(pick, True):
                continue
            source = ValueSource(place, pick)
            if any(one.key == key for one in yields(source, scene, argument)):
                found.append(source)
        if len(found) >= MOST_FOUND:
            break
    return found or _changed_into(value, scene, argument)


# --- transformations --------------------------------------------------------------------------------------------------


MOST_TRIED = 48
"""Values, the newest first, that are tried as what a value was made from."""
_MOST_LITERAL = 12
"""Characters in front of or behind a value that a transformation may add."""
_LETTERS = re.compile(r"[^a-z0-9]")
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
    plain = _PLAIN.get(name)
    if plain is not None:
        return plain(value) or None
    match name:
        case "split":
            separator, at = rest.rsplit(" ", 1)
            parts = value.split(separator)
            return parts[int(at)] if len(parts) > 1 else None
        case "slice":
            return value[: int(rest)] if len(value) > int(rest) else None
        case "prefix":
            return rest + value
        case "suffix":
            return value + rest
        case "join":
            parts = value.split()
            return rest.join(parts).lower() if len(parts) > 1 else None
    return None


_PLAIN: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "strip": lambda value: value.strip(" \t\n'\"`.,;:!?#@()<>"),
    "basename": lambda value: posixpath.basename(value.rstrip("/")),
    "dirname": lambda value: posixpath.dirname(value.rstrip("/")),
}


def _number(value: Any) -> int | float | None:
    if not isinstance(value, str) or len(value) > 20:
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None
    plain = value.strip().replace(",", "").lstrip("$€£")
    return float(plain) if "." in plain else int(plain)


def _changed_into(value: Any, scene: Context, argument: Argument) -> list[ValueSource]:
    """Sources that offer `value` once something is done with what they pick; the newest places first."""
    found: dict[ValueSource, None] = {}
    tried = 0
    for place in reversed(scene.places):
        if place.kind == "argument" and place.tool == argument.symbol and place.path != argument.name:
            continue
        for one in scene.places[place][0].values[:6]:
            tried += 1
            found.update((ValueSource(place, "last", change), None) for change in _changes(one, value))
        if tried > MOST_TRIED or len(found) >= 4:
            break
    return list(found)


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
    simple = next((name for name in _PLAIN if _changed_text(name, "", old) == new), None)
    if simple is not None:
        yield simple
    elif len(new) >= 2 and new in old:
        yield from _parts(old, new)
    elif len(old) >= 3 and len(new) - len(old) <= _MOST_LITERAL and old in new:
        if new.endswith(old):
            yield f"prefix {new[: -len(old)]}"
        elif new.startswith(old):
            yield f"suffix {new[len(old) :]}"
    elif " " in old and _LETTERS.sub("", old.lower()) == _LETTERS.sub("", new):
        yield from (f"join {one}" for one in "_-." if _changed_text("join", one, old) == new)


def _parts(old: str, new: str) -> Iterator[str]:
    for separator in _SEPARATORS:
        parts = old.split(separator)
        if len(parts) > 1 and new in parts:
            at = parts.index(new)
            yield f"split {separator} {-1 if at == len(parts) - 1 else at}"
    if old.startswith(new) and len(new) >= 4:
        yield f"slice {len(new)}"
