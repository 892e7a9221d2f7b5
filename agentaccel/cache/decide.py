"""The decision of one turn: what is believed once a request has been seen, and the plan that follows from it.

Live sessions and replayed ones decide here, so that a replay is the product and not a model of it.
"""

from __future__ import annotations

from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs, went_on
from agentaccel.cache.observe import Observed
from agentaccel.cache.pauses import ANY, is_known
from agentaccel.cache.plan import Decided, plan
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.scene import View
from agentaccel.cache.standing import asked_of, ends_of, is_quiet
from agentaccel.cache.state import State
from agentaccel.facts import CacheFacts, priors
from agentaccel.types import Prompt
from agentaccel.values import maker

_decided = maker(Decided)


def decide(
    state: State,
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
    )
    return plan(prefix, view)


Given = tuple[State, Observed, Prefixes, Beliefs, str, bool]
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
