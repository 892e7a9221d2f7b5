"""Which pieces of a text keep changing, and which of them are cheaper at the end of the prompt.

A piece is found by comparing a text with what stood in its place before, or by its shape while there was nothing to
compare it with. It is known by where it stands: by keyed hashes of the units before and behind it, under which is
counted how often it was another one than in the request before. So the next session of a workload, and another
process, find it again without any content having been kept.

With q the probability that it is another one in the next request, T the tokens behind it, v its own, and w and r the
prices of a written and a read token (T counts from the beginning of its block where the provider reads whole blocks
alone), a piece that stays costs q·T·(w - r) a request, and one that is moved v·(1 - r)
and the few words around it. What stays can be moved only where it next changes, since to move it breaks the prefix; by
then the prompt has grown. With f the probability that another request follows and g the tokens by which each is longer,
T counts as it will be then, T + g·(1/(1 - f·(1 - q)) - 1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentaccel.facts import priors
from agentaccel.hashing import digest
from agentaccel.rewrite.templates import MOST_UNITS, WHOLE, Range, Template, Units, merged, stamps, units_of, with_holes
from agentaccel.types import Text

# --- What a piece of text costs where it stands, and at the end of the prompt: `volatile` has the figures -------------

PRIOR_WORTH = 0.5
"""Occasions that the prior of a shape is worth once texts were compared."""

LEAST_LEFT = 0.5
"""Share that must stay of all that the operator says, or of the description of a tool."""

TOO_MUCH = "more than half of what is said there would move"
"""Why a text stays of which more changes than may be moved."""

_STAYS_MOVED = 3.0
"""A piece that is moved goes back only where that is so many times as cheap: both ways break the prefix once."""

_REFERENCE_TOKENS, _LINE_TOKENS = 12.0, 5.0
"""What a moved piece leaves in its place, read in every request, and adds at the end."""

_LONGEST = 50.0
"""Requests until a change that are looked ahead to, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceTerms:
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


class VolatilePiece(NamedTuple):
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


def pays(piece: VolatilePiece, terms: PieceTerms, *, moved: bool = False) -> bool:
    """Whether `piece` is expected to cost less at the end; or, where it was `moved`, not much more."""
    quiet = 1 / max(1 - terms.worth * (1 - piece.chance), 1 / _LONGEST)
    behind = piece.behind + terms.grows * (quiet - 1)
    stays = piece.chance * behind * (terms.write - terms.read) * terms.worth
    goes = piece.tokens * (1 - terms.read) + _LINE_TOKENS + _REFERENCE_TOKENS * terms.read
    return stays > goes / _STAYS_MOVED if moved else stays > goes


def changed_once(shape: str, characters: float, behind: float, terms: PieceTerms) -> VolatilePiece:
    """A piece of that shape and size that was seen to change for the first time, with so many tokens behind it."""
    chance = (1.0 + priors().moves.get(shape, 0.0) * PRIOR_WORTH) / (1.0 + PRIOR_WORTH)
    return VolatilePiece("", (0, 0), "", shape, chance, characters / terms.bytes_per_token, behind, fresh=True)


TOPIC = "moves/"
"""What is counted of a piece stands under this, the name of its text and the hashes of what stands around it."""

NAME = "current value"
"""What a moved piece is called, with its number: where it stood, and at the end."""

_ELSEWHERE = ", at the end of this conversation]"
_MOVED = re.compile(rf"\[{NAME} \d+{re.escape(_ELSEWHERE)}")
"""What `reference` gives."""


def reference(number: int) -> str:
    """What stands in place of the moved piece with that number.

    >>> reference(1)
    '[current value 1, at the end of this conversation]'
    """
    return f"[{NAME} {number}{_ELSEWHERE}"


_MOST_HOLES = 8
"""Pieces of one text that are told apart."""


class KnownText(NamedTuple):
    """What a session knows of one text. The strings are the caller's own."""

    text: str
    template: Template
    sent: str
    """The text as it was sent."""
    values: Mapping[str, str]
    """What stood in each hole, by its topic."""
    moved: frozenset[str]
    """Topics of the holes that were moved."""
    compared: int
    """How often it was compared."""


class Taken(NamedTuple):
    """What becomes of one text."""

    known: KnownText
    pieces: tuple[VolatilePiece, ...]
    """Those that are moved, in order."""
    units: Units
    seen: tuple[tuple[str, float, float], ...]
    """What was counted: topic, other than before, occasions."""
    left: str = ""
    """Why the first piece that changed was left where it is; empty where none was."""


def take(text: Text, before: KnownText | None, terms: PieceTerms, *, room: float, broken: bool) -> Taken | str:
    """What to move out of `text`, `room` characters at most; why nothing is, where it is another text than the known.

    `broken` tells that the prefix breaks in front of it anyway, so that a change of mind costs nothing.
    """
    units = units_of(text.text, words=text.place == "tools")
    if _MOVED.search(text.text):
        return "it was moved out of before this request came here"
    if len(units) > MOST_UNITS:
        return "it is too long to be compared"
    template = _first(text, units, terms) if before is None else before.template
    if before is not None and template.match(units) is None:
        template = merged(template, units)
        changed = len(text.text) - template.stable
        if not fits(changed, len(text.text), room):
            return TOO_MUCH
        if changed > LEAST_LEFT * len(text.text) or template.holes > _MOST_HOLES:
            if len(text.text) > room:
                return TOO_MUCH
            template = WHOLE
    found = _Found(units, template, template.match(units) or ())
    return _decided(text, before, terms, found, room=room, broken=broken)


