"""An HTTP tool: requests that are proven to read may be made early, and every request carries what the model wrote.

It speaks to a transport of httpx, below what a client keeps: so there are no cookies, no user and password and no proxy
from the environment, and a run leaves nothing behind that a later one would see.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType, TracebackType
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from agentaccel.effects.http import judge_http
from agentaccel.effects.spec import Arguments, NotProven, ToolSpec, is_early
from agentaccel.effects.verdict import Verdict, analysed, judged
from agentaccel.errors import ConfigError
from agentaccel.former import former_fields
from agentaccel.tools.permission import is_proven
from agentaccel.types import Effect

_FETCHES = ("GET", "HEAD")
"""Methods that are run early, and that follow where they are led."""
_LEADS = (301, 302, 303, 307, 308)
_PASSING = (408, 425, 429)
"""States that may be other ones a moment later, as those from 500 on may."""
_LIBRARIES = ("httpx2", "httpx")
"""Whose transports are spoken to; either comes with the SDKs of the vendors."""


class Transport(Protocol):
    """The part of `httpx.AsyncBaseTransport` that is used."""

    async def handle_async_request(self, request: Any) -> Any: ...
    async def aclose(self) -> None: ...


class _OnlyNow(ConnectionError):
    """An answer that may be another one when the model asks."""

    def __init__(self, answer: Any) -> None:
        super().__init__(f"the answer was {answer.status_code}, and may be another one on time")
        self.response = answer


@former_fields(output_cap="max_result_bytes", fresh_for="max_age")
@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """A tool that makes HTTP requests: `accel.tools({"request": Http().request})`.

    Its connections belong to one event loop, as those of an `httpx.AsyncClient` do; `async with Http() as web` closes
    them. Raises `ConfigError` where neither httpx2 nor httpx is installed.
    """

    transport: Transport | None = None
    """What carries requests, such as `httpx.AsyncHTTPTransport(proxy=…)`; None for one of its own."""
    timeout: float = 30.0
    """Seconds that a request may take, with all that it is led to; then `TimeoutError`."""
    max_result_bytes: int = 60_000
    """Bytes of an answer that are read, counted as they are once inflated; that there is more is said."""
    most_leads: int = 5
    """Redirects that are followed."""
    max_age: float | None = None
    """Seconds for which an answer may be served (`ToolSpec.max_age`)."""
    user_agent: str = "agentaccel"
    """What it calls itself where the model does not say."""

    def __post_init__(self) -> None:
        if self.timeout <= 0 or self.max_result_bytes <= 0 or self.most_leads < 0:
            raise ConfigError("timeout and max_result_bytes must be above 0, and most_leads at least 0")
        if self.transport is None:
            object.__setattr__(self, "transport", _installed().AsyncHTTPTransport())
        elif _library(self.transport) is None:
            raise ConfigError("transport must be one of httpx or httpx2, such as httpx.AsyncHTTPTransport()")

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """Of `request`: each call by its method, address and headers; safe beside anything, for it keeps no state."""
        spec = ToolSpec(kind="http", concurrent=True, max_age=self.max_age, judge=self._judge_call, own=True)
        return {"request": spec}

    @judged("http")
    def _judge_call(self, arguments: Arguments) -> Verdict:
        return judge_http({"method": "GET", **arguments}) if _fetches(arguments.get("method", "GET")) else _NO_FETCH

    def judge(self, url: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Verdict:
        """What this request would do. A read of what is far is `asked` at most, unless the user allows more."""
        return self._judge_call({"url": url, "method": method, "headers": headers})

    async def request(
        self, url: str, method: str = "GET", headers: dict[str, str] | None = None, body: str | None = None
    ) -> str:
        """Make an HTTP request; returns its status and type, and the text of the answer (for HEAD, its headers).

        Redirects of GET and HEAD are followed; any other is returned as it is.
        """
        asked = {"url": url, "method": method, "headers": headers, "body": body}
        if is_early() and not await is_proven(partial(self._judge_call, asked)):
            raise NotProven("the request is not proven to be a read")
        given = {
            "user-agent": self.user_agent,
            "accept-encoding": "gzip",
            **{k.lower(): v for k, v in (headers or {}).items()},
        }
        async with asyncio.timeout(self.timeout):
            return await self._answer(method.upper(), url, given, body)

    async def _answer(self, method: str, url: str, headers: dict[str, str], body: str | None) -> str:
        """Follow `url` to its end. What was meant for one host is not shown to another."""
        library, transport = _library(self.transport), self.transport
        assert library is not None
        assert transport is not None
        for left in range(self.most_leads, -1, -1):
            content = body.encode() if body is not None else None
            answer = await transport.handle_async_request(
                library.Request(method, url, headers=headers, content=content)
            )
            try:
                if is_early() and (answer.status_code in _PASSING or answer.status_code >= 500):
                    raise _OnlyNow(answer)
                there = answer.headers.get("location")
                if not (left and there and method in _FETCHES and answer.status_code in _LEADS):
                    return await self._shown(method, answer)
            finally:
                await answer.aclose()
            old, url = url, urljoin(url, there)
            if urlsplit(old)[:2] != urlsplit(url)[:2]:  # a host, its port, or whether it is encrypted
                if is_early():
                    raise NotProven("it is led to another host")
                headers = {name: value for name, value in headers.items() if name in _ANYWHERE}
            if is_early() and not await is_proven(partial(self.judge, url, method)):
                raise NotProven("what it is led to is not proven to be a read")
        raise AssertionError("the last lead is not followed")

    async def _shown(self, method: str, answer: Any) -> str:
        kind = answer.headers.get("content-type", "")
        first = f"{answer.status_code} {kind}".strip()
        if method == "HEAD":
            return "\n".join([first, *(f"{name}: {value}" for name, value in answer.headers.multi_items())])
        lines = [first, f"location: {answer.headers['location']}"] if "location" in answer.headers else [first]
        coding = answer.headers.get("content-encoding", "").strip().lower()
        if coding not in _INFLATED:
            return "\n".join([*lines, "", f"[not read: it is encoded as {coding[:_MOST_NAMED]!r}]"])
        try:
            data, more = await _read(answer, _INFLATED[coding](), self.max_result_bytes)
        except zlib.error:
            return "\n".join([*lines, "", f"[not read: it is not encoded as {coding}, which it says]"])
        lines += ["", _text(data, answer.charset_encoding, more=more)]
        return "\n".join([*lines, f"[more than these {self.max_result_bytes} bytes]"] if more else lines)

    async def aclose(self) -> None:
        """Close its connections."""
        assert self.transport is not None
        await self.transport.aclose()

    async def __aenter__(self) -> Http:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


_NO_FETCH = analysed(Effect.UNKNOWN, f"http: only {' and '.join(_FETCHES)} are made early")
_ANYWHERE = ("user-agent", "accept", "accept-encoding", "accept-language")
"""Headers that another host is sent, too."""


def _fetches(method: object) -> bool:
    return isinstance(method, str) and method.upper() in _FETCHES


def _installed() -> ModuleType:
    for name in _LIBRARIES:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise ConfigError("the HTTP tool speaks through httpx, which is not installed: pip install httpx")


def _library(transport: object) -> ModuleType | None:
    """The library whose requests `transport` takes."""
    roots = [one.__module__.partition(".")[0] for one in type(transport).__mro__]
    return next((sys.modules[root] for root in roots if root in _LIBRARIES), None)


Inflate = Callable[[bytes, int], bytes]
"""Takes the next bytes of an answer and returns at most so many (1 or more) of what they stand for: all, where it
returns fewer."""


def _deflated() -> Inflate:
    """RFC 9110 means zlib's format; some servers send what is in it, bare."""
    inflating = None

    def inflate(piece: bytes, room: int) -> bytes:
        nonlocal inflating
        if not piece:
            return b""  # says nothing of the format
        if inflating is None:
            inflating = zlib.decompressobj(zlib.MAX_WBITS if piece[0] & 0x0F == 8 else -zlib.MAX_WBITS)
        return inflating.decompress(piece, room)

    return inflate


