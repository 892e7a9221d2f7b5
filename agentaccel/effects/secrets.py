"""Credentials in what a read tells: who issued them, and whether they go to somebody else.

A key in an address, or in another part of a request, is told to the host that is asked, and to every host that is
named beside it: that of an address within the address. It is a read only where each of them has issued it, or where
the host says that keys stand there. What nobody is known to have issued is told by how it is named, or by how it
looks; this can only refuse.
"""

from __future__ import annotations

import base64
import binascii
import functools
import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, dropwhile, pairwise
from typing import Any
from urllib.parse import SplitResult, unquote, unquote_plus

from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused

_PACKED = (re.compile(r"[A-Za-z0-9+/_-]{16,}={0,6}"), re.compile(r"[A-Za-z0-9+_-]{16,}={0,6}"))
_CODES = re.compile(r"(?:\d{2,3}[ ,;.:|_-]{1,2}){15,}\d{2,3}")
"""Numbers of letters, one by one."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_BEARER = ("authorization", "x-auth-token", "x-api-key", "api-key", "apikey")
"""Headers that are for credentials: what may go anywhere may stand there."""
_NAMED = re.compile(r"(?://|^|[=\s,@])((?:[a-z0-9-]{1,63}\.){1,9}[a-z]{2,63})(?=[:/?#])|//([^\s/?#@:]+)", re.IGNORECASE)
"""A host within a text: behind two slashes, or a name with the rest of an address behind it."""
_SETTING = re.compile(
    r"(?<![\w.\[\]-])([A-Za-z_][\w.\[\]-]{0,80})[\"']?\s{0,9}(?:=>?|:)\s{0,9}[\"']?(?=([^\s\"',;&#]{6,200}))"
)
"""A name with its value; the value may hold others."""
_ORDERED = re.compile(r"\d+|[a-z]+|[A-Z]+|[0-9a-f]+|0x[0-9a-fA-F]{40}|[0-9A-F]+")
"""Numbers, words in small or capital letters, digests."""
MOST_READ = 100_000
"""Characters of a text that are looked at."""
DEEPEST = 3
"""Layers of packing that are opened."""


@functools.cache
def _issuers() -> tuple[tuple[re.Pattern[str], re.Pattern[str], Mapping[str, Any]], ...]:
    """The form of a key where a word begins, and wherever it stands, with the issuer."""
    rows = table("secrets")["issuer"]
    patterns = [re.sub(r"\{(\d+),\}", r"{\1,200}", row["pattern"]) for row in rows]
    begun = [re.compile(rf"(?<![A-Za-z0-9_])(?:{one})") for one in patterns]
    return tuple(zip(begun, map(re.compile, patterns), rows, strict=True))


def nobody_elses(text: str, host: str | None, what: str, *, bearer: bool = False) -> None:
    """Raises `Refused` where the text holds a credential that `host` has not issued. None is a host that nobody knows.

    >>> nobody_elses("ghp_0123456789abcdefghij", "api.github.com", "the address")
    >>> nobody_elses("ghp_0123456789abcdefghij", "example.com", "the address")
    Traceback (most recent call last):
    agentaccel.effects.verdict.Refused: the address holds a key of GitHub, which would be told to another host
    """
    if len(text) > MOST_READ:
        raise Refused(f"{what} is too long to be looked at")
    _look(text, frozenset({host}), what, bearer, 0)


def _look(text: str, hosts: frozenset[str | None], what: str, bearer: bool, depth: int) -> None:
    """Looks at the text, and at what is packed in it; `hosts` are all that would be told of it."""
    hosts |= {(one or other).lower() for one, other in _NAMED.findall(text)}
    at_issuers = _issued(text, hosts, what, bearer)
    values = table("secrets")["values"]
    if not bearer:
        if re.search(values["said"], text) or re.fullmatch(values["packed" if depth else "user"], text):
            raise Refused(f"{what} holds a setting that is a secret, with its value")
        if _connects(text) or any(map(recovers, re.findall(values["phrase"], text))):
            raise Refused(f"{what} holds how something is opened: a connection with its key, or a recovery phrase")
        packed = depth and re.fullmatch(r"[\w-]+", text) and _opaque(text)
        if packed or (not at_issuers and re.search(values["keyed"], text)):
            raise Refused(f"{what} holds what looks like a key, which would be told")
        for name, value in dict.fromkeys(_SETTING.findall(text)):
            _named(name, value)
    inner = list(dict.fromkeys(_inner(text)))
    if inner and depth == DEEPEST:
        raise Refused("something is packed in it again and again, and is not looked at")
    for one in inner:
        _look(one, hosts, what, bearer, depth + 1)


def _connects(text: str) -> bool:
    """True if the text holds the settings of a connection, with its key."""
    known = table("secrets")
    keys = re.findall(known["values"]["connected"], text)
    return re.search(known["values"]["connection"], text) is not None and any(
        not re.fullmatch(known["names"]["harmless"], one, re.IGNORECASE) for one in keys
    )


def recovers(text: str) -> bool:
    """True if the words look like those of a recovery phrase: as many, each short, told apart by its first letters.

    >>> recovers("legal winner thank year wave sausage worth useful legal winner thank yellow")
    True
    >>> recovers("which of the many words that stand here are those of the phrase")
    False
    """
    values, words = table("secrets")["values"], re.findall(r"[a-z]+", text)
    if len(words) not in values["lengths"] or not all(3 <= len(one) <= 8 for one in words):
        return False
    apart = len({one[:4] for one in words}) == len({*words})
    inflected = sum(re.search(r"(?:(?<!s)s|ed|ing|ly)$", one) is not None for one in words)
    return apart and not {*words} & {*values["no_words"]} and 4 * inflected <= len(words)


def _issued(text: str, hosts: frozenset[str | None], what: str, bearer: bool) -> bool:
    """True if all hosts are those of one issuer. Raises `Refused` for a key, in one piece or in parts, of another."""
    pieces = re.findall(r"[A-Za-z0-9_-]+", text)
    joined, starts = "".join(pieces), {0, *accumulate(map(len, pieces))}
    found = False
    for pattern, anywhere, row in _issuers():
        if all(_at_home(host, row["hosts"]) for host in hosts):
            found = True
        elif not (bearer and row.get("bearer", False)):
            split = (one[0] for one in anywhere.finditer(joined) if one.start() in starts)
            if pattern.search(text) or any(map(_in_parts, split)) or any(map(_behind, anywhere.finditer(text))):
                raise Refused(f"{what} holds a key of {row['name']}, which would be told to another host")
    return found


def address(parts: SplitResult, parameters: Iterable[tuple[str, str]]) -> str | None:
    """The host, if what is told to it stays there: http, and some pages at an issuer's, tell others.

    Raises `Refused` where the address tells a credential to a host that has not issued it.
    """
    name = (parts.hostname or "").rstrip(".")
    told = parts.scheme != "https" or re.match(table("secrets")["values"]["pages"], name + parts.path)
    host = None if told else name
    parameter(host, "", parts.netloc)  # as it was written: keys know the case of their letters
    whole = unquote(parts.path) + "?"
    for one, value in parameters:
        if not stands_there(name, one):
            parameter(host, one, value)
            whole += f"&{one}={value}"
        elif one.lower() not in table("secrets")["values"]["open"] or not re.fullmatch(r"[A-Z0-9]{16,32}(/.*)?", value):
            nobody_elses(value, host, f"the parameter {one!r}", bearer=True)
    nobody_elses(f"{whole}#{unquote(parts.fragment)}", host, "the address")
    for before, segment in pairwise(parts.path.split("/")):
        if _kind(before)[0] and not before.endswith("s") and _changes(segment) > 2:
            _named(before, segment)
    return host


def parameter(host: str | None, name: str, value: str) -> None:
    """Raises `Refused` where one parameter, or argument, tells a credential to a host that has not issued it."""
    nobody_elses(value, host, f"the parameter {name!r}" if name else "the text")
    _named(name, value.strip())
    _named("", name)


def stands_there(host: str, name: str) -> bool:
    """True if the service says that a key, or the sign of a signed address, stands in a parameter of this name."""
    known, plain = table("secrets"), re.sub("[_-]", "", name.lower())
    return any(_below(host, one) for row in (known["at_home"], known["signed"]) for one in row.get(plain, ()))


def headers(host: str | None, given: Mapping[str, str]) -> None:
    """Raises `Refused` where a header tells a credential to a host that is known not to have issued it."""
    for name, value in given.items():
        if name.lower() in _BEARER:
            nobody_elses(value, host, f"the header {name!r}", bearer=True)
        else:
            parameter(host, name.lower(), value)


def _named(name: str, value: str) -> None:
    """Raises `Refused` for a value that is a credential by its parameter's name, or by its looks."""
    known, values = table("secrets")["names"], table("secrets")["values"]
    kind, thing = _kind(name)
    if kind == "paging":
        return
    mixed = "least_short" if kind == "short" else "least_mixed"
    least = values["least_weak" if kind == "weak" else mixed if is_mixed(value) else "least_named"]
    named = kind == "strong" or (
        kind != ""
        and len(value) >= least
        and not value.isdecimal()
        and not re.fullmatch(known["things"], value)
        and (kind not in ("weak", "short") or is_mixed(value))
        and (kind != "of_thing" or _changes(value) > 3 or re.fullmatch("[0-9a-f]{32,}", value) is not None)
    )
    if not named and (thing or not (_opaque(value) or re.fullmatch(values["marked"], value))):
        return
    if re.fullmatch(known["harmless"], value, re.IGNORECASE) or any(one.search(value) for one, *_ in _issuers()):
        return  # a key that has an issuer stands at home, or was refused; there it may have any name
    why = "is named for a secret" if named else "holds what looks like a key"
    raise Refused(f"the parameter {name!r} {why}, which would be told")


