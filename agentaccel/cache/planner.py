"""Where to put markers: the set with the least expected cost over this request and the next.

A marker costs a write premium on the tokens between the longest live entry and the last marker; markers before the
last one cost nothing. It pays if another request reads what it wrote: if the conversation goes on in time, and if
nothing up to the marker has changed by then. Both are probabilities, stated first and learned later (`beliefs`).

`expectation` has the figure that is minimised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs, went_on
from agentaccel.cache.breakpoints import both_ends, markable_up_to, marks_of
from agentaccel.cache.expectation import (
    Candidate,
    PlanInputs,
    View,
    expected_bill,
    expected_cost,
    reaches_minimum,
    scene_of,
    without_own,
)
from agentaccel.cache.ledger import Breakpoint
from agentaccel.cache.observe import Observed
from agentaccel.cache.pauses import ANY, is_known
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.standing import Standing, asked_of, ends_of, is_quiet, standing_of
from agentaccel.cache.state import SessionState
from agentaccel.facts import CacheFacts, Ttl, priors
from agentaccel.types import CachePlan, Expected, Marker, Prompt, show_path
from agentaccel.values import maker

# --- Markers of whoever sent a request that cost more than they save: what is written in front of what changes --------


def in_vain(scene: PlanInputs, cost: float) -> Iterator[str]:
    """That the markers of whoever sent the request cost more than they save, and by how much; a framework sets them."""
    own = sum(not mark.own for mark in scene.existing)
    bare = scene._replace(existing=(), counting=())
    if not own or expected_cost(bare, ()) >= cost:
        return
    now, without = (_price(scene.facts, expected_bill(one, ())) for one in (scene, bare))
    share = 1 - without / now if now else 0.0
    if share >= _WORTH_SAYING:
        yield (
            f"the request's own {own} marker(s) write what is hardly read again: with the caching of whatever sets "
            f"them switched off, this request is expected to cost {share:.0%} less"
        )


_WORTH_SAYING = 0.02
"""Share of a request's cost that markers must waste to be worth a word."""


def _price(facts: CacheFacts, bill: Expected) -> float:
    """What is billed, in uncached tokens."""
    dear = {ttl.label: ttl.write for ttl in facts.ttls}
    return facts.read * bill.read + sum(dear.get(one, 1.0) * n for one, n in bill.write.items()) + bill.uncached


class Decided(NamedTuple):
    """A plan, and what of it may stand for the next requests; None where nothing may."""

    plan: CachePlan
    standing: Standing | None = None


def plan(prefix: Prefixes, view: View) -> Decided:
    """The markers to add to the request of `prefix`, each with its reason; possibly none."""
    prompt = prefix.prompt
    surplus = _surplus(prompt, prefix.facts)
    if surplus:
        return _mended(prefix, view, surplus)
    refusal = _refusal(prompt)
    if refusal:
        return Decided(CachePlan(wire=prefix.facts.wire, reasons=(refusal,)))
    scene = scene_of(prefix, view)
    facts = scene.facts
    if not facts.controls or facts.physics == "automatic":
        left = (_uncontrolled(scene),)
        return Decided(CachePlan(wire=facts.wire, reasons=left, expected=expected_bill(scene, ()), saving=0.0))
    bare = expected_cost(scene, ())
    room = facts.max_markers - len(prompt.markers)
    choice = _choice(scene, room, bare)
    own = [marker for marker in prompt.markers if not marker.path]
    if prompt.implicit and own:
        choice = min(choice, _choice(without_own(scene), room + 1, None), key=lambda one: round(one.cost, 6))
    scene, chosen = choice.scene, choice.chosen
    moved = _moved(prefix) if own and not facts.top_level_marker else ()
    off = prompt.implicit and choice.room > room
    reasons = [*in_vain(scene, choice.cost), *_remarks(scene, choice.candidates, chosen, choice.room)]
    made = CachePlan(
        wire=facts.wire,
        mark=facts.mark,
        markers=(*[_marker(scene, one) for one in chosen], *moved),
        without=tuple(own) if off or (own and not facts.top_level_marker) else (),
        options=facts.implicit_off if off else {},
        reasons=(*([_switched_off(scene)] if off else ()), *reasons),
        expected=expected_bill(scene, chosen),
        saving=bare - choice.cost,
    )
    return Decided(made, standing_of(scene, choice.candidates, chosen, made))


