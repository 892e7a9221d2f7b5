"""Two canonical forms of JSON values, never mixed, and the hashes over them.

*Wire bytes* keep the sender's key order, because providers hash a prompt as it was sent: two requests that differ in
key order alone are two prompts. *Identity bytes* sort the keys, because a tool call is the same call whatever the
order of its arguments.

Hashes have 16 bytes. What could tell a text is hashed by BLAKE2b under a key, tagged by a personalisation string:
a change of the canonical form changes the tag, so that old and new hashes can never be taken for one another.
Blocks and chains, of which every turn makes many, go through XXH3 (Collet, 2019) as well, which has no secrets to keep
there and takes a tenth of the time.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Protocol

import orjson
from xxhash import xxh3_128_digest

TAG, BLOCKS = b"agentaccel.v1", b"agentaccel.b2"
"""The versions of the canonical form, mixed into every hash: of values and names, and of the blocks of prompts."""

DIGEST_SIZE = 16
"""Bytes per hash."""

PLAIN_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""For `orjson`, where bytes stand for the very value: what is not plain JSON it refuses, as far as it can be told to.
An `Enum`, a `UUID` and a `Fragment` it writes all the same."""

ROOT = bytes(DIGEST_SIZE)
"""The parent of the first link of every chain."""


def wire_bytes(value: object) -> bytes:
    """`value` as compact JSON in the sender's key order.

    What `orjson` refuses (lone surrogates, integers beyond 64 bits, keys that are not strings) is written by `json`
    instead, so every value that `json.dumps` can send has a form.

    >>> wire_bytes({"b": 1, "a": "é"}) == '{"b":1,"a":"é"}'.encode()
    True
    >>> wire_bytes({"a": "\\ud800"})
    b'{"a":"\\\\ud800"}'
    """
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=repr).encode()


def identity_bytes(value: object) -> bytes:
    """`value` as compact JSON with sorted keys: equal for equal tool arguments.

    >>> identity_bytes({"b": 1, "a": 2}) == identity_bytes({"a": 2, "b": 1})
    True
    >>> identity_bytes({None: 1, 2: 3})
    b'{"2":3,"null":1}'
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):
        try:
            return _sorted(value)
        except TypeError:  # keys of several kinds have no order before they are texts
            return _sorted(json.loads(json.dumps(value, default=repr)))


def _sorted(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=repr).encode()


def to_keep(data: bytes) -> bytes:
    """What was written just now, in no more memory than it needs: orjson holds some kilobytes for each value.

    >>> to_keep(b"{}")
    b'{}'
    """
    return b"".join((data, b""))


def digest(data: bytes, key: bytes = b"") -> bytes:
    """The hash of one canonical form under `key` (at most 64 bytes)."""
    hash_ = keyed(key).copy()
    hash_.update(data)
    return hash_.digest()


def pseudonym(key: bytes, *parts: str) -> str:
    """A name that tells nobody what it is made of, the same in every process that has the `key`: 32 hex digits.

    >>> pseudonym(b"k", "tenant", "acme") == pseudonym(b"k", "tenant", "acme"), len(pseudonym(b"k", "tenant", "acme"))
    (True, 32)
    """
    return blake2b("\x00".join(parts).encode("utf-8", "replace"), digest_size=16, key=key).hexdigest()


class Hash(Protocol):
    """A hash under way."""

    def copy(self) -> Hash: ...
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


@functools.lru_cache(maxsize=8)
def keyed(key: bytes, tag: bytes = TAG) -> Hash:
    """Where `digest` under `key` starts: copy it and go on.

    >>> hash_ = keyed(b"k").copy()
    >>> hash_.update(b"data")
    >>> hash_.digest() == digest(b"data", b"k")
    True
    """
    return blake2b(digest_size=DIGEST_SIZE, key=key, person=tag)


@functools.lru_cache(maxsize=8)
def block_hash(key: bytes) -> Callable[[bytes, bytes], bytes]:
    """A function that hashes a block under `key`: what stands before it in its message, and its wire bytes.

    XXH3, seeded by the key, makes 16 bytes of the long part, and BLAKE2b seals them with the short one: nobody without
    the key can try out a text.

    >>> of = block_hash(b"k")
    >>> of(b"user", b"{}") == of(b"user", b"{}"), of(b"user", b"{}") == of(b"assistant", b"{}")
    (True, False)
    """
    start, seed = keyed(key, BLOCKS).copy, int.from_bytes(key[:8])

    def hash_of(head: bytes, data: bytes) -> bytes:
        hash_ = start()
        hash_.update(head + xxh3_128_digest(data, seed))
        return hash_.digest()

    return hash_of


def link(parent: bytes, child: bytes) -> bytes:
    """The hash of a chain that goes on from `parent` with `child`; both are hashes of this module."""
    return xxh3_128_digest(parent + child)


def chain(digests: Iterable[bytes], parent: bytes = ROOT) -> list[bytes]:
    """The chained hash after each of `digests`: equal at i if and only if everything up to and including i is equal.

    >>> a, b, c = (digest(x) for x in (b"a", b"b", b"c"))
    >>> chain([a, b])[0] == chain([a, c])[0], chain([a, b])[1] == chain([a, c])[1]
    (True, False)
    """
    hashes: list[bytes] = []
    for item in digests:
        parent = xxh3_128_digest(parent + item)
        hashes.append(parent)
    return hashes
