"""Whether a call that asks for a whole reply goes out streamed, with the user's consent, so that its tools begin early.

The seam puts the reply together; where that is not known to give what the caller would have got, it is left alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

from agentaccel.engine.conversation import Conversation
from agentaccel.engine.draft import Draft, TurnMode
from agentaccel.engine.scope import Within
from agentaccel.facts import joinable
from agentaccel.once import Once
from agentaccel.policy import Policy
from agentaccel.tools.speculator import Speculator
from agentaccel.types import CachePlan, Prompt
from agentaccel.wire import dialect

CONSENT = "stream_inside"
"""The consent that is used."""

ModelAt = tuple[str, str, str]
"""A provider, a platform of it, and the model as it is named there."""


@dataclass(slots=True)
class StreamInside:
    """Decides for one `Accel`. Thread-safe: what was left alone once stays so."""

    policy: Policy
    speculator: Speculator | None
    _left: set[ModelAt] = field(default_factory=set)
    """Where a stream did not add up."""
    _once: Once = field(default_factory=Once)

    def planned(
        self, plan: CachePlan, draft: Draft, conversation: Conversation, within: Within, mode: TurnMode
    ) -> CachePlan:
        """The plan with the fields that ask for a stream; else with the reason why not. The very plan without
        consent."""
        if not self.policy.stream_inside or mode != "on":
            return plan
        why = self._why_whole(draft)
        if not why:
            names = {one.name for one in draft.prompt.segments if one.level == "tools" and one.name}
            early = self.speculator is not None and self.speculator.may_begin(conversation, names, within)
            why = "" if early else "none of its tools may begin early"
        if why:
            return replace(plan, reasons=(*plan.reasons, f"not streamed inside the client: {why}"))
        self._once.say("sending calls with tools as streamed ones, as the policy allows", level=logging.INFO)
        options: dict[str, Any] = {**plan.options, "stream": True}
        if plan.wire == "chat":
            options["stream_options"] = {**options.get("stream_options", {}), "include_usage": True}
        return replace(
            plan,
            options=options,
            consents=(*plan.consents, CONSENT),
            reasons=(*plan.reasons, "streamed inside the client, so that tools begin early (Policy.stream_inside)"),
        )

    def _why_whole(self, draft: Draft) -> str:
        prompt, wire = draft.prompt, draft.endpoint.wire
        if prompt.stream:
            return "its caller streams it"
        if not draft.sender.joinable:
            return "only a wrapped client that reads the whole reply can put one together"
        if prompt.illegal:
            return "the provider will refuse it"
        if not joinable(prompt.provider, prompt.platform, wire):
            return f"it is not known how a stream of {prompt.platform!r} adds up to a whole reply"
        if model_at(prompt) in self._left:
            return "a call of this model could not be streamed before"
        return dialect(wire).stays_whole(draft.request)

    def leave(self, place: ModelAt, why: str) -> None:
        """A stream from there did not add up, or was refused: calls are left alone from now on."""
        self._left.add(place)
        told = (
            f"a call of {place[2]!r} cannot be streamed inside the client ({why}); it is sent again as written, and so"
        )
        self._once.say(f"{told} are later ones", about=" ".join(place))


def model_at(prompt: Prompt) -> ModelAt:
    """Where a request goes, as far as it matters for how streams add up."""
    return prompt.provider, prompt.platform, prompt.model
