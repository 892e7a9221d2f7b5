"""Time at work: calls that ran one after another, and tools that could have run while the model was still answering."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentaccel.report.advise.nouns import Advice, RecordedSession, Talks, called
from agentaccel.report.parts import Covered

TOOLS_SHARE = 0.3
"""Of the time at work: from here on it pays to look at tools."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """One request and the tools that ran after it."""

    model: float
    """Seconds of the reply before any tool ran."""
    serial: float
    """Seconds in which a tool ran."""
    longest: float
    """Seconds of the longest call."""


def seconds(talks: Talks, total: float, least_share: float) -> Iterator[Advice]:
    """What shortens the time at work of one workload, of `total` seconds of all; nothing below `least_share` of that.

    Calls between two requests of a session were asked for in one reply. Running calls early is judged on top of
    running them together.
    """
    turns = [turn for talk in talks for turn in _turns(talk)]
    together = sum(turn.serial - turn.longest for turn in turns)
    if total and together > least_share * total:
        yield _advice(
            talks,
            kind="calls one after another",
            todo="Run the calls that one reply asks for at the same time, where they do not need each other's results.",
            saving=together,
            total=total,
            ceiling=False,
        )
    else:
        together = 0.0
    own = sum(time_at_work(talk) for talk in talks) - together
    tools = sum(turn.serial for turn in turns) - together
    hidden = sum(min(turn.model, turn.longest if together else turn.serial) for turn in turns)
    if total and own and tools > TOOLS_SHARE * own and hidden > least_share * total:
        yield _advice(
            talks,
            kind="slow tools",
            todo="Start read-only calls before the model has asked for them, or make the slowest tools faster: they "
            f"are {tools / own:.0%} of the time at work.",
            saving=hidden,
            total=total,
            ceiling=True,
        )


def time_at_work(talk: RecordedSession) -> float:
    """Seconds in which a model or a tool was running."""
    spans = [(one.turn.started, one.turn.finished) for one in talk.requests]
    spans += [(tool.started, tool.finished) for tool in talk.tools]
    return _covered((begin, end) for begin, end in spans if begin and end is not None)


def _turns(talk: RecordedSession) -> Iterator[_Turn]:
    """The requests of `talk` with their tools; those whose times are not known are left out."""
    begun = [one.turn.started for one in talk.requests]
    tools_begun = [tool.started for tool in talk.tools]
    for number, request in enumerate(talk.requests):
        finished = request.turn.finished
        until = begun[number + 1] if number + 1 < len(begun) else float("inf")
        if not begun[number] or finished is None:
            continue
        # What ran while the model was still answering is hidden already.
        calls = talk.tools[bisect_left(tools_begun, begun[number]) : bisect_left(tools_begun, until)]
        tools = [
            (max(tool.started, finished), tool.finished)
            for tool in calls
            if tool.finished is not None and tool.finished > finished
        ]
        if tools:
            yield _Turn(
                model=min(finished, *(tool.started for tool in calls)) - begun[number],
                serial=_covered(tools),
                longest=max(end - begin for begin, end in tools),
            )


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    covered = Covered()
    for begin, end in sorted(spans):
        covered.add(begin, end)
    return covered.seconds


def _advice(talks: Talks, *, kind: str, todo: str, saving: float, total: float, ceiling: bool) -> Advice:
    return Advice(
        kind=kind,
        workload=called(talks),
        where="tools",
        todo=todo,
        unit="seconds",
        saving=saving,
        share=saving / total,
        error=None,
        sure="at most" if ceiling else "computed",
    )
