"""How the history of a request is edited, with the user's consent: old results become shorter, where that pays.

What was edited in an earlier request is edited alike in every later one, though the user's history still has it whole:
so what is sent only grows between two edits. Which results those are is part of the session's state, as hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.forecast import coming
from agentaccel.cache.ledger import endings
from agentaccel.cache.prefix import EDITED, prefixes, scale
from agentaccel.cache.state import PreviousPrompt, SessionState
from agentaccel.facts import CacheFacts, Wire, priors
from agentaccel.hashing import digest, wire_bytes
from agentaccel.policy import HistoryPolicy
from agentaccel.rewrite.edits import (
    EditableBlock,
    Edits,
    EditTerms,
    ReadRequest,
    Shape,
    Summary,
    Weighed,
    Written,
    best,
    left_alone,
)
from agentaccel.rewrite.jobs import Want
from agentaccel.rewrite.summary import compact, not_too_young, still_there, with_summary
from agentaccel.types import Path, Prompt, Request
from agentaccel.wire.editing import ToolResult, end_of, field_of, first_of, replies_before, results_of
from agentaccel.wire.json import with_texts

# --- Which results of a history could be shorter, and by what that is weighed: what is held, prices, what is to come --


class EditInputs(NamedTuple):
    """What a history is edited with, beside the request."""

    policy: HistoryPolicy
    facts: CacheFacts
    wire: Wire
    state: SessionState
    head: PreviousPrompt | None
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

    result: ToolResult
    text: str
    distilled: bool
    block: EditableBlock


def note_on(result: ToolResult) -> str:
    """What stands in the place of a cleared result: the same in every request."""
    return f"[cleared: the result of {result.tool}, {len(result.text or ''):,} characters]"


def shape_of(prompt: Prompt, knowing: EditInputs) -> Shape:
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
    terms = EditTerms(
        total=tokens(len(prefix.hashes) - 1),
        held=held,
        read=read_price(facts, knowing.beliefs),
        write=write_price([(tokens(i), entries[i].ttl) for i in live], knowing),
        coming=coming(knowing.beliefs, requests),
        margin=priors().edit_margin,
        anywhere=anywhere,
    )
    return Shape(prefix, tokens, terms)


def read_price(facts: CacheFacts, beliefs: Beliefs) -> float:
    """What a token costs that a later request reads: a server of the user's own that has given it up for another
    conversation computes it again."""
    if not facts.self_hosted:
        return facts.read
    alive = beliefs.alive()
    return alive * facts.read + (1.0 - alive) * facts.ttls[0].write


def write_price(held: Sequence[tuple[float, str]], knowing: EditInputs) -> float:
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


def of_age(results: Sequence[ToolResult], turns: int, keep: int) -> Iterator[tuple[ToolResult, int]]:
    """The results that may be shorter after so many replies, and after how many each of them could be for the first
    time: not the last `keep`, and what the model has not seen stays."""
    for result, later in zip(results, results[keep:], strict=False):
        since = max(later.turn, result.turn + 1)
        if since > turns:
            break
        yield result, since


def able_of(results: Sequence[ToolResult], known: set[bytes], shape: Shape, knowing: EditInputs) -> list[Shorter]:
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
            found.append(Shorter(result, text, distilled, EditableBlock(before, tokens, left, turns - since + 1)))
    return found


_WORTHWHILE = 0.75
"""Of its tokens what is left of a result must be less than this: for a few tokens less nothing is taken away."""


def wanted(results: Sequence[ToolResult], known: set[bytes], knowing: EditInputs) -> tuple[Want, ...]:
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


def text_for(result: ToolResult, tokens: float, knowing: EditInputs) -> tuple[str | None, bool]:
    """What could stand in the place of a result, and whether the user's function has made it; None for nothing yet."""
    policy = knowing.policy
    if policy.distil is not None and tokens >= policy.distil_from:
        if result.identity not in knowing.ready:
            return None, False  # soon
        made = knowing.ready[result.identity]
        if made is not None:
            return made, True
    return (note_on(result), False) if policy.clear_results else (None, False)


MOST_CLEARED = 4096
"""Results of one session that are remembered as cleared."""


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