class _Found(NamedTuple):
    units: Units
    template: Template
    holes: tuple[Range, ...]


def _decided(
    text: Text, before: KnownText | None, terms: PieceTerms, found: _Found, *, room: float, broken: bool
) -> Taken:
    units, template, holes = found
    compares = before is not None and terms.compares
    seen: list[tuple[str, float, float]] = []
    pieces: list[VolatilePiece] = []
    values: dict[str, str] = {}
    survives, left = 1.0, ""
    for hole, (start, end) in enumerate(holes):
        topic, value = topic_of(text, template, hole, terms.key), "".join(units[start:end])
        values[topic] = value
        changed = before is not None and before.values.get(topic) != value
        if compares and before is not None:
            was = 1.0 if topic in before.values else before.compared + 1.0
            seen.append((topic, float(changed), was))
        fresh = broken or before is None or (changed and topic not in before.moved)
        piece = _piece(text, units, (start, end), (topic, value, fresh), (terms, seen, survives))
        if len(value) <= room and _moves(piece, before, terms):
            pieces.append(piece)
            room -= len(value)
        else:
            if (changed or before is None) and not left:
                left = TOO_MUCH if len(value) > room else piece.stays()
            broken = broken or changed
            survives *= 1 - piece.chance
    known = KnownText(
        text=text.text,
        template=template,
        sent="",
        values=values,
        moved=frozenset(piece.topic for piece in pieces),
        compared=0 if before is None else before.compared + compares,
    )
    return Taken(known, tuple(pieces), units, tuple(seen), left)


def _piece(
    text: Text,
    units: Units,
    range_: Range,
    named: tuple[str, str, bool],
    weighed: tuple[PieceTerms, Sequence[tuple[str, float, float]], float],
) -> VolatilePiece:
    (topic, value, fresh), (terms, seen, survives) = named, weighed
    before = 0 if terms.in_blocks else sum(len(unit) for unit in units[: range_[0]])
    shape = shape_of(value, terms.now)
    return VolatilePiece(
        topic=topic,
        range=range_,
        value=value,
        shape=shape,
        chance=_chance(topic, shape, terms, seen),
        tokens=len(value.encode("utf-8", "replace")) / terms.bytes_per_token,
        behind=max(terms.behind[text.segment] - before / terms.bytes_per_token, 0.0) * survives,
        fresh=fresh,
    )


def _chance(topic: str, shape: str, terms: PieceTerms, seen: Sequence[tuple[str, float, float]]) -> float:
    """How likely a piece is another one in the next request; what was compared and never was another one, never is."""
    yes, of = terms.counts.get(topic, (0.0, 0.0))
    for name, more, occasions in seen:
        if name == topic:
            yes, of = yes + more, of + occasions
    prior = priors().moves.get(shape, 0.0)
    if of and not yes:
        return 0.0
    return (yes + prior * PRIOR_WORTH) / (of + PRIOR_WORTH) if of else prior


def _moves(piece: VolatilePiece, before: KnownText | None, terms: PieceTerms) -> bool:
    """Whether `piece` goes to the end. Where the prefix does not break anyway, it stays where it was."""
    moved = before is not None and piece.topic in before.moved
    if not piece.fresh:
        return moved
    return pays(piece, terms, moved=moved)


def shape_of(value: str, now: float) -> str:
    """The most telling shape in a piece, or "text"."""
    known = priors().moves
    return max((one.shape for one in stamps(value, now)), key=lambda shape: known.get(shape, 0.0), default="text")


# --- where pieces stand -----------------------------------------------------------------------------------------------


def topic_of(text: Text, template: Template, hole: int, key: bytes) -> str:
    """The topic that a hole is counted under."""
    ends = "".join(_mark(unit, key) for unit in template.around(hole))
    return f"{TOPIC}{text.name}/{ends}"


_EDGE = "-" * 8
"""In place of a hash, for the beginning or the end of the text."""


def _mark(unit: str | None, key: bytes) -> str:
    return _EDGE if unit is None else digest(unit.encode("utf-8", "surrogatepass"), key).hex()[: len(_EDGE)]


def _first(text: Text, units: Units, terms: PieceTerms) -> Template:
    """The holes of a text that nobody has seen in this session: those that others showed, and what looks like one."""
    start = f"{TOPIC}{text.name}/"
    ends = [topic[len(start) :] for topic, (yes, _) in terms.counts.items() if yes and topic.startswith(start)]
    holes = list(_known(units, ends, terms.key)) if ends else []
    at = 0
    bounds = [0]
    for unit in units:
        at += len(unit)
        bounds.append(at)
    for stamp in stamps(text.text, terms.now):
        first = next(i for i in range(len(units)) if bounds[i + 1] > stamp.start)
        last = next(i for i in range(first, len(units)) if bounds[i + 1] >= stamp.end)
        if not any(begin <= first and last < end for begin, end in holes):
            holes.append((first, last + 1))
    template = with_holes(units, holes)
    return template if template.holes <= _MOST_HOLES else Template((units,))


def _known(units: Units, ends: Sequence[str], key: bytes) -> Iterator[Range]:
    """The holes between units whose hashes are `ends`."""
    marks = [_mark(unit, key) for unit in units]
    for one in ends:
        before, behind = one[: len(_EDGE)], one[len(_EDGE) :]
        if before != _EDGE and before not in marks:
            continue
        start = 0 if before == _EDGE else marks.index(before) + 1
        if behind == _EDGE:
            yield start, len(units)
        elif behind in marks[start:]:
            yield start, marks.index(behind, start)
