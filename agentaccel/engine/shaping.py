"""What is made of a request before it is planned, with consent: its beginning arranged, its history edited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from agentaccel.cache.observe import ONLY_GREW, Observed
from agentaccel.cache.prefix import Prefixes
from agentaccel.engine.conversation import Conversation
from agentaccel.facts import CacheFacts
from agentaccel.policy import Policy
from agentaccel.rewrite import arranging
from agentaccel.rewrite import results as editing
from agentaccel.rewrite import results as weighing
from agentaccel.rewrite.advisories import NO_HINTS, Hints, Seen, hints
from agentaccel.rewrite.arranging import Arranged
from agentaccel.rewrite.edits import Edits, what_it_costs
from agentaccel.rewrite.results import Edited
from agentaccel.store.recorder import Recorder
from agentaccel.types import CachePlan, Endpoint, Prompt, Request

CONSENTED = {
    **arranging.CONSENTED,
    "clear_results": "sending a note in place of old results of tools where that pays, as the policy allows",
    "distil": "sending what distil() made of long results in their place where that pays, as the policy allows",
    "summarise": "sending what summarise() made of old messages in their place where that pays, as the policy allows",
}
"""What is logged once of each consent that is used."""


class Reading(NamedTuple):
    """A request as it was made, and as it reads."""

    request: Request
    prompt: Prompt
    facts: CacheFacts | None
    endpoint: Endpoint
    model: str


class Shaped(NamedTuple):
    """What was made of a request before it was planned."""

    edited: Edited | None = None
    """None without consent."""
    arranged: Arranged | None = None
    """None without consent."""
    reasons: tuple[str, ...] = ()
    consents: tuple[str, ...] = ()


AS_WRITTEN = Shaped()


@dataclass(slots=True)
class Shaping:
    """Edits and arranges requests."""

    policy: Policy
    recorder: Recorder
    """Has the key for the hashes that pieces are known by."""
    consents: bool = field(init=False)
    """Whether the policy consents to any of it."""

    def __post_init__(self) -> None:
        cache = self.policy.cache
        self.consents = cache.move_volatile or cache.freeze_tools or self.policy.history.consents

    def shape(
        self, conversation: Conversation, asked: Reading, now: float, read: Callable[[Request], Prompt]
    ) -> tuple[Request, Prompt, Shaped]:
        """The request as it is to be sent, with what the policy consents to, and how it reads; the very ones that were
        given where nothing changed. `read` reads another request as this one was read."""
        request, prompt, facts = asked.request, asked.prompt, asked.facts
        if facts is None:
            return request, prompt, AS_WRITTEN
        reasons, consents = list[str](), list[str]()
        if "context_management" in request:
            reasons += what_it_costs(request, prompt, facts, asked.endpoint.wire)
        arranged = self._arranged(conversation, asked, now, read)
        if arranged is not None:
            request, prompt = arranged.request, arranged.prompt
            reasons += arranged.reasons
            consents += arranged.consents
        # After that, because what is held begins as it was arranged.
        edited = self._edited(conversation, asked._replace(request=request, prompt=prompt), now, read)
        if edited is not None:
            request, prompt = edited.request, edited.prompt
            reasons = [*edited.reasons, *reasons]
            consents += edited.consents
        return request, prompt, Shaped(edited, arranged, tuple(reasons), tuple(consents))

    def _arranged(
        self, conversation: Conversation, asked: Reading, now: float, read: Callable[[Request], Prompt]
    ) -> Arranged | None:
        """The request with what the policy consents to be moved; None where it consents to nothing."""
        cache, facts = self.policy.cache, asked.facts
        if facts is None or not (cache.move_volatile or cache.freeze_tools):
            return None
        knowing = self.knowing(conversation, now, read)
        return arranging.arrange(asked.request, asked.prompt, facts, asked.endpoint.wire, knowing)

    def hinted(
        self,
        conversation: Conversation,
        request: Request,
        prefix: Prefixes,
        observed: Observed,
        now: float,
        shaped: Shaped,
    ) -> Hints:
        """What is said of what keeps changing in front of the messages of `request`, which is sent so."""
        if conversation.print is not None and observed.stability == ONLY_GREW:
            return NO_HINTS
        left = shaped.arranged.left if shaped.arranged is not None else {}
        knowing = partial(self.knowing, conversation, now, lambda it: prefix.prompt)
        own, like = conversation.print, conversation.like
        return hints(Seen(request, prefix, observed, own or like, knowing, left, own is not None), self.policy.cache)

    def knowing(
        self, conversation: Conversation, now: float, read: Callable[[Request], Prompt]
    ) -> arranging.ArrangeInputs:
        """What a request of the conversation is arranged with."""
        return arranging.ArrangeInputs(
            policy=self.policy.cache,
            memory=conversation.arranging,
            head=conversation.head,
            beliefs=conversation.snapshot.joined(conversation.state.seen),
            now=now,
            key=self.recorder.key,
            read=read,
        )

    def _edited(
        self, conversation: Conversation, asked: Reading, now: float, read: Callable[[Request], Prompt]
    ) -> Edited | None:
        """The request with its history edited; None where the policy consents to nothing."""
        policy, facts = self.policy.history, asked.facts
        if facts is None or not policy.consents:
            return None
        state, last = conversation.state, asked.prompt.segments[-1:]
        knowing = weighing.EditInputs(
            policy=policy,
            facts=facts,
            wire=asked.endpoint.wire,
            state=state,
            head=conversation.head,
            beliefs=conversation.snapshot.joined(state.seen),
            edits=conversation.edits or Edits(),
            pending=conversation.asides.pending,
            ready=conversation.asides.ready((state.turns, len(asked.prompt.segments), last)),
            now=now,
            ttl=self.policy.cache.ttl,
            read=read,
        )
        edited = editing.edit(asked.request, asked.prompt, knowing)
        if edited.prompt.illegal:  # it was legal as written
            return Edited(asked.request, asked.prompt, state.cleared, knowing.edits)
        return edited


def said(chosen: CachePlan, request: Request, shaped: Shaped, hinted: Hints) -> CachePlan:
    """The plan for `request` with what was edited and arranged before it, and with what else could be."""
    if shaped.reasons or hinted.reasons:
        chosen = replace(chosen, reasons=(*shaped.reasons, *hinted.reasons, *chosen.reasons))
    return replace(chosen, consents=shaped.consents, arranged=request) if shaped.consents else chosen
