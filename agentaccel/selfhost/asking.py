"""Asking a server that somebody runs: where it is, and one GET after another, in threads of our own.

Each has a time limit and a bound on what is read, and follows no redirect to another host. What goes wrong is a word in
the place of the answer, never an exception.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urljoin, urlsplit

from agentaccel.checks import is_amount
from agentaccel.concurrency import Background
from agentaccel.engine.servers import Address
from agentaccel.errors import ConfigError, MissingExtraError
from agentaccel.selfhost.probe import MODELS, Page
from agentaccel.selfhost.tables import dialects

OWNER = "attached servers"
"""Whose work these questions are in `Background`: no session's."""
_MOST_BYTES = 1_000_000
"""Bytes of an answer that are read; a longer one says nothing."""
_MOST_LEADS = 3
"""Redirects on the same host that are followed."""
_NOBODY = "nothing answers there"
_AWAY, _ON_AND_ON, _TOO_LONG = (
    "it leads to another host",
    "it leads on and on",
    f"its answer is longer than {_MOST_BYTES:,} bytes",
)
"""Words for answers that say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Where one server is."""

    root: str
    """The URL that its own paths, such as /version, stand behind."""
    base: str
    """The URL that model calls stand behind, as the SDK's `base_url`."""
    metrics: str | None
    """Where its counters are, if that was said."""
    address: Address
    name: str
    """Its URL without the scheme, for people."""

    def url(self, path: str) -> str:
        """Where a path of its dialect is."""
        return self.base + MODELS.removeprefix("/v1") if path == MODELS else self.root + path


def replica_of(url: object, metrics: object = None) -> Replica:
    """Where the server of a base URL is. Raises `ConfigError` for what is no http URL.

    >>> replica_of("http://localhost:8000/v1").url("/version"), replica_of("https://a.example/llm").url("/v1/models")
    ('http://localhost:8000/version', 'https://a.example/llm/v1/models')
    """
    root, address = _split(url, "url")
    root = root.removesuffix("/v1")
    counters = None if metrics is None else _split(metrics, "metrics")[0]
    return Replica(root=root, base=f"{root}/v1", metrics=counters, address=address, name=root.partition("://")[2])


def _split(url: object, what: str) -> tuple[str, Address]:
    example = "such as 'http://127.0.0.1:8000/v1'"
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        port = parts.port if parts is not None else None
    except ValueError:
        parts, port = None, None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"Accel.backend: {what} is {url!r}; give the http URL of a server, {example}")
    if parts.username or parts.password:
        raise ConfigError(f"Accel.backend: {what} holds a user or a password; give them as headers={{…}}")
    return str(url).rstrip("/"), (parts.hostname, port or (80 if parts.scheme == "http" else 443))


# --- one question -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """How servers are asked."""

    headers: Mapping[str, str]
    verify: bool | ssl.SSLContext
    timeout: float
    """Seconds for each answer."""
    hosts: frozenset[str]
    """Whom the headers are shown to."""

    def all(self, background: Background, urls: Mapping[str, str]) -> dict[str, Page | str]:
        """What is answered at each URL, asked at once; a word in the place of an answer that there is not."""
        library = _library()
        with library.Client(verify=self.verify, timeout=self.timeout, follow_redirects=False) as http:
            futures = {
                name: background.submit(OWNER, partial(self._one, library, partial(self._got, http, url)))
                for name, url in urls.items()
            }
            return {name: _result(future) for name, future in futures.items()}

    def post(self, url: str, body: Mapping[str, Any]) -> Page | str:
        """What is answered to a JSON object; a word in the place of an answer that there is not. It is sent once."""
        library = _library()
        with library.Client(verify=self.verify, timeout=self.timeout, follow_redirects=False) as http:
            return self._one(library, lambda: self._posted(http, url, body))

    def _one(self, library: Any, asked: Callable[[], Page | str]) -> Page | str:
        try:
            return asked()
        except library.TimeoutException:
            return self._late
        except library.ConnectError:
            return _NOBODY
        except library.HTTPError as error:
            return f"{type(error).__name__}"

    @property
    def _late(self) -> str:
        return f"no answer within {self.timeout:g} s"

    def _got(self, http: Any, url: str) -> Page | str:
        until = time.monotonic() + self.timeout
        for _ in range(_MOST_LEADS + 1):
            with http.stream("GET", url, headers=self._headers(url)) as response:
                there = response.headers.get("location") if response.is_redirect else None
                if there is None:
                    return self._read(response, until)
                old, url = url, urljoin(url, there)
                if urlsplit(old)[:2] != urlsplit(url)[:2]:  # a host, its port, or whether it is encrypted
                    return _AWAY
        return _ON_AND_ON

    def _posted(self, http: Any, url: str, body: Mapping[str, Any]) -> Page | str:
        with http.stream("POST", url, headers=self._headers(url), json=dict(body)) as response:
            return self._read(response, time.monotonic() + self.timeout)

    def _headers(self, url: str) -> dict[str, str]:
        own = self.headers if urlsplit(url).hostname in self.hosts else {}
        return {"accept": "*/*", "accept-encoding": "identity", "user-agent": "agentaccel", **own}

    def _read(self, response: Any, until: float) -> Page | str:
        data = bytearray()
        for piece in response.iter_raw():
            data += piece
            if len(data) > _MOST_BYTES:
                return _TOO_LONG
            if time.monotonic() > until:
                return self._late
        return Page(response.status_code, dict(response.headers), bytes(data))