def _marker(scene: PlanInputs, one: Candidate) -> Marker:
    reason = one.reason
    if one.mark.ttl != scene.ttl.label and scene.view.ttl == "auto" and not scene.existing:
        share = scene.pauses.longer(scene.ttl.seconds)
        reason += f"; for {one.mark.ttl}, because a pause is longer than {scene.ttl.label} with probability {share:.2g}"
    return Marker(path=_path(scene.prefix, one.at), ttl=one.mark.ttl, reason=reason, ours=True)


def _moved(prefix: Prefixes) -> tuple[Marker, ...]:
    """The request's own top-level marker as one on the block that it stands for, where none is there yet."""
    prompt = prefix.prompt
    *others, top = prompt.markers
    path = _path(prefix, marks_of(prefix, (top,))[0].at)
    if any(marker.path == path for marker in others):
        return ()
    reason = "the request's own marker, on its last block: this platform takes none at the top level"
    return (Marker(path=path, ttl=top.ttl, reason=reason, ours=True),)


class _Choice(NamedTuple):
    """The best set of markers in one scene."""

    scene: PlanInputs
    chosen: tuple[Candidate, ...]
    cost: float
    candidates: list[Candidate]
    room: int
    """How many markers of ours there may be."""


def _choice(scene: PlanInputs, room: int, bare: float | None) -> _Choice:
    candidates = [one for one in _candidates(scene, scene.ttl) if reaches_minimum(scene.scale, scene.facts, one.at)]
    chosen, cost = _choose(scene, candidates, room, expected_cost(scene, ()) if bare is None else bare)
    for life in scene.lives[1:]:
        if life.counts:
            chosen, cost = _for_longer(scene, life.ttl, candidates, (chosen, cost), room)
    return _Choice(scene, chosen, cost, candidates, room)


def _for_longer(
    scene: PlanInputs,
    ttl: Ttl,
    candidates: Sequence[Candidate],
    best: tuple[tuple[Candidate, ...], float],
    room: int,
) -> tuple[tuple[Candidate, ...], float]:
    """The better of `best` and what markers of the longer lifetime give: the first of them, all, or another set."""
    chosen, cost = best
    longer = {one.at: one for one in _candidates(scene, ttl) if one.mark.ttl == ttl.label}
    # What is read is not written again: a longer life that reaches no farther buys nothing.
    read = scene.found(chosen[-1].at) if chosen and scene.facts.physics == "markers" else -1
    tries: list[tuple[Candidate, ...]] = [
        (*(longer[one.at] for one in chosen[:count]), *chosen[count:])
        for count in range(1, len(chosen) + 1)
        if chosen[count - 1].at > read and all(one.at in longer for one in chosen[:count])
    ]
    if not chosen or (candidates and candidates[0] not in chosen):
        alone = [one for one in longer.values() if reaches_minimum(scene.scale, scene.facts, one.at)]
        tries.append(_choose(scene, alone, room, cost)[0])
    for some in tries:
        least = expected_cost(scene, some)
        if round(least, 6) < round(cost, 6):
            chosen, cost = some, least
    return chosen, cost


def _uncontrolled(scene: PlanInputs) -> str:
    if not scene.facts.assured:
        return f"left as it is: nothing is known of what is cached behind {scene.facts.platform}"
    if scene.facts.physics == "automatic":
        if scene.facts.self_hosted:
            return _recomputed(scene)
        how = "what has the same key" if scene.facts.key == "opts_in" else "every prefix by itself"
        return f"the provider keeps {how}, at no charge: there is nothing to mark"
    return f"left as it is: no cache field may be added on {scene.facts.platform}"


