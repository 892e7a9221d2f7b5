"""Which results of a history could be shorter, and by what that is weighed: what is held, prices, what is to come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.endings import endings
from agentaccel.cache.lengths import coming
from agentaccel.cache.prefix import prefixes
from agentaccel.cache.scale import scale
from agentaccel.cache.state import Head, State
from agentaccel.canonical import wire_bytes
from agentaccel.facts import CacheFacts, Wire, priors
from agentaccel.loop.edits import Block, Terms
from agentaccel.policy import HistoryPolicy
from agentaccel.providers.history import Result, replies_before
from agentaccel.session.asides import Want
from agentaccel.session.forms import Edits, Shape, Summary
from agentaccel.types import Prompt, Request


class Knowing(NamedTuple):
    """What a history is edited with, beside the request."""

    policy: HistoryPolicy
    facts: CacheFacts
    wire: Wire
    state: State
    head: Head | None
    beliefs: Beliefs
    edits: Edits
    pending: Summary | None
    """The summary that was asked for last."""
    ready: Mapping[bytes, str | None]
    """What the user's functions have made by now, None where they made nothing."""
    now: float
    ttl: str
    """The policy's choice of lifetime."""
    read: Callable[[Request], Prompt]
    """Reads a request as the one at hand was read."""


class Shorter(NamedTuple):
    """A result that could be shorter."""

    result: Result
    text: str
    distilled: bool
    block: Block


def note_on(result: Result) -> str:
    """What stands in the place of a cleared result: the same in every request."""
    return f"[cleared: the result of {result.tool}, {len(result.text or ''):,} characters]"


def shape_of(prompt: Prompt, knowing: Knowing) -> Shape:
    """What of `prompt` is held, and what its tokens cost."""
    facts, state = knowing.facts, knowing.state
    prefix = prefixes(prompt, facts, knowing.head)
    entries = state.ledger.on(prefix)
    counts = {i: entry.tokens for i, entry in entries.items()}
    tokens = scale(prefix, counts, knowing.beliefs.bytes_per_token(prompt.model))
    anywhere = facts.physics == "automatic" or facts.ages == "blocks"
    looked_up = set(endings(prompt, facts.lookback + 1)) if facts.physics == "breakpoints" else set[int]()
    live = [i for i in sorted(entries) if entries[i].live(knowing.now)]
    held = [tokens(i) for i in live if anywhere or prompt.segments[i].markable or i in looked_up]
    requests = max(state.turns, replies_before(prompt)[-1]) + 1
    terms = Terms(
        total=tokens(len(prefix.hashes) - 1),
        held=held,
        read=facts.read,
        write=write_price([(tokens(i), entries[i].ttl) for i in live], knowing),
        coming=coming(knowing.beliefs, requests),
        margin=priors().edit_margin,
        anywhere=anywhere,
    )
    return Shape(prefix, tokens, terms)


def write_price(held: Sequence[tuple[float, str]], knowing: Knowing) -> float:
    """What a token costs that is made anew: what it cost to write those that are `held`, ascending (tokens, lifetime),
    because what stands in their place is kept for as long."""
    facts = knowing.facts
    chosen = facts.ttl(knowing.ttl)
    if chosen is not None or not held:
        return (chosen or facts.ttls[0]).write
    prices, before, paid = {ttl.label: ttl.write for ttl in facts.ttls}, 0.0, 0.0
    for tokens, ttl in held:
        paid += (tokens - before) * prices.get(ttl, facts.ttls[0].write)
        before = tokens
    return paid / before if before > 0.0 else facts.ttls[0].write


def of_age(results: Sequence[Result], turns: int, keep: int) -> Iterator[tuple[Result, int]]:
    """The results that may be shorter after so many replies, and after how many each of them could be for the first
    time: not the last `keep`, and what the model has not seen stays."""
    for result, later in zip(results, results[keep:], strict=False):
        since = max(later.turn, result.turn + 1)
        if since > turns:
            break
        yield result, since


def able_of(results: Sequence[Result], known: set[bytes], shape: Shape, knowing: Knowing) -> list[Shorter]:
    """The results that could be shorter now, in order."""
    policy, found = knowing.policy, []
    turns = replies_before(shape.prefix.prompt)[-1]
    for result, since in of_age(results, turns, policy.keep_results):
        if result.text is None or result.identity in known or result.tool in policy.pinned_tools:
            continue
        size = shape.prefix.sizes[result.last] - (shape.prefix.sizes[result.first - 1] if result.first else 0)
        before = shape.tokens(result.first - 1)
        tokens = shape.tokens(result.last) - before
        text, distilled = text_for(result, tokens, knowing)
        if text is None or not size:
            continue
        left = tokens * max(size - len(wire_bytes(result.text)) + len(wire_bytes(text)), 0) / size
        if left < _WORTHWHILE * tokens:
            found.append(Shorter(result, text, distilled, Block(before, tokens, left, turns - since + 1)))
    return found


_WORTHWHILE = 0.75
"""Of its tokens what is left of a result must be less than this: for a few tokens less nothing is taken away."""


def wanted(results: Sequence[Result], known: set[bytes], knowing: Knowing) -> tuple[Want, ...]:
    """Long results that are to be distilled: asked for when they are first seen, to be there when an edit pays."""
    function = knowing.policy.distil
    if function is None:
        return ()
    ratio = knowing.facts.bytes_per_token
    return tuple(
        Want(one.identity, "distil", function, one.text)
        for one in results
        if one.text is not None
        and one.identity not in known
        and one.tool not in knowing.policy.pinned_tools
        and len(one.text) >= knowing.policy.distil_from * ratio * _NEARLY
    )


_NEARLY = 0.6
"""A text whose tokens are not counted yet may be as long as one that is so much longer."""


def text_for(result: Result, tokens: float, knowing: Knowing) -> tuple[str | None, bool]:
    """What could stand in the place of a result, and whether the user's function has made it; None for nothing yet."""
    policy = knowing.policy
    if policy.distil is not None and tokens >= policy.distil_from:
        if result.identity not in knowing.ready:
            return None, False  # soon
        made = knowing.ready[result.identity]
        if made is not None:
            return made, True
    return (note_on(result), False) if policy.clear_results else (None, False)
