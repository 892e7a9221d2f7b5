"""HTTP requests: a safe method, plain headers, no body, a public host, and nothing in the address that asks for a deed.

A read of what is far is never more than `asked`: a predicted one would tell others what the model has not asked.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from agentaccel.effects import secrets
from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused, Verdict, analysed, judged
from agentaccel.types import Effect

MAX_LENGTH = 8_000
"""Characters of an address that are looked at."""
LONG_SEGMENT = 4
"""Words from which on a path segment is taken for a title, not for a deed."""

_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?::\d{1,5})?(?:[/?#][\x21-\x5b\x5d-\x7e]*)?", re.IGNORECASE)
_HOST = re.compile(r"(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]\.?")
_HOLDS_ADDRESS = re.compile(r"(?<![0-9])[0-9]{1,3}([.-])(?:[0-9]{1,3}\1){2}[0-9]{1,3}(?![0-9])")
"""A name that holds an address is often answered with it, also with one of a private network."""
_PROTOCOL_ASSIGNMENTS = ipaddress.ip_network("192.0.0.0/24")
"""RFC 6890; what Python calls private of it differs between versions."""
_IDENTIFIER = re.compile(r"(?!v\d+(?:\.\d+)*$)(?=.*\d).+")
_DATED = re.compile(r"/(?:19|20)\d\d/")
_TEXT = re.compile(r"[\x20-\x7e\t]*")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@judged("http")
def judge_http(given: Mapping[str, Any]) -> Verdict:
    """The verdict about a request of `method`, `url`, `headers` and `body`."""
    unknown = set(given) - {"method", "url", "headers", "body"}
    if unknown:
        raise Refused(f"it holds {sorted(map(str, unknown))[0]!r}, which is not known")
    method = _method(given.get("method"))
    _headers(given.get("headers"))
    if given.get("body") not in (None, "", {}, []):
        raise Refused("it has a body")
    host = _address(given.get("url"))
    secrets.headers(host, given.get("headers") or {})
    return analysed(Effect.READ_REMOTE, f"http: {method} is a safe method, and nothing in the address asks for a deed")


def _method(method: object) -> str:
    if not isinstance(method, str) or not method.isascii() or method.upper() not in table("http")["methods"]:
        raise Refused(f"the method {method!r} is not one of {', '.join(table('http')['methods'])}")
    return method.upper()


def _headers(headers: object) -> None:
    if headers is None:
        return
    if not isinstance(headers, Mapping):
        raise Refused("the headers are no object")
    for name, value in headers.items():
        if not isinstance(name, str) or name.lower() not in table("http")["headers"]:
            raise Refused(f"the header {name!r} is not on the list")
        if not isinstance(value, str) or not _TEXT.fullmatch(value):
            raise Refused(f"the value of the header {name!r} is no plain line")
        values = table("http")["header_values"]
        if not re.fullmatch(values.get(name.lower(), ".*"), value, re.IGNORECASE):
            raise Refused(f"the value of the header {name!r} is not one that a read has")
        if name.lower() == "accept" and any(kind in value.lower() for kind in table("http")["endless_types"]):
            raise Refused("it asks for a stream, which does not end")
        if len({one.lower() for one in headers}) != len(headers):
            raise Refused("a header is given twice")


def _address(url: object) -> str | None:
    """Its host, where what is told to it stays there. Raises `Refused`."""
    if not isinstance(url, str) or len(url) > MAX_LENGTH or not _URL.fullmatch(url):
        raise Refused("the address is no plain http or https address without user, password, spaces and backslashes")
    parts = urlsplit(url)
    if not parts.path and "@" in url:
        raise Refused("the address names two hosts, and readers differ about which one is meant")
    _host(parts)
    if re.search(r"%25|%00|%0[ad]|%5c", url, re.IGNORECASE) or re.search(r"%(?![0-9a-f]{2})", url, re.IGNORECASE):
        raise Refused("the address hides characters")
    _path(parts)
    _within(unquote(parts.path))
    parameters = list(_parameters(parts))
    host = (parts.hostname or "").rstrip(".")
    for name, value in parameters:
        if not secrets.stands_there(host, name):
            _parameter(name, value)
    _message({name.lower() for name, _ in parameters}, parts.path)
    return secrets.address(parts, parameters)


def _path(parts: SplitResult) -> None:
    for segment in parts.path.split("/"):
        for piece in re.split(r"[;:,=@!()*'+$&~|]", unquote(segment)):
            _deed(piece, "path")
            for part in piece.split(".") if "." in piece else ():
                if len(_WORDS.findall(part)) > 1:  # one word beside a dot is the name of a file, or its ending
                    _deed(part, "path")
    _of_one_thing(parts.path)
    last = unquote(parts.path.rstrip("/").rsplit("/", 1)[-1]).lower()
    if last in table("http")["endless"] or (parts.query and last.endswith(".gif")):
        raise Refused(f"{last!r} is a stream, or counts who looks at it")
    if last in table("http")["last_words"]:
        raise Refused(f"{last!r} at the end of its path may ask for a deed")
    before = unquote(parts.path).lower().rstrip("/").split("/")[-2:]
    known = table("http")
    if len(before) == 2 and before[1] in known["taken"] and set(_WORDS.findall(before[0])) & set(known["queues"]):
        raise Refused(f"{before[1]!r} of {before[0]!r} may be taken from there")


def _within(path: str) -> None:
    """An address in the path is one that the server may open: `/fetch/http://127.0.0.1/`, `/proxy/localhost:8080/`."""
    for match in re.finditer(r"\b((?:https?|file)(?=:/)|[a-z][a-z0-9+.-]*(?=://)):/+([^/?#]*)", path, re.IGNORECASE):
        if match[1].lower() not in ("http", "https") or "@" in match[2]:
            raise Refused("its path holds an address that is no plain one")
        _host(urlsplit(f"http://{match[2]}/"))
    for segment in path.split("/"):
        if _near(segment) or re.match(r"localhost(?:$|:)", segment, re.IGNORECASE):
            raise Refused("its path holds an address of a private network")


def _of_one_thing(path: str) -> None:
    """`/orders/5/lines` and `/orders/5/status` are things; another single word behind an identifier may be a deed."""
    before, word = ["", *path.rstrip("/").split("/")][-2:]
    if _DATED.search(path) or not _IDENTIFIER.fullmatch(before) or not re.fullmatch("[A-Za-z]+", word):
        return
    plural = word.lower().endswith("s") and not word.lower().endswith("ss")
    if not plural and word.lower() not in table("http")["things"]:
        raise Refused(f"{word!r} behind an identifier may ask for a deed")


def _host(parts: SplitResult) -> None:
    host = (parts.hostname or "").rstrip(".")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0 or port in table("http")["refused_ports"]:
        raise Refused("the address has no possible port, or that of a service which is no web server")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address is not None:
        if not address.is_global or address.is_multicast or address.is_reserved or address in _PROTOCOL_ASSIGNMENTS:
            raise Refused("the address is one of a private network, or of a special purpose")
        return
    labels = host.split(".")
    if not _HOST.fullmatch(host) or set(labels[-1:]) & set(table("http")["names"]):
        raise Refused(f"{host!r} is no public name")
    if _HOLDS_ADDRESS.search(host) or any(f".{host}".endswith(f".{one}") for one in table("http")["leads_anywhere"]):
        raise Refused(f"{host!r} may stand for an address of a private network")
    if any(re.match(rf"(?:{one})", host + parts.path) for one in table("http")["refused_hosts"]):
        raise Refused(f"{host!r} takes messages")


def _near(text: str) -> bool:
    """An address of a machine nearby, perhaps with a port; a plain number is none."""
    match = re.match(r"\[(.+)\]|(\d{1,3}(?:\.\d{1,3}){3})", text)
    try:
        return match is not None and not ipaddress.ip_address(match[1] or match[2]).is_global
    except ValueError:
        return False


def _parameters(parts: SplitResult) -> Iterator[tuple[str, str]]:
    for separated in re.split(r"[&;]", parts.query):
        yield from parse_qsl(separated, keep_blank_values=True) or ([(unquote(separated), "")] if separated else [])


def _parameter(name: str, value: str) -> None:
    known = table("http")
    plain = name.lower().strip()
    if plain in known["refused_parameters"]:
        raise Refused(f"the parameter {name!r} may change what the request does, or be used up by it")
    if not re.fullmatch(known["reading_values"].get(plain, "(?!)"), value, re.IGNORECASE):
        for piece in re.split(r"[\[\].]", name):
            _deed(piece, "parameter")
    if plain in known["verbs_in"]:
        _deed(value, "parameter")
    said = {value.lower().strip(), value.lower().strip().rsplit("/", 1)[-1]}
    if said & set(known["writing_values"]) and plain not in known["free_texts"]:
        raise Refused(f"the parameter {name!r} may ask for a deed")
    if _endless(plain, value):
        raise Refused(f"the parameter {name!r} asks for an answer that does not end")
    _inner_address(name, value)
    if re.search(r"\bmutation\b\s*\w*\s*[({]|<script|__proto__", value) or value.lstrip().startswith(
        ("mutation", "{", "[")
    ):
        raise Refused(f"the value of the parameter {name!r} is a program or a call")
    if re.search(known["statements"], value, re.IGNORECASE):
        raise Refused(f"the value of the parameter {name!r} is a statement that writes")


def _message(names: set[str], path: str) -> None:
    known = table("http")
    tells = names & set(known["messages"]) or path.rstrip("/").rsplit("/", 1)[-1].lower() in known["told_to"]
    if names & set(known["recipients"]) and tells:
        raise Refused("its parameters are a recipient and a message, which may be sent")


def _endless(plain: str, value: str) -> bool:
    known = table("http")
    if plain in known["waiting_parameters"]:
        return not re.fullmatch(r"[0-5]?\d(?:\.\d+)?", value)
    if value.lower() in known["endless_values"] and plain not in known["free_texts"]:
        return True
    return plain in known["endless_parameters"] and value.lower() not in ("false", "0", "no")


def _inner_address(name: str, value: str) -> None:
    """An address in a parameter is one that the server may open: it is held to the same rules."""
    if name.lower() in table("http")["leading_on"] and value.startswith("/"):
        for segment in value.split("?")[0].split("/"):
            _deed(segment, f"parameter {name!r}")
    if "../" in value or "..\\" in value or re.match(r"localhost\b", value.strip(), re.IGNORECASE):
        raise Refused(f"the parameter {name!r} leads out of where it should")
    if re.match(r"[\d.]+(?=$|[:/])|\[[\da-f:.]+\]", value.strip(), re.IGNORECASE) and _near(value.strip()):
        raise Refused(f"the parameter {name!r} is an address of a private network")
    if re.match(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", value, re.IGNORECASE):
        parts = urlsplit(value.strip())
        if parts.scheme.lower() not in ("http", "https", "") or "@" in parts.netloc:
            raise Refused(f"the parameter {name!r} holds an address that is no plain one")
        _host(parts)


def _deed(text: str, where: str) -> None:
    known = table("http")
    words = [word.lower() for word in _WORDS.findall(text)]
    joined = "".join(words)
    if not words or joined in known["harmless_names"]:
        return
    ends = {words[0], words[-1], joined} if len(words) < LONG_SEGMENT else set[str]()
    found = {one for one in ends if one in _words("writing") and one not in _words("harmless_words")}
    if len(words) <= 2 and (match := _stems().match(joined)):
        found.add(match[1])
    if "." in text and words[-1] in ("php", "asp", "aspx", "cgi", "jsp", "do", "action") and len(words) >= 2:
        found |= set(words[:-1]) & _words("writing") | ({words[-1]} & {"cgi", "do", "action"})
    if found:
        raise Refused(f"{sorted(found)[0]!r} in its {where} may ask for a deed")


@functools.cache
def _words(name: str) -> frozenset[str]:
    """A list of the data file, to look words up in."""
    return frozenset(table("http")[name])


@functools.cache
def _stems() -> re.Pattern[str]:
    return re.compile(rf"({'|'.join(table('http')['writing_stems'])})(?![ds])\w{{0,8}}$")
