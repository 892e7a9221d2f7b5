"""How the history of a request is edited, with the user's consent: old results become shorter, where that pays.

What was edited in an earlier request is edited alike in every later one, though the user's history still has it whole:
so what is sent only grows between two edits. Which results those are is part of the session's state, as hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.endings import endings
from agentaccel.cache.lengths import coming
from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.cache.scale import Scale, scale
from agentaccel.cache.state import Head, State
from agentaccel.canonical import digest, wire_bytes
from agentaccel.facts import CacheFacts, Wire
from agentaccel.loop.edits import Block, Terms, Weighed, best
from agentaccel.policy import HistoryPolicy
from agentaccel.providers.history import Result, replies_before, results_of, with_results
from agentaccel.session.asides import Want
from agentaccel.types import Prompt, Request

MOST_CLEARED = 4096
"""Results of one session that are remembered as cleared."""

EDITED = "history "
"""How the name begins by which a prompt is told from the same one before another edit; see `Prompt.arranged`."""


class Edits(NamedTuple):
    """What stands in the place of parts of a history since earlier requests, where only this process knows it."""

    distilled: Mapping[bytes, str] = {}
    """Texts by what the results are known by whose place they take."""


class Knowing(NamedTuple):
    """What a history is edited with, beside the request."""

    policy: HistoryPolicy
    facts: CacheFacts
    wire: Wire
    state: State
    head: Head | None
    beliefs: Beliefs
    edits: Edits
    ready: Mapping[bytes, str | None]
    """What the user's functions have made by now, None where they made nothing."""
    now: float
    ttl: str
    """The policy's choice of lifetime."""
    read: Callable[[Request], Prompt]
    """Reads a request as the one at hand was read."""


class Edited(NamedTuple):
    """A request as it is to be sent; the very one that was given where nothing is edited."""

    request: Request
    prompt: Prompt
    cleared: tuple[bytes, ...] = ()
    """For the session's state, once this request was answered."""
    edits: Edits = Edits()
    """For the next request."""
    reasons: tuple[str, ...] = ()
    consents: tuple[str, ...] = ()
    """Those that were used."""
    wants: tuple[Want, ...] = ()
    """What the user's functions are to make, for later requests."""


class Shape(NamedTuple):
    """A prompt as its provider is believed to see it before it is edited."""

    prefix: Prefixes
    tokens: Scale
    terms: Terms


class _Shorter(NamedTuple):
    """A result that could be shorter."""

    result: Result
    text: str
    distilled: bool
    block: Block


def edit(request: Request, prompt: Prompt, knowing: Knowing) -> Edited:
    """`request` with old results shorter, as in earlier requests, and with more of them where that pays now."""
    results = results_of(request, prompt, knowing.wire)
    before = _as_before(results, knowing)
    known = {result.identity for result, _ in before}
    old = request, prompt
    if before:
        sent = with_results(request, [(result.path, text) for result, text in before])
        old = sent, edited(knowing.read(sent), prompt, known)
    shape = shape_of(old[1], knowing)
    able = _able(results, known, shape, knowing)
    weighed = best([one.block for one in able], shape.terms)
    reasons, consents = _said_before(before, knowing)
    as_before = Edited(*old, knowing.state.cleared, knowing.edits, reasons, consents, _wanted(results, known, knowing))
    if weighed is None:
        return as_before
    chosen = able[weighed.first :]
    if not weighed.pays or shape.terms.total - weighed.saved < knowing.facts.min_tokens:
        return as_before._replace(reasons=(*reasons, *_waits(chosen, weighed, shape.terms)))
    sent = with_results(old[0], [(one.result.path, one.text) for one in chosen])
    known |= {one.result.identity for one in chosen}
    cleared = [one.result.identity for one in chosen if not one.distilled]
    distilled = {one.result.identity: one.text for one in chosen if one.distilled}
    return Edited(
        sent,
        edited(knowing.read(sent), prompt, known),
        (*knowing.state.cleared, *cleared)[-MOST_CLEARED:],
        knowing.edits._replace(distilled={**knowing.edits.distilled, **distilled}),
        (_made(chosen, weighed, shape.terms), *reasons),
        tuple(dict.fromkeys((*consents, *(["clear_results"] if cleared else []), *(["distil"] if distilled else [])))),
        as_before.wants,
    )


def edited(prompt: Prompt, before: Prompt, known: set[bytes]) -> Prompt:
    """`prompt` under a name of its own for each set of edits: what we have changed says nothing of what changes."""
    name = EDITED + digest(b"".join(sorted(known))).hex()[:16]
    return replace(prompt, arranged=before.arranged | {name})


def note_on(result: Result) -> str:
    """What stands in the place of a cleared result: the same in every request."""
    return f"[cleared: the result of {result.tool}, {len(result.text or ''):,} characters]"


def _as_before(results: Sequence[Result], knowing: Knowing) -> list[tuple[Result, str]]:
    """The results that were edited in earlier requests, and what stands in their place."""
    cleared, found = set(knowing.state.cleared), []
    for result in results:
        if result.text is None:
            continue
        if result.identity in knowing.edits.distilled:
            found.append((result, knowing.edits.distilled[result.identity]))
        elif knowing.policy.clear_results and result.identity in cleared:
            found.append((result, note_on(result)))
    return found