def _recomputed(scene: PlanInputs) -> str:
    """What a server of the user's own is expected to compute of the prompt, in its own time where that is known."""
    bill, each = expected_bill(scene, ()), scene.view.beliefs.prefill(scene.prefix.prompt.model)
    computed = bill.total - bill.read
    told = (
        f"the server keeps every prefix by itself: about {computed:.0f} of {bill.total:.0f} tokens are to be computed"
    )
    if scene.view.given_up:
        told = (
            f"the server has computed {scene.view.others} other conversation(s) since, which mostly takes the place of "
            f"this one: about {computed:.0f} of {bill.total:.0f} tokens are to be computed"
        )
    return told if each is None else f"{told}, in {computed * each:.1f} s at {1 / each:.0f} tokens a second"


def _switched_off(scene: PlanInputs) -> str:
    return (
        "the provider's own breakpoint is switched off: the end of this prompt comes back with probability "
        f"{scene.going_on * scene.survives(scene.last):.2f}, and writing it costs {scene.ttl.write:g} times its tokens"
    )


def _refusal(prompt: Prompt) -> str:
    """Why this request is left exactly as it is; empty where it can be planned."""
    if prompt.held:
        return f"left as it is: the provider holds the history ({prompt.held})"
    if prompt.illegal:
        return f"left as it is: the provider will reject it as written ({prompt.illegal[0]})"
    if not prompt.messages or not prompt.segments:
        return "left as it is: a message of the user is missing (system and developer messages are instructions)"
    return ""


def _surplus(prompt: Prompt, facts: CacheFacts) -> int:
    """How many markers the request has that its provider will certainly reject it for, and for nothing else."""
    certain = facts.physics == "markers" and facts.controls and facts.wire == "messages" and not prompt.held
    more = len(prompt.markers) - facts.max_markers
    return max(more, 0) if certain and len(prompt.illegal) == 1 else 0  # more of them are a reason of their own


def _mended(prefix: Prefixes, view: View, surplus: int) -> Decided:
    """The plan of a request without the first of its markers: what they would write ahead, the last ones write, too."""
    gone, kept = prefix.prompt.markers[:surplus], prefix.prompt.markers[surplus:]
    left = plan(replace(prefix, prompt=replace(prefix.prompt, markers=kept, illegal=())), view).plan
    said = (
        f"the request has {len(prefix.prompt.markers)} markers, and the provider takes {len(kept)}: "
        f"it goes out without the first {surplus}, or it would be rejected"
    )
    return Decided(replace(left, without=(*gone, *left.without), reasons=(said, *left.reasons)))


def _candidates(scene: PlanInputs, wanted: Ttl) -> list[Candidate]:
    """Places worth a marker, most valuable first; at most one per segment, of the lifetime wanted where it is legal."""
    prompt = scene.prefix.prompt
    ends: list[tuple[int, str]] = []
    tail, previous = both_ends(prompt)
    breaks = [start for start, _ in scene.survival if start > 0]
    ends.append((tail, "new tail: the next request of this conversation reads up to here"))
    # Free, because all behind the edit is written anyway; and only now, because what is read cannot be marked later.
    ends.append((scene.view.edited, "where an edit of the history ended: the next one is likely to begin here"))
    ends.append((previous, "previous tail: the last request wrote here, so a lookback limit cannot lose it"))
    if prompt.edited and prompt.edited - 1 not in scene.warm:
        ends.append((prompt.edited - 1, "end of what was edited: the next edit begins behind it"))
    ends.append((scene.static, "end of system: every request with these instructions shares it"))
    ends.append((scene.tools, "end of tools: survives a change of the system prompt"))
    if not scene.view.state.turns or not scene.warm:  # else these were written already, and live on by being read
        ends += [(at, _BEFORE_QUESTION if at > scene.static else _IN_SYSTEM) for at in reversed(scene.beginnings)]
    ends.extend((start - 1, "last place before text that keeps changing") for start in reversed(breaks))
    ends.append((scene.warm[-1] if scene.warm else -1, "longest prefix that is still warm"))
    found: dict[int, Candidate] = {}
    taken = {mark.at for mark in scene.existing}
    for end, reason in ends:
        at = markable_up_to(prompt, end)
        if at < 0 or at in found or at in taken:
            continue
        ttl = _ttl_at(scene, at, wanted)
        if ttl is not None:
            found[at] = Candidate(at, Breakpoint(at, ttl.label), reason)
    return list(found.values())[:_MOST_CANDIDATES]


