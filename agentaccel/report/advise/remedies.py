"""Remedies that change what a prompt holds: tools in one order, and short prompts made long enough to be cached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from agentaccel.cache.breakpoints import both_ends
from agentaccel.cache.ledger import Breakpoint
from agentaccel.facts import CacheFacts
from agentaccel.hashing import digest
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.runs import Step, grown
from agentaccel.report.advise.nouns import Mended, RecordedRequest, RecordedSession, Talks
from agentaccel.report.advise.parts import PromptPart, each, parts_of, with_marks, with_parts, with_requests
from agentaccel.types import Segment, agreeing

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

    def change(step: Step) -> list[PromptPart]:
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


def _ordered(step: Step, known: Mapping[str, tuple[int, Segment]], rewritten: bool) -> list[PromptPart]:
    parts = parts_of(step)
    end = step.prefix.starts[1]
    tools = sorted(parts[:end], key=lambda part: known[part.segment.name][0])
    # A marker stands behind so many tools, whichever they are.
    placed = [tool._replace(lifetimes=part.lifetimes) for tool, part in zip(tools, parts[:end], strict=True)]
    if rewritten:
        placed = [_as_first(part, known[part.segment.name][1]) for part in placed]
    return [*placed, *parts[end:]]


def _as_first(part: PromptPart, first: Segment) -> PromptPart:
    return (
        part._replace(segment=part.segment._replace(digest=first.digest)) if part.segment.size == first.size else part
    )


def _differs(step: Step, parts: list[PromptPart]) -> bool:
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


def _padded(talk: RecordedSession, tokens: int) -> RecordedSession:
    def change(step: Step) -> list[PromptPart]:
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
        return [*before, PromptPart(pad, tokens, lifetimes), *parts[end:]]

    return with_parts(talk, change)


# --- Remedies that only place markers otherwise: the cache that is off, the wrong lifetime, turns beyond the look-back

_PLANNED = ("on", "holdout")
"""Modes in which agentaccel decides: a session without markers is then a decision, or a control."""


def cache_off(talks: Talks) -> Iterator[Mended]:
    """Sessions that no marker was sent in, with automatic caching."""
    if all(_asks(talk) for talk in talks):
        return
    automatic = PLACEMENTS["automatic"]

    def switched_on(talk: RecordedSession) -> RecordedSession:
        if _asks(talk):
            return talk
        return each(talk, lambda request, before: with_marks(request, automatic(request.step)))

    field = all(one.step.prefix.facts.top_level_marker for talk in talks for one in talk.requests)
    place = "every request" if field else "the last block of every request"
    yield Mended(
        kind="cache off",
        where="",
        todo=f'Turn prompt caching on: "cache_control": {{"type": "ephemeral"}} in {place}, '
        'or agentaccel\'s mode="on".',
        talks=tuple(map(switched_on, talks)),
    )


def _asks(talk: RecordedSession) -> bool:
    """Whether the session asks for caching, leaves it to agentaccel, or does not tell: a log without counters."""
    if talk.inferred and not all(one.turn.usage.reported for one in talk.requests):
        return True
    return any(one.step.marks or one.turn.mode in _PLANNED for one in talk.requests)


def in_vain(talks: Talks) -> Iterator[Mended]:
    """Sessions whose markers are taken out: what changes in front of them leaves little to read."""
    if not any(one.step.marks for talk in talks for one in talk.requests) or any(talk.inferred for talk in talks):
        return
    planned = any(one.own is not None for talk in talks for one in talk.requests)
    yield Mended(
        kind="markers in vain",
        where="",
        todo="Leave caching to agentaccel, which places cheaper markers where the framework, or you, set none."
        if planned
        else "Switch off the caching that sets these markers, of the framework or your own, as long as what it writes "
        "is hardly read again.",
        talks=tuple(each(talk, lambda request, before: with_marks(request, ())) for talk in talks),
    )


def other_lifetime(talks: Talks) -> Iterator[Mended]:
    """All markers of one lifetime with another one that the provider offers."""
    used = sorted({mark.ttl for talk in talks for one in talk.requests for mark in one.step.marks})
    offered = dict.fromkeys(ttl.label for talk in talks for one in talk.requests for ttl in one.step.prefix.facts.ttls)
    for label in offered:
        if not used or used == [label]:
            continue
        yield Mended(
            kind="wrong TTL",
            where=f"markers that live for {' and '.join(used)}",
            todo=f"Give the markers the lifetime {label}.",
            talks=tuple(_living(talk, label) for talk in talks),
        )


def _living(talk: RecordedSession, label: str) -> RecordedSession:
    return each(
        talk,
        lambda request, before: with_marks(
            request,
            [mark if mark.ttl == label else Breakpoint(mark.at, label, mark.own) for mark in request.step.marks],
        ),
    )


def beyond_lookback(talks: Talks) -> Iterator[Mended]:
    """One more marker where the request before ended, in requests whose own markers do not look back that far."""
    if not any(_bridge(request.step) for talk in talks for request in talk.requests):
        return
    yield Mended(
        kind="turn beyond the lookback",
        where="end of the previous request",
        todo="Put one more marker on the last block of the previous request, in front of the model's last reply, or "
        "let agentaccel place it.",
        talks=tuple(
            each(talk, lambda request, before: with_marks(request, (*request.step.marks, *_bridge(request.step))))
            for talk in talks
        ),
    )


def _bridge(step: Step) -> tuple[Breakpoint, ...]:
    """The marker that is missing; none where some marker finds the end of the request before, or there is no room."""
    prefix, facts = step.prefix, step.prefix.facts
    end = both_ends(prefix.prompt)[1]
    later = [mark for mark in step.marks if mark.at >= end]
    if end < 0 or not later or len(step.marks) >= facts.max_markers:
        return ()
    if any(_positions(step, mark.at, end, facts) < facts.lookback for mark in later):
        return ()
    segments = prefix.prompt.segments
    at = next((i for i in range(end, -1, -1) if segments[i].markable), -1)
    return (Breakpoint(at, later[0].ttl),) if at >= 0 else ()


def _positions(step: Step, at: int, end: int, facts: CacheFacts) -> int:
    """Positions by which segment `end` lies before segment `at`, counted up to the look-back."""
    count = 0
    while at > end and count < facts.lookback:
        at = step.prefix.previous(at, facts.positions)
        count += 1
    return count


# --- Sessions that switch the model in between, kept on the model that serves most of their workload ------------------

CONTINUED = 0.5
"""Share of a prompt that another model must have seen in the same session: below it, the request is about something
else (a title, a check), and has no prefix to lose."""


def one_model(talks: Talks) -> Iterator[Mended]:
    """Requests that go on from a prompt of the main model, sent to that one."""
    counts = Counter(one.priced_as for talk in talks for one in talk.requests)
    if len(counts) < 2:
        return
    main = counts.most_common(1)[0][0]
    sample = next(one for talk in talks for one in talk.requests if one.priced_as == main)
    rate = _rate(talks, main)
    mended = tuple(_kept(talk, sample, rate) for talk in talks)
    left = {
        old.priced_as
        for talk, other in zip(talks, mended, strict=True)
        for old, new in zip(talk.requests, other.requests, strict=True)
        if old.priced_as != new.priced_as
    }
    if left:
        yield Mended(
            kind="model switch",
            where=f"{', '.join(sorted(left))} among {main}",
            todo=f"Stay with {main} within a session: caches are not shared between models. Switch at the start of a "
            "session, or give the other model a sub-agent with a short prompt.",
            talks=mended,
        )


def _rate(talks: Talks, model: str) -> float:
    """Tokens that `model` counts for a byte of this workload."""
    steps = [one.step for talk in talks for one in talk.requests if one.priced_as == model]
    return sum(step.total for step in steps) / max(sum(step.prefix.size for step in steps), 1)


def _kept(talk: RecordedSession, sample: RecordedRequest, rate: float) -> RecordedSession:
    if all(one.priced_as == sample.priced_as for one in talk.requests):
        return talk
    done: list[RecordedRequest] = []
    for place, request in enumerate(talk.requests):
        last = done[-1] if done else None
        if request.priced_as == sample.priced_as:
            done.append(request)
            continue
        goes_on = any(_shared(request, one) >= CONTINUED * request.step.prefix.size for one in _latest(talk, place))
        done.append(_sent_to(request, sample, rate, last) if goes_on else request)
    return with_requests(talk, done)


def _latest(talk: RecordedSession, place: int) -> Iterator[RecordedRequest]:
    """The requests of other models right around the one at `place` in its session."""
    request = talk.requests[place]
    for others in (reversed(talk.requests[:place]), iter(talk.requests[place + 1 :])):
        found = next((one for one in others if one.priced_as != request.priced_as), None)
        if found is not None:
            yield found


def _shared(one: RecordedRequest, other: RecordedRequest) -> int:
    """Bytes that both prompts begin with, whichever model they were for."""
    count = agreeing(one.step.prefix.prompt.segments, other.step.prefix.prompt.segments)
    return one.step.prefix.sizes[count - 1] if count else 0


def _sent_to(
    request: RecordedRequest, sample: RecordedRequest, rate: float, before: RecordedRequest | None
) -> RecordedRequest:
    model, facts = sample.step.prefix.prompt.model, sample.step.prefix.facts
    prompt = replace(request.step.prefix.prompt, model=model)
    prefix = grown(prompt, facts, before.step if before is not None else None)
    tokens = tuple(round(size * rate) for size in prefix.sizes)
    step = replace(request.step, prefix=prefix, tokens=tokens)
    return replace(request, step=step, priced_as=sample.priced_as)
