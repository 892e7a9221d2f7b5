"""Output of any length stays within its bound, in memory and in what the model sees."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from agentaccel.executors.processes import Excerpt


@given(pieces=st.lists(st.binary(max_size=40), max_size=20), cap=st.integers(1, 60))
def test_what_fits_is_kept_whole_and_of_more_the_beginning_and_the_end(pieces: list[bytes], cap: int) -> None:
    kept, whole = Excerpt(cap), b"".join(pieces).replace(b"\0", b".")
    for piece in pieces:
        kept.feed(piece.replace(b"\0", b"."))
    half = max(cap // 2, 1)
    if len(whole) <= 2 * half:
        assert kept.text() == whole.decode(errors="replace")
        assert kept.left_out == 0
    else:
        assert kept.left_out == len(whole) - 2 * half
        assert kept.text().startswith(whole[:half].decode(errors="replace"))
        assert kept.text().endswith(whole[-half:].decode(errors="replace"))


def test_memory_does_not_grow_with_the_stream() -> None:
    kept, piece = Excerpt(10_000), b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(200):
            kept.feed(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 500_000, "of 13 MB"
