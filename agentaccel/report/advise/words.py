"""Names for people."""

from __future__ import annotations

from agentaccel.report.advise.nouns import Talks

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
