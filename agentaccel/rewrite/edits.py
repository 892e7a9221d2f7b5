"""When an edit of the history pays: what it saves in every request to come, against what it makes anew.

In uncached tokens, with r and w the prices of a read and a written token. Old blocks of X tokens in all become shorter
by X. What stands in front of the first of them is read on; what stands behind is another prefix and is written once
more. With N requests still to come (`cache.lengths`), the edit

    costs now     cost of this request with it - cost without:  (w - r)·(what was held and stays behind) - r·X
    saves later   r·X·N

Everything behind the first block is made anew anyway, so whatever can be shorter there becomes shorter, too: the only
choices are where to begin, and when. Where nothing is held any more, as after a long pause, nothing is made anew that
would not be: that is the best moment.

*When.* A loop that adds one result of s tokens a turn and keeps the last k can edit every turn, or m results every m
turns. What stands between the edited results is made anew once, whenever that happens. What stands behind the last of
them, A = (w - r)·(those k turns), is made anew by every edit. Meanwhile the results that wait are read: the first for m
turns, the last for one, r·s·m·(m + 1)/2. So a turn costs A/m + r·s·(m + 1)/2, least for m = sqrt(2·A/(r·s)): the
economic order quantity (Harris, 1913). In whole turns, waiting for one more is right as long as

    what those that wait have cost in reads so far, this request included  <  A

which needs no sizes that are alike, and holds as a rule to rent or to buy holds: nothing is spent on an edit before as
much was spent for want of it, and never twice where once would have done. A block that has just come of age has an age
of 1: it is read once more if it stays.

>>> def turn(m):  # m results of 2,000 tokens wait, behind them stand three turns of 2,100, of which the last is new
...     blocks = [EditableBlock(at=10_000 + 2_100 * i, tokens=2_000, left=20, age=m - i) for i in range(m)]
...     total = 10_000 + 2_100 * (m + 3)
...     held = tuple(range(10_000, total, 2_100))
...     return weigh(blocks, EditTerms(total=total, held=held, read=0.1, write=1.25, coming=30))
>>> [m for m in range(1, 12) if turn(m).pays][0], round((2 * 1.15 * 2 * 2_100 / (0.1 * 1_980)) ** 0.5, 1)
(7, 7.0)
>>> round(turn(7).now), round(turn(7).worth), turn(1).pays
(4410, 37170, False)
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import fmean
from typing import Any, NamedTuple

from agentaccel.cache.prefix import Prefixes, Scale
from agentaccel.facts import CacheFacts, Wire
from agentaccel.types import Prompt, Request
from agentaccel.wire.editing import results_of


class EditableBlock(NamedTuple):
    """A part of the history that could be sent shorter."""

    at: float
    """Tokens of the prompt in front of it."""
    tokens: float
    left: float
    """Tokens of what would stand in its place."""
    age: int
    """Requests that have carried it since it could have been shorter, and this one."""

    @property
    def gone(self) -> float:
        return self.tokens - self.left


class EditTerms(NamedTuple):
    """What an edit is weighed by."""

    total: float
    """Tokens of the prompt without it."""
    held: Sequence[float]
    """Tokens of the prefixes that are believed to be held now, ascending; the last one is read without an edit."""
    read: float
    write: float
    coming: float
    """Requests that are expected to come after this one."""
    margin: float = 1.0
    """So many times what it costs an edit must be expected to save."""
    anywhere: bool = False
    """Whether the provider reads a held prefix up to any place in it."""

    @property
    def hit(self) -> float:
        """Tokens that are read without an edit."""
        return self.held[-1] if self.held else 0.0

    def before(self, at: float) -> float:
        """Tokens that are read where the prompt is another one from `at` on."""
        if self.anywhere:
            return min(at, self.hit)
        known = bisect_right(self.held, at)
        return self.held[known - 1] if known else 0.0


class Weighed(NamedTuple):
    """An edit of all blocks from `first` on."""

    first: int
    saved: float
    """Tokens that this request and every later one have less."""
    now: float
    """What this request costs more for it; negative where it costs less."""
    again: float
    """Of that, what every edit costs anew, whenever it comes."""
    paid: float
    """What reading the blocks has cost since they could have been shorter, this request included."""
    worth: float
    """What it is expected to save, less what it costs, the margin included."""

    @property
    def pays(self) -> bool:
        """Whether to make it now."""
        return self.worth > 0.0 and self.paid >= self.again


def weigh(blocks: Sequence[EditableBlock], terms: EditTerms, *, added: float = 0.0) -> Weighed:
    """The edit of all `blocks`, in their order, for which `added` tokens come anew."""
    gone = sum(block.gone for block in blocks) - added
    paid = terms.read * sum(block.gone * block.age for block in blocks)
    return _weighed(blocks, terms, 0, (gone, paid))


def best(blocks: Sequence[EditableBlock], terms: EditTerms) -> Weighed | None:
    """The edit to make now; where none is, the one that is worth most, which waits. None without blocks."""
    gone = list(accumulate(block.gone for block in reversed(blocks)))[::-1]
    paid = list(accumulate(terms.read * block.gone * block.age for block in reversed(blocks)))[::-1]
    edits = [_weighed(blocks, terms, first, sums) for first, sums in enumerate(zip(gone, paid, strict=True))]
    return max(edits, key=lambda one: (one.pays, one.worth), default=None)


def _weighed(blocks: Sequence[EditableBlock], terms: EditTerms, first: int, sums: tuple[float, float]) -> Weighed:
    gone, paid = sums
    begin, end = blocks[first].at, blocks[-1].at + blocks[-1].tokens
    hit, read = terms.hit, terms.before(begin)
    plain = terms.read * hit + terms.write * (terms.total - hit)
    now = terms.read * read + terms.write * (terms.total - gone - read) - plain
    price = now * terms.margin if now > 0 else now
    outside = max(min(begin, hit) - read, 0.0) + max(hit - end, 0.0)
    again = (terms.write - terms.read) * outside
    return Weighed(first, gone, now, max(again, 0.0), paid, terms.read * gone * terms.coming - price)


def batch(again: float, tokens: float, read: float) -> float:
    """How many results of so many `tokens`, one a turn, are best cleared at once, where each time costs `again`.

    >>> round(batch(1.15 * 3 * 2_100, 2_000, 0.1), 1)
    8.5
    """
    return max(math.sqrt(2.0 * again / (read * tokens)), 1.0) if read > 0 and tokens > 0 else math.inf


# --- The forms of a request on its way to an edited one, and what they are weighed by ---------------------------------


class ReadRequest(NamedTuple):
    """A request, and as it reads."""

    request: Request
    prompt: Prompt


class Shape(NamedTuple):
    """A prompt as its provider is believed to see it before it is edited."""

    prefix: Prefixes
    tokens: Scale
    terms: EditTerms


class Summary(NamedTuple):
    """A text that stands for the messages before `cut`."""

    cut: int
    """The first message that is kept, in the list as the user wrote it."""
    identity: bytes
    """What the messages before it are known by."""
    text: str
    """Empty where it was asked for and is not there yet."""


class Edits(NamedTuple):
    """What stands in the place of parts of a history since earlier requests, where only this process knows it."""

    distilled: Mapping[bytes, str] = {}
    """Texts by what the results are known by whose place they take."""
    summary: Summary | None = None


class Written(NamedTuple):
    """A request as the user wrote it, with what is known of summaries for it."""

    prompt: Prompt
    wire: Wire
    summary: Summary | None
    """The one that is in use."""
    pending: Summary | None
    """The one that was asked for last."""
    ready: Mapping[bytes, str | None]
    """What the user's functions have made by now, None where they made nothing."""