def _result(future: Future[Page | str]) -> Page | str:
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 - also a cancelled one, of an `Accel` that was closed
        return type(error).__name__


def answered(asked: Mapping[str, Page | str]) -> bool:
    """True if something is there, whatever it said; not one that came up between two questions."""
    said = [isinstance(one, Page) or one in (_AWAY, _ON_AND_ON, _TOO_LONG) for one in asked.values()]
    return any(said) and _NOBODY not in asked.values()


def _library() -> Any:
    """The HTTP library that is installed: either comes with the SDKs of the vendors."""
    for name in ("httpx2", "httpx"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise MissingExtraError("selfhost", "httpx2")


def installed(module: str, package: str) -> None:
    """Raises `MissingExtraError` where `module` is not there. It is not imported: some read files as they are, and this
    may be asked on an event loop."""
    if find_spec(module) is None:
        raise MissingExtraError("selfhost", package)


# --- what the user gives ----------------------------------------------------------------------------------------------


def replicas_of(urls: object, metrics: object) -> list[Replica]:
    """Where the servers are. Raises `ConfigError` for what is no http URL, or not one of metrics for each."""
    several = list(_several(urls, "url"))
    counted = [None] * len(several) if metrics is None else list(_several(metrics, "metrics"))
    if len(counted) != len(several):
        raise ConfigError(
            f"Accel.backend: metrics has {len(counted)} URLs for {len(several)} servers; give one for each"
        )
    return [replica_of(url, one) for url, one in zip(several, counted, strict=True)]


def _several(given: object, what: str) -> Iterator[object]:
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        if not given:
            raise ConfigError(f"Accel.backend: {what} is empty; give the URL of a server")
        yield from given
    else:
        yield given


def asker_of(replicas: Sequence[Replica], headers: object, verify: object, timeout: float) -> Asker:
    """How they are asked. Raises `ConfigError` for what cannot be meant, `MissingExtraError` without the extra."""
    _library()
    installed("tenacity", "tenacity")
    headers = {} if headers is None else headers
    if not isinstance(headers, Mapping) or not all(isinstance(one, str) for pair in headers.items() for one in pair):
        raise ConfigError(f"Accel.backend: headers is of {type(headers).__name__}; give a dict of texts")
    if not isinstance(verify, bool | ssl.SSLContext):
        raise ConfigError(f"Accel.backend: verify is {verify!r}; give True, False, or an ssl.SSLContext")
    seconds = checked_seconds("Accel.backend: timeout", timeout)
    hosts = frozenset(replica.address[0] for replica in replicas)
    return Asker(headers=dict(headers), verify=verify, timeout=seconds, hosts=hosts)


def checked_seconds(what: str, seconds: object) -> float:
    """A time limit. Raises `ConfigError` for what is none."""
    if not is_amount(seconds) or not seconds:
        raise ConfigError(f"{what} is {seconds!r}; give a number of seconds above 0")
    return float(seconds)  # type: ignore[arg-type]


def checked_dialect(dialect: object) -> str | None:
    """The dialect that the user names. Raises `ConfigError` for one that is not known."""
    if dialect is None or (isinstance(dialect, str) and dialect in dialects()):
        return dialect
    raise ConfigError(f"Accel.backend: dialect is {dialect!r}; known are {', '.join(map(repr, dialects()))}")
