"""What the arguments of a tool ask of another host, and tell it: addresses, what stands beside them, credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qsl, urlencode, urlsplit

from agentaccel.effects.http import judge_http
from agentaccel.effects.secrets import parameter
from agentaccel.effects.tables import table
from agentaccel.effects.texts import spelled
from agentaccel.effects.verdict import Evidence, Refused

Leaves = Sequence[tuple[str, str]]
"""Texts among the arguments, with their names, spelled as `agentaccel.effects.texts.spelled` does."""


def tells_no_key(arguments: object, leaves: Leaves, remote: bool) -> None:
    """Raises `Refused` where an argument holds a credential that the tool would tell a host that has not issued it."""
    hosts = {urlsplit(text).hostname for _, text in leaves if re.fullmatch(r"https?://[!-~]+", text)}
    if not hosts and not remote:
        return
    host = next(iter(hosts)) if len(hosts) == 1 else None
    # An address is judged by itself, and headers beside one with the request that both make.
    headers = arguments.get("headers") if isinstance(arguments, Mapping) and "url" in arguments else None
    heard = {(spelled(name), text) for name, text in headers.items()} if isinstance(headers, Mapping) else set()
    for name, text in leaves:
        if (name, text) not in heard and not re.fullmatch(r"https?://[!-~]+", text):
            parameter(host, name, text)


def addressed(name: str, value: str) -> Iterator[Evidence]:
    """What is said of an address; where the name does not say that it is one to open, only that it may do something."""
    if name in table("mcp")["places"] and value.startswith("/"):
        value = f"https://example.com{value}"
    if not re.match("https?://", value, re.IGNORECASE) or re.search(r"\s", value):
        return
    verdict = judge_http({"method": "GET", "url": value})
    if name.endswith(("url", "uri", "link")) or verdict.launchable == "never":
        yield from verdict.evidence


def request(arguments: object) -> Iterator[Evidence]:
    """What is said of the request that an address makes together with what stands beside it."""
    if not isinstance(arguments, Mapping) or not isinstance(url := arguments.get("url", ""), str):
        raise Refused("the address is no text")
    asked = [one for key, value in arguments.items() if spelled(key) in table("mcp")["asked"] for one in _fields(value)]
    if "url" in arguments and (asked or {"method", "headers"} & set(arguments)):
        given = {key: arguments[key] for key in ("method", "headers", "body") if key in arguments}
        whole = f"{url}{'&' if '?' in url else '?'}{urlencode(asked)}" if asked else url
        yield from judge_http({"method": "GET", **given, "url": whole}).evidence


def _fields(value: object) -> list[tuple[str, str]]:
    """Parameters that stand beside an address, as an object or as a text."""
    if isinstance(value, Mapping):
        return [(str(name), str(one)) for name, one in value.items() if isinstance(one, str | int | float)]
    return parse_qsl(value) if isinstance(value, str) and "=" in value else []
