"""Moving volatile text from the beginning of a prompt to its end, where it travels with one request alone.

What stays is the same in every request: in the place of a moved piece stands its number, and a note behind everything
else has what the numbers stand for. The next request has a note of its own in its place, so the history that was sent
only grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentaccel.hashing import identity_bytes
from agentaccel.rewrite.templates import Units
from agentaccel.rewrite.volatile import LEAST_LEFT, NAME, KnownText, PieceTerms, Taken, VolatilePiece, reference, take
from agentaccel.types import Path, Text

# --- A tool list that only grows: the order in which tools first came, with the bytes in which they first came --------


class RequestTool(NamedTuple):
    """A tool of one request."""

    key: str
    """What it is known by: its name, or its kind where it has none."""
    digest: bytes
    """As of its segment."""
    value: Any
    """Its definition without a marker; None where only another process has seen it."""
    tokens: float = 0.0


class Frozen(NamedTuple):
    """The list to send."""

    tools: tuple[RequestTool, ...]
    kept: tuple[str, ...] = ()
    """Keys of those that the request no longer has."""
    changed: bool = False
    """Whether it differs from the request's own."""
    reasons: tuple[str, ...] = ()


def freeze(now: Sequence[RequestTool], before: Sequence[RequestTool], *, keeps: float) -> Frozen | None:
    """The list to send for a request with the tools `now`, after `before`; None where it is another list altogether.

    `keeps` is up to how many tokens of tools that are no longer there are kept rather than the prefix be broken; 0
    where they cannot be refused.
    """
    by_key: Mapping[str, RequestTool] = {tool.key: tool for tool in now}
    common = sum(tool.key in by_key for tool in before)
    if not now or len(by_key) < len(now) or 2 * common < len(before):
        return None  # requests of another kind have tools of their own, and of two with one name no order is known
    removed = [tool for tool in before if tool.key not in by_key and tool.value is not None]
    gone = removed if removed and sum(tool.tokens for tool in removed) <= keeps else []
    known = {tool.key for tool in before}
    sent = [_version(tool, by_key) for tool in before if tool.key in by_key or tool in gone]
    sent += [tool for tool in now if tool.key not in known]
    if [(tool.key, tool.digest) for tool in sent] == [(tool.key, tool.digest) for tool in now]:
        return Frozen(tuple(now))
    kept = tuple(tool.key for tool in gone)
    return Frozen(tuple(sent), kept, True, tuple(_reasons(now, sent, kept)))


def _version(old: RequestTool, now: Mapping[str, RequestTool]) -> RequestTool:
    """The definition to send: the request's own, in the bytes in which it first came where only their order differs."""
    new = now.get(old.key)
    if new is None or old.value is None or old.digest == new.digest:
        return new or old
    return old if identity_bytes(old.value) == identity_bytes(new.value) else new


def _reasons(now: Sequence[RequestTool], sent: Sequence[RequestTool], kept: Sequence[str]) -> list[str]:
    order = [tool.key for tool in sent if tool.key not in kept]
    reasons = []
    if order != [tool.key for tool in now]:
        reasons.append("tools in the order in which they first came: another order is another prefix")
    digests = {tool.key: tool.digest for tool in now}
    if any(tool.key in digests and digests[tool.key] != tool.digest for tool in sent):
        reasons.append("tool definitions with their keys in the order in which they first came")
    if kept:
        reasons.append(f"kept in the tool list though the request no longer has them: {', '.join(kept)}")
    return reasons


_EMPTY = "(nothing)"


class Memory(NamedTuple):
    """What a session remembers of its last request, to arrange the next one alike; only in the process that saw it."""

    texts: Mapping[str, KnownText]
    """What is known of each text, by its name."""
    tools: tuple[RequestTool, ...]
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
    known: Mapping[str, KnownText]
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


class MoveBudget:
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
    known: dict[str, KnownText] = field(default_factory=dict)
    edits: list[tuple[Path, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    seen: list[tuple[str, float, float]] = field(default_factory=list)
    first: tuple[int, int] | None = None
    places: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    left: dict[int, str] = field(default_factory=dict)


def move(texts: Sequence[Text], known: Mapping[str, KnownText], terms: PieceTerms, *, fresh: bool) -> Moves:
    """What to move out of `texts`, in wire order; `fresh` tells that the prefix breaks in front of the first anyway."""
    gathered = _Gathered(broken=fresh, known=dict(known))
    room = MoveBudget(texts)
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
    note = "\n".join(gathered.lines)
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


def _add(gathered: _Gathered, text: Text, before: KnownText | None, taken: Taken) -> None:
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


def _without(units: Units, pieces: Sequence[VolatilePiece], first: int) -> str:
    """The text with a reference in place of each piece."""
    parts: list[str] = []
    at = 0
    for number, piece in enumerate(pieces, first):
        start, end = piece.range
        parts += [*units[at:start], reference(number), _space(units, start, end)]
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
    value = value.rstrip() or _EMPTY
    return f"[{NAME} {number}]" + ("\n" if "\n" in value else " ") + value


def _reason(text: Text, piece: VolatilePiece) -> str:
    what = f"about {max(round(piece.tokens), 1)} tokens" + ("" if piece.shape == "text" else f" with a {piece.shape}")
    return (
        f"moved to the end from {text.name}: {what}, other ones in the next request with probability "
        f"{piece.chance:.2f}, in front of about {piece.behind:.0f} tokens"
    )
