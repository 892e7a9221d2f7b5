"""The usage chunk that we asked for is kept from a reader who did not; every other byte goes on as it came."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.clients.usage_filter import UsageFilter

USAGE = {"prompt_tokens": 9, "completion_tokens": 2}
KEPT: list[list[str]] = [
    ['data: {"choices": [{"delta": {"content": "Grüße 🚚 \u2028"}}], "usage": null}'],
    [f'data: {{"choices": [{{"delta": {{}}}}], "usage": {json.dumps(USAGE)}}}'],
    ['data: {"choices": [], "prompt_filter_results": [], "usage": null}'],
    ['data: {"choices": [], "prompt_filter_results": []}'],
    ['data: {"error": {"message": "\\"usage\\""}}'],
    [f'data: {{"usage": {json.dumps(USAGE)}}}'],
    [f'data: {{"choices": [], "usage": {json.dumps(USAGE)}, "error": {{"message": "Down."}}}}'],
    ["data: not JSON", 'data: "usage"'],
    [': a comment with "usage" and "choices": []'],
    ["event: message", "id: 1", 'data: {"choices":', 'data: [1], "usage": {}}'],
    ["data: [DONE]"],
    [""],
]
"""Events whose bytes are the reader's, as lines."""
HIDDEN: list[list[str]] = [
    [f'data: {{"choices": [], "usage": {json.dumps(USAGE)}}}'],
    ['data:{"usage":{},"choices":[]}'],
    ['data: {"choices": [], "usage": {}, "error": null}'],
    ["event: message", 'data: {"choices": [],', 'data: "usage": {}, "x": "é"}', ": end"],
]
"""Events that hold usage and no choice."""

NEWLINES = ["\n", "\r\n", "\r"]


def written(lines: list[str], newline: str) -> bytes:
    return "".join(line + newline for line in [*lines, ""]).encode()


def filtered(pieces: Iterable[bytes]) -> list[bytes]:
    """What is passed on with each piece, and what is left at the end."""
    usage = UsageFilter()
    return [*[usage.feed(piece) for piece in pieces], usage.rest()]


def pieces_of(data: bytes, places: Iterable[int]) -> list[bytes]:
    return [data[a:b] for a, b in pairwise([0, *sorted(place % (len(data) + 1) for place in places), len(data)])]


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, bytes, list[int]]:
    """A stream, what its reader is to get, and where whole events end in that."""
    newline = draw(st.sampled_from(NEWLINES))
    events = draw(st.lists(st.sampled_from([*KEPT, *HIDDEN, *HIDDEN]), max_size=8))
    made = [(written(lines, newline), lines in KEPT) for lines in events]
    kept = [data for data, keep in made if keep]
    ends = list(accumulate(map(len, kept), initial=0))
    return b"".join(data for data, _ in made), b"".join(kept), ends


@given(streams(), st.lists(st.integers(0, 5000), max_size=60))
def test_every_byte_but_the_usage_chunk_passes_under_any_cut(
    case: tuple[bytes, bytes, list[int]], places: list[int]
) -> None:
    """Chosen by us: the reader gets what it would have got without our asking, in whole events and in order."""
    data, wanted, ends = case
    *passed, rest = filtered(pieces_of(data, places))
    assert b"".join(passed) + rest == wanted
    lengths = set(accumulate(map(len, passed)))
    assert {length for length in lengths if wanted[length : length + 1] not in (b"\r", b"\n")} <= set(ends)


@pytest.mark.parametrize("newline", NEWLINES)
@pytest.mark.parametrize("hidden", range(len(HIDDEN)))
def test_single_bytes_pass_the_same(newline: str, hidden: int) -> None:
    """Chosen by us, as above: every cut there is."""
    events = [*KEPT, HIDDEN[hidden], *KEPT]
    data = b"".join(written(lines, newline) for lines in events)
    wanted = b"".join(written(lines, newline) for lines in [*KEPT, *KEPT])
    assert b"".join(filtered(data[i : i + 1] for i in range(len(data)))) == wanted
    assert b"".join(filtered([data])) == wanted


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_event_passes_with_the_piece_that_ends_it(newline: str) -> None:
    """Chosen by us: a reader waits for nothing but the end of the event."""
    usage = UsageFilter()
    for lines in KEPT:
        data = written(lines, newline)
        assert usage.feed(data[:-1]) == b""
        assert usage.feed(data[-1:]) == data


@pytest.mark.parametrize("ends", ["\n\r\n", "\r\n\n", "\r\r\n"])
def test_ends_of_line_may_be_mixed(ends: str) -> None:
    """Mandated by the standard: each line may end in another way than the one before it."""
    hidden, kept = (lines[-1].encode() + ends.encode() for lines in (HIDDEN[0], KEPT[0]))
    for places in ([], range(999)):
        assert b"".join(filtered(pieces_of(hidden + kept + hidden, places))) == kept


def test_what_comes_last_is_passed_at_the_end() -> None:
    """Chosen by us: a stream that broke off is the reader's to judge, usage or not."""
    for lines in (KEPT[0], HIDDEN[0]):
        data = written(KEPT[0], "\n") + lines[0].encode()
        assert filtered([data]) == [written(KEPT[0], "\n"), lines[0].encode()]
    assert filtered([]) == [b""]


class _PieceByPiece(UsageFilter):
    """A filter that looks at each piece alone, as one would write it first."""

    def feed(self, chunk: bytes) -> bytes:
        return super().feed(chunk) + self.rest()


def test_the_cut_test_bites() -> None:
    """The twin: a filter that holds nothing back lets a usage chunk through that came in two pieces."""
    data = written(HIDDEN[0], "\n")
    assert b"".join(filtered([data[:20], data[20:]])) == b""
    usage = _PieceByPiece()
    assert usage.feed(data[:20]) + usage.feed(data[20:]) == data


def steps(size: int) -> tuple[int, int]:
    """Lines of our own code that are run for one event of `size` bytes in small pieces, and bytes looked at again."""
    data = written(['data: {"choices": [1], "x": "' + "y" * size + '"}'], "\n")
    usage, count, again = UsageFilter(), 0, 0

    def line(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line" and "usage_filter.py" in frame.f_code.co_filename
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        passed = b""
        for at in range(0, len(data), 4):
            again += len(usage._held) - usage._searched
            passed += usage.feed(data[at : at + 4])
    finally:
        sys.settrace(before)
    assert passed == data
    return count, again


def test_the_cost_is_linear_in_the_bytes() -> None:
    """Chosen by us: of what is held, no more than three bytes are looked at again with each piece."""
    (few, few_again), (many, many_again) = steps(8000), steps(16000)
    assert 1.9 < many / few < 2.1
    assert few_again <= 3 * 8100 / 4
    assert many_again <= 3 * 16100 / 4
