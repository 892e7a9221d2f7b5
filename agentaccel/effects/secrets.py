"""Credentials in what a read tells: who issued them, and whether they go to somebody else.

A key in an address, or in another part of a request, is told to the host that is asked. It is a read only where that
host has issued it, or says that keys stand there. What nobody is known to have issued is told by how it is named, or
by how it looks; this can only refuse.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, unquote_plus

from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PACKED = re.compile(r"[A-Za-z0-9+/_=-]{16,}")
_BEARER = ("authorization", "x-auth-token", "x-api-key", "api-key", "apikey")
"""Headers that are for credentials: what may go anywhere may stand there."""
MOST_READ = 100_000
"""Characters of a text that are looked at."""
DEEPEST = 3
"""Layers of packing that are opened."""


@functools.cache
def _issuers() -> tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...]:
    rows = table("secrets")["issuer"]
    return tuple((re.compile(rf"(?<![A-Za-z0-9_])(?:{row['pattern']})"), row) for row in rows)


def nobody_elses(text: str, host: str | None, what: str, *, bearer: bool = False) -> None:
    """Raises `Refused` where the text holds a credential that `host` has not issued. None is a host that nobody knows.

    >>> nobody_elses("ghp_0123456789abcdefghij", "api.github.com", "the address")
    >>> nobody_elses("ghp_0123456789abcdefghij", "example.com", "the address")
    Traceback (most recent call last):
    agentaccel.effects.verdict.Refused: the address holds a key of GitHub, which would be told to another host
    """
    if len(text) > MOST_READ:
        raise Refused(f"{what} is too long to be looked at")
    for layer in _layers(text, 0):
        for pattern, row in _issuers():
            at_home = host is not None and any(_at_home(host, one) for one in row["hosts"])
            if not (at_home or (bearer and row.get("bearer", False))) and pattern.search(layer):
                raise Refused(f"{what} holds a key of {row['name']}, which would be told to another host")
        if not bearer and re.search(table("secrets")["values"]["said"], layer):
            raise Refused(f"{what} holds a setting that is a secret, with its value")


def address(host: str, path: str, parameters: Iterable[tuple[str, str]], fragment: str) -> None:
    """Raises `Refused` where an address tells a credential to a host that has not issued it."""
    for text in (host, path, fragment):
        nobody_elses(text, host, "the address")
    within = [tuple(one.split("=", 1)) for one in unquote(path).replace("/", ";").split(";") if "=" in one]
    for name, value in (*parameters, *within):
        parameter(host, name, value)


def parameter(host: str | None, name: str, value: str) -> None:
    """Raises `Refused` where one parameter, or argument, tells a credential to a host that has not issued it."""
    nobody_elses(name, host, "the address")
    if host is not None and _stands_there(host, name):
        return
    nobody_elses(value, host, f"the parameter {name!r}")
    if not any(pattern.search(value) for pattern, _ in _issuers()):  # a key of that very host may have any name
        _named(name, value.strip())


def _stands_there(host: str, name: str) -> bool:
    """The service says that a key, or the sign of a signed address, stands in a parameter of this name."""
    known, plain = table("secrets"), re.sub("[_-]", "", name.lower())
    rows = ((known["at_home"], _at_home), (known["signed"], _below))
    return any(
        below(host, one) and plain in {re.sub("[_-]", "", name) for name in names}
        for row, below in rows
        for one, names in row.items()
    )


def headers(host: str | None, given: Mapping[str, str]) -> None:
    """Raises `Refused` where a header tells a credential to a host that is known not to have issued it."""
    for name, value in given.items():
        nobody_elses(value, host, f"the header {name!r}", bearer=name.lower() in _BEARER)


def _named(name: str, value: str) -> None:
    """Raises `Refused` for a value that is a credential by its parameter's name, or by its looks."""
    known, values = table("secrets")["names"], table("secrets")["values"]
    if re.fullmatch(known["harmless"], value, re.IGNORECASE) or re.fullmatch(known["paging"], name, re.IGNORECASE):
        return
    words = [word.lower() for word in _WORDS.findall(name)]
    joined = "".join(words)
    if {*words, joined} & set(known["strong"]):
        raise Refused(f"the parameter {name!r} is named for a secret, which would be told")
    ending = re.fullmatch(known["endings"], joined) or (words[-1:] == ["key"] and len(words) > 1)
    paired = any(one in known["first"] and other in known["second"] for one, other in pairwise(words))
    if (ending or paired) and len(value) >= values["least_named"] and not value.isdecimal():
        raise Refused(f"the parameter {name!r} is named for a key, which would be told")
    weak = len(words) == 1 and words[0] in known["weak"]
    if weak and len(value) >= values["least_weak"] and _mixed(value):
        raise Refused(f"the parameter {name!r} holds what looks like a key, which would be told")
    if re.fullmatch(values["things"], name) is None and (
        (len(value) >= values["least_opaque"] and _opaque(value)) or re.fullmatch(values["marked"], value)
    ):
        raise Refused(f"the parameter {name!r} holds what looks like a key, which would be told")


def _mixed(value: str) -> bool:
    """One word of letters and digits."""
    return re.fullmatch(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_+/=.~-]+", value) is not None


def _opaque(value: str) -> bool:
    """One word of digits and letters of both cases in no order; packed text is looked at as what it is."""
    word = re.fullmatch(r"(?=.*\d)(?=.*[A-Z])(?=.*[a-z])[A-Za-z0-9_+/=~-]+", value) is not None
    return word and len(re.findall(r"[a-z]{5,}", value)) < 2 and next(_unpacked(value), None) is None


def _layers(text: str, depth: int) -> Iterator[str]:
    """The text, and what is packed in it: percent signs, base64, base32, digits of base 16.

    Raises `Refused` for what is packed deeper than is looked at.
    """
    yield text
    inner = [unquote_plus(text)] if "%" in text and unquote_plus(text) != text else []
    inner += [one for word in _PACKED.findall(text) for one in _unpacked(word)]
    if inner and depth == DEEPEST:
        raise Refused("something is packed in it again and again, and is not looked at")
    for one in inner:
        yield from _layers(one, depth + 1)


def _unpacked(word: str) -> Iterator[str]:
    """What the word says in base64, base32 or base 16, where that is text."""
    bare = word.rstrip("=").replace("-", "+").replace("_", "/")
    ways: list[Callable[[], bytes]] = [lambda: base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)]
    if re.fullmatch(r"(?:[0-9a-fA-F]{2}){8,}", word):
        ways.append(lambda: bytes.fromhex(word))
    if re.fullmatch(r"[A-Z2-7]{16,}|[a-z2-7]{16,}", word.rstrip("=")):
        ways.append(lambda: base64.b32decode(bare + "=" * (-len(bare) % 8), casefold=True))
    for way in ways:
        try:
            text = way().decode("ascii")
        except (binascii.Error, ValueError):
            continue
        if re.fullmatch(r"[\x20-\x7e\t\r\n]+", text):
            yield text


def _below(host: str, name: str) -> bool:
    return host == name or host.endswith(f".{name}")


def _at_home(host: str, name: str) -> bool:
    """Below the name, and not a place there where anybody's own program or page answers."""
    anybodys = table("secrets")["values"]["anybodys"]
    return _below(host, name) and (host == name or re.fullmatch(anybodys, host) is None)
