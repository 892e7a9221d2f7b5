"""Looking at what a server says beside a reply: who it is, and which field of ours it has refused.

Who answers on a private network is asked once, before the first call, as the client asks: by its own transport, with
its own credentials; the call waits for the answer for a moment, and goes out as written where none has come. A refusal
is read ahead, and its reader gets every byte of it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from agentaccel.clients.client_copy import CREDENTIALS
from agentaccel.clients.tap import decoder
from agentaccel.clients.usage_filter import in_place_of
from agentaccel.engine.engine import Engine
from agentaccel.engine.scope import current
from agentaccel.engine.servers import Address
from agentaccel.selfhost.probe import MODELS, Page, is_private, probe

log = logging.getLogger("agentaccel")

_OWNER = "looks at servers"
"""Whose work it is in `Background`: no session's."""
_SECONDS = 2.0
"""How long an answer may take, from one byte to the next and as a whole."""
_PATIENCE = 0.2
"""Seconds that the first call waits for the answer: a server at rest gives it in a few thousandths, and what it is told
with its first prompt, it need not compute again with the second."""
_MOST_BYTES = 1_000_000
"""Bytes of an answer that are read."""
_ENDS = (b"/chat/completions", b"/responses", b"/messages")
"""What the path of a model call ends with: before it stands the client's base URL."""


@dataclass(frozen=True, slots=True)
class Look:
    """A question to a server: which models it has, and whose they are."""

    engine: Engine
    address: Address
    request: Any

    def in_a_thread(self, transport: Any) -> None:
        """Ask in a thread, by a sync transport; returns with the answer, or when the call is not to wait longer."""
        assert self.engine.background is not None
        asked = self.engine.background.submit(_OWNER, lambda: self._ask(transport))
        concurrent.futures.wait((asked,), _PATIENCE)

    async def on_this_loop(self, transport: Any) -> None:
        """The same in a task of the running event loop, by an async transport."""
        assert self.engine.background is not None
        task = self.engine.background.spawn(_OWNER, lambda: self._ask_async(transport), copy_context())
        await asyncio.wait((task,), timeout=_PATIENCE)

    def _ask(self, transport: Any) -> None:
        try:
            response, data = transport.handle_request(self.request), bytearray()
            try:
                until = time.monotonic() + _SECONDS
                for piece in response.stream:
                    data += piece
                    if len(data) > _MOST_BYTES or time.monotonic() > until:
                        break
            finally:
                response.close()
            self._conclude(response, bytes(data))
        except Exception:  # whatever a transport raises: the user's own call tells what is wrong
            log.debug("agentaccel: could not look at a server", exc_info=True)
        finally:
            self.engine.servers.looked(self.address)

    async def _ask_async(self, transport: Any) -> None:
        try:
            async with asyncio.timeout(2 * _SECONDS):
                response, data = await transport.handle_async_request(self.request), bytearray()
                try:
                    async for piece in response.stream:
                        data += piece
                        if len(data) > _MOST_BYTES:
                            break
                finally:
                    await response.aclose()
            self._conclude(response, bytes(data))
        except Exception:
            log.debug("agentaccel: could not look at a server", exc_info=True)
        finally:
            self.engine.servers.looked(self.address)

    def _conclude(self, response: Any, body: bytes) -> None:
        server = probe({MODELS: Page(response.status_code, dict(response.headers), body)})
        self.engine.servers.know(self.address, server)
        where = "{}:{}".format(*self.address)
        if server.platform is None:
            log.info("agentaccel: what runs at %s does not say what it is: %s", where, "; ".join(server.evidence))
        else:
            log.info("agentaccel: %s is %s (%s)", where, server, "; ".join(server.evidence))


