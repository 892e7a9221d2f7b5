"""Amazon's event stream, against botocore's own decoder and that of the anthropic SDK."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder
from botocore.eventstream import EventStreamBuffer, ParserError
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.wire.sse import EventStream, SseParser
from tests.wire.bodies import JSON
from tests.wire.replies import call, cut, end, read, sse, start, text

Header = tuple[str, int, bytes]

SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type, where the type says it."""


def frame(headers: Iterable[Header], payload: bytes) -> bytes:
    """One message in the format that the AWS SDKs document."""
    packed = b""
    for name, kind, value in headers:
        size = struct.pack(">H", len(value)) if kind in (6, 7) else b""
        packed += struct.pack(">B", len(name.encode())) + name.encode() + bytes([kind]) + size + value
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return message + struct.pack(">I", zlib.crc32(message))


def strings(**headers: str) -> list[Header]:
    return [(f":{name.replace('_', '-')}", 7, value.encode()) for name, value in headers.items()]


EVENT = strings(event_type="chunk", content_type="application/json", message_type="event")


def event(data: bytes, *, headers: list[Header] = EVENT) -> bytes:
    """A message that holds one event, as Bedrock sends it: padded, so that its size tells nothing."""
    payload = json.dumps({"bytes": base64.b64encode(data).decode(), "p": "abcdefghij"})
    return frame(headers, payload.encode())


REPLY = [start(), *text("Grüße 🚚 \u2028 end"), *call("search", ['{"q": "Prüf', 'ung"}'], 1), *end("tool_use")]
FRAMES = b"".join(event(json.dumps(one, ensure_ascii=False).encode()) for one in REPLY)


def read_by_us(pieces: Iterable[bytes]) -> list[Any]:
    """The events that come out, as JSON."""
    frames, parser = EventStream(), SseParser()
    return [json.loads(data) for piece in pieces for _, data in parser.feed(frames.decompress(piece))]


def read_by_botocore(pieces: Iterable[bytes]) -> list[Any]:
    """The same by botocore's decoder, and by what is documented of its messages."""
    buffer, found = EventStreamBuffer(), []
    for piece in pieces:
        buffer.add_data(piece)
        for message in buffer:
            if message.headers.get(":message-type") in ("exception", "error"):
                kind = message.headers.get(":exception-type") or message.headers.get(":error-code") or "error"
                found.append({"type": "error", "error": {"type": kind}})
                continue
            body = json.loads(message.payload)
            if isinstance(body, dict) and "bytes" in body:
                found.append(json.loads(base64.b64decode(body["bytes"])))
    return found


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Any message: an event among headers of every type, an exception, or something that is no event."""
    odd = [
        (f"x-{at}", kind, draw(st.binary(min_size=SIZES.get(kind, 0), max_size=SIZES.get(kind, 5))))
        for at, kind in enumerate(draw(st.lists(st.sampled_from([*SIZES, 6]), max_size=3)))
    ]
    headers = draw(st.permutations([*EVENT, *odd]))
    match draw(st.sampled_from(["event", "event", "pretty", "exception", "error", "other"])):
        case "event":
            return event(json.dumps(draw(JSON)).encode(), headers=headers)
        case "pretty":
            return event(json.dumps({"a": draw(JSON)}, indent=1).encode(), headers=headers)
        case "exception":
            return frame(strings(message_type="exception", exception_type="throttlingException"), b'{"message":"m"}')
        case "error":
            return frame(strings(message_type="error", error_code="InternalFailure", error_message="m"), b"")
    return frame(headers, json.dumps({"other": draw(JSON)}).encode())


@given(st.lists(messages(), max_size=6), st.lists(st.integers(0, 5000), max_size=40))
def test_any_cut_gives_the_events_that_botocore_reads(made: list[bytes], places: list[int]) -> None:
    """Mandated by the format: what a message holds does not depend on how the network cut it."""
    data = b"".join(made)
    assert read_by_us(cut(data, places)) == read_by_us([data]) == read_by_botocore(cut(data, places))


@pytest.mark.slow
def test_single_bytes_give_the_events_that_the_sdk_reads() -> None:
    """Mandated by the anthropic SDK, which reads Bedrock's streams with botocore; every cut there is."""
    pieces = [FRAMES[i : i + 1] for i in range(len(FRAMES))]
    by_sdk = [json.loads(one.data) for one in AWSEventStreamDecoder().iter_bytes(iter(pieces))]
    assert read_by_us(pieces) == by_sdk == REPLY


def test_a_reply_in_frames_tells_what_it_tells_as_server_sent_events() -> None:
    """Mandated by the provider: one reply, whichever way it is wrapped."""
    frames = EventStream()
    pieces = [frames.decompress(piece) for piece in cut(FRAMES, range(0, len(FRAMES), 11))]
    assert read(pieces) == read([sse(REPLY)])


@given(st.integers(0, len(FRAMES) - 1), st.integers(1, 255), st.lists(st.integers(0, 5000), max_size=6))
def test_a_corrupt_frame_is_refused(at: int, flip: int, places: list[int]) -> None:
    """Mandated by the format, whose sums are there for this: whatever byte is another, by us as by botocore."""
    data = FRAMES[:at] + bytes([FRAMES[at] ^ flip]) + FRAMES[at + 1 :]
    with pytest.raises(ValueError, match="event stream"):
        read_by_us(cut(data, places))
    with pytest.raises(ParserError):
        read_by_botocore(cut(data, places))


def test_a_frame_that_says_it_is_too_long_is_refused_at_once() -> None:
    """Mandated by the format: nothing is held for a message that could not be one."""
    for length, headers in ((2**31, 0), (25 * 1024 * 1024, 0), (20, 8), (15, 0)):
        prelude = struct.pack(">II", length, headers)
        with pytest.raises(ValueError, match="not a frame"):
            EventStream().decompress(prelude + struct.pack(">I", zlib.crc32(prelude)))


@given(st.binary(min_size=12, max_size=60))
def test_bytes_that_are_no_frames_are_refused(data: bytes) -> None:
    """Chosen by us: better no word on a reply than a wrong one."""
    with pytest.raises(ValueError, match="event stream"):
        EventStream().decompress(data)


@pytest.mark.parametrize(
    "payload", [b"", b"null", b"[1]", b"words", b'{"bytes": 5}', b'{"bytes": "%%%"}', b'{"p": "a"}', b'{"bytes": "YWJ']
)
def test_a_message_that_holds_no_event_is_passed_over(payload: bytes) -> None:
    """Chosen by us: the frame is sound, and what we do not understand is the SDK's to read."""
    data = frame(EVENT, payload) + FRAMES
    assert read_by_us([data]) == REPLY


def test_what_is_whole_is_not_held() -> None:
    """Chosen by us: memory is bounded by one frame, however long the reply."""
    frames = EventStream()
    for _ in range(3):
        frames.decompress(FRAMES)
        assert len(frames._held) == 0