def _gzipped() -> Inflate:
    return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress


def _plain() -> Inflate:
    return lambda piece, room: piece[:room]


_INFLATED: Mapping[str, Callable[[], Inflate]] = {
    "": _plain, "identity": _plain, "gzip": _gzipped, "x-gzip": _gzipped, "deflate": _deflated
}  # fmt: skip
"""How an answer is inflated, by its coding: those that can be stopped at a length."""
_MOST_NAMED = 40
"""Characters of a coding that are shown."""


async def _read(answer: Any, inflate: Inflate, most: int) -> tuple[bytes, bool]:
    """At most so many bytes of an answer, and whether there are more. No more than one is inflated beyond them."""
    data = bytearray()
    async for piece in answer.stream:
        data += inflate(piece, most + 1 - len(data))
        if len(data) > most:
            return bytes(data[:most]), True
    return bytes(data), False


_CHARACTER_SETS = re.compile(
    r"ascii|utf-(?:8(?:-sig)?|(?:16|32)(?:-[bl]e)?)|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|gb(?:2312|k|18030)|big5(?:hkscs)?"
    r"|euc_\w+|shift_jis\w*|iso2022_\w+|hz|johab|tis-620|ptcp154|kz1048|hp-roman8"
)
"""Codecs of Python by their own names that tell characters from bytes, as the standard encodings of its documentation
do (`codecs`, 2026-11): not `hex`, `zlib` and the like, nor `unicode_escape`, `idna`, `punycode` and `utf-7`."""


def _text(data: bytes, charset: str | None, *, more: bool) -> str:
    """The text of an answer; how many bytes it has where it is none.

    >>> _text("café".encode(), None, more=False), _text("café".encode()[:4], None, more=True)
    ('café', 'caf')
    >>> _text(b"\\x89PNG", None, more=False), _text(b"6869", "hex", more=False)
    ('[4 bytes that are no text]', '[4 bytes that are no text]')
    """
    try:
        codec = codecs.lookup(charset or "utf-8")
        if codec.incrementaldecoder is None or not _CHARACTER_SETS.fullmatch(codec.name):
            raise LookupError
        text = codec.incrementaldecoder().decode(data, final=not more)
    except (LookupError, ValueError):
        text = "\0"
    return text if "\0" not in text else f"[{len(data)} bytes that are no text]"
