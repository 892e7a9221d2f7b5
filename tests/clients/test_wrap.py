"""Wrapping: a new client of the same class; the one that was given stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest

from agentaccel import ConfigError
from tests.clients.wire import ASK, Peer, an_accel, marks, message, records


@pytest.mark.parametrize("kind", [anthropic.Anthropic, anthropic.AsyncAnthropic])
def test_the_users_client_stays_as_it_was(tmp_path: Path, kind: Any) -> None:
    """Chosen by us: a new client of the same class, the same pool under it, every setting kept, theirs untouched."""
    own = httpx2.AsyncClient() if kind is anthropic.AsyncAnthropic else httpx2.Client()
    timeout = httpx2.Timeout(7.0, read=3.0)
    client = kind(api_key="k", http_client=own, timeout=timeout, max_retries=5, default_headers={"x-own": "1"})
    before = {name: id(value) for name, value in vars(client).items()}
    wrapped = an_accel(tmp_path).wrap(client)
    assert {name: id(vars(client)[name]) for name in before} == before
    assert client.middleware == ()
    assert type(wrapped) is kind
    assert wrapped is not client
    assert wrapped._client is own
    assert (wrapped.timeout, wrapped.max_retries, wrapped.base_url) == (timeout, 5, client.base_url)
    assert wrapped.default_headers["x-own"] == "1"


def test_a_subclass_stays_a_subclass(tmp_path: Path) -> None:
    """Chosen by us: the class of a client is its owner's."""

    class Ours(anthropic.Anthropic):
        pass

    assert type(an_accel(tmp_path).wrap(Ours(api_key="k"))) is Ours


def test_options_keep_the_wrapping(tmp_path: Path) -> None:
    """Chosen by us: `with_options` and `copy` of a wrapped client are wrapped, and record into the same store."""
    peer = Peer(message())
    client = an_accel(tmp_path).wrap(peer.client())
    client.with_options(timeout=3, max_retries=1).messages.create(**ASK)
    client.copy().messages.create(**ASK)
    assert [marks(sent) >= 2 for sent in peer.sent] == [True, True]
    assert peer.requests[0].headers["x-stainless-read-timeout"] == "3"
    assert len(records(tmp_path)) == 2


def test_wrapping_twice_gives_the_same_client(tmp_path: Path) -> None:
    """Chosen by us: the second wrap has nothing to add."""
    accel = an_accel(tmp_path)
    once = accel.wrap(Peer(message()).client())
    assert accel.wrap(once) is once
    assert accel.wrap(once.with_options(timeout=3)).middleware == once.middleware


def test_wrapping_with_another_accel_is_refused(tmp_path: Path) -> None:
    """Chosen by us: two would plan and record the same turn twice."""
    client = an_accel(tmp_path).wrap(Peer(message()).client())
    with pytest.raises(ConfigError):
        an_accel(tmp_path / "other").wrap(client)


@pytest.mark.parametrize("client", [object(), "client", None, httpx2.Timeout(1.0)])
def test_what_is_no_client_is_refused(tmp_path: Path, client: Any) -> None:
    """Chosen by us: the mistake is named where it is made."""
    with pytest.raises(ConfigError):
        an_accel(tmp_path).wrap(client)
