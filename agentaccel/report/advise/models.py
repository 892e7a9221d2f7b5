"""Sessions that switch the model in between, kept on the model that serves most of their workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from agentaccel.replay.counting import grown
from agentaccel.report.advise.nouns import Mended, Request, Talk, Talks
from agentaccel.report.advise.parts import with_requests
from agentaccel.types import agreeing

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


def _kept(talk: Talk, sample: Request, rate: float) -> Talk:
    if all(one.priced_as == sample.priced_as for one in talk.requests):
        return talk
    done: list[Request] = []
    for place, request in enumerate(talk.requests):
        last = done[-1] if done else None
        if request.priced_as == sample.priced_as:
            done.append(request)
            continue
        goes_on = any(_shared(request, one) >= CONTINUED * request.step.prefix.size for one in _latest(talk, place))
        done.append(_sent_to(request, sample, rate, last) if goes_on else request)
    return with_requests(talk, done)


def _latest(talk: Talk, place: int) -> Iterator[Request]:
    """The requests of other models right around the one at `place` in its session."""
    request = talk.requests[place]
    for others in (reversed(talk.requests[:place]), iter(talk.requests[place + 1 :])):
        found = next((one for one in others if one.priced_as != request.priced_as), None)
        if found is not None:
            yield found


def _shared(one: Request, other: Request) -> int:
    """Bytes that both prompts begin with, whichever model they were for."""
    count = agreeing(one.step.prefix.prompt.segments, other.step.prefix.prompt.segments)
    return one.step.prefix.sizes[count - 1] if count else 0


def _sent_to(request: Request, sample: Request, rate: float, before: Request | None) -> Request:
    model, facts = sample.step.prefix.prompt.model, sample.step.prefix.facts
    prompt = replace(request.step.prefix.prompt, model=model)
    prefix = grown(prompt, facts, before.step if before is not None else None)
    tokens = tuple(round(size * rate) for size in prefix.sizes)
    step = replace(request.step, prefix=prefix, tokens=tokens)
    return replace(request, step=step, priced_as=sample.priced_as)