# --- Where the provider edits the history itself, we do not; and what its edits cost is said --------------------------

_KEPT = 3
"""Results that the provider keeps where the request does not say (context editing guide, 2026-08)."""

_CLEARS = "clear_tool_uses"


def edits_itself(request: Request, prompt: Prompt) -> str:
    """The part of the request that has the provider edit the history; empty where none does."""
    if request.get("context_management"):
        return "context_management"
    if request.get("truncation") == "auto":
        return "truncation"
    return "compaction" if any(segment.kind == "compaction" for segment in prompt.segments) else ""


def left_alone(request: Request, prompt: Prompt, facts: CacheFacts) -> str | None:
    """Why the history is not edited; empty where another part of the plan says it, None where it may be."""
    if prompt.held or prompt.illegal or not prompt.messages:
        return ""
    if not facts.assured:
        return f"history left as it is: nothing is known of what is cached behind {facts.platform}"
    own = edits_itself(request, prompt)
    return f"history left as it is: the request has the provider edit it ({own})" if own else None


def what_it_costs(request: Request, prompt: Prompt, facts: CacheFacts, wire: Wire) -> tuple[str, ...]:
    """What the provider's clearing costs where nobody has told it to clear so much at once that it pays."""
    managed = request.get("context_management")
    edits = managed.get("edits") if isinstance(managed, Mapping) else None
    for edit in edits if isinstance(edits, list) else ():
        if isinstance(edit, Mapping) and str(edit.get("type")).startswith(_CLEARS) and not edit.get("clear_at_least"):
            return _clearing(edit, request, prompt, facts, wire)
    return ()


def _clearing(
    edit: Mapping[str, Any], request: Request, prompt: Prompt, facts: CacheFacts, wire: Wire
) -> tuple[str, ...]:
    keep = edit.get("keep")
    value = keep.get("value") if isinstance(keep, Mapping) else _KEPT
    kept = value if isinstance(value, int) and value >= 0 else _KEPT
    results = results_of(request, prompt, wire)
    if len(results) <= kept:
        return ()
    sizes = [sum(one.size for one in prompt.segments[it.first : it.last + 1]) for it in results]
    begin = results[-kept - 1].last + 1
    behind = sum(one.size for one in prompt.segments[begin:]) / facts.bytes_per_token
    each = fmean(sizes) / facts.bytes_per_token
    at_once = batch((facts.ttls[0].write - facts.read) * behind, each, facts.read) * each
    return (
        f"{edit['type']} has no clear_at_least: once it has begun it clears a result a turn, and each time the "
        f"{behind:,.0f} tokens behind are made anew; clearing at least {at_once:,.0f} at once would pay",
    )
