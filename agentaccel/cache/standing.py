"""A decision that stands: where a loop only goes on, what was right for one request is right for the next.

Deciding takes a tenth of a millisecond or two, and what it rests on hardly changes within a long session: the odds by
one occasion among many, the prompt by one turn. So a decision stands for half as many requests as the session had made
when it was taken, its places moved on with the history; it is taken anew for a session's third, fifth, eighth, twelfth
request, and so on. It stands while nothing is seen that could make another one right. The request

- came within a minute, was due to what the one decided on was due to (a tool, a person), and is not at a place of the
  session where others were seen to pause or to end;
- only grew, and by at most twice as much as that one had;
- has the markers of its user's where that one had them, those at the end at the end;
- finds the end of the request before held, and nothing behind it.

Whatever else is decided anew, and so is what follows on a miss. Where a longer lifetime is worth anything, nothing
stands: when to buy it is decided with each request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from agentaccel.cache.beliefs import MOST_PLACES, Beliefs, followed_at_topic
from agentaccel.cache.breakpoints import both_ends, markable_up_to, segment_at
from agentaccel.cache.expectation import Candidate, PlanInputs
from agentaccel.cache.ledger import charge
from agentaccel.cache.observe import ONLY_GREW, Observed
from agentaccel.cache.pauses import short_after_topic
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.state import SessionState
from agentaccel.types import CachePlan, Marker, made_marker
from agentaccel.values import maker

_SHARE = 2
"""A decision stands for one request in so many that the session had made."""

_GROWS = 2
"""Times the growth of the request that was decided on."""

_USUAL = 0.9
"""The share of other sessions that went on from here, and within a minute."""

_PREVIOUS, _TAIL = -2, -1
"""In the place of a segment: the end of the prompt before this one, and its own. Where they are in `ends_of`."""

_FORM = 2
"""The form in which decisions are stored. The first had none, and our own markers alone."""

STANDS = "as decided for an earlier request: nothing new was seen since"


class StandingPlace(NamedTuple):
    """A marker, by what it stands on."""

    at: int
    """A segment that stays where it is, or one of the ends that move."""
    ttl: str
    reason: str
    """Empty for one of the user's own."""


class StandingInputs(NamedTuple):
    """What a decision is asked for, beside what is believed."""

    ttl: str
    keeps: bool
    person: bool
    """Whether the pause before the request was a person's."""
    rules: tuple[str, ...]
    """Where it goes, and to which model."""
    marks: tuple[tuple[int, str], ...]
    """The user's markers: places and lifetimes."""


_asked, _plan = maker(StandingInputs), maker(CachePlan)


class Standing(NamedTuple):
    """A decision, and what it rests on."""

    answered: int
    """Requests of the session that had been answered when it was taken."""
    asked: StandingInputs
    size: int
    """Bytes of the prompt."""
    grew: int
    """Bytes of it behind the end of the request before."""
    bytes_per_token: float
    places: tuple[StandingPlace, ...]
    """In wire order."""
    reasons: tuple[str, ...]
    saving: float

    def again(
        self, state: SessionState, prefix: Prefixes, asked: StandingInputs, ends: tuple[int, int], now: float
    ) -> CachePlan | None:
        """The plan for a quiet request (`is_quiet`) of the same session; None where it has to be decided anew.

        `ends` are those of its prompt (`ends_of`).
        """
        if state.turns - self.answered > self.answered // _SHARE or asked != self.asked:
            return None
        previous = ends[_PREVIOUS]
        entries, hashes, sizes, facts = state.ledger.entries, prefix.hashes, prefix.sizes, prefix.facts
        held, before, size = entries.get(hashes[previous]), sizes[previous], sizes[-1]
        if held is None or not held.visible <= now < held.expires or size - before > _GROWS * self.grew:
            return None
        if not entries.keys().isdisjoint(hashes[previous + 1 :]):
            return None  # more is held than the request before the last reply has written
        bytes_per_token = self.bytes_per_token
        read = held.tokens if held.tokens is not None else before / bytes_per_token
        markers: list[Marker] = []
        reach: dict[str, float] = {}  # of what is held, as far as it was read, the rest as its bytes tell
        segments = prefix.prompt.segments
        for place, ttl, reason in self.places:
            at = place if place >= 0 else ends[place]
            reach[ttl] = read + (sizes[at] - before) / bytes_per_token
            if reason:
                markers.append(made_marker(path=segments[at].path, ttl=ttl, reason=reason, ours=True))
        return _plan(
            wire=facts.wire,
            mark=facts.mark,
            markers=tuple(markers),
            reasons=self.reasons,
            expected=charge(facts, reach, read=read, total=read + (size - before) / bytes_per_token),
            saving=self.saving * size / self.size,
        )


