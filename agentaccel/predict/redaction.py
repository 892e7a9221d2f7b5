"""What was learned, as it may lie on a disk: counts by name, and templates that nobody's own data can be read from.

A template (where an argument comes from, a record, a pattern) is counted under a keyed hash, `#` before it. Its text
takes the place of the hash once it was right in two sessions, of whichever processes, and only if it looks harmless
(below); until then its counts come together unread. Values but true, false and null stay hashes for good unless
the user wants them kept, and those of sensitive arguments in any case. In clear from the beginning stand names: of
tools, of their arguments, and of programs in command lines.

The form is that of `patterns`, cut into one part a workload and one, with the name `FLEET`, of what is the same for
all: each part can be loaded, and leaves out what is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from agentaccel.hashing import digest
from agentaccel.predict.context import value_of
from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.offers import Sensitive
from agentaccel.predict.tokens import tool_of
from agentaccel.values import MOST_NAMED

# --- What of a text may be written down in clear, by its look: plain words may, what may be anybody's may not ---------
# Whatever looks like an address, a name, a number of somebody or something, an id, a key, a path of a user's, a URL,
# a date or prose stays out. A look cannot tell everything: that is why a value is written only once two sessions have
# shown it, and why arguments can be marked sensitive.

MOST_LETTERS = 40
MOST_WORDS = 2
MOST_DIGITS = 3
"""In one text; more of them are a number of somebody or something, or a date."""
_SHORT = 4
"""Letters and digits in one run, up to which it is no id: `utf8`, `v2`."""
_KEY_LETTERS = 16
"""Of one run that changes between small letters and others, from which it may be a key."""
_LONGEST_RUN = 24
"""Letters without anything between them, beyond which they are no word."""

_DIGIT = re.compile(r"\d")
_RUN = re.compile(r"[A-Za-z0-9+/=]+")
_BARRED = re.compile(r"@|://|^www\.|(?:^|[/\\])(?:home|users|root)(?:[/\\]|$)|^~|^[A-Za-z]:\\", re.I)
_NAME = re.compile(r"(?<![A-Za-z])[A-Z][a-z]+(?![a-z])|[^\x00-\x7f]")
"""A word as names are written, or a letter that only words of some language have."""


@lru_cache(maxsize=16384)
def may_be_kept(text: str) -> bool:
    """Whether `text`, the name of a field or a program, looks like nothing that is anybody's own.

    >>> [may_be_kept(one) for one in ("flight_number", "FlightNumber", "utf8", "")]
    [True, True, True, True]
    >>> [may_be_kept(one) for one in ("mia@example.com", "555-0199", "sk-a81Kx02Lq9", "/home/mia", "mia_li_3668")]
    [False, False, False, False, False]
    """
    if len(text) > MOST_LETTERS or len(text.split()) > MOST_WORDS or _BARRED.search(text) or not text.isprintable():
        return False
    if len(_DIGIT.findall(text)) > MOST_DIGITS:
        return False
    return not any(map(_may_be_an_id, _RUN.findall(text)))


def value_may_be_kept(value: Any) -> bool:
    """The same of a value, as JSON has it, with all that is in it; words that may be names are left out, too.

    >>> value_may_be_kept({"cabin": "economy", "bags": 2}), value_may_be_kept([4111111111111111])
    (True, False)
    >>> value_may_be_kept("Alice"), value_may_be_kept("SEA"), value_may_be_kept("round_trip")
    (False, True, True)
    """
    if isinstance(value, dict):
        return all(map(value_may_be_kept, (*value, *value.values())))
    if isinstance(value, list):
        return all(map(value_may_be_kept, value))
    if isinstance(value, str):
        return may_be_kept(value) and _NAME.search(value) is None
    return value is None or may_be_kept(str(value))


def _may_be_an_id(run: str) -> bool:
    if len(run) > _SHORT and _DIGIT.search(run) and not run.isdigit():
        return True
    changes = sum(one.islower() != two.islower() for one, two in pairwise(run))
    return len(run) > _LONGEST_RUN or (len(run) >= _KEY_LETTERS and changes > len(run) // 3)


FLEET = ""
"""The name of the part that holds what is the same for all workloads."""
HIDDEN = "#"
"""In front of a hash."""

Part = dict[str, Any]
Parts = dict[str, Part]


class News(NamedTuple):
    """What was learned, every template under its hash."""

    parts: Parts
    """By workload."""
    texts: Mapping[str, str]
    """By hash, the texts that may be written once enough sessions have shown them."""


def news_of(knowledge: Knowledge, key: bytes, *, values: bool = False) -> News:
    """All that `knowledge` holds; hashes are made under `key`. `values`: the user wants those of arguments kept."""
    dump = knowledge.dump(shared=0)
    veil = _Veil(key, knowledge.sensitive, values)
    again = dump.pop("again")
    parts: Parts = {
        name: {
            "version": dump["version"],
            "workloads": {name: _tree(tree)},
            "again": {name: _tree(again[name])} if name in again else {},
        }
        for name, tree in dump.pop("workloads").items()
        if name and tree["nodes"]
    }
    calls = {symbol: veil.calls(symbol, known) for symbol, known in dump["calls"].items() if _is_name(symbol)}
    rules = {veil.hidden("", name, name): counts for name, counts in dump["rules"].items()}
    parts[FLEET] = {**dump, "fleet": _tree(dump["fleet"]), "calls": calls, "rules": rules}
    return News(parts, veil.texts)


def since(now: News, before: Parts) -> News:
    """What has come to `before`, and nothing else. What is there no more was forgotten, not unlearned."""
    return News(_gained(now.parts, before), now.texts)


def _gained(now: Part, before: Mapping[str, Any]) -> Part:
    gained: Part = {}
    for name, value in now.items():
        old = before.get(name)
        if isinstance(value, dict):
            more = _gained(value, old) if isinstance(old, dict) else value
            if more or old is None:
                gained[name] = more
        elif old is None:
            gained[name] = value
        elif value != old:
            gained[name] = value - old
    return gained


# --- templates and their hashes ---------------------------------------------------------------------------------------


class _Veil:
    """Puts hashes in the place of templates, and remembers what they stand for."""

    def __init__(self, key: bytes, sensitive: Sensitive | None, values: bool) -> None:
        self.texts: dict[str, str] = {}
        self._key, self._sensitive, self._values = key, sensitive, values

    def hidden(self, where: str, text: str, clear: str | None) -> str:
        """The name under which a template is counted; `clear` is what may once be written in its place."""
        hash_ = HIDDEN + digest(f"{where}\0{text}".encode("utf-8", "surrogatepass"), self._key).hex()
        if clear is not None and clear.isprintable():
            self.texts[hash_] = clear
        return hash_

    def calls(self, symbol: str, known: Part) -> Part:
        """What is known of the calls of one symbol."""
        sources: Part = {}
        for argument, table in known["sources"].items():
            if may_be_kept(argument):
                secret = not self._values or is_secret(self._sensitive, symbol, argument)
                where = f"{symbol}\0{argument}"
                sources[argument] = {
                    self.hidden(where, text, text if _source_may_be_kept(text, secret) else None): _stat(stat)
                    for text, stat in table.items()
                }
        records = {
            self.hidden(symbol, text, text if _record_may_be_kept(text) else None): _stat(stat)
            for text, stat in known["records"].items()
        }
        forms = {text: n for text, n in known["forms"].items() if all(map(may_be_kept, orjson.loads(text)))}
        return {"forms": forms, "sources": sources, "records": records, "again": _stat(known["again"])}


def is_secret(sensitive: Sensitive | None, symbol: str, argument: str) -> bool:
    """Whether values of an argument of a symbol's calls must not be written."""
    return sensitive is not None and sensitive(tool_of(symbol, frozenset()), argument)


