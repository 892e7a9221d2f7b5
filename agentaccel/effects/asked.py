"""What the arguments of a tool ask of another host, and tell it: addresses, what stands beside them, credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qsl, urlencode, urlsplit

from agentaccel.effects.http import judge_http
from agentaccel.effects.secrets import parameter
from agentaccel.effects.tables import table
from agentaccel.effects.texts import own, worded
from agentaccel.effects.verdict import Evidence, Refused

_HOST = r"(?:[\w-]+\.)+[A-Za-z][\w-]*(?::\d+)?"
_OF_WEB = re.compile(r"(?:(?:https?|wss?|ftps?|sftp):)?(?=//)", re.IGNORECASE)
_LINE = re.compile(r"\s*([A-Za-z]+)\s+(/[!-~]*|https?://[!-~]+)(\s+HTTP/[\d.]+)?\s*(?:[\r\n].*)?", re.DOTALL)
"""The first line of a request."""
NOWHERE = "https://example.com/"
"""Where a path without a host is taken to lead."""
DEEPEST = 12
"""Levels of arguments that are looked at."""
LEAST_SECRET = 99_999
"""A number up to which none is taken for a credential."""


def tells_no_key(leaves: Sequence[tuple[str, str | float]], remote: bool) -> None:
    """Raises `Refused` where an argument holds a credential that the tool would tell a host that has not issued it."""
    told = ((name, str(one)) for name, one in leaves if isinstance(one, str) or one > LEAST_SECRET)
    texts = list(dict.fromkeys(told))
    urls = [url for name, text in texts if (url := _address(name, text.strip(), hosts=True)) is not None]
    hosts = {urlsplit(url).hostname for url in urls}
    if not hosts and not remote:
        return
    host = next(iter(hosts)) if len(hosts) == 1 else None
    for name, text in texts:
        # An address is judged by itself, and headers beside one with the request that both make.
        if not re.fullmatch(r"https?://[!-~]+", text) and not (hosts and {"header", "headers"} & set(name.split("."))):
            for key in name.split("."):
                parameter(host, key, text)


def addressed(name: str, value: str) -> Iterator[Evidence]:
    """What is said of an address; where the name does not say that it is one to open, only that it may do something.

    Of a path without a host, what it asks for is told by the same rules.
    """
    known, last = table("mcp"), own(name)[-1]
    if re.match(r"(?:java|vb)script:", value, re.IGNORECASE):
        raise Refused(f"the argument {name!r} is a program, spelled as an address")
    if (line := _LINE.fullmatch(value)) and (_is_method(line[1]) or line[3]):
        url = line[2] if line[2].startswith("http") else NOWHERE + line[2].lstrip("/")
        yield from judge_http({"method": line[1], "url": url}).evidence
        return
    url = _address(name, value)
    if url is None and re.fullmatch(r"[\w-]*(?:/\S*)?", value):
        place = "/" in value and (last in known["places"] or own(name)[0] == "api")
        if place or (last in known["opened"] and re.fullmatch(r"/\S*(?:\?\S*=\S*|/[\w-]*\d[\w-]*/\w+)", value)):
            url = NOWHERE + value.lstrip("/")
    if url is not None:
        verdict = judge_http({"method": "GET", "url": url})
        if (url == value and last in known["addresses"]) or verdict.launchable == "never":
            yield from verdict.evidence


def _is_method(text: str) -> bool:
    return text in table("mcp")["http_methods"] or text.upper() in ("POST", "PUT", "PATCH", "DELETE")


def _address(name: str, value: str, *, hosts: bool = False) -> str | None:
    """The address that the argument is; None where it is none. A service of the web may be named without its scheme,
    or, where `hosts` stands, without a path."""
    if re.match(r"https?://\S*$", value, re.IGNORECASE):
        return value
    known, last = table("mcp"), own(name)[-1]
    if last in known["addresses"] and re.fullmatch(rf"{_OF_WEB.pattern}\S+", value, re.IGNORECASE):
        return _OF_WEB.sub("https:", value, count=1)
    named = last in (*known["addresses"], *known["places"]) or (hosts and last in known["hosts"])
    return f"https://{value}" if named and re.fullmatch(rf"{_HOST}(?:[/?#]\S*)?", value) else None


def request(arguments: object, depth: int = 0) -> Iterator[Evidence]:
    """What is said of the requests that addresses make together with what stands beside them, at any depth."""
    if depth > DEEPEST or not isinstance(arguments, Mapping | list):
        return
    for one in arguments.values() if isinstance(arguments, Mapping) else arguments:
        yield from request(one, depth + 1)
    if not isinstance(arguments, Mapping):
        return
    within = [one for key in ("options", "init", "config") if isinstance(one := arguments.get(key), Mapping)]
    beside = {"_".join(worded(key)): value for one in (*within, arguments) for key, value in one.items()}
    if not isinstance(beside.get("url", ""), str):
        raise Refused("the address is no text")
    known = table("mcp")
    texts = {name: value.strip() for name, value in beside.items() if isinstance(value, str)}
    urls = {name: url for name, value in texts.items() if (url := _address(name, value)) is not None}
    nowhere = [value for name, value in texts.items() if name.split("_")[-1] in known["places"] and "/" in value]
    if any(name in known["hosts"] for name in texts) and texts.get("path", "").startswith("/"):
        nowhere.append(texts["path"])
    for url in urls.values() or (NOWHERE + one.lstrip("/") for one in nowhere):
        verdicts = [judge_http(one) for one in _asked(url, {name: beside[name] for name in beside if name not in urls})]
        yield from (one for said in verdicts if urls or said.launchable == "never" for one in said.evidence)


def _asked(url: str, beside: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The requests of an address, by every method that is named beside it; none of an address with nothing beside."""
    known, methods, headers, fields = table("mcp"), list[str](), dict[str, object](), list[tuple[str, str]]()
    for name, value in beside.items():
        words = set(name.split("_"))
        sent = words & set(known["bodies"]) and words <= {*known["bodies"], *known["beside_bodies"]}
        if sent and value and (value is not True or words & {"post", "put", "patch", "upload"}):
            raise Refused(f"{name!r} stands beside an address: it may be sent there")
        if name in known["asked"]:
            fields += _fields(value)
        elif name in ("header", "headers"):
            headers |= _headers(value)
        elif name in known["method_names"] or (isinstance(value, str) and _is_method(value)):
            methods.append(str(value))
    if fields or headers or methods or url.startswith(NOWHERE):
        whole = f"{url}{'&' if '?' in url else '?'}{urlencode(fields)}" if fields else url
        for method in methods or ["GET"]:
            yield {"method": method, "url": whole, "headers": headers}


def _headers(value: object) -> dict[str, object]:
    """Headers that stand beside an address: as an object, as lines, or as a list of either."""
    if isinstance(value, Mapping):
        return dict(value)
    lines = value.splitlines() if isinstance(value, str) else value if isinstance(value, list) else [None]
    pairs = [line.split(":", 1) for line in lines if isinstance(line, str) and ":" in line]
    if len(pairs) < len(lines):
        raise Refused("its headers are in no known form")
    return {name.strip(): text.strip() for name, text in pairs}


def _fields(value: object) -> list[tuple[str, str]]:
    """Parameters that stand beside an address, as an object or as a text."""
    if isinstance(value, Mapping):
        return [(str(name), str(one)) for name, one in value.items() if isinstance(one, str | int | float)]
    return parse_qsl(value) if isinstance(value, str) and "=" in value else []