def dump_standing(standing: Standing) -> list[Any]:
    """A decision in lists, as JSON has them."""
    asked, places = tuple(standing.asked), [tuple(one) for one in standing.places]
    return [_FORM, *standing._replace(asked=asked, places=places)]  # type: ignore[arg-type]  # what JSON makes of them


def load_standing(raw: Sequence[Any]) -> Standing | None:
    """The decision that `dump_standing` wrote; None for what another version of it did."""
    try:
        form, answered, (ttl, keeps, person, rules, marks), size, grew, bytes_per_token, places, reasons, saving = raw
    except ValueError:
        return None
    if form != _FORM:
        return None
    return Standing(
        answered,
        StandingInputs(ttl, keeps, person, tuple(rules), tuple([(at, label) for at, label in marks])),
        size,
        grew,
        bytes_per_token,
        tuple([StandingPlace(*one) for one in places]),
        tuple(reasons),
        saving,
    )


def is_quiet(state: SessionState, observed: Observed, snapshot: Beliefs) -> bool:
    """Whether a request shows nothing that an earlier one had not."""
    if observed.stability != ONLY_GREW or not observed.pause:
        return False
    for one in observed.pause:
        if not one.yes:
            return False
    counts, place = snapshot.counts, state.turns
    # Other sessions went on from here, and soon, as far as that is known.
    for topic in _AT_PLACES[place] if place < MOST_PLACES else ():
        if topic in counts and counts[topic][0] < _USUAL * counts[topic][1]:
            return False
    return True


_AT_PLACES = [
    [topic for topic in (followed_at_topic(place), short_after_topic(place)) if topic is not None]
    for place in range(MOST_PLACES)
]
"""What is counted of each place: whether the session went on, and soon."""


def asked_of(
    prefix: Prefixes, state: SessionState, ends: tuple[int, int] | None, ttl: str, keeps: bool
) -> StandingInputs | None:
    """What is asked for, where these are the `ends_of` its prompt; None where no decision could stand for it."""
    prompt, facts = prefix.prompt, prefix.facts
    if ends is None:
        return None
    if facts.physics != "markers" or not facts.controls or prompt.implicit or prompt.held or prompt.illegal:
        return None
    if prompt.ephemeral or prompt.edited or prompt.arranged or prefix.dropped or prompt.ttl:
        return None
    marks: list[tuple[int, str]] = []
    for marker in prompt.markers:
        at = segment_at(prompt, marker.path) if marker.path else None
        if at is None:
            return None
        marks.append((_named(at, ends), marker.ttl))
    rules = (facts.provider, facts.platform, facts.wire, prompt.model)
    return _asked(ttl, keeps, state.awaits == "user", rules, tuple(marks))


def standing_of(
    scene: PlanInputs, candidates: Sequence[Candidate], chosen: Sequence[Candidate], plan: CachePlan
) -> Standing | None:
    """The decision that `plan` was made by, as one that may stand; None where none can."""
    state, prefix = scene.view.state, scene.prefix
    if state.turns < _SHARE:
        return None
    ends = ends_of(prefix)
    asked = asked_of(prefix, state, ends, scene.view.ttl, scene.view.keeps)
    if asked is None or ends is None or plan.saving is None:
        return None
    taken = [one.at for one in chosen]
    if any([one.at > scene.static and one.at not in taken for one in candidates]):
        return None  # what was left out for now would have to be weighed again as it moves
    # A longer life is bought once, and where it is worth anything, that may be right for the very next request.
    if any([life.counts for life in scene.lives[1:]]):
        return None
    ours = zip(chosen, plan.markers, strict=True)
    places = [StandingPlace(_named(one.at, ends), marker.ttl, marker.reason) for one, marker in ours]
    places += [StandingPlace(at, ttl, "") for at, ttl in asked.marks]
    places.sort(key=lambda one: one.at if one.at >= 0 else ends[one.at])
    return Standing(
        answered=state.turns,
        asked=asked,
        size=prefix.size,
        grew=prefix.size - prefix.sizes[ends[_PREVIOUS]],
        bytes_per_token=scene.scale.bytes_per_token,
        places=tuple(places),
        reasons=(*plan.reasons, STANDS),
        saving=plan.saving,
    )


def ends_of(prefix: Prefixes) -> tuple[int, int] | None:
    """Where markers can stand at the end of the prompt before and of this one, `_PREVIOUS` and `_TAIL`; None where
    these are not two places in the conversation."""
    prompt = prefix.prompt
    tail, previous = both_ends(prompt)
    tail, previous = markable_up_to(prompt, tail), markable_up_to(prompt, previous)
    return (previous, tail) if prefix.starts[2] <= previous < tail else None


def _named(at: int, ends: tuple[int, int]) -> int:
    return _TAIL if at == ends[_TAIL] else _PREVIOUS if at == ends[_PREVIOUS] else at
