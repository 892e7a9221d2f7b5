"""Moving volatile text from the beginning of a prompt to its end, where it travels with one request alone.

What stays is the same in every request: in the place of a moved piece stands its number, and a note behind everything
else has what the numbers stand for. The next request has a note of its own in its place, so the history that was sent
only grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agentaccel.prompt.templates import Units
from agentaccel.prompt.toolset import Tool
from agentaccel.prompt.volatile import REFERENCE, Known, Taken, take
from agentaccel.prompt.worth import LEAST_LEFT, Piece, Terms
from agentaccel.types import Path, Text

HEADER = (
    "Current values of what the system prompt and the tools refer to as "
    '"[current value at the end of this conversation: NUMBER]", by that number:'
)
"""How a note begins that has moved text."""

_EMPTY = "(nothing)"


class Memory(NamedTuple):
    """What a session remembers of its last request, to arrange the next one alike; only in the process that saw it."""

    texts: Mapping[str, Known]
    """What is known of each text, by its name."""
    tools: tuple[Tool, ...]
    """The tools that were sent, in order."""
    last: tuple[int, bytes]
    """The number of segments as written, and the hash of the last one: by these a repeated request is told."""
    history: tuple[int, bytes]
    """The number of segments of its messages, and a hash of the system prompt and them, as written: by these it is told
    what goes on from it."""


class Moves(NamedTuple):
    """What to change in a request, and what to remember of it."""

    edits: tuple[tuple[Path, str], ...]
    """New text for each place that changes."""
    note: str
    """What to put at the end; empty for nothing."""
    known: Mapping[str, Known]
    """What is known of each text from now on, by its name."""
    seen: tuple[tuple[str, float, float], ...]
    """What was counted: topic, other than before, occasions."""
    first: tuple[int, int] | None
    """Where the first of the moved pieces stood: its segment, and the characters of its text before it."""
    places: frozenset[str]
    """The names of the places that something was moved from."""
    reasons: tuple[str, ...]
    left: Mapping[int, str]
    """Why what changed in a text was left where it is, by the text's segment."""


class Room:
    """How much may be moved out of texts, told in wire order.

    Of all that the operator says at least half stays where it is, and so does of the description of a tool. Behind a
    block of the operator's of which at least half stays, another one may go as a whole: a memory, say.
    """

    def __init__(self, texts: Sequence[Text]) -> None:
        self._left = LEAST_LEFT * sum(len(text.text) for text in texts if text.place != "tools")
        self._stands = False

    def of(self, text: Text) -> float:
        """Characters of `text` that may be moved."""
        if text.place == "tools":
            return LEAST_LEFT * len(text.text)
        return float(len(text.text)) if self._stands else self._left

    def moved(self, text: Text, characters: int) -> None:
        """So many of `text` are moved."""
        if text.place != "tools":
            self._left -= characters
            self._stands = self._stands or characters <= LEAST_LEFT * len(text.text)


@dataclass(slots=True)
class _Gathered:
    """What is gathered text by text. Mutable: it grows."""

    broken: bool
    known: dict[str, Known] = field(default_factory=dict)
    edits: list[tuple[Path, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    seen: list[tuple[str, float, float]] = field(default_factory=list)
    first: tuple[int, int] | None = None
    places: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    left: dict[int, str] = field(default_factory=dict)


def move(texts: Sequence[Text], known: Mapping[str, Known], terms: Terms, *, fresh: bool) -> Moves:
    """What to move out of `texts`, in wire order; `fresh` tells that the prefix breaks in front of the first anyway."""
    gathered = _Gathered(broken=fresh, known=dict(known))
    room = Room(texts)
    for text in texts:
        before = known.get(text.name)
        taken = take(text, before, terms, room=room.of(text), broken=gathered.broken)
        if isinstance(taken, str):
            gathered.broken = True
            gathered.left[text.segment] = taken
            room.moved(text, 0)
            continue
        room.moved(text, sum(len(piece.value) for piece in taken.pieces))
        _add(gathered, text, before, taken)
    note = "\n".join((HEADER, *gathered.lines)) if gathered.lines else ""
    return Moves(
        edits=tuple(gathered.edits),
        note=note,
        known=gathered.known,
        seen=tuple(gathered.seen),
        first=gathered.first,
        places=frozenset(gathered.places),
        reasons=tuple(gathered.reasons),
        left=gathered.left,
    )


def _add(gathered: _Gathered, text: Text, before: Known | None, taken: Taken) -> None:
    sent = text.text
    if taken.pieces:
        sent = _without(taken.units, taken.pieces, len(gathered.lines) + 1)
        gathered.edits.append((text.path, sent))
        if gathered.first is None:
            start, _ = taken.pieces[0].range
            gathered.first = text.segment, sum(map(len, taken.units[:start]))
        gathered.places.add(text.place)
        for piece in taken.pieces:
            gathered.lines.append(_line(len(gathered.lines) + 1, piece.value))
            gathered.reasons.append(_reason(text, piece))
    if taken.left:
        gathered.left[text.segment] = taken.left
    gathered.seen.extend(taken.seen)
    gathered.known[text.name] = taken.known._replace(sent=sent)
    gathered.broken = gathered.broken or before is None or before.sent != sent


def _without(units: Units, pieces: Sequence[Piece], first: int) -> str:
    """The text with a reference in place of each piece."""
    parts: list[str] = []
    at = 0
    for number, piece in enumerate(pieces, first):
        start, end = piece.range
        parts += [*units[at:start], f"{REFERENCE}{number}]", _space(units, start, end)]
        at = end
    return "".join([*parts, *units[at:]])


def _space(units: Units, start: int, end: int) -> str:
    """What parts a reference from what follows: told by what stands around the piece, whatever it is this time."""
    if end == len(units):
        return ""
    if start == end:
        return "\n" if start == 0 or units[start - 1].endswith("\n") else " "
    last = units[end - 1]
    blank = last[len(last.rstrip()) :]
    return "\n" if "\n" in blank else " " if blank else ""


def _line(number: int, value: str) -> str:
    value = value.rstrip()
    if not value:
        return f"{number}: {_EMPTY}"
    return f"{number}:\n{value}" if "\n" in value else f"{number}: {value}"


def _reason(text: Text, piece: Piece) -> str:
    what = f"about {max(round(piece.tokens), 1)} tokens" + ("" if piece.shape == "text" else f" with a {piece.shape}")
    return (
        f"moved to the end from {text.name}: {what}, other ones in the next request with probability "
        f"{piece.chance:.2f}, in front of about {piece.behind:.0f} tokens"
    )