def look_at(engine: Engine, request: Any, library: Any) -> Look | None:
    """The question for the server of a model call of which nobody has said what it is; None where none is to be asked:
    on public networks, where it was asked before, and in code whose calls go out as written."""
    host, background = request.url.host, engine.background
    if background is None or background.closed or current.get().bypass or not is_private(host):
        return None
    path = request.url.raw_path.partition(b"?")[0].rstrip(b"/")
    base = next((path.removesuffix(end) for end in _ENDS if path.endswith(end)), None)
    address = host, request.url.port or (80 if request.url.scheme == "http" else 443)
    if base is None or not engine.servers.may_look(address):
        return None
    own = [(name, request.headers[name]) for name in ("host", *CREDENTIALS) if name in request.headers]
    # A user may close the client while this is under way: a connection that the pool no longer knows must end with the
    # answer. HTTP/2, which a client speaks over TLS alone, forbids the header.
    ends = [("connection", "close")] if request.url.scheme == "http" else []
    plain = [("accept", "application/json"), ("accept-encoding", "identity"), ("user-agent", "agentaccel")]
    asked = library.Request(
        "GET",
        request.url.copy_with(raw_path=base + b"/models"),
        headers=[*own, *plain, *ends],
        extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), _SECONDS)},
    )
    return Look(engine, address, asked)


# --- A refusal, read ahead --------------------------------------------------------------------------------------------

_MOST_OF_A_REFUSAL = 65_536
"""Bytes that are read ahead; refusals are short."""


@dataclass(slots=True)
class _Ahead:
    """What of a body was read before its reader asked for it."""

    rest: Any
    """The iterator over what comes after."""
    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    error: Exception | None = None
    """How the body broke off."""

    def add(self, chunk: bytes) -> bool:
        """Keep the next bytes; True if that is enough."""
        self.chunks.append(chunk)
        self.size += len(chunk)
        return self.size > _MOST_OF_A_REFUSAL

    def text(self, http: Any) -> bytes:
        """The bytes as they are once decoded; none where that cannot be done."""
        decode = decoder(http.headers.get("content-encoding", ""))
        try:
            return decode(b"".join(self.chunks)) if decode is not None else b""
        except Exception:
            log.debug("agentaccel: could not read a refusal", exc_info=True)
            return b""


def peek(http: Any) -> bytes:
    """The beginning of the body of a response, in a thread; whoever reads it later gets all of it."""
    if http.is_stream_consumed or http.is_closed:
        return bytes(http.content)
    ahead = _Ahead(iter(http.stream))
    try:
        for chunk in ahead.rest:
            if ahead.add(chunk):
                break
    except Exception as error:  # noqa: BLE001 - it is the reader who is told
        ahead.error = error
    http.stream = in_place_of(http.stream, _Peeked, _AsyncPeeked, ahead)
    return ahead.text(http)


async def peek_async(http: Any) -> bytes:
    """The same on an event loop."""
    if http.is_stream_consumed or http.is_closed:
        return bytes(http.content)
    ahead = _Ahead(aiter(http.stream))
    try:
        async for chunk in ahead.rest:
            if ahead.add(chunk):
                break
    except Exception as error:  # noqa: BLE001 - it is the reader who is told
        ahead.error = error
    http.stream = in_place_of(http.stream, _Peeked, _AsyncPeeked, ahead)
    return ahead.text(http)


class _OfAStream:
    def __init__(self, stream: Any, ahead: _Ahead) -> None:
        self._stream, self._ahead = stream, ahead

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._stream, name)


class _Peeked(_OfAStream):
    def __iter__(self) -> Iterator[bytes]:
        yield from self._ahead.chunks
        if self._ahead.error is not None:
            raise self._ahead.error
        yield from self._ahead.rest

    def close(self) -> None:
        self._stream.close()


class _AsyncPeeked(_OfAStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = self._ahead.rest
        try:
            for chunk in self._ahead.chunks:
                yield chunk
            if self._ahead.error is not None:
                raise self._ahead.error
            async for chunk in rest:
                yield chunk
        finally:
            if isinstance(rest, AsyncGenerator):
                await rest.aclose()

    async def aclose(self) -> None:
        await self._stream.aclose()
