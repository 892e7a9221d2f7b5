"""Output of any length in memory of a bounded size, and as text that a model can read."""

from __future__ import annotations


class Kept:
    """The beginning and the end of a stream of bytes; what does not fit is left out of the middle, and counted.

    >>> kept = Kept(4)
    >>> for piece in (b"ab", b"cdefg", b"hi"):
    ...     kept.feed(piece)
    >>> kept.text()
    'ab\\n[5 bytes left out]\\nhi'
    """

    __slots__ = ("_first", "_half", "_last", "_total")

    def __init__(self, cap: int) -> None:
        self._half = max(cap // 2, 1)
        self._first, self._last = bytearray(), bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        room = self._half - len(self._first)
        if room > 0:
            self._first += data[:room]
            data = data[room:]
        self._last += data[-self._half :]
        if len(self._last) > 2 * self._half:
            del self._last[: -self._half]

    @property
    def left_out(self) -> int:
        """Bytes that are not kept."""
        return max(self._total - 2 * self._half, 0)

    def text(self) -> str:
        """What is kept, as UTF-8. Bytes that are none, and NUL, which some clients and stores refuse, become U+FFFD."""
        if not self.left_out:
            return readable(bytes(self._first + self._last))
        last = self._last[-self._half :]
        return f"{readable(bytes(self._first))}\n[{self.left_out:,} bytes left out]\n{readable(bytes(last))}"


def readable(data: bytes) -> str:
    r"""Bytes as text, whatever they are.

    >>> readable(b"caf\xc3\xa9 \xff\0")
    'café ��'
    """
    return data.decode("utf-8", errors="replace").replace("\0", "\ufffd")
