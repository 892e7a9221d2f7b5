"""What a set of markers is expected to cost: this request now, and what it saves later.

With w and r the prices of a written and a read token, p that the next request comes in time and s(i) that the prefix
up to i comes back, the figure is, in uncached tokens,

    cost of this request with the markers  -  (w - r) · p · Σ over entries held afterwards of (their tokens beyond the
    one before) · s(i)  -  the same for each part that other sessions may begin with (tools, system, what stands before
    the first question), with the probability that one does, and for the rest of a first prompt, with the probability
    that another session repeats it

The second term uses w - r because what is not held then would be written then. For one tail marker this gives the rule
of thumb of the field: write it if p·s > (w - 1)/(w - r), 0.22 for a 5-minute entry read at a tenth.

Of several lifetimes each has its own p, and what only the longer one saves may count for more than one turn: see
`longevity`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from agentaccel.cache.ledger import Mark, charge, hit_of, reach_of
from agentaccel.cache.longevity import Longevity
from agentaccel.cache.marks import reaching
from agentaccel.cache.scene import Candidate, Scene
from agentaccel.types import Expected


def _marks(scene: Scene, chosen: Sequence[Candidate]) -> list[Mark]:
    """The markers that count, ascending; candidates are none where they do not."""
    marks = [one.mark for one in chosen]
    marks += scene.counting
    marks.sort(key=_at)
    return marks


_at = attrgetter("at")


def expected_bill(scene: Scene, chosen: Sequence[Candidate]) -> Expected:
    """What this request is expected to be billed for when the ledger is right."""
    marks = reaching(scene.tokens, _marks(scene, chosen), scene.facts.min_tokens)
    return _charge(scene, marks, _hit(scene, marks))


def _charge(scene: Scene, marks: Sequence[Mark], hit: int) -> Expected:
    tokens = scene.tokens
    return charge(scene.facts, reach_of(marks, tokens), read=tokens(hit), total=tokens(scene.last))


def _hit(scene: Scene, marks: Sequence[Mark]) -> int:
    if scene.facts.physics != "markers":
        return hit_of(scene.prefix, marks, scene.warm.__contains__, scene.facts.lookback_planned) if scene.warm else -1
    for mark in reversed(marks):
        hit = scene.found(mark.at)
        if hit >= 0:
            return hit
    return -1


def expected_cost(scene: Scene, chosen: Sequence[Candidate]) -> float:
    """The figure that is minimised; see the module's docstring."""
    marks = _marks(scene, chosen)
    hit = _hit(scene, marks)
    if not marks or marks[0].ttl == marks[-1].ttl:  # longer lifetimes come first, so all are the same
        cost, cold = _prices(scene, marks, scene.tokens(hit) if hit >= 0 else 0.0)
    else:
        cost, cold = _price(scene, marks, hit), _price(scene, marks, -1)
    if hit >= 0:
        alive = scene.alive
        cost = alive * cost + (1 - alive) * cold
    return cost - _worth(scene, [mark for mark in marks if mark.at > hit], hit)


def _prices(scene: Scene, marks: Sequence[Mark], read: float) -> tuple[float, float]:
    """The price of this request when `read` tokens are, and when none are, with `marks` of one lifetime."""
    total = scene.tokens(scene.last)
    ttl = scene.facts.ttl(marks[-1].ttl) if marks else None
    if ttl is None:
        return total - read + read * scene.facts.read, total
    reach = scene.tokens(marks[-1].at)
    written = max(reach - read, 0.0)
    premium = ttl.write - 1
    return total - read + read * scene.facts.read + written * premium, total + reach * premium


def _price(scene: Scene, marks: Sequence[Mark], hit: int) -> float:
    """The price of this request when the prefix up to `hit` is read, by the arithmetic of `ledger.charge`."""
    bill = _charge(scene, marks, hit)
    cost = bill.read * scene.facts.read + bill.uncached
    for label, tokens in bill.write.items():
        ttl = scene.facts.ttl(label)
        cost += tokens * (ttl.write if ttl is not None else 1.0)
    return cost


def _worth(scene: Scene, written: Sequence[Mark], hit: int) -> float:
    """What entries on this prompt's path are expected to save later, in uncached tokens; `written` end those new."""
    worth = 0.0
    for life, held in zip(scene.lives, scene.held, strict=True):
        if life is scene.lives[0]:
            places = [mark.at for mark in written]
        else:
            places = [mark.at for mark in written if mark.ttl == life.ttl.label]
            if scene.facts.ages == "blocks" and hit >= 0 and hit not in held:
                places = []  # what stands before it does not live as long
            if not places and not held:
                continue
        if life.own:
            worth += _own_worth(scene, life, held, places)
        before = 0.0
        for end, lent in zip(scene.beginnings, life.lent, strict=True):
            tokens = _shared(scene, held, places, end)
            worth += lent * (tokens - before)
            before = tokens
    if scene.repeated:
        last = _held_before(scene.last + 1, scene.warm, [mark.at for mark in written])
        ends = scene.beginnings[-1:]
        shared = _shared(scene, scene.warm, [mark.at for mark in written], ends[0]) if ends else 0.0
        again = max(scene.tokens(last) * scene.survives(last) - shared, 0.0)
        worth += scene.gain * scene.repeated * again
    return worth


def _own_worth(scene: Scene, life: Longevity, held: Sequence[int], written: Sequence[int]) -> float:
    """What the conversation itself saves by the longest prefix that is held: each token as likely as it comes back.

    What a longer life adds comes after a pause, and so is what it keeps of a loop.
    """
    worth = before = 0.0
    loop, late = scene.loop if life is not scene.lives[0] else (scene.last + 1, 1.0)
    for n, (start, comes_back) in enumerate(scene.survival, 1):
        end = scene.survival[n][0] if n < len(scene.survival) else scene.last + 1
        tokens = scene.tokens(_held_before(end, held, written))
        if tokens > before:
            worth += (tokens - before) * (
                life.own * comes_back if start < loop else life.in_loop * min(comes_back, late)
            )
            before = tokens
    return worth


def _shared(scene: Scene, held: Sequence[int], written: Sequence[int], end: int) -> float:
    """Tokens up to the segment `end` that are held: the most of them.

    Whether sessions begin alike was counted for a session's first prompt as it is; behind it, a prefix is as likely to
    be what others begin with as it comes back.
    """
    most = 0.0
    for places in (held, written):
        for at in places:
            if at > end:
                break
            most = max(most, scene.tokens(at) * (scene.survives(at) if scene.view.state.turns else 1.0))
    return most


def _held_before(end: int, held: Sequence[int], written: Sequence[int]) -> int:
    """The last segment before `end` whose prefix is held once those up to `written` are; -1 where there is none."""
    i, j = bisect_left(held, end), bisect_left(written, end)
    return max(held[i - 1] if i else -1, written[j - 1] if j else -1)
