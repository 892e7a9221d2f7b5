"""Remedies that change what a prompt holds: tools in one order, and short prompts made long enough to be cached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentaccel.canonical import digest
from agentaccel.replay.runs import Step
from agentaccel.report.advise.nouns import Mended, Talk, Talks
from agentaccel.report.advise.parts import Part, parts_of, with_parts
from agentaccel.types import Segment

MARGIN = 1.02
"""What a short prompt is padded to, in minimums: the tokens of a prefix are known to about a percent."""


def tool_order(talks: Talks) -> Iterator[Mended]:
    """Tools in the order in which they were first seen, and with their keys in the order first seen."""
    if any(talk.inferred for talk in talks):
        return
    known = _first_seen(talks)
    rewritten = any(
        one.turn.drift is not None and one.turn.drift.level == "tools" and one.turn.drift.likely == "key order"
        for talk in talks
        for one in talk.requests
    )

    def change(step: Step) -> list[Part]:
        return _ordered(step, known, rewritten)

    if not any(_differs(one.step, change(one.step)) for talk in talks for one in talk.requests):
        return
    yield Mended(
        kind="tool order",
        where="tools",
        todo="Send the tools in one order, the same in every request, each with its keys in one order.",
        talks=tuple(with_parts(talk, change) for talk in talks),
    )


def _first_seen(talks: Talks) -> Mapping[str, tuple[int, Segment]]:
    """Every tool with its place in the order of first appearance, and as it was then."""
    known: dict[str, tuple[int, Segment]] = {}
    for talk in talks:
        for request in talk.requests:
            for segment in request.step.prefix.prompt.segments[: request.step.prefix.starts[1]]:
                known.setdefault(segment.name, (len(known), segment))
    return known


def _ordered(step: Step, known: Mapping[str, tuple[int, Segment]], rewritten: bool) -> list[Part]:
    parts = parts_of(step)
    end = step.prefix.starts[1]
    tools = sorted(parts[:end], key=lambda part: known[part.segment.name][0])
    # A marker stands behind so many tools, whichever they are.
    placed = [tool._replace(lifetimes=part.lifetimes) for tool, part in zip(tools, parts[:end], strict=True)]
    if rewritten:
        placed = [_as_first(part, known[part.segment.name][1]) for part in placed]
    return [*placed, *parts[end:]]


def _as_first(part: Part, first: Segment) -> Part:
    return (
        part._replace(segment=part.segment._replace(digest=first.digest)) if part.segment.size == first.size else part
    )


def _differs(step: Step, parts: list[Part]) -> bool:
    return any(part.segment.digest != old.digest for part, old in zip(parts, step.prefix.prompt.segments, strict=True))


# --- prompts below the minimum ----------------------------------------------------------------------------------------


def too_short(talks: Talks) -> Iterator[Mended]:
    """Static text added at the end of the system prompt, until what is marked reaches the model's minimum.

    Offered are two lengths: one that brings the first marked prefix of every session there, and one that brings tools
    and system there by themselves.
    """
    firsts = [talk.requests[0].step for talk in talks if talk.requests[0].step.marks]
    if any(talk.inferred for talk in talks) or not firsts:
        return
    least = max(step.prefix.facts.min_tokens for step in firsts)
    if all(step.tokens_at(mark.at) >= least for step in firsts for mark in step.marks):
        return
    marked = min(step.tokens_at(step.marks[-1].at) for step in firsts)
    static = min(step.tokens_at(step.prefix.starts[2] - 1) for step in firsts)
    for lacking in dict.fromkeys(round(MARGIN * least) - held for held in (marked, static)):
        if lacking > 0:
            yield Mended(
                kind="prompt below the minimum",
                where=f"{least - lacking:,} of {least:,} tokens" if lacking < least else f"{least:,} tokens",
                todo=f"Add {lacking:,} tokens of text that stays the same (examples, rules) at the end of the system "
                f"prompt: shorter than {least:,} tokens, nothing is cached.",
                talks=tuple(_padded(talk, lacking) for talk in talks),
            )


def _padded(talk: Talk, tokens: int) -> Talk:
    def change(step: Step) -> list[Part]:
        parts, end = parts_of(step), step.prefix.starts[2]
        facts = step.prefix.facts
        pad = Segment(
            level="system",
            path=("system", end - step.prefix.starts[1]),
            kind="text",
            role="",
            name="",
            digest=digest(f"{talk.workload}/pad".encode()),
            size=round(tokens * facts.bytes_per_token),
            markable=True,
        )
        before = parts[:end]
        lifetimes: tuple[str, ...] = ()
        if before and before[-1].segment.level == "system":
            # The marker at the end of the system prompt stays there.
            lifetimes = before[-1].lifetimes
            before[-1] = before[-1]._replace(lifetimes=())
        return [*before, Part(pad, tokens, lifetimes), *parts[end:]]

    return with_parts(talk, change)
