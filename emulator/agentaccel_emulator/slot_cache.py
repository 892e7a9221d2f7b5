"""The physics of a server that keeps one chain of tokens in each of so many slots, as llama.cpp's does.

A request goes to the slot that begins most like it, where that is more than a tenth of its prompt, else to the one that
was used longest ago; to one that computes a prompt only where all do. It reads what both begin with; what else the slot
held is gone. Pure, but for the slots. Source:
llama.cpp 0c1e570, `get_available_slot` and `--slot-prompt-similarity 0.1`, without its memory for prompts that have to
leave their slots (`--cache-ram 0`).

>>> def pieces(*texts):
...     return [Piece(tag=b"|user/text", data=text.encode()) for text in texts]
>>> exact, cache = Tokenizer(bytes_per_token=1.0), SlotCache(slots=1)
>>> for now, texts in enumerate((["a" * 100], ["a" * 100, "b" * 20], ["c" * 50], ["a" * 100])):
...     print(cache.match(b"", pieces(*texts), exact, now))
...     cache.keep(b"", pieces(*texts), exact, now=now, visible_at=now + 0.5)
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
    busy: float = float("-inf")
    """Until when it computes a prompt."""


@dataclass(slots=True)
class SlotCache:
    """What each slot has computed last."""

    slots: int
    """How many there are."""
    _slots: list[_Slot] = field(default_factory=list)
    _uses: int = 0

    def __post_init__(self) -> None:
        self._slots = [_Slot() for _ in range(self.slots)]

    def match(self, machine: bytes, pieces: Sequence[Piece], tokenizer: Tokenizer, now: float) -> int:
        """Tokens that a request begins with that are in the slot which it goes to."""
        return self._chosen(machine, pieces, tokenizer, now)[1]

    def keep(
        self, machine: bytes, pieces: Sequence[Piece], tokenizer: Tokenizer, *, now: float, visible_at: float
    ) -> None:
        """The slot that the request goes to holds its prompt, and nothing else; it computes until `visible_at`."""
        slot, _ = self._chosen(machine, pieces, tokenizer, now)
        self._uses += 1
        slot.machine, slot.pieces, slot.used, slot.busy = machine, tuple(pieces), self._uses, visible_at

    def _chosen(self, machine: bytes, pieces: Sequence[Piece], tokenizer: Tokenizer, now: float) -> tuple[_Slot, int]:
        total = sum(piece.tokens(tokenizer) for piece in pieces)
        free = [slot for slot in self._slots if slot.busy <= now]
        among = free or [min(self._slots, key=lambda slot: slot.busy)]  # it waits for the first that is free again
        shared = [_shared(slot.pieces, pieces, tokenizer) if slot.machine == machine else 0 for slot in among]
        best = max(range(len(among)), key=shared.__getitem__)
        if shared[best] <= _ALIKE * total:
            best = min(range(len(among)), key=lambda at: among[at].used)
        return among[best], shared[best]


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
