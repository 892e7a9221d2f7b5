"""The decision of one turn: what is believed once a request has been seen, and the plan that follows from it.

Live sessions and replayed ones decide here, so that a replay is the product and not a model of it.
"""

from __future__ import annotations

from agentaccel.cache.beliefs import Beliefs, went_on
from agentaccel.cache.observe import Observed
from agentaccel.cache.pauses import ANY, is_known
from agentaccel.cache.plan import Decided, plan
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.scene import View
from agentaccel.cache.standing import asked_of, ends_of, is_quiet
from agentaccel.cache.state import State
from agentaccel.facts import priors


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
            return Decided(again, standing)
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
