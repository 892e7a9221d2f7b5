"""Texts as checksums of their pieces: enough to tell where and how far a text has changed, without its content."""

from __future__ import annotations

import operator
from zlib import crc32

PIECE = 64
"""Bytes per checksum."""
CHECK = 2
"""Bytes kept of a checksum: one change in 65,536 is placed behind where it is."""
_KEPT = (1 << 8 * CHECK) - 1
APART = 256
"""Bytes between two changes of one text from which both count by themselves."""
_LAST_PIECES = 8
"""By how many of its last pieces a text is found again that stands further behind."""
_MOST_PIECES = 256
"""Checksums kept per segment."""
COMPARED = PIECE * _MOST_PIECES
"""Bytes of a text that are compared: a change behind these is placed in the block, not in a piece."""


def pieces_of(text: bytes) -> bytes:
    """One check for each piece of `text`, as far as they are kept."""
    size = min(len(text), COMPARED)
    return b"".join([(crc32(text[i : i + PIECE]) & _KEPT).to_bytes(CHECK, "little") for i in range(0, size, PIECE)])


def check_of(data: bytes) -> bytes:
    """What is kept of `data`."""
    return (crc32(data) & _KEPT).to_bytes(CHECK, "little")


def same_pieces(one: bytes, other: bytes) -> bool:
    """Whether any piece stands in the same place in both."""
    return any(one[i : i + CHECK] == other[i : i + CHECK] for i in range(0, min(len(one), len(other)), CHECK))


def reach(old: bytes, text: bytes, longer: int) -> int | None:
    """How many bytes of `text` changed; None where no piece did. `old` are the pieces of a text about so much shorter.

    What follows a change of another length stands elsewhere: a piece is looked for in its place and that much further.
    """
    checks = [old[i : i + CHECK] for i in range(0, len(old), CHECK)]
    further = _further(checks, text, longer)
    changed = [n for n, check in enumerate(checks) if check not in (_at(text, n), _at(text, n, further))]
    if not changed:
        return None
    pieces = 1 + sum(step if step <= APART // PIECE else 1 for step in map(operator.sub, changed[1:], changed))
    return min(max(pieces - -further // PIECE, 1) * PIECE, len(text))


def _further(checks: list[bytes], text: bytes, longer: int) -> int:
    """By how much the last pieces of the old text stand further behind in `text`: about as much as it is longer.

    The old text's own length is not kept. It is known to a piece by their number, or else by the wire bytes.
    """
    whole = len(checks) < _MOST_PIECES
    likely = range(len(text) - len(checks) * PIECE, len(text) - (len(checks) - 1) * PIECE)
    if not whole or longer == 0:
        likely = range(longer - PIECE // 2, longer + PIECE // 2)
    last = range(max(len(checks) - 1 - _LAST_PIECES, 0), len(checks) - 1)

    def fits(further: int) -> tuple[int, int]:
        return sum(_at(text, n, further) == checks[n] for n in last), -abs(further - longer)

    if longer in likely and fits(longer)[0] == len(last):
        return longer  # none can fit better
    return max(likely, key=fits)


def _at(text: bytes, n: int, further: int = 0) -> bytes:
    """The check of piece `n` where it stands so much further behind."""
    return check_of(text[max(n * PIECE + further, 0) : max((n + 1) * PIECE + further, 0)])
