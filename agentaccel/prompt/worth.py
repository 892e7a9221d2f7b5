"""What a piece of text costs where it stands, and at the end of the prompt: `volatile` has the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentaccel.facts import priors
from agentaccel.prompt.templates import Range

PRIOR_WORTH = 0.5
"""Occasions that the prior of a shape is worth once texts were compared."""

LEAST_LEFT = 0.5
"""Share that must stay of all that the operator says, or of the description of a tool."""

TOO_MUCH = "more than half of what is said there would move"
"""Why a text stays of which more changes than may be moved."""

_STAYS_MOVED = 3.0
"""A piece that is moved goes back only where that is so many times as cheap: both ways break the prefix once."""

_REFERENCE_TOKENS, _LINE_TOKENS = 14.0, 8.0
"""What a moved piece leaves in its place, read in every request, and adds at the end."""

_LONGEST = 50.0
"""Requests until a change that are looked ahead to, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a piece is weighed by."""

    now: float
    key: bytes
    """The store's, for the hashes that pieces are known by."""
    counts: Mapping[str, tuple[float, float]]
    """What is believed, by topic: (other than before, compared)."""
    write: float
    read: float
    bytes_per_token: float
    behind: Sequence[float]
    """Tokens of the prompt from the beginning of each segment on."""
    worth: float
    """That what is kept is read again: by the next request, or by another session."""
    grows: float
    """Tokens by which the prompt grows from request to request."""
    compares: bool
    """Whether this request goes on from the one before: a repeated one tells nothing."""
    in_blocks: bool = False
    """Whether the provider reads whole blocks alone, so that a change in one costs all of it."""


class Piece(NamedTuple):
    """A hole of one text in one request."""

    topic: str
    range: Range
    value: str
    shape: str
    chance: float
    """That it is another one in the next request."""
    tokens: float
    behind: float
    """Tokens that a change of it costs: those behind its beginning, or behind that of its block."""
    fresh: bool
    """Whether the prefix breaks here in this request anyway."""

    def stays(self) -> str:
        """Why it is left where it is."""
        return (
            f"to move about {max(self.tokens, 1.0):.0f} tokens in front of about {self.behind:.0f} is not expected to "
            f"pay, where they are other ones in the next request with probability {self.chance:.2f}"
        )


def fits(changed: int, size: int, room: float) -> bool:
    """Whether so much of a text of that `size` may be moved; where little stays, it is moved as a whole."""
    return changed <= room if changed <= LEAST_LEFT * size else size <= room


def pays(piece: Piece, terms: Terms, *, moved: bool = False) -> bool:
    """Whether `piece` is expected to cost less at the end; or, where it was `moved`, not much more."""
    quiet = 1 / max(1 - terms.worth * (1 - piece.chance), 1 / _LONGEST)
    behind = piece.behind + terms.grows * (quiet - 1)
    stays = piece.chance * behind * (terms.write - terms.read) * terms.worth
    goes = piece.tokens * (1 - terms.read) + _LINE_TOKENS + _REFERENCE_TOKENS * terms.read
    return stays > goes / _STAYS_MOVED if moved else stays > goes


def changed_once(shape: str, characters: float, behind: float, terms: Terms) -> Piece:
    """A piece of that shape and size that was seen to change for the first time, with so many tokens behind it."""
    chance = (1.0 + priors().moves.get(shape, 0.0) * PRIOR_WORTH) / (1.0 + PRIOR_WORTH)
    return Piece("", (0, 0), "", shape, chance, characters / terms.bytes_per_token, behind, fresh=True)
