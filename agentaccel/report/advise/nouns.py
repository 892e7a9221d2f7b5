"""What advice is drawn from, and what it says. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agentaccel.cache.ledger import Breakpoint
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.replay.runs import Run, Step
from agentaccel.values import maker

Unit = Literal["USD", "tokens", "seconds"]
"""What a saving is counted in: *tokens* are uncached input tokens, where some price is not known."""

Sure = Literal["computed", "inferred", "at most"]
"""How sure a saving is: from the recorded prompts, from usage alone, or a ceiling that no change can pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One answered request of a recorded session."""

    step: Step
    """Its prompt in hashes, with the markers that it was sent with."""
    turn: TurnRecord
    """What was recorded of it; a remedy leaves this as it is."""
    priced_as: str
    """The model whose prices hold."""
    output: int | None
    """Tokens of the reply; None where not known."""
    own: tuple[Breakpoint, ...] | None = None
    """Where agentaccel planned, the user's own markers on the prompt as recorded; else None."""

    def sent_as(self, step: Step) -> RecordedRequest:
        """The same with another prompt, or other markers."""
        return _request(step=step, turn=self.turn, priced_as=self.priced_as, output=self.output, own=self.own)


_request = maker(RecordedRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """One recorded session, or what a remedy makes of it."""

    id: str
    workload: str
    """What its statistics are kept under."""
    requests: tuple[RecordedRequest, ...]
    """In the order in which they were sent."""
    tools: tuple[ToolRecord, ...] = ()
    """In the order in which they began."""
    inferred: bool = False
    """Whether prompts were rebuilt from usage alone."""
    listed: bool = True
    """Whether the facts know every model of it. Another one's cache is not ours to replay: of such a session only the
    times are looked at."""

    @property
    def run(self) -> Run:
        """The session as a replay takes it."""
        steps = tuple(one.step for one in self.requests)
        return Run(id=self.id, workload=self.workload, steps=steps, inferred=self.inferred)


Talks = Sequence[RecordedSession]
"""The sessions of one workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """What one remedy makes of a workload."""

    kind: str
    """The fault, in words that are the same for every workload."""
    where: str
    """The place in the prompt, the models, the lifetime: whatever tells which; may be empty."""
    todo: str
    """What to do, a sentence."""
    talks: tuple[RecordedSession, ...]
    """The sessions with the fault mended; of as many requests as were given, or fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing to change."""

    kind: str
    """The fault."""
    workload: str
    """The agent, or what else tells the workload, in words."""
    where: str
    """The place, where there is one; else empty."""
    todo: str
    """What to do, a sentence."""
    unit: Unit
    saving: float
    """Expected, in `unit`, over the records at hand and on top of the advice before it for the same workload."""
    share: float
    """Of the whole bill of the records, or of all the time at work."""
    error: float | None
    """By how much `saving` may be off as far as it could be checked, in `unit`: how far a replay of the requests as
    recorded misses their bill. None where nothing could be checked."""
    sure: Sure


# --- Names for people -------------------------------------------------------------------------------------------------

_NAMED = 3
"""Tools that stand for all of a workload that nobody has named."""


def called(talks: Talks) -> str:
    """What people know a workload by: the agent, else its model and tools."""
    first = talks[0].requests[0]
    if first.turn.agent:
        return first.turn.agent
    tools = [segment.name for segment in first.step.prefix.prompt.segments if segment.level == "tools"]
    model = first.turn.model or "an unnamed model"
    if not any(tools):
        return model
    more = f" and {len(tools) - _NAMED} more" if len(tools) > _NAMED else ""
    return f"{model} with {', '.join(tools[:_NAMED])}{more}"
