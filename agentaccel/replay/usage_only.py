"""Conversations of which only the usage was recorded: prompts whose prefixes follow from the counts.

The prompt of a run is rebuilt as follows, and every such run is marked as inferred:

- It begins with a *static head* of tools and instructions. How long: the least that any request of the run read, where
  that is less than its first prompt (a first request reads what other sessions wrote, and a cut history leaves the
  head); else the least of any run of its workload; else none is known and nothing is shared between sessions. Runs of
  one workload share a head if it has the same number of tokens.
- A prompt that is no shorter than the one before goes on from it; what is new is the reply and the next message, half
  each, because logs count replies while they are being streamed.
- A prompt that is shorter had its history cut: what it read of the cache is kept, else the head, and the rest is new.
- A request that read far less than the one before had left in the cache, although no pause explains that, had its
  prompt changed there. *Far* is the importers' measure. Where times are not recorded a pause may explain anything,
  and a request that read nothing says nothing of its prompt: entries go all at once.

Places are rounded to the nearest end of an earlier request. One message is one segment, so look-back limits are not
modelled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentaccel.facts import CacheFacts
from agentaccel.records import TurnRecord
from agentaccel.replay.pace import first_byte_of
from agentaccel.replay.runs import Run, Step
from agentaccel.replay.source import Rules
from agentaccel.replay.synthetic import Piece, identity, rendered
from agentaccel.sources.infer import NAMED_SHARE, NAMED_TOKENS

Turns = Sequence[TurnRecord]


def runs_from_usage(sessions: Mapping[str, Turns], rules: Rules) -> list[Run]:
    """One run for each of `sessions`, its answered requests in order; those without a count are left out."""
    uncounted = sum(turn.outcome == "ok" and not turn.usage.input for turns in sessions.values() for turn in turns)
    rules.passed.update({("requests", "their tokens are not known"): uncounted} if uncounted else {})
    counted = {name: [turn for turn in turns if turn.usage.input] for name, turns in sessions.items()}
    counted = {name: turns for name, turns in counted.items() if turns}
    heads = _heads(counted)
    return [_run(name, turns, heads[name], rules) for name, turns in counted.items()]


def logged_workload(turn: TurnRecord) -> str:
    """What statistics of a logged conversation are learned for: its agent, else its model; no log tells its tools."""
    return f"agent {turn.agent}" if turn.agent else f"model {turn.model}"


def _heads(sessions: Mapping[str, Turns]) -> dict[str, int]:
    """Tokens of each session's static head; 0 where nothing tells."""
    own = {name: _own_head(turns) for name, turns in sessions.items()}
    by_workload: dict[str, int] = {}
    for name, head in own.items():
        workload = logged_workload(sessions[name][0])
        if head:
            by_workload[workload] = min(head, by_workload.get(workload, head))
    heads = {}
    for name, turns in sessions.items():
        head = own[name] or by_workload.get(logged_workload(turns[0]), 0)
        heads[name] = head if head < (turns[0].usage.input or 0) else 0
    return heads


def _own_head(turns: Turns) -> int:
    first = turns[0].usage.input or 0
    return min((turn.usage.read for turn in turns if turn.usage.read and turn.usage.read < first), default=0)


def _run(name: str, turns: Turns, head: int, rules: Rules) -> Run:
    workload = logged_workload(turns[0])
    transcript = _Transcript(name=name, workload=workload, head=head)
    steps: list[Step] = []
    for turn in turns:
        model, facts = rules.of(turn.model, turn.platform)
        transcript.take(turn, facts)
        prefix, tokens = rendered(transcript.pieces, model, facts, steps[-1] if steps else None, transcript.kept)
        steps.append(
            Step(
                prefix=prefix,
                tokens=tokens,
                started=turn.started,
                visible=first_byte_of(turn.started, turn.first_byte, turn.finished),
                finished=turn.finished,
                recorded=turn.usage,
                turn=turn,
            )
        )
    return Run(id=name, workload=workload, steps=tuple(steps), inferred=True)


@dataclass(slots=True, kw_only=True)
class _Transcript:
    """The prompt of one run as it goes. Mutable: it is rebuilt request by request."""

    name: str
    workload: str
    head: int
    pieces: list[Piece] = field(default_factory=list)
    kept: int = 0
    """How many of them the prompt before had, too."""
    before: TurnRecord | None = None
    _lifetimes: set[str] = field(default_factory=set)
    _made: int = 0
    _ends: list[int] = field(default_factory=lambda: [0])
    """Tokens before each piece, and those of all."""

    def take(self, turn: TurnRecord, facts: CacheFacts) -> None:
        """Bring the prompt up to the one that `turn` sent."""
        total = turn.usage.input or 0
        if self.before is None:
            self._begin(total)
        else:
            self._cut(_kept(self.before, turn, self.head, self._pause_allowed(facts)), total)
            room = total - self._ends[-1]
            self._add("assistant", room // 2)
            self._add("user", room - room // 2, "tool_result" if self.before.stop == "tool_use" else "text")
        self._lifetimes.update(label for label, tokens in (turn.usage.write or {}).items() if tokens)
        self.before = turn

    def _begin(self, total: int) -> None:
        if self.head:
            self._append(Piece("tools", "", self.head, identity(self.workload, self.head)))
        self._add("user", total - self._ends[-1])

    def _cut(self, keep: int, total: int) -> None:
        """Drop the pieces behind the end nearest to `keep`; never keeps more than `total`."""
        ends = self._ends
        best = bisect_right(ends, min(keep, total)) - 1
        if best + 1 < len(ends) and ends[best + 1] <= total and ends[best + 1] - keep <= keep - ends[best]:
            best = bisect_right(ends, ends[best + 1]) - 1  # the next end is as near, or nearer
        self.kept = best
        del self.pieces[best:], ends[best + 1 :]

    def _add(self, role: str, tokens: int, kind: str = "text") -> None:
        self._made += 1
        self._append(Piece("messages", role, tokens, identity(self.name, self._made), kind))

    def _append(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self._ends.append(self._ends[-1] + piece.tokens)

    def _pause_allowed(self, facts: CacheFacts) -> float:
        """Seconds after which some entry of the run may have gone."""
        used = [ttl.seconds for ttl in facts.ttls if ttl.label in self._lifetimes]
        return min(used, default=facts.ttls[0].seconds)


def _kept(before: TurnRecord, now: TurnRecord, head: int, allowed: float) -> int:
    """Tokens with which the prompt of `now` begins as the one before did."""
    previous, total, read = before.usage.input or 0, now.usage.input or 0, now.usage.read or 0
    if total < previous:
        return read or head
    held = min((before.usage.read or 0) + (before.usage.written or 0), total)
    paused = not (before.started and now.started) or now.started - before.started > allowed
    lost = held - read
    if read and not paused and lost >= max(NAMED_SHARE * held, NAMED_TOKENS):
        return read
    return previous


def by_session(turns: Iterable[TurnRecord]) -> dict[str, list[TurnRecord]]:
    """`turns` by the conversation that they belong to, in the order in which these began."""
    sessions: dict[str, list[TurnRecord]] = {}
    for turn in turns:
        sessions.setdefault(turn.session, []).append(turn)
    return sessions