@functools.lru_cache(4096)
def _kind(name: str) -> tuple[str, bool]:
    """What a name says of its value: `strong`, `paging`, `short`, `weak`, `key`, `of_thing` or nothing; if it names a
    thing."""
    known = table("secrets")["names"]
    thing = re.fullmatch(table("secrets")["values"]["things"], name) is not None
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = [one.lower() for one in _WORDS.findall(plain)]
    joined = "".join(one for one in words if not re.fullmatch(known["words"], one))
    if {*words} & {*known["strong_words"]} or re.search(known["strong"], joined):
        return "strong", thing
    if re.fullmatch(known["paging"], name, re.IGNORECASE):
        return "paging", thing
    if re.fullmatch(known["weak"], joined):
        return "weak", thing
    if re.fullmatch(known["endings"], joined) or re.search(known["pairs"], joined):
        return "of_thing" if re.fullmatch(known["of_things"], name, re.IGNORECASE) else "key", thing
    bare = [*dropwhile(lambda word: word in known["filling"] or word.isdigit(), reversed(words))][:1]
    if {*bare} & {*known["short_words"]}:
        return "short", thing
    return "weak" if {*bare} & {*known["weak_words"]} else "", thing


def _changes(text: str) -> int:
    """How often digits and letters change."""
    return len(re.findall(r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?=\d)", text))


def _in_parts(text: str) -> bool:
    """What is put together is a key, and no words that stand side by side."""
    return _changes(text) > 3 and 3 * len("".join(re.findall(r"[a-z]{5,}", text))) < len(text)


def _behind(key: re.Match[str]) -> bool:
    """True if it is a key behind another sign, and no word with a digest or a number behind it (`disk-9f8a…`)."""
    before, words = key.string[key.start() - 1 : key.start()], re.findall(r"[A-Za-z0-9]+", key[0])
    within = re.fullmatch("[A-Za-z0-9_]", before) is not None
    return within and _in_parts(key[0]) and not (before.isalpha() and _ORDERED.fullmatch(words[-1]))


def is_mixed(value: str) -> bool:
    """True if the value is one word of letters and digits, as keys and good passwords are."""
    return re.fullmatch(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_+/=.~-]+", value) is not None


def _opaque(value: str) -> bool:
    """A long word without any order: little is left to words, numbers, digests; packed text is looked at as what it is.

    >>> _opaque("q8Zk1vXw2LmNp4Rt7Yb3.Hd6Jf9Gs0Aa1Bb2C"), _opaque("how-prompt-caches-work-in-practice-2026-11-27")
    (True, False)
    """
    values = table("secrets")["values"]
    for word in re.split(r"[\s,]+", value):
        if len(word) >= values["least_opaque"] and next(_unpacked(word), None) is None:
            chunks = (one for one in re.findall(r"[A-Za-z0-9]{6,}", word) if not _ORDERED.fullmatch(one))
            if sum(len(re.sub(r"(?<!\d)[A-Z]?[a-z]{3,}(?!\d)", "", one)) for one in chunks) >= values["least_left"]:
                return True
    return False


def _inner(text: str) -> Iterator[str]:
    """What is packed in the text: percent signs, base64, base32, digits of base 16, numbers of letters.

    Letters of other widths and signs that nobody sees are taken for what they look like.
    """
    if "%" in text and unquote_plus(text) != text:
        yield unquote_plus(text)
    if "&#" in text and html.unescape(text) != text:
        yield html.unescape(text)
    if not text.isascii():
        plain = "".join(one for one in unicodedata.normalize("NFKC", text) if one.isascii())
        yield from [plain] if plain else []
    for word in (one for pattern in _PACKED for one in pattern.findall(text)):
        yield from _unpacked(word)
    yield from _unpacked(re.sub(r"0x|[^A-Za-z0-9+/_=]", "", text))
    for codes in _CODES.findall(text):
        yield "".join(chr(int(one)) for one in re.findall(r"\d+", codes))


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
        if re.fullmatch(r"[\x20-\x7e\t\r\n]{9,}", text):
            yield text


def _below(host: str, name: str) -> bool:
    return host == name or host.endswith(f".{name}")


def _at_home(host: str | None, names: Iterable[str]) -> bool:
    """An issuer's own host: its name, that of its interface, or any below where it says so, if nobody else answers."""
    if host is None or re.fullmatch(table("secrets")["values"]["anybodys"], host):
        return False
    return any(
        _below(host, one[2:]) if one.startswith("*.") else host in (one, f"api.{one}", f"www.{one}") for one in names
    )


# --- The same credentials by their places in a text, for what takes them out ------------------------------------------

_WORD_REST = re.compile(r"[\w.+/=~-]*[\w+/=~-]")
"""How a key goes on behind what tells it."""
_VALUE_REST = re.compile(r"[^\s\"',;&#]*")
_LINE_REST = re.compile(r"[^\r\n\"']*")
_VALUE = re.compile(r"(?=.*\d)[^/()]+")
"""The value of a setting that no strong name tells: no path, and nothing that code assigns (`session_id = found`)."""
_QUOTED = re.compile(
    r"(?<![\w.\[\]-])([A-Za-z_][\w.\[\]-]{0,80})(?:\\?[\"'])?\s{0,9}(?:=>?|:)\s{0,9}\\?([\"'])((?:(?!\2)[^\\\r\n]){1,4000})"
)
"""A name with a value in quotes, also where they are escaped, however short."""
_LONG = re.compile(r"[^\s\"'<>()\[\]{}]{16,}")
"""Words in which something may be packed, and those that may be keys by their looks."""
_BLOCK = re.compile(r"(?:(?!-----BEGIN).){0,20000}?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_BLOCK_LINES = re.compile(r"(?:-----)?(?:(?:\s|\\[rn])*[A-Za-z0-9+/=]{16,})*(?:(?:\s|\\[rn])*[A-Za-z0-9+/]*=+)?")
"""What a private key holds, to its end, or as far as lines of it are there."""


def credentials(text: str) -> list[tuple[int, int]]:
    """Where credentials stand in the text, whoever issued them: each with its start and its end, in order.

    Told by the rules by which nothing is told to others; a text of any length is looked at.

    >>> said = "log in with ghp_0123456789abcdefghij, please"
    >>> [said[start:end] for start, end in credentials(said)]
    ['ghp_0123456789abcdefghij']
    >>> credentials("which of the two words was it?")
    []
    """
    found = [*_keys_in(text), *_said_in(text)]
    for part in (*re.finditer("(?s).+", text), *re.finditer(r"[^\r\n]+", text)):
        found += _apart(part)
    for one in _LONG.finditer(text):
        if is_credential("", one[0]) or _packs_one(one[0]):
            found.append(one.span())
    joined: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def is_credential(name: str, value: str) -> bool:
    """True if the value of a parameter of that name is a credential, by the name or by its looks. A text of several
    words is one by a strong name alone."""
    if re.search(r"\s", value.strip()):
        return _strong(name)
    try:
        _named(name, value.strip())
    except Refused:
        return True
    return False


def _keys_in(text: str) -> Iterator[tuple[int, int]]:
    """Keys in the form of their issuers, and those that say themselves that they are keys."""
    for begun, anywhere, _ in _issuers():
        yield from _whole(text, begun.finditer(text))
        yield from _whole(text, filter(_behind, anywhere.finditer(text)))
    yield from _whole(text, re.finditer(table("secrets")["values"]["keyed"], text))


def _whole(text: str, keys: Iterable[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """The keys to their ends; what is told within one is that one."""
    done = 0
    for key in keys:
        if key.start() >= done:
            if key[0].startswith("-----BEGIN"):
                block = _BLOCK.match(text, key.end()) or _BLOCK_LINES.match(text, key.end())
                done = key.end() if block is None else block.end()
            else:
                done = _on(_WORD_REST, text, key.end())
            yield key.start(), done


def _said_in(text: str) -> Iterator[tuple[int, int]]:
    """Settings, headers and addresses with what is secret in them."""
    known, done, left = table("secrets"), 0, list[str]()
    for said in re.finditer(known["values"]["said"], text):
        if said.start() >= done:
            left.append(text[done : said.start()])
            line = re.search("authori[sz]ation|cookie", said[0], re.IGNORECASE)
            done = _on(_VALUE_REST if line is None else _LINE_REST, text, said.end())
            left.append(" " * (done - said.start()))
            if not _harmless(text[said.start() : done].split()[-1]):
                yield said.start(), done
    others, done = "".join((*left, text[done:])), 0
    for one in _SETTING.finditer(others):
        if one.start(2) >= done and is_credential(one[1], one[2]) and (_strong(one[1]) or _VALUE.fullmatch(one[2])):
            done = _on(_VALUE_REST, text, one.end(2))
            yield one.start(2), done
    for one in _QUOTED.finditer(others):
        if _strong(one[1]) and not _harmless(one[3]):
            yield one.span(3)
    if _connects(text):
        yield from (one.span(1) for one in re.finditer(known["values"]["connected"], text) if not _harmless(one[1]))


def _apart(part: re.Match[str]) -> Iterator[tuple[int, int]]:
    """What is told where nothing else stands beside it: a user with a password, and a recovery phrase."""
    values = table("secrets")["values"]
    if re.fullmatch(values["user"], part[0].strip()):
        yield part.span()
    for one in re.finditer(values["phrase"], part[0]):
        if recovers(one[0]):
            yield part.start() + one.start(), part.start() + one.end()


def _harmless(value: str) -> bool:
    return re.fullmatch(table("secrets")["names"]["harmless"], value, re.IGNORECASE) is not None


def _strong(name: str) -> bool:
    return _kind(name)[0] == "strong"


def _on(rest: re.Pattern[str], text: str, at: int) -> int:
    """Where what has begun before `at` ends."""
    match = rest.match(text, at)
    return at if match is None else match.end()


def _packs_one(word: str) -> bool:
    """True if a credential is packed in the word."""
    try:
        for one in _inner(word[:MOST_READ]):
            _look(one, frozenset({None}), "the text", bearer=False, depth=1)
    except Refused:
        return True
    return False
