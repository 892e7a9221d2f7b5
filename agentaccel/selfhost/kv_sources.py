"""Where servers publish what their KV caches keep, as they list it themselves. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from agentaccel.errors import ConfigError, EngineError
from agentaccel.selfhost.probe import Page, Server
from agentaccel.selfhost.tables import found, name_of, row

_ALL_ADDRESSES = ("*", "0.0.0.0", "[::]", "::")
"""Hosts that a server listens at, and that nobody can connect to."""


class KvSource(NamedTuple):
    """Where one engine publishes."""

    endpoint: str
    replay: str | None
    """Where it sends again what was missed; None where it does not."""
    topic: str
    """How the topics begin."""


def sources(server: Server, host: str, said: Page | str) -> list[KvSource] | str:
    """What a server that answers at `host` lists: one for each of its engines, none where it publishes nothing; in a
    word, why it lists nothing.

    >>> said = Page(200, {}, b'{"0": {"endpoint": "tcp://*:5557", "replay_endpoint": null, "topic": "kv"}}')
    >>> sources(Server(dialect="vllm"), "gpu", said)
    [KvSource(endpoint='tcp://gpu:5557', replay=None, topic='kv')]
    """
    known = row(server.dialect)["kv_sources"]
    if isinstance(said, str):
        return said
    if said.status == 404:  # a version that has no such list
        return []
    try:
        body = json.loads(said.body)
    except (ValueError, RecursionError):
        body = None
    if said.status != 200 or not isinstance(body, Mapping | list):
        return f"status {said.status}, and no list"
    read = []
    for one in body.values() if isinstance(body, Mapping) else body:
        endpoint, replay, topic = (found(one, known[part]) for part in ("endpoint", "replay", "topic"))
        if isinstance(endpoint, str):
            again = _reachable(replay, host) if isinstance(replay, str) else None
            read.append(KvSource(_reachable(endpoint, host), again, topic if isinstance(topic, str) else ""))
    return read


def the_one(listed: Mapping[str, list[KvSource] | str], servers: Mapping[str, Server]) -> KvSource:
    """The one that `servers`, by name, list. Raises `EngineError` where one has not answered, `ConfigError` where there
    is none, or several."""
    for name, said in listed.items():
        if isinstance(said, str):
            raise EngineError(f"{name} does not say where it publishes KV events: {said}")
    found_at = [one for said in listed.values() if not isinstance(said, str) for one in said]
    if not found_at:
        asked = ", ".join(f"{name} ({name_of(server.dialect)})" for name, server in servers.items())
        raise ConfigError(
            f"Backend.kv_events: {asked} lists no endpoint; start it with --kv-events-config, or give the endpoint"
        )
    if len(found_at) > 1:
        several = ", ".join(repr(one.endpoint) for one in found_at)
        raise ConfigError(f"Backend.kv_events: several are listed: {several}; give one of them as the endpoint")
    return found_at[0]


def _reachable(url: str, host: str) -> str:
    """An address to connect to, where a server listens at all of its machine's: those of `host`."""
    scheme, _, rest = url.partition("://")
    at, _, port = rest.rpartition(":")
    if scheme != "tcp" or at not in _ALL_ADDRESSES:
        return url
    return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
