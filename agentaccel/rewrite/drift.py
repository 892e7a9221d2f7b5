"""Where the prompt of a turn leaves the prompt of the turn before it, and the likely reason.

Two ways in. `compare` has both requests and names the byte. `drift` has this request and a `Print` of the one before,
which holds hashes only: it names the segment and, from checksums of 64-byte pieces, the piece, and judges the cause by
what stands there now. So a live session can be explained without any content having been kept.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from agentaccel.facts import LEVELS, CacheFacts, Level
from agentaccel.hashing import identity_bytes, wire_bytes
from agentaccel.rewrite.templates import shape_at
from agentaccel.types import MARKS, Drift, Path, Prompt, Request, Segment, agreeing, show_path, value_at

# --- Texts as checksums of their pieces: enough to tell where and how far a text has changed, without its content -----

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


_ORDERED = frozenset({"tool_use", "custom", "tool_call", "function"})
"""Kinds whose key order is worth telling apart from their content."""


@dataclass(frozen=True, slots=True)
class Print:
    """What is kept of a past prompt to tell where the next one leaves it."""

    model: str
    parameters: Mapping[str, bytes]
    messages: int
    segments: tuple[Segment, ...]
    checks: tuple[bytes, ...]
    """Per segment checksums of `CHECK` bytes: one that does not depend on key order, then one per piece of the text.
    Empty where another process saw the prompt."""


def imprint(prompt: Prompt, request: Request, before: Print | None = None) -> Print:
    """The print of `request`; what `before` holds of the same segments is shared with it."""
    same = agreeing(before.segments, prompt.segments) if before is not None else 0
    known: dict[bytes, bytes] = {}
    if before is not None and same < len(before.segments):
        known = {old.digest: checks for old, checks in zip(before.segments, before.checks, strict=True)}
    checks = before.checks[:same] if before is not None else ()
    fresh = tuple(known.get(one.digest) or _checks(one, request) for one in prompt.segments[same:])
    return Print(
        model=prompt.model,
        parameters=prompt.parameters,
        messages=prompt.messages,
        segments=prompt.segments,
        checks=checks + fresh,
    )


def _checks(segment: Segment, request: Request) -> bytes:
    value = value_at(request, segment.path)
    return _unordered(segment.kind, value) + pieces_of(text_of(value))


def _unordered(kind: str, value: Any) -> bytes:
    """A checksum that does not depend on key order; zeros where that is not told apart."""
    return check_of(identity_bytes(_bare(value))) if kind in _ORDERED else bytes(CHECK)


def drift(before: Print, prompt: Prompt, request: Request, facts: CacheFacts) -> Drift | None:
    """Where `prompt` leaves the one that `before` is the print of; None where it only goes on."""
    if prompt.model != before.model:
        return Drift(
            level="parameters", where="model", likely="model switch", detail=f"{before.model} → {prompt.model}"
        )
    i = _first_difference(before, prompt)
    for level in LEVELS if before.parameters != prompt.parameters else ():
        if i is not None and i < len(before.segments) and LEVELS.index(level) > LEVELS.index(before.segments[i].level):
            break
        name = _changed_parameter(before, prompt, facts, level)
        if name is not None:
            return Drift(level="parameters", where=name, likely="changed parameter", detail=f"breaks the {level}")
    if i is None:
        return None
    if i >= len(prompt.segments):
        return Drift(level="messages", where="messages", likely="edited history", detail="the history became shorter")
    segment = prompt.segments[i]
    if segment.level == "tools" or before.segments[i].level == "tools":
        whole = _tools(before, prompt)
        if whole is not None:
            return whole
    return _inside(before, prompt, request, i)


def _first_difference(before: Print, prompt: Prompt) -> int | None:
    same = agreeing(before.segments, prompt.segments)
    later = zip(before.segments[same:], prompt.segments[same:], strict=False)
    for i, (old, new) in enumerate(later, same):
        if old.digest != new.digest:
            return i
    return len(prompt.segments) if len(prompt.segments) < len(before.segments) else None


def _changed_parameter(before: Print, prompt: Prompt, facts: CacheFacts, level: Level) -> str | None:
    for name in {**before.parameters, **prompt.parameters}:
        if before.parameters.get(name) != prompt.parameters.get(name) and level in facts.breaks(name):
            return name
    return None


def _tools(before: Print, prompt: Prompt) -> Drift | None:
    """What became of the tool list as a whole; None where one tool changed in place."""
    old = [segment for segment in before.segments if segment.level == "tools"]
    new = [segment for segment in prompt.segments if segment.level == "tools"]
    old_names, new_names = [one.name for one in old], [one.name for one in new]
    if old_names == new_names:
        return None
    if sorted(one.digest for one in old) == sorted(one.digest for one in new) or sorted(old_names) == sorted(new_names):
        return Drift(level="tools", where="tools", likely="reordered tools", detail="same tools, another order")
    added = sorted(set(new_names) - set(old_names))
    removed = sorted(set(old_names) - set(new_names))
    parts = [f"{word} {', '.join(names[:3])}" for word, names in (("added", added), ("removed", removed)) if names]
    return Drift(level="tools", where="tools", likely="changed tool set", detail="; ".join(parts))


def _inside(before: Print, prompt: Prompt, request: Request, i: int) -> Drift:
    """The change of one segment: in place, or by another standing there."""
    old, segment = before.checks[i], prompt.segments[i]
    value = value_at(request, segment.path)
    where = show_path(segment.path) + (".text" if isinstance(value, Mapping) and "text" in value else "")
    if segment.kind in _ORDERED and old[:CHECK] == _unordered(segment.kind, value):
        return Drift(level=segment.level, where=where, likely="key order", detail="same content, keys in another order")
    if not old:
        likely = "edited history" if segment.level == "messages" else "edited text"
        return Drift(level=segment.level, where=where, likely=likely, detail="made in another process")
    text = text_of(value)
    pieces, before_it = pieces_of(text), old[CHECK:]
    both = range(0, min(len(pieces), len(before_it)), CHECK)
    differing = (n for n in both if pieces[n : n + CHECK] != before_it[n : n + CHECK])
    first = next(differing, min(len(pieces), len(before_it)))
    start = first // CHECK * PIECE
    behind = start >= COMPARED
    likely = "text" if behind else _likely(text, start, start + PIECE)
    if segment.level == "messages" and (likely == "text" or not same_pieces(pieces, before_it)):
        likely = "edited history"
    place = f"behind byte {COMPARED}" if behind else f"in bytes {start} to {start + PIECE - 1}"
    detail = f"first difference {place} of {len(text)}"
    return Drift(
        level=segment.level,
        where=where,
        likely=_named(likely, segment.level),
        bytes=reach(before_it, text, segment.size - before.segments[i].size),
        detail=detail,
    )


def _likely(text: bytes, start: int, end: int) -> str:
    """The shape of what stands in bytes `start` to `end` of `text`."""
    head = text[max(start - 256, 0) : start].decode("utf-8", "replace")
    piece = text[start:end].decode("utf-8", "replace")
    near = head[-64:] + piece + text[end : end + 64].decode("utf-8", "replace")
    at = len(head[-64:])
    return shape_at(near, at, at + max(len(piece), 1))


def _named(likely: str, level: Level) -> str:
    return "edited text" if likely == "text" and level != "messages" else likely


# --- both requests at hand --------------------------------------------------------------------------------------------


def compare(old: Request, new: Request, old_prompt: Prompt, new_prompt: Prompt, facts: CacheFacts) -> Drift | None:
    """Where `new` leaves `old`, to the byte; None where it only goes on."""
    coarse = drift(imprint(old_prompt, old), new_prompt, new, facts)
    if coarse is None or coarse.level == "parameters" or coarse.where == "tools":
        return coarse
    i = _first_difference(imprint(old_prompt, old), new_prompt)
    if i is None or i >= len(new_prompt.segments):
        return coarse
    segment, before = new_prompt.segments[i], old_prompt.segments[i]
    path, byte, kind, text = _first_place(
        _bare(value_at(old, before.path)), _bare(value_at(new, segment.path)), segment.path
    )
    likely = coarse.likely
    if kind == "key order":
        likely = kind
    elif text is not None and byte is not None:
        shape = _likely(text, byte, byte + 1)
        likely = shape if shape != "text" else coarse.likely if coarse.likely == "edited history" else "edited text"
    return Drift(level=segment.level, where=show_path(path), likely=likely, byte=byte, bytes=coarse.bytes, detail=kind)


_Place = tuple[Path, int | None, str, bytes | None]
"""A path, the byte, what happened there, and the new text."""


def _first_place(old: Any, new: Any, path: Path) -> _Place:
    """The first leaf at which two JSON values differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _in_object(old, new, path)
    if isinstance(old, list) and isinstance(new, list):
        for i, (one, other) in enumerate(zip(old, new, strict=False)):
            if wire_bytes(one) != wire_bytes(other):
                return _first_place(one, other, (*path, i))
        return (*path, min(len(old), len(new))), None, "longer" if len(new) > len(old) else "shorter", None
    if isinstance(old, str) and isinstance(new, str):
        one, other = old.encode("utf-8", "surrogatepass"), new.encode("utf-8", "surrogatepass")
        byte = next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))
        return path, byte, "text differs", other
    return path, None, "value differs", None


def _in_object(old: Mapping[str, Any], new: Mapping[str, Any], path: Path) -> _Place:
    for name in new:
        if name in old and old[name] != new[name]:
            return _first_place(old[name], new[name], (*path, name))
    if list(old) != list(new) and set(old) == set(new):
        return path, None, "key order", None
    for name in new:  # equal values may still hold keys in another order
        if name in old and wire_bytes(old[name]) != wire_bytes(new[name]):
            return _first_place(old[name], new[name], (*path, name))
    changed = sorted(set(old) ^ set(new))
    return (*path, *changed[:1]), None, "added" if changed and changed[0] in new else "removed", None


def text_of(value: Any) -> bytes:
    """The text of a segment: its own where it is text, its wire bytes otherwise."""
    value = _bare(value)
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        value = value["text"]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return wire_bytes(value)


def _bare(value: Any) -> Any:
    """A block without its marker, which is no part of the prompt."""
    if isinstance(value, Mapping) and not MARKS.isdisjoint(value):
        return {name: item for name, item in value.items() if name not in MARKS}
    return value