def edit(request: Request, prompt: Prompt, knowing: EditInputs) -> Edited:
    """`request` with its history as in earlier requests, and with more of it shorter where that pays now."""
    why = left_alone(request, prompt, knowing.facts)
    if why is not None:
        return Edited(request, prompt, knowing.state.cleared, knowing.edits, (why,) if why else ())
    results = results_of(request, prompt, knowing.wire)
    old = [result for result, _ in of_age(results, replies_before(prompt)[-1], knowing.policy.keep_results)]
    cleared, edits = _without(results[len(old) :], old, knowing)
    before = _as_before(old, knowing)
    known = {result.identity for result, _ in before}
    edits = edits._replace(summary=not_too_young(edits.summary, prompt, knowing.policy))
    summary = edits.summary if still_there(edits.summary, prompt) and knowing.policy.summarise is not None else None
    written = Written(prompt, knowing.wire, summary, knowing.pending, knowing.ready)
    whole, form = _as_it_was(ReadRequest(request, prompt), before, written, knowing)
    shape = shape_of(form.prompt, knowing)
    reasons, consents = _said_before(_behind(before, summary), summary, knowing)
    made = Edited(*form, cleared, edits, reasons, consents, wanted(results, known, knowing))
    compacted = compact(knowing.policy, written, whole, form, shape)
    if compacted.want is not None:
        made = made._replace(wants=(*made.wants, compacted.want))
    if compacted.request is not None and compacted.summary is not None:
        reasons, consents = _said_before(_behind(before, compacted.summary), None, knowing)
        return made._replace(
            request=compacted.request,
            prompt=_summed(knowing.read(compacted.request), whole, known | {compacted.summary.identity}, knowing),
            edits=edits._replace(summary=compacted.summary),
            reasons=(compacted.reason, *reasons),
            consents=(*consents, "summarise"),
        )
    if compacted.reason:
        made = made._replace(reasons=(compacted.reason, *reasons))
    return _shorter(made, _again(results, form, knowing), known, shape, knowing)


def _as_it_was(
    given: ReadRequest, before: Sequence[tuple[ToolResult, str]], written: Written, knowing: EditInputs
) -> tuple[ReadRequest, ReadRequest]:
    """The request with its results as in earlier requests; and the same with the summary, where there is one."""
    whole, known = given, {result.identity for result, _ in before}
    if before:
        sent = with_texts(given.request, [(result.path, text) for result, text in before])
        whole = ReadRequest(sent, _named(knowing.read(sent), given.prompt, known, before[-1][0].path))
    if written.summary is None:
        return whole, whole
    sent = with_summary(whole, written.summary, written)
    return whole, ReadRequest(sent, _summed(knowing.read(sent), whole, known | {written.summary.identity}, knowing))


def _again(results: Sequence[ToolResult], form: ReadRequest, knowing: EditInputs) -> list[ToolResult]:
    """The results that `form` still has, where they stand in it, known as they were written."""
    by_call = {result.call: result for result in results}
    return [
        there._replace(identity=as_written.identity, text=as_written.text)
        for there in results_of(form.request, form.prompt, knowing.wire)
        if (as_written := by_call.get(there.call)) is not None
    ]


def _shorter(
    old: Edited, results: Sequence[ToolResult], known: set[bytes], shape: Shape, knowing: EditInputs
) -> Edited:
    """`old` with more of its `results` shorter, where that pays now."""
    able = able_of(results, known, shape, knowing)
    weighed = best([one.block for one in able], shape.terms)
    if weighed is None:
        return old
    chosen = able[weighed.first :]
    if not weighed.pays or shape.terms.total - weighed.saved < knowing.facts.min_tokens:
        return old._replace(reasons=(*old.reasons, *_waits(chosen, weighed, shape.terms)))
    sent = with_texts(old.request, [(one.result.path, one.text) for one in chosen])
    cleared = [one.result.identity for one in chosen if not one.distilled]
    distilled = {one.result.identity: one.text for one in chosen if one.distilled}
    used = (*old.consents, *(["clear_results"] if cleared else []), *(["distil"] if distilled else []))
    known = known | {one.result.identity for one in chosen}
    if old.edits.summary is not None and "summarise" in old.consents:
        known.add(old.edits.summary.identity)
    return old._replace(
        request=sent,
        prompt=_named(knowing.read(sent), old.prompt, known, chosen[-1].result.path, old.prompt.edited),
        cleared=(*old.cleared, *cleared)[-MOST_CLEARED:],
        edits=old.edits._replace(distilled={**old.edits.distilled, **distilled}),
        reasons=(_made(chosen, weighed, shape.terms), *old.reasons),
        consents=tuple(dict.fromkeys(used)),
    )