_BEFORE_QUESTION = "what stands before the last block: other sessions may go on from here with another one"
_IN_SYSTEM = "inside the system prompt: what follows may be of this session alone"

_MOST_CANDIDATES = 8
"""Places weighed against one another; four can be marked."""


def _ttl_at(scene: PlanInputs, at: int, wanted: Ttl) -> Ttl | None:
    """The lifetime a marker of ours may have at `at`: longer ones must come first, and the user's stay as they are."""
    facts, existing = scene.facts, scene.existing
    if not existing:
        return wanted
    top = scene.prefix.prompt.markers[-1] if scene.prefix.prompt.markers else None
    if top is not None and top.path == ():
        # Beside a top-level marker ours have its lifetime: wherever the provider puts that one, they cannot disagree.
        wanted = facts.ttl(top.ttl) or facts.ttls[0]
    seconds = {ttl.label: ttl.seconds for ttl in facts.ttls}
    ceiling = min((seconds[mark.ttl] for mark in existing if mark.at < at), default=float("inf"))
    floor = max((seconds[mark.ttl] for mark in existing if mark.at > at), default=0.0)
    allowed = [ttl for ttl in facts.ttls if floor <= ttl.seconds <= ceiling]
    return wanted if wanted in allowed else next(iter(allowed), None)


def _choose(
    scene: PlanInputs, candidates: Sequence[Candidate], room: int, bare: float
) -> tuple[tuple[Candidate, ...], float]:
    """The set of at most `room` candidates with the least expected cost, and that cost; `bare` is that of none.

    Ties go to more markers, which are free; where the provider looks at message endings by itself, to fewer, but with
    the one that wrote what is read now: that its entry is found by the provider's own breakpoint is not documented.
    """
    more = -1 if scene.facts.physics == "markers" else 1
    kept = scene.warm[-1] if more > 0 and scene.warm and scene.warm[-1] not in scene.unseen else -1
    least, best, paid = (round(bare, 6), True, 0), tuple[Candidate, ...](), bare
    for chosen in _sets(scene, candidates, room) if room > 0 else ():
        cost = expected_cost(scene, chosen)
        rank = (round(cost, 6), all(one.at != kept for one in chosen), more * len(chosen))
        if rank < least:
            least, best, paid = rank, chosen, cost
    return tuple(sorted(best, key=lambda one: one.at)), paid


def _sets(scene: PlanInputs, candidates: Sequence[Candidate], room: int) -> Iterator[tuple[Candidate, ...]]:
    """The sets worth weighing, of equal ones the more valuable candidates first.

    A marker before the last one costs nothing: it is written on the way, and can only be found or kept. So for each
    candidate that may be the last, as many of those before it as there is room for. Where lifetimes differ that is not
    so, because what lies before a longer-lived marker is written at its price: then all sets.
    """
    if len({one.mark.ttl for one in candidates} | {mark.ttl for mark in scene.existing}) > 1:
        for size in range(1, min(room, len(candidates)) + 1):
            yield from combinations(candidates, size)
        return
    for last in candidates:
        before = [one for one in candidates if one.at < last.at]
        if len(before) < room:
            yield (*before, last)
        else:
            for others in combinations(before, room - 1):
                yield (*others, last)


def _path(prefix: Prefixes, at: int) -> tuple[str | int, ...]:
    return prefix.prompt.segments[at].path


