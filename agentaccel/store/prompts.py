"""Prompts back from a trace store: what was sent in every turn, as far as hashes, kinds, roles and sizes tell.

Not kept, and hence not told: where a segment stood in the request, whether content was a string or a list, parameters
such as `tool_choice`, and whether a text was blank. So

- a message ends where the role changes: neighbouring messages of one role come back as one;
- a marker is found again by counting messages and blocks, and one that such a count does not lead to is left out;
- a prefix that a changed parameter broke seems to have come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agentaccel.facts import CacheFacts
from agentaccel.records import TurnRecord
from agentaccel.store.codec import load_turn
from agentaccel.store.store import Store
from agentaccel.types import Marker, Path, Prompt, Segment

_CHUNK = 200
"""Turns read at a time."""

_EMPTY_TEXT = len('{"type":"text","text":""}')
"""Bytes of a text block without text, which can carry no marker."""


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """One turn of a store with its prompt."""

    record: TurnRecord
    segments: tuple[Segment, ...]
    """In wire order, with paths as counted back."""
    markers: tuple[Marker, ...]
    """The user's own markers, on paths of `segments`; the top-level one as it was."""
    sent: tuple[Marker, ...]
    """All markers as sent, ours included."""

    def prompt(self, model: str, facts: CacheFacts) -> Prompt:
        """The prompt as a request to `model`; what may carry a marker is concluded from kinds and sizes."""
        segments = tuple(_again(one, one.path, _markable(one, facts)) for one in self.segments)
        return Prompt(
            provider=facts.provider,
            platform=facts.platform,
            model=model,
            segments=segments,
            parameters={},
            markers=self.markers,
            messages=len({one.path[1] for one in segments if one.level == "messages"}),
            stream=self.record.streamed,
            held=self.record.held,
        )


def kept_turns(store: Store) -> Iterator[StoredTurn]:
    """Every turn of an agent in `store`, oldest first; rows that cannot be read are left out and counted in
    `store.skipped`. Among them are requests of our own, which are no turns of anybody's (`OURS`).

    Raises TraceError where the file cannot be read.
    """
    after = (float("-inf"), -1)
    with store.legible():
        while rows := _rows(store, after):
            after = (rows[-1][0], rows[-1][1])
            for _, _, *ends, record in rows:
                try:
                    turn = load_turn(record)
                except (ValueError, TypeError, KeyError, AttributeError):
                    store.skipped += 1
                    continue
                segments = _placed([one for end in ends if end for one in store.chain_to(end)])
                sent = _markers(turn.markers, segments)
                yield StoredTurn(turn, segments, tuple(one for one in sent if not one.ours), sent)


def _rows(store: Store, after: tuple[float, int]) -> list[tuple[float, int, int, int, int, bytes]]:
    with store.database.using() as connection:
        rows: list[tuple[float, int, int, int, int, bytes]] = connection.execute(
            "SELECT started, id, tools, system, messages, CAST(record AS BLOB) FROM turns"
            " WHERE (started, id) > (?, ?) ORDER BY started, id LIMIT ?",
            (*after, _CHUNK),
        ).fetchall()
    return rows


def _placed(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """`segments` with paths: counted within tools and system, and by changes of role within the messages."""
    placed: list[Segment] = []
    message, block, role = -1, 0, None
    counts = {"tools": 0, "system": 0}
    for segment in segments:
        path: Path
        if segment.level == "messages":
            new = segment.role != role
            message, block, role = message + new, 0 if new else block + 1, segment.role
            path = ("messages", message, "content", block)
        else:
            path = (segment.level, counts[segment.level])
            counts[segment.level] += 1
        placed.append(_again(segment, path, markable=False))
    return tuple(placed)


def _again(segment: Segment, path: Path, markable: bool) -> Segment:
    """`segment` at `path`."""
    return Segment(
        level=segment.level,
        path=path,
        kind=segment.kind,
        role=segment.role,
        name=segment.name,
        digest=segment.digest,
        size=segment.size,
        markable=markable,
    )


def _markers(markers: Sequence[Marker], segments: Sequence[Segment]) -> tuple[Marker, ...]:
    known = {segment.path for segment in segments}
    found: list[Marker] = []
    for marker in markers:
        path = _block(marker.path)
        if path == () or path in known:
            found.append(replace(marker, path=path))
    return tuple(found)


def _block(path: Path) -> Path:
    """The segment that a marker's path lies in; content given as a string is its only block."""
    if path[:1] == ("messages",):
        return (*path, "content", 0)[:4] if len(path) < 3 else (*path, 0)[:4]
    return (*path, 0)[:2] if path else ()


def _markable(segment: Segment, facts: CacheFacts) -> bool:
    if segment.level == "tools":
        return segment.kind in facts.markable_tools
    if segment.kind == "text":
        return segment.size > _EMPTY_TEXT
    return segment.kind in facts.markable_blocks