def _named(prompt: Prompt, before: Prompt, known: set[bytes], last: Path, earlier: int = 0) -> Prompt:
    """`prompt` under a name of its own for each set of edits, the last of which stands at `last`.

    By the name, what we have changed is told from what changes.
    """
    name = EDITED + digest(b"".join(sorted(known))).hex()[:16]
    own = frozenset(name for name in before.arranged if not name.startswith(EDITED))
    return replace(
        prompt,
        messages=before.messages,
        ephemeral=before.ephemeral,
        arranged=own | {name},
        edited=max(end_of(prompt, last), earlier),
    )


def _summed(prompt: Prompt, given: ReadRequest, known: set[bytes], knowing: EditInputs) -> Prompt:
    """The same for `prompt`, in which a summary has taken the place of the beginning of what was `given`."""
    whole = given.prompt
    own = frozenset(name for name in whole.arranged if not name.startswith(EDITED))
    behind = whole.edited + len(prompt.segments) - len(whole.segments) if whole.edited else 0
    name = EDITED + digest(b"".join(sorted(known))).hex()[:16]
    notes = len(given.request[field_of(knowing.wire)]) - whole.opening - whole.messages
    return replace(
        prompt,
        messages=prompt.messages - notes,
        ephemeral=whole.ephemeral,
        arranged=own | {name},
        edited=max(first_of(prompt, prompt.opening + 1), behind),
    )


def _without(
    young: Sequence[ToolResult], old: Sequence[ToolResult], knowing: EditInputs
) -> tuple[tuple[bytes, ...], Edits]:
    """What is edited in this session, without results that are young again because the history was rewound.

    They are whole again, and wait for an edit like all others.
    """
    cleared, edits = knowing.state.cleared, knowing.edits
    again = {one.identity for one in young}.difference(one.identity for one in old)
    if not again.isdisjoint(cleared):
        cleared = tuple(one for one in cleared if one not in again)
    if not again.isdisjoint(edits.distilled):
        edits = edits._replace(distilled={name: text for name, text in edits.distilled.items() if name not in again})
    return cleared, edits


def _as_before(results: Sequence[ToolResult], knowing: EditInputs) -> list[tuple[ToolResult, str]]:
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


# --- what is said -----------------------------------------------------------------------------------------------------


def _behind(before: Sequence[tuple[ToolResult, str]], summary: Summary | None) -> list[tuple[ToolResult, str]]:
    """Those that are sent: no summary stands in their place."""
    return [one for one in before if summary is None or one[0].message >= summary.cut]


def _said_before(
    before: Sequence[tuple[ToolResult, str]], summary: Summary | None, knowing: EditInputs
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    distilled = sum(result.identity in knowing.edits.distilled for result, _ in before)
    consents = [
        *(["clear_results"] if distilled < len(before) else []),
        *(["distil"] if distilled else []),
        *(["summarise"] if summary is not None else []),
    ]
    reasons = [f"{_results(len(before))} shorter as in earlier requests"] if before else []
    if summary is not None:
        reasons.append("a summary in place of the oldest messages as in earlier requests")
    return tuple(reasons), tuple(consents)


def _made(chosen: Sequence[Shorter], weighed: Weighed, terms: EditTerms) -> str:
    distilled = sum(one.distilled for one in chosen)
    what = "cleared" if not distilled else "distilled" if distilled == len(chosen) else "cleared or distilled"
    price = f"costs {weighed.now:,.0f} now" if weighed.now > 0 else f"saves {-weighed.now:,.0f} at once"
    return (
        f"{what} {_results(len(chosen))}: {weighed.saved:,.0f} tokens fewer in this request and each of about "
        f"{terms.coming:.0f} that are expected to come; {price}, in uncached tokens"
    )


def _waits(chosen: Sequence[Shorter], weighed: Weighed, terms: EditTerms) -> tuple[str, ...]:
    """Why an edit that could be made is not."""
    if weighed.saved <= 0:
        return ()
    what = f"clearing {_results(len(chosen))} would save {weighed.saved:,.0f} tokens a request"
    if weighed.worth <= 0:
        return (
            f"{what} and cost {weighed.now:,.0f} now; about {terms.coming:.0f} requests to come may not make up for "
            "that: waits",
        )
    if weighed.paid < weighed.again:
        return (
            f"{what} and cost {weighed.now:,.0f} now: waits until what reading them has cost ({weighed.paid:,.0f}) "
            f"comes to what every edit costs anew ({weighed.again:,.0f})",
        )
    return (f"{what}: waits, because less than the minimum of a cached prompt would be left",)


def _results(count: int) -> str:
    return f"{count} old result" + ("s" if count > 1 else "")
