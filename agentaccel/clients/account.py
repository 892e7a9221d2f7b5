"""Whose requests share a cache at a provider: told by the credentials that they are sent with, which are not kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentaccel.canonical import digest

CREDENTIALS = ("authorization", "x-api-key", "api-key", "openai-organization", "openai-project")
"""Headers that say on whose behalf a request is made."""


def account_of(credentials: Iterable[str | None], key: bytes) -> str:
    """A name for whoever has these `credentials`, by a keyed hash; equal for equal ones.

    >>> account_of(["k"], b"") == account_of(["k"], b""), account_of(["k"], b"") == account_of(["l"], b"")
    (True, False)
    """
    return digest("\x00".join(one or "" for one in credentials).encode("utf-8", "replace"), key).hex()


def account_in(headers: Mapping[str, str], key: bytes) -> str:
    """The same for a request with these `headers`, whose names are in any case."""
    return account_of([headers.get(name) for name in CREDENTIALS], key)
