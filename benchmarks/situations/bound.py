"""What nobody can do better than in a situation, told all of it: the oracle under the consents that the user gave.

*Without consents that change what is sent* the oracle is that of a replay (`agentaccel.replay.hindsight`): the cheapest
markers, and with `keep_alive` requests of our own in the pauses, on platforms that are known to take such. Where its
plan meets its bound the figure is exact.

*With consent to move text or to freeze tools*, each request may be sent as written or arranged, and another way in the
next. The bound is that of the conversation without what may be moved (`asked_for(…, moved=True)`): volatile text left
out, tools in the order in which they first came and never gone. It holds for every mixture of both ways, because

- whatever two requests have in common as written, they have in common here: taking out text, and putting tools back,
  is done to both alike. So whenever some way of sending reads a token, the token can be read here, and what a plan of
  the mixture pays for it is enough for the relaxation of `oracle_bound`, node by node;
- text that was taken out is sent all the same, in its place or at the end: uncached at 1 where it is new, and for
  anything else at no less than a read;
- a tool that is gone is kept free of charge, as are the notes that say what was moved, and what stands in its place;
- a prefix with the text in it may reach the minimum where the one without does not, so the minimum is lowered by it.

For one conversation that shares nothing with others the bound of `mixed` is taken where it is higher: it knows that a
request is sent one way or the other as a whole.

Where a tool comes in the middle of a session, it stays in all later requests, and is new in the same one either way.
What is left open: of tools that come and go before they were ever removed from the beginning (`tools_added` together
with `tools_removed` or `reconnect_chance`) the additions are free, too.

*Fan-out*: a request may be delayed until another one's first byte. The bound lets every entry be read as soon as its
request is sent, and live longer by the longest time to a first byte, which is all that a delay can gain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from agentaccel.replay.hindsight import best
from agentaccel.replay.runs import Step
from benchmarks.oracle.pauses import pauses_kept
from benchmarks.situations.agents import Exchange
from benchmarks.situations.changes import asked_for
from benchmarks.situations.form import Situation
from benchmarks.situations.mixed import least_mixed
from benchmarks.situations.sessions import requests, steps_of

SMALL = 8
"""Requests in all up to which a plan that does not meet the bound is looked for further."""
_MOVING = frozenset({"move_volatile", "freeze_tools"})


class Floor(NamedTuple):
    """What conversations that share a cache cost at least."""

    cost: float
    """In uncached input tokens."""
    exact: bool
    """Whether a plan that costs this was found; else it is a lower bound."""


def floor(situation: Situation, written: Sequence[Sequence[Exchange]], chosen: range) -> Floor:
    """The least that the conversations `chosen` of `written`, which is all of them, cost under the consents."""
    sessions = [steps_of(situation, written[number]) for number in chosen]
    if situation.fan_out > 1:
        return _held(sessions)
    if not _moves(situation):
        return _least([step for steps in sessions for step in _with_pauses(situation, steps)])
    plain = requests(situation, asked_for(situation, moved=True))
    apart = [
        _apart(situation, plain[number], written[number], steps) for number, steps in zip(chosen, sessions, strict=True)
    ]
    steps = [step for one in apart for step in _with_pauses(situation, one.bare)]
    bound = best(steps, searches=False).bound + sum(one.moved for one in apart)
    if not situation.prompts.shared:
        bound = max(bound, sum(one.least for one in apart))
    return Floor(bound, exact=False)


def _moves(situation: Situation) -> bool:
    return not _MOVING.isdisjoint(situation.consents)


def _with_pauses(situation: Situation, steps: Sequence[Step]) -> Sequence[Step]:
    keeps = "keep_alive" in situation.consents and situation.facts().keeps
    return pauses_kept(steps) if keeps else steps


def _least(steps: Sequence[Step]) -> Floor:
    found = best(steps, searches=sum(not step.optional for step in steps) <= SMALL)
    return Floor(found.cost if found.exact else found.bound, found.exact)


# --- what may be moved ------------------------------------------------------------------------------------------------


class _Apart(NamedTuple):
    """One conversation without what may be moved."""

    bare: Sequence[Step]
    moved: float
    """What that costs at least, wherever it stands."""
    least: float
    """Another bound on all of it: `least_mixed`."""


def _apart(
    situation: Situation, plain: Sequence[Exchange], written: Sequence[Exchange], as_written: Sequence[Step]
) -> _Apart:
    rules = situation.facts()
    bare = steps_of(situation, plain)
    extra = [max(one.total - other.total, 0) for one, other in zip(as_written, bare, strict=True)]
    lowered = replace(rules, min_tokens=max(rules.min_tokens - max(extra, default=0), 0))
    listed = [
        replace(step, tokens=_as_listed(step, one)[0])
        for step, one in zip(steps_of(situation, plain, lowered), written, strict=True)
    ]
    freezes = "freeze_tools" in situation.consents
    seen, moved = set[bytes](), 0.0
    for step, text in zip(as_written, extra, strict=True):
        static = step.prefix.hashes[step.prefix.starts[2] - 1] if step.prefix.starts[2] else b""
        moved += text * (1.0 if static not in seen and not freezes else rules.read)
        seen.add(static)
    kept = [_as_listed(step, one)[1] for step, one in zip(bare, written, strict=True)]
    arranging = [text + rules.read * tool for text, tool in zip(extra, kept, strict=True)]
    return _Apart(listed, moved, least_mixed(as_written, listed, arranging, extra))


def _as_listed(step: Step, written: Exchange) -> tuple[tuple[int, ...], int]:
    """The tokens of `step` where tools that are not in the request as written count for nothing; the least of those."""
    there = {tool["name"] for tool in written.body.get("tools", [])}
    before, tokens, gone = 0, list[int](), list[int]()
    for segment, end in zip(step.prefix.prompt.segments, step.tokens, strict=True):
        if segment.level == "tools" and segment.name not in there:
            gone.append(end - before)
        before = end
        tokens.append(end - sum(gone))
    return tuple(tokens), min(gone, default=0)


# --- what may be delayed ----------------------------------------------------------------------------------------------


def _held(sessions: Sequence[Sequence[Step]]) -> Floor:
    """The least for conversations of one fan-out."""
    everything = [step for steps in sessions for step in steps]
    delay = max(step.visible - step.started for step in everything)
    at_once = [_longer(replace(step, visible=step.started), delay) for step in everything]
    bound = best(at_once, searches=False).bound
    first, *others = sorted(sessions, key=lambda steps: steps[0].started)
    led = best([*first, *_after(first[0].visible, others)], searches=len(everything) <= SMALL)
    exact = led.cost <= bound * (1 + 1e-9)
    return Floor(bound, exact)


def _longer(step: Step, delay: float) -> Step:
    facts = step.prefix.facts
    ttls = tuple(replace(ttl, seconds=ttl.seconds + delay) for ttl in facts.ttls)
    return replace(step, prefix=replace(step.prefix, facts=replace(facts, ttls=ttls)))


def _after(moment: float, sessions: Iterable[Sequence[Step]]) -> Iterable[Step]:
    """The steps of `sessions` with those that begin before `moment` delayed until then."""
    for steps in sessions:
        late = max(moment - steps[0].started, 0.0)
        for step in steps:
            yield replace(step, started=step.started + late, visible=step.visible + late)
