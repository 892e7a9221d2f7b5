"""Whose requests share a cache at a provider: told by the credentials that they are sent with, which are not kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from agentaccel.canonical import digest

CREDENTIALS = ("authorization", "x-api-key", "api-key", "openai-organization", "openai-project")
"""Headers that say on whose behalf a request is made."""

_SETTINGS = (
    *("api_key", "auth_token", "workspace_id"),
    *("aws_access_key", "aws_profile", "aws_region"),
    *("project_id", "_project"),
)
"""The same of clients that sign their requests later, or ask for a token: what stays as tokens are renewed."""

_numbers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
"""Of objects that give tokens, which tell nothing of themselves and are shared by copies of a client."""
_next = count(1)


def account_of(credentials: Iterable[str | None], key: bytes) -> str:
    """A name for whoever has these `credentials`, by a keyed hash; equal for equal ones.

    >>> account_of(["k"], b"") == account_of(["k"], b""), account_of(["k"], b"") == account_of(["l"], b"")
    (True, False)
    """
    return digest("\x00".join(one or "" for one in credentials).encode("utf-8", "replace"), key).hex()


def account_in(headers: Mapping[str, str], key: bytes) -> str:
    """The same for a request with these `headers`, whose names are in any case."""
    return account_of([headers.get(name) for name in CREDENTIALS], key)


def account_behind(client: Any, headers: Mapping[str, Any], key: bytes) -> str:
    """The same for a request with these `headers` that `client` adds its credentials to: its own, those that it was
    given as headers, or whatever it asks for tokens."""
    found = [getattr(client, name, None) for name in _SETTINGS]
    given = {
        name.lower(): value
        for of in (getattr(client, "_custom_headers", None) or {}, headers)
        for name, value in of.items()
    }
    found += [given.get(name) for name in CREDENTIALS]
    tokens = getattr(client, "_token_cache", None)
    if tokens is not None:
        found.append(f"tokens {_numbers.setdefault(tokens, next(_next))}")
    return account_of([one if isinstance(one, str) else None for one in found], key)
