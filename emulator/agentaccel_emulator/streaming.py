"""What the streams of all APIs have in common: text in pieces, and how a fault spoils a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import orjson

from agentaccel_emulator.exchange import Chunk
from agentaccel_emulator.faults import Fault

_PIECE = 16
"""Characters per delta."""


def in_pieces(text: str) -> Iterator[str]:
    """`text` as the deltas of a stream have it."""
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


def sse(event: Mapping[str, object]) -> bytes:
    """A server-sent event that is named as its data says."""
    return b"event: " + str(event["type"]).encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n"


def spoilt(
    chunks: Sequence[Chunk], fault: Fault | None, *, first: float, error: bytes, broken: bytes
) -> tuple[Chunk, ...]:
    """The chunks of a stream that begins at `first`, as a fault may spoil them.

    `error` is how the API reports an error in a stream, `broken` an event that cannot be read.
    """
    if fault is None:
        return tuple(chunks)
    sent = chunks[: fault.after_events]
    at = sent[-1].at if sent else first
    if fault.kind == "disconnect_mid_stream":
        return tuple(sent)
    if fault.kind == "overloaded_mid_stream":
        return (*sent, Chunk(at, error))
    if fault.kind == "malformed_sse":
        return (*sent, Chunk(at, broken), *chunks[fault.after_events :])
    return tuple(chunks)
