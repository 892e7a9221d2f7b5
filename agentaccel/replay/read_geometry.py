"""Prefix traces without text: one JSON object a session, with a hash for every full block of each prompt.

Equal hashes are equal blocks behind equal prefixes, so which prefixes were the same is known exactly, and so are
times and totals. Blocks become segments as follows: a segment ends where tools or instructions end, where a request
ended, where the reply in it ended (by its number of tokens), and where two prompts part. So one message is one
segment, a text whatever it was, and look-back limits are hardly modelled. The tokens behind the last full block belong
to the last segment.
Hashes are local to a session: sharing between sessions cannot be seen. Sessions say no date: each begins when the one
before has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentaccel.cache.pauses import TOOL, USER
from agentaccel.facts import Level
from agentaccel.replay.pace import first_byte_of
from agentaccel.replay.runs import Run, Step
from agentaccel.replay.source import Rules
from agentaccel.replay.synthetic import Piece, identity, rendered

Json = Mapping[str, Any]

WORKLOAD = "prefix traces"


def is_geometry(value: object) -> bool:
    """Whether a parsed file is one session of this format."""
    if not isinstance(value, dict) or not isinstance(value.get("requests"), list) or not value.get("block_size"):
        return False
    return all(isinstance(one, dict) and ("hash_ids" in one or "requests" in one) for one in value["requests"])


def runs_of_session(session: Json, begin: float, rules: Rules) -> Iterator[Run]:
    """The session, which begins at `begin`, and its sub-agents, each a run of its own.

    Raises KeyError, TypeError or ValueError where a field is missing or is not what it should be.
    """
    name = str(session["id"])
    yield from _runs(name, session["requests"], session, begin, rules)


def _runs(name: str, entries: Sequence[Json], session: Json, begin: float, rules: Rules) -> Iterator[Run]:
    requests = [one for one in entries if one.get("hash_ids")]
    if requests:
        yield Run(id=name, workload=WORKLOAD, steps=tuple(_steps(name, requests, session, begin, rules)))
    for number, one in enumerate(entries):
        if isinstance(one.get("requests"), list):
            yield from _runs(f"{name}/{number}", one["requests"], session, begin, rules)


def _steps(name: str, requests: Sequence[Json], session: Json, begin: float, rules: Rules) -> Iterator[Step]:
    blocks = _Blocks(int(session["block_size"]), name, _static(session))
    for before, request in zip([None, *requests], requests, strict=False):
        blocks.see(request, before)
    step: Step | None = None
    for request, following in zip(requests, [*requests[1:], None], strict=True):
        model, facts = rules.of(str(request.get("model", "")))
        prefix, tokens = rendered(blocks.pieces(request), model, facts, step)
        started = begin + float(request["t"])
        first = started + float(request["ttft"]) if request.get("ttft") else None
        finished = started + float(request["api_time"]) if request.get("api_time") else None
        visible = first_byte_of(started, first, finished)
        step = Step(
            prefix=prefix,
            tokens=tokens,
            started=started,
            visible=visible,
            finished=finished,
            awaits=_awaits(request, following),
        )
        yield step


def _awaits(request: Json, following: Json | None) -> str:
    """What the reply asked for: as it said, or as the next request shows; empty where neither does."""
    stop = str(request.get("stop") or "")
    if stop or following is None:
        return _AWAITS.get(stop, "")
    return TOOL if "tool_result" in (following.get("input_types") or ()) else USER


_AWAITS = {"tool_use": TOOL, "end_turn": USER}
"""What a reply asks for, by why it stopped."""


def _static(session: Json) -> tuple[tuple[Level, int], ...]:
    """The static levels, each with the tokens of the prefix that ends with it."""
    tools = int(session.get("tool_tokens") or 0)
    return ("tools", tools), ("system", tools + int(session.get("system_tokens") or 0))


@dataclass(slots=True)
class _Blocks:
    """What the requests of a session show about its blocks. Mutable: `see` every request before asking for pieces."""

    size: int
    name: str
    static: tuple[tuple[Level, int], ...]
    _cuts: set[int] = field(default_factory=set)
    """Blocks that a segment ends with."""
    _roles: dict[int, str] = field(default_factory=dict)
    """The role of every block."""

    def see(self, request: Json, before: Json | None) -> None:
        """Take in what `request` adds to the one before it."""
        ids: Sequence[int] = request["hash_ids"]
        shared = next((i for i, block in enumerate(ids) if block not in self._roles), len(ids))
        replied = shared
        if before is not None and shared == len(before["hash_ids"]):
            replied = min(shared + int(before.get("out") or 0) // self.size, max(len(ids) - 1, shared))
        for i in range(shared, len(ids)):
            self._roles[ids[i]] = "assistant" if i < replied else "user"
        ends = {shared, replied, len(ids), *(tokens // self.size for _, tokens in self.static)}
        self._cuts.update(ids[end - 1] for end in ends if 0 < end <= len(ids))

    def pieces(self, request: Json) -> list[Piece]:
        """The prompt of `request`."""
        ids: Sequence[int] = request["hash_ids"]
        pieces: list[Piece] = []
        start = 0
        for i, block in enumerate(ids):
            if block not in self._cuts and i + 1 < len(ids):
                continue
            tokens = (i + 1 - start) * self.size
            if i + 1 == len(ids):
                tokens += max(int(request["in"]) - len(ids) * self.size, 0)
            pieces.append(self._piece(start, block, tokens))
            start = i + 1
        return pieces

    def _piece(self, start: int, last: int, tokens: int) -> Piece:
        levels: list[Level] = [level for level, end in self.static if start < end // self.size]
        level = levels[0] if levels else "messages"
        role = self._roles[last] if level == "messages" else ""
        return Piece(level, role, tokens, identity(self.name, last))