def _source_may_be_kept(text: str, secret: bool) -> bool:
    kind, _, path, _, change, constant = orjson.loads(text)
    if not kind:
        value = value_of(constant)
        return value is None or isinstance(value, bool) or (not secret and value_may_be_kept(value))
    literal = "" if has_no_literal(text) else change.partition(" ")[2]
    return _is_path(path) and value_may_be_kept(literal) and not (secret and literal)


def has_no_literal(text: str) -> bool:
    """Whether a template holds nothing of a value: it is no constant, and puts nothing in front of or behind one."""
    kind, _, _, _, change, *_ = orjson.loads(text)
    return bool(kind) and not str(change).startswith(("prefix ", "suffix "))


def _record_may_be_kept(text: str) -> bool:
    _, _, path, _, fields = orjson.loads(text)
    return _is_path(path) and all(_is_path(field) for _, field in fields)


def _is_path(path: str) -> bool:
    return all(map(may_be_kept, re.split(r"[.\[\]^]+", path)))


def _is_name(symbol: str) -> bool:
    """Whether a symbol may be written: a tool's name may always, a program's if it looks like one."""
    if len(symbol) > MOST_NAMED:
        return False  # no tool is called so: the model made it up
    return symbol.isprintable() and may_be_kept(symbol.rpartition(":")[2] if ":" in symbol else "")


def _stat(stat: Part) -> Part:
    return {**stat, "after": {symbol: counts for symbol, counts in stat["after"].items() if _is_name(symbol)}}


def _tree(tree: Part) -> Part:
    nodes: Part = {}
    for text, node in tree["nodes"].items():
        counts = {symbol: n for symbol, n in node["counts"].items() if _is_name(symbol)}
        if counts and all(map(_is_name, orjson.loads(text))):
            nodes[text] = {**node, "counts": counts}
    # That a symbol is known is no count: it must not add up.
    return {"symbols": dict.fromkeys(filter(_is_name, tree["symbols"]), 0), "nodes": nodes}
