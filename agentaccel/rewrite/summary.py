"""A summary in the place of the oldest messages, with the user's consent: asked for ahead, used where that pays.

The summary is the user's function's, and lives in this process alone. It stands behind the words with which the
conversation begins, which stay, and in front of the first message that is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from agentaccel.facts import Wire
from agentaccel.hashing import digest
from agentaccel.policy import HistoryPolicy
from agentaccel.rewrite.edits import EditableBlock, ReadRequest, Shape, Summary, Weighed, Written, weigh
from agentaccel.rewrite.jobs import Want
from agentaccel.types import Prompt, Request
from agentaccel.wire.editing import begun_with, cuts_of, first_of, replies_before, results_of, summed_up

HEADER = "Summary of this conversation so far, in place of its earlier messages:\n\n"

_SHARE = 0.1
"""What a summary is taken to be of what it stands for, until one was seen."""
_OUTPUT = 5.0
"""What a token of a summary costs to write, in uncached input tokens: what models of 2026 charge, or more."""


class Compacted(NamedTuple):
    """What became of the thought of a summary."""

    request: Request | None = None
    """The request with a new one; None where there is none to be used now."""
    summary: Summary | None = None
    want: Want | None = None
    reason: str = ""


class _Region(NamedTuple):
    """What a summary would stand for, in the form of a request before."""

    blocks: list[EditableBlock]
    messages: int
    end: float
    """Tokens up to its end."""

    @property
    def tokens(self) -> float:
        return sum(block.tokens for block in self.blocks)


def identity_of(prompt: Prompt, cut: int) -> bytes:
    """What the messages before `cut` are known by; of no use where there are not so many."""
    end = first_of(prompt, cut)
    return digest(b"".join(one.digest for one in prompt.segments[prompt.starts[2] : end]))


def still_there(summary: Summary | None, prompt: Prompt) -> bool:
    """Whether what the summary stands for is what `prompt`, as written, begins with."""
    there = summary is not None and summary.cut < prompt.opening + prompt.messages
    return there and summary is not None and identity_of(prompt, summary.cut) == summary.identity


def not_too_young(summary: Summary | None, prompt: Prompt, policy: HistoryPolicy) -> Summary | None:
    """None where the summary stands for what is never touched, because the history was rewound to where that begins.

    It is thought of anew, as one that was asked for is.
    """
    young = summary is not None and still_there(summary, prompt) and not _kept([summary.cut], prompt, policy)
    return None if young else summary


def _kept(cuts: Iterable[int], prompt: Prompt, policy: HistoryPolicy) -> list[int]:
    """Those of the `cuts` that as many replies begin at, or behind, as are never touched."""
    turns = replies_before(prompt)
    return [cut for cut in cuts if turns[-1] - turns[first_of(prompt, cut)] >= policy.keep_results]


def with_summary(whole: ReadRequest, summary: Summary, written: Written) -> Request:
    """`whole` with the summary in its place."""
    return summed_up(whole.request, whole.prompt, summary.cut, HEADER + summary.text, written.wire)


def compact(policy: HistoryPolicy, written: Written, whole: ReadRequest, form: ReadRequest, shape: Shape) -> Compacted:
    """Use the summary that was asked for, where it is there and pays; ask for one, where one would.

    `whole` has all messages, `form` what would be sent, perhaps with an earlier summary: `written.summary`.
    """
    function, pending = policy.summarise, written.pending
    if function is None:
        return Compacted()
    if pending is not None and pending.identity in written.ready and written.ready[pending.identity] is None:
        return Compacted()  # it failed, and was logged: another try would fail alike
    shift = written.summary.cut - written.prompt.opening - 1 if written.summary is not None else 0
    if pending is not None and still_there(pending, written.prompt):
        text = written.ready.get(pending.identity)
        cut = pending.cut - shift
        if text is None or cut <= form.prompt.opening + 1:
            return Compacted()  # not yet, or used already
        if not _kept([pending.cut], written.prompt, policy):
            return Compacted()  # rewound
        summary = pending._replace(text=text)
        region = _region(policy, written, form, shape, cut)
        added = len(HEADER + text) / shape.tokens.bytes_per_token
        weighed = weigh(region.blocks, shape.terms, added=added)
        what = f"a summary in place of {region.messages} messages"
        if not weighed.pays:
            return Compacted(reason=_price(f"{what} waits", weighed, shape))
        return Compacted(with_summary(whole, summary, written), summary, reason=_price(what, weighed, shape))
    able = _cuts(policy, form, written.wire)
    if not able or able[-1] < form.prompt.opening + 3:
        return Compacted()
    region = _region(policy, written, form, shape, able[-1])
    if region.tokens < policy.summarise_from:
        return Compacted()
    length = _SHARE * region.tokens
    weighed = weigh(region.blocks, shape.terms, added=length)
    call = shape.terms.read * region.end + _OUTPUT * length
    if weighed.worth <= call or weighed.paid < weighed.again + call:
        return Compacted()
    cut = able[-1] + shift
    identity = identity_of(written.prompt, cut)
    given = begun_with(form.request, able[-1], written.wire)
    return Compacted(
        want=Want(identity, "summarise", function, given, Summary(cut, identity, "")),
        reason=f"asks for a summary of {region.messages} messages, {region.tokens:,.0f} tokens, for later requests",
    )


def _cuts(policy: HistoryPolicy, form: ReadRequest, wire: Wire) -> list[int]:
    """Messages before which a summary may end: so many replies are kept, and all results of pinned tools."""
    results = results_of(form.request, form.prompt, wire) if policy.pinned_tools else ()
    pinned = next((one.message for one in results if one.tool in policy.pinned_tools), math.inf)
    cuts = cuts_of(form.request, form.prompt, wire)
    return _kept([cut for cut in cuts if cut <= pinned], form.prompt, policy)


def _region(policy: HistoryPolicy, written: Written, form: ReadRequest, shape: Shape, cut: int) -> _Region:
    """What stands behind the conversation's first words and before the message `cut`."""
    prompt, tokens = form.prompt, shape.tokens
    begin, end = first_of(prompt, prompt.opening), first_of(prompt, cut)
    told = first_of(written.prompt, written.prompt.opening + 1) - first_of(written.prompt, written.prompt.opening)
    if first_of(prompt, prompt.opening + 1) - begin >= told:
        begin += told
    turns = replies_before(prompt)
    blocks = []
    for i in range(begin, end):
        age = max(turns[-1] - turns[i] - policy.keep_results + 1, 1)
        blocks.append(EditableBlock(tokens(i - 1), tokens(i) - tokens(i - 1), 0.0, age))
    return _Region(blocks, cut - prompt.opening - 1, tokens(end - 1))


def _price(what: str, weighed: Weighed, shape: Shape) -> str:
    return (
        f"{what}: {weighed.saved:,.0f} tokens fewer in each request, {weighed.now:,.0f} more to pay now, about "
        f"{shape.terms.coming:.0f} requests expected to come"
    )
