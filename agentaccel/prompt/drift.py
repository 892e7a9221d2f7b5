"""Where the prompt of a turn leaves the prompt of the turn before it, and the likely reason.

Two ways in. `compare` has both requests and names the byte. `drift` has this request and a `Print` of the one before,
which holds hashes only: it names the segment and, from checksums of 64-byte pieces, the piece, and judges the cause by
what stands there now. So a live session can be explained without any content having been kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentaccel.canonical import identity_bytes, wire_bytes
from agentaccel.facts import LEVELS, CacheFacts, Level
from agentaccel.prompt.pieces import CHECK, COMPARED, PIECE, check_of, pieces_of, reach, same_pieces
from agentaccel.prompt.shapes import shape_at
from agentaccel.types import MARKS, Drift, Path, Prompt, Request, Segment, agreeing, show_path, value_at

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


# --- both requests at hand ------------------------------------------------------------------------------------------


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