def _remarks(scene: PlanInputs, candidates: Sequence[Candidate], chosen: Sequence[Candidate], room: int) -> list[str]:
    """Why there are not more markers."""
    facts = scene.facts
    remarks: list[str] = []
    kept = [mark for mark in scene.existing if not mark.own]
    if kept:
        remarks.append(f"{len(kept)} marker(s) of the request kept; room for {max(room, 0)} more")
    if scene.view.ttl != "auto" and facts.ttl(scene.view.ttl) is None:
        there = ", ".join(ttl.label for ttl in facts.ttls)
        remarks.append(f"{scene.view.ttl} is no lifetime of this model, which has {there}: chosen as for auto")
    if not candidates and not scene.existing:
        total = scene.tokens(len(scene.prefix.hashes) - 1)
        short = f"about {total:.0f} tokens, below the minimum of {facts.min_tokens}"
        remarks.append(f"no marker: {short if total < facts.min_tokens else 'no block may carry one'}")
    marked = {one.at for one in chosen}
    for one in candidates:
        if one.at in marked:
            continue
        place = show_path(_path(scene.prefix, one.at))
        survives, threshold = scene.survives(one.at), (scene.gain + facts.read - 1) / scene.gain
        if scene.going_on * survives < threshold:
            remarks.append(
                f"not at {place}: it comes back with probability {scene.going_on * survives:.2f}, "
                f"and a write pays from {threshold:.2f}"
            )
        else:
            remarks.append(f"not at {place}: a marker elsewhere does more")
    return remarks


# --- The decision of one turn: what is believed once a request has been seen, and the plan that follows from it -------
# Live sessions and replayed ones decide here, so that a replay is the product and not a model of it.

_decided = maker(Decided)


def decide(
    state: SessionState,
    observed: Observed,
    prefix: Prefixes,
    snapshot: Beliefs,
    *,
    now: float,
    ttl: str = "auto",
    keeps: bool = False,
) -> Decided:
    """The plan for the request of `prefix`, made at `now` in a session that has come to `state`.

    `observed` is what the request itself shows (`observe`), `snapshot` what was believed of the workload when the
    session began, `ttl` the user's choice of lifetime, and `keeps` whether requests of our own may keep entries alive.
    """
    standing = state.standing
    if standing is not None and is_quiet(state, observed, snapshot):
        ends = ends_of(prefix)
        asked = asked_of(prefix, state, ends, ttl, keeps)
        again = standing.again(state, prefix, asked, ends, now) if asked is not None and ends is not None else None
        if again is not None:
            return _decided(again, standing)
    seen = state.seen.after(observed.stability, priors().memory)
    if observed.in_time is not None:
        seen = seen.after(observed.pause, priors().pace_memory)
        seen = seen.after(went_on(state.last_turn, state.awaits))
    beliefs = snapshot.joined(seen)
    view = View(
        state=state,
        beliefs=beliefs,
        now=now,
        cut=observed.cut,
        ttl=ttl,
        keeps=keeps,
        alone=not is_known(snapshot, ANY),
        edited=observed.edited,
        others=observed.others,
        given_up=observed.given_up,
    )
    return plan(prefix, view)


Given = tuple[SessionState, Observed, Prefixes, Beliefs, str, bool]
"""What a decision is taken by beside the time, as `decide` takes it."""


class Latest(NamedTuple):
    """The last decision of a conversation.

    The same request is decided on alike until something is learned, or what is held becomes more or less: a retry, or
    what is sent after a look at its plan. It is given that decision, and its prompt is not hashed again.
    """

    given: Given
    taken: float
    decided: Decided

    def prefix_of(self, prompt: Prompt, facts: CacheFacts) -> Prefixes | None:
        """The prefixes of `prompt`, where it was taken for that very prompt."""
        prefix = self.given[2]
        return prefix if prefix.facts is facts and prefix.prompt == prompt else None

    def holds(self, given: Given, now: float) -> bool:
        """Whether `decide` would come to the same; asked of prefixes that `prefix_of` gave."""
        if given[2] is not self.given[2] or given != self.given or now < self.taken:
            return False
        entries = given[0].ledger.entries.values()
        return not any(self.taken < edge <= now for entry in entries for edge in (entry.visible, entry.expires))
