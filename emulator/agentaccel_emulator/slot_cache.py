"""The physics of a server that keeps one chain of tokens in each of so many slots, as llama.cpp's does.

A request goes to the slot that begins most like it, where that is more than a tenth of its prompt, else to the one that
was used longest ago. It reads what both begin with; what else the slot held is gone. Pure, but for the slots. Source:
llama.cpp 0c1e570, `get_available_slot` and `--slot-prompt-similarity 0.1`, without its memory for prompts that have to
leave their slots (`--cache-ram 0`).

>>> def pieces(*texts):
...     return [Piece(tag=b"|user/text", data=text.encode()) for text in texts]
>>> exact, cache = Tokenizer(bytes_per_token=1.0), SlotCache(slots=1)
>>> for texts in (["a" * 100], ["a" * 100, "b" * 20], ["c" * 50], ["a" * 100]):
...     print(cache.match(b"", pieces(*texts), exact))
...     cache.keep(b"", pieces(*texts), exact)
0
100
0
0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentaccel_emulator.anthropic_prompt import Tokenizer
from agentaccel_emulator.automatic_cache import common
from agentaccel_emulator.openai_prompt import Piece

_ALIKE = 0.1
"""Share of a prompt above which a slot that begins like it is taken before one that is free."""


@dataclass(slots=True)
class _Slot:
    machine: bytes = b""
    pieces: tuple[Piece, ...] = ()
    used: int = 0
    """Which use of any slot was the last of it."""


@dataclass(slots=True)
class SlotCache:
    """What each slot has computed last."""

    slots: int
    """How many there are."""
    _slots: list[_Slot] = field(default_factory=list)
    _uses: int = 0

    def __post_init__(self) -> None:
        self._slots = [_Slot() for _ in range(self.slots)]

    def match(self, machine: bytes, pieces: Sequence[Piece], tokenizer: Tokenizer) -> int:
        """Tokens that a request begins with that are in the slot which it goes to."""
        return self._chosen(machine, pieces, tokenizer)[1]

    def keep(self, machine: bytes, pieces: Sequence[Piece], tokenizer: Tokenizer) -> None:
        """The slot that the request goes to holds its prompt, and nothing else."""
        slot, _ = self._chosen(machine, pieces, tokenizer)
        self._uses += 1
        slot.machine, slot.pieces, slot.used = machine, tuple(pieces), self._uses

    def _chosen(self, machine: bytes, pieces: Sequence[Piece], tokenizer: Tokenizer) -> tuple[_Slot, int]:
        total = sum(piece.tokens(tokenizer) for piece in pieces)
        shared = [_shared(slot.pieces, pieces, tokenizer) if slot.machine == machine else 0 for slot in self._slots]
        best = max(range(self.slots), key=shared.__getitem__)
        if shared[best] <= _ALIKE * total:
            best = min(range(self.slots), key=lambda at: self._slots[at].used)
        return self._slots[best], shared[best]


def _shared(held: Sequence[Piece], pieces: Sequence[Piece], tokenizer: Tokenizer) -> int:
    shared = 0
    for one, other in zip(held, pieces, strict=False):
        if one.tag != other.tag:
            return shared
        if one.data != other.data:
            alike = common(one.data, other.data)
            return shared + int(alike / tokenizer.bytes_per_token) * (other.fixed is None)
        shared += other.tokens(tokenizer)
    return shared