# --- what an edit is weighed by ---------------------------------------------------------------------------------------


def shape_of(prompt: Prompt, knowing: Knowing) -> Shape:
    """What of `prompt` is held, and what its tokens cost."""
    facts, state = knowing.facts, knowing.state
    prefix = prefixes(prompt, facts, knowing.head)
    entries = state.ledger.on(prefix)
    counts = {i: entry.tokens for i, entry in entries.items()}
    tokens = scale(prefix, counts, knowing.beliefs.bytes_per_token(prompt.model))
    anywhere = facts.physics == "automatic" or facts.ages == "blocks"
    looked_up = set(endings(prompt, facts.lookback + 1)) if facts.physics == "breakpoints" else set[int]()
    held = [
        tokens(i)
        for i in sorted(entries)
        if entries[i].live(knowing.now) and (anywhere or prompt.segments[i].markable or i in looked_up)
    ]
    requests = max(state.turns, replies_before(prompt)[-1]) + 1
    ttl = facts.ttl(knowing.ttl) or facts.ttls[0]
    terms = Terms(
        total=tokens(len(prefix.hashes) - 1),
        held=held,
        read=facts.read,
        write=ttl.write,
        coming=coming(knowing.beliefs, requests),
        anywhere=anywhere,
    )
    return Shape(prefix, tokens, terms)


def _able(results: Sequence[Result], known: set[bytes], shape: Shape, knowing: Knowing) -> list[_Shorter]:
    """The results that could be shorter now, in order."""
    policy, found = knowing.policy, []
    turns = replies_before(shape.prefix.prompt)[-1]
    for result, later in zip(results, results[policy.keep_results :], strict=False):
        if result.text is None or result.identity in known or result.tool in policy.pinned_tools:
            continue
        since = max(later.turn, result.turn + 1)  # what the model has not seen stays
        if since > turns:
            break
        size = shape.prefix.sizes[result.last] - (shape.prefix.sizes[result.first - 1] if result.first else 0)
        before = shape.tokens(result.first - 1)
        tokens = shape.tokens(result.last) - before
        text, distilled = _text_for(result, tokens, knowing)
        if text is None or not size:
            continue
        left = tokens * max(size - len(wire_bytes(result.text)) + len(wire_bytes(text)), 0) / size
        if left < _WORTHWHILE * tokens:
            found.append(_Shorter(result, text, distilled, Block(before, tokens, left, turns - since + 1)))
    return found


_WORTHWHILE = 0.75
"""Of its tokens what is left of a result must be less than this: for a few tokens less nothing is taken away."""


def _wanted(results: Sequence[Result], known: set[bytes], knowing: Knowing) -> tuple[Want, ...]:
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


def _text_for(result: Result, tokens: float, knowing: Knowing) -> tuple[str | None, bool]:
    """What could stand in the place of a result, and whether the user's function has made it; None for nothing yet."""
    policy = knowing.policy
    if policy.distil is not None and tokens >= policy.distil_from:
        if result.identity not in knowing.ready:
            return None, False  # soon
        made = knowing.ready[result.identity]
        if made is not None:
            return made, True
    return (note_on(result), False) if policy.clear_results else (None, False)


# --- what is said -----------------------------------------------------------------------------------------------------


def _said_before(before: Sequence[tuple[Result, str]], knowing: Knowing) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not before:
        return (), ()
    distilled = sum(result.identity in knowing.edits.distilled for result, _ in before)
    consents = (*(["clear_results"] if distilled < len(before) else []), *(["distil"] if distilled else []))
    return (f"{_results(len(before))} as edited in earlier requests",), consents


def _made(chosen: Sequence[_Shorter], weighed: Weighed, terms: Terms) -> str:
    distilled = sum(one.distilled for one in chosen)
    what = "cleared" if not distilled else "distilled" if distilled == len(chosen) else "cleared or distilled"
    price = f"costs {weighed.now:,.0f} now" if weighed.now > 0 else f"saves {-weighed.now:,.0f} at once"
    return (
        f"{what} {_results(len(chosen))}: {weighed.saved:,.0f} tokens fewer in this request and each of about "
        f"{terms.coming:.0f} that are expected to come; {price}, in uncached tokens"
    )


def _waits(chosen: Sequence[_Shorter], weighed: Weighed, terms: Terms) -> tuple[str, ...]:
    """Why an edit that could be made is not."""
    if weighed.saved <= 0:
        return ()
    what = f"clearing {_results(len(chosen))} would save {weighed.saved:,.0f} tokens a request"
    if weighed.worth <= 0:
        return (
            f"{what} and cost {weighed.now:,.0f} now, more than that saves in about {terms.coming:.0f} requests to "
            "come: waits",
        )
    if weighed.paid < weighed.again:
        return (
            f"{what} and cost {weighed.now:,.0f} now: waits until what reading them has cost ({weighed.paid:,.0f}) "
            f"comes to what every edit costs anew ({weighed.again:,.0f})",
        )
    return (f"{what}: waits, because less than the minimum of a cached prompt would be left",)


def _results(count: int) -> str:
    return f"{count} old result" + ("s" if count > 1 else "")
