"""What is known in a run before a reply of the model, in the form that the baseline's rules ask for it.

Values are canonical JSON, so that 1 and "1" are two values. Contexts are values that share their parts: taking an event
makes a new one, and the old one stays what it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import orjson

from agentaccel.hashing import identity_bytes
from agentaccel.predict.events import Answered, Asked, Event, Returned, Said
from benchmarks.speculation.calls import Key, key_of

TEXT, USER = " text", " user"
"""Symbols beside the tools' names: the model has answered in text, the user has spoken."""

ORDER = 5
"""Symbols that the next one is told from, at most."""

RECENT = 4
"""Distinct calls of each tool that are remembered."""

MOST_LEAVES, MOST_ELEMENTS, LONGEST = 400, 12, 60
"""Of one result: values, elements of each list, and bytes of a value that are looked at."""

MOST_TEXT = 20_000
"""Characters of a text that are searched for tokens."""

MOST_ALIKE = 50
"""Words of one shape that are kept of one text."""

HEARD = 3
"""Messages of the user whose words are remembered."""

Place = tuple[str, str]
"""A tool and one of its arguments."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value inside a result."""

    path: str
    """With positions in lists."""
    pattern: str
    """Any position in lists."""
    value: bytes


@dataclass(frozen=True, slots=True)
class Held:
    """The values inside a result."""

    paths: Mapping[str, bytes]
    """By path, with positions in lists."""
    patterns: Mapping[str, tuple[bytes, ...]]
    """By path with any position in lists, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What was known before a reply."""

    symbols: tuple[str, ...] = ()
    """The last few of the run, oldest first."""
    recent: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)
    """The last distinct calls by tool, newest first."""
    made: frozenset[Key] = frozenset()
    """Every call of the run so far."""
    latest: Mapping[Place, bytes] = field(default_factory=dict)
    """The latest value of each argument."""
    used: Mapping[Place, frozenset[bytes]] = field(default_factory=dict)
    """Every value of each argument."""
    results: Mapping[str, Held] = field(default_factory=dict)
    """What the latest result of each tool holds."""
    said: tuple[Mapping[str, tuple[bytes, ...]], ...] = ()
    """Tokens of each of the user's last messages by shape, the newest message first."""
    shown: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    """Tokens of the last result by shape."""
    shown_by: str = ""
    """The tool of the last result."""

    def after(self, event: Event) -> Context:
        """What is known once `event` has happened."""
        if isinstance(event, Said):
            return replace(self._next(USER), said=(tokens(event.text), *self.said)[:HEARD])
        if isinstance(event, Answered):
            return self._next(TEXT)
        if isinstance(event, Returned):
            results = {**self.results, event.call.name: held(event.result)}
            return replace(self._next(), results=results, shown=tokens(event.result), shown_by=event.call.name)
        return self._asked(event)

    def _next(self, *symbols: str) -> Context:
        return replace(self, symbols=(*self.symbols, *symbols)[-ORDER:])

    def _asked(self, event: Asked) -> Context:
        recent, latest, used = dict(self.recent), dict(self.latest), dict(self.used)
        keys = [key_of(call) for call in event.calls]
        for key in keys:
            recent[key[0]] = (key, *(one for one in recent.get(key[0], ()) if one != key))[:RECENT]
            for name, value in arguments_of(key).items():
                latest[key[0], name] = value
                used[key[0], name] = used.get((key[0], name), frozenset()) | {value}
        return replace(
            self._next(*(key[0] for key in keys)), recent=recent, latest=latest, used=used, made=self.made | set(keys)
        )


def arguments_of(key: Key) -> Mapping[str, bytes]:
    """The arguments of a call by name, each in canonical form."""
    return {name: identity_bytes(value) for name, value in orjson.loads(key[1]).items()}


def held(result: str) -> Held:
    """The values inside a result, by where they stand."""
    paths, patterns = dict[str, bytes](), dict[str, list[bytes]]()
    for leaf in leaves(result):
        paths.setdefault(leaf.path, leaf.value)
        patterns.setdefault(leaf.pattern, []).append(leaf.value)
    return Held(paths, {pattern: tuple(values) for pattern, values in patterns.items()})


def leaves(result: str) -> Iterator[Leaf]:
    """The first short values inside a result that is a JSON structure or a list in text; names of fields included.

    >>> [leaf.pattern for leaf in leaves('{"ids": [7]}')], [leaf.pattern for leaf in leaves("- one\\n- two")]
    (['.KEY', '.ids[*]'], ['[*]', '[*]'])
    """
    try:
        inside = _inside(orjson.loads(result), "", "") if result[:1] in ("{", "[") else _listed(result[:MOST_TEXT])
    except ValueError:
        return
    for i, leaf in enumerate(inside):
        if i >= MOST_LEAVES:
            return
        if len(leaf.value) < LONGEST:
            yield leaf


def _inside(value: object, path: str, pattern: str) -> Iterator[Leaf]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield Leaf(f"{path}.KEY", f"{pattern}.KEY", identity_bytes(name))
            yield from _inside(inner, f"{path}.{name}", f"{pattern}.{name}")
    elif isinstance(value, list):
        for i, inner in enumerate(value[:MOST_ELEMENTS]):
            yield from _inside(inner, f"{path}[{i}]", f"{pattern}[*]")
    else:
        yield Leaf(path, pattern, identity_bytes(value))


_LISTED = re.compile(r"^(-? *)(?:(\w+): )?(\S+)$", re.MULTILINE)


def _listed(text: str) -> Iterator[Leaf]:
    """Lines like `- value`, and `name: value` below such a line."""
    at = -1
    for match in _LISTED.finditer(text):
        at += match[1].startswith("-")
        if at >= MOST_ELEMENTS:
            return
        if match[1] and at >= 0:
            name = f".{match[2]}" if match[2] else ""
            yield Leaf(f"[{at}]{name}", f"[*]{name}", identity_bytes(match[3].strip("'\"")))


_TOKEN = re.compile(r"[A-Za-z0-9_#@.\-/:]+")


def tokens(text: str) -> dict[str, tuple[bytes, ...]]:
    """The distinct words of a text by shape, in order; a word that is a number is one as a value too.

    >>> sorted(tokens("I am mia_li_3668."))
    ['A1', 'a', 'a_a_94']
    """
    found: dict[str, dict[bytes, None]] = {}
    for match in _TOKEN.finditer(text[:MOST_TEXT]):
        word = match[0].strip(".")
        if not word:
            continue
        alike = found.setdefault(shape(word), {})
        if len(alike) >= MOST_ALIKE:
            continue
        alike[identity_bytes(word)] = None
        if word.isdigit() and word.isascii() and len(word) < 10:
            found.setdefault("number", {})[identity_bytes(int(word))] = None
    return {one: tuple(values) for one, values in found.items()}


def shape_of(value: bytes) -> str | None:
    """The shape of a canonical value: of a word that may stand in a text; None where it is none.

    >>> shape_of(b'"SFO"'), shape_of(b"12"), shape_of(b'"two words"')
    ('A3', 'number', None)
    """
    plain = orjson.loads(value) if len(value) < LONGEST else None
    if isinstance(plain, str):
        return shape(plain) if plain and _TOKEN.fullmatch(plain) else None
    return "number" if isinstance(plain, int) and not isinstance(plain, bool) else None


def shape(word: str) -> str:
    """The collapsed shape of a word: letters without their number, digits and capitals with it while it is small.

    >>> shape("mia_li_3668"), shape("SFO"), shape("4WQ150")
    ('a_a_94', 'A3', 'X6')
    """
    if 5 <= len(word) <= 8 and re.fullmatch(r"[A-Z0-9]+", word) and any(one.isdigit() for one in word):
        return f"X{len(word)}"
    return re.sub(r"[A-Za-z]+|\d+", _run, word)


def _run(match: re.Match[str]) -> str:
    text = match[0]
    if text.isdigit():
        return f"9{len(text)}" if len(text) <= 4 else "9"
    if text.isupper():
        return f"A{len(text)}" if len(text) <= 6 else "A"
    return "a"
