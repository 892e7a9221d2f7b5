"""The chain of rewrites: what is made of a request before it is planned, each with the user's consent.

A rewrite takes a draft and its conversation, and returns the draft that is to be sent in its place, or the very one
that it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from agentaccel.cache.observe import ONLY_GREW, Observed
from agentaccel.cache.prefix import Prefixes
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.draft import Draft
from agentaccel.policy import Policy
from agentaccel.rewrite import arranging, results
from agentaccel.rewrite.advisories import NO_ADVISORIES, Advisories, Seen, advisories
from agentaccel.rewrite.arranging import ArrangeInputs
from agentaccel.rewrite.edits import Edits, what_it_costs
from agentaccel.rewrite.results import Edited
from agentaccel.store.recorder import Recorder
from agentaccel.types import CachePlan, Prompt, Request

CONSENTED = {
    **arranging.CONSENTED,
    "clear_results": "sending a note in place of old results of tools where that pays, as the policy allows",
    "distil": "sending what distil() made of long results in their place where that pays, as the policy allows",
    "summarise": "sending what summarise() made of old messages in their place where that pays, as the policy allows",
}
"""What is logged once of each consent that is used."""


Read = Callable[[Request, Draft], Prompt]
"""Reads another request as that of a draft was read."""

Rewrite = Callable[[Draft, Conversation, float], Draft]
"""Of a draft in its conversation at a time, in seconds since the epoch."""


@dataclass(slots=True)
class Chain:
    """The rewrites of one `Accel`, those that its policy consents to, in the order in which they are made."""

    policy: Policy
    recorder: Recorder
    """Has the key for the hashes that pieces are known by."""
    read: Read
    rewrites: tuple[Rewrite, ...] = field(init=False)

    def __post_init__(self) -> None:
        cache = self.policy.cache
        arranges = (self._arranged,) if cache.move_volatile or cache.freeze_tools else ()
        # The history comes last, because what is held begins as it was arranged.
        edits = (self._edited,) if self.policy.history.consents else ()
        self.rewrites = (_priced, *arranges, *edits)

    def rewritten(self, draft: Draft, conversation: Conversation, now: float) -> Draft:
        """The draft after all rewrites: the very one that was given, where none of them changed or said anything."""
        for rewrite in self.rewrites if draft.facts is not None else ():
            draft = rewrite(draft, conversation, now)
        return draft

    def _arranged(self, draft: Draft, conversation: Conversation, now: float) -> Draft:
        if draft.facts is None:
            return draft
        inputs = self._inputs(conversation, now, lambda it: self.read(it, draft))
        arranged = arranging.arrange(draft.request, draft.prompt, draft.facts, draft.endpoint.wire, inputs)
        return draft._replace(
            request=arranged.request,
            prompt=arranged.prompt,
            arranged=arranged,
            reasons=(*draft.reasons, *arranged.reasons),
            consents=(*draft.consents, *arranged.consents),
        )

    def _edited(self, draft: Draft, conversation: Conversation, now: float) -> Draft:
        if draft.facts is None:
            return draft
        state, last = conversation.state, draft.prompt.segments[-1:]
        inputs = results.EditInputs(
            policy=self.policy.history,
            facts=draft.facts,
            wire=draft.endpoint.wire,
            state=state,
            head=conversation.head,
            beliefs=conversation.snapshot.joined(state.seen),
            edits=conversation.edits or Edits(),
            pending=conversation.asides.pending,
            ready=conversation.asides.ready((state.turns, len(draft.prompt.segments), last)),
            now=now,
            ttl=self.policy.cache.ttl,
            read=lambda it: self.read(it, draft),
        )
        edited = results.edit(draft.request, draft.prompt, inputs)
        if edited.prompt.illegal:  # it was legal as written
            edited = Edited(draft.request, draft.prompt, state.cleared, inputs.edits)
        return draft._replace(
            request=edited.request,
            prompt=edited.prompt,
            edited=edited,
            reasons=(*edited.reasons, *draft.reasons),
            consents=(*draft.consents, *edited.consents),
        )

    def advised(
        self, draft: Draft, conversation: Conversation, prefix: Prefixes, observed: Observed, now: float
    ) -> Advisories:
        """What is said of what keeps changing in front of the messages of the draft, which is sent so."""
        if not draft.request or (conversation.print is not None and observed.stability == ONLY_GREW):
            return NO_ADVISORIES
        left = draft.arranged.left if draft.arranged is not None else {}
        inputs = partial(self._inputs, conversation, now, lambda it: prefix.prompt)
        own, like = conversation.print, conversation.like
        seen = Seen(draft.request, prefix, observed, own or like, inputs, left, own is not None)
        return advisories(seen, self.policy.cache)

    def _inputs(self, conversation: Conversation, now: float, read: Callable[[Request], Prompt]) -> ArrangeInputs:
        return ArrangeInputs(
            policy=self.policy.cache,
            memory=conversation.arranging,
            head=conversation.head,
            beliefs=conversation.snapshot.joined(conversation.state.seen),
            now=now,
            key=self.recorder.key,
            read=read,
        )


def _priced(draft: Draft, conversation: Conversation, now: float) -> Draft:
    """The draft with what edits cost that the request has the provider make."""
    if "context_management" not in draft.request or draft.facts is None:
        return draft
    costs = what_it_costs(draft.request, draft.prompt, draft.facts, draft.endpoint.wire)
    return draft._replace(reasons=(*draft.reasons, *costs)) if costs else draft


def said(chosen: CachePlan, draft: Draft, advised: Advisories) -> CachePlan:
    """The plan for the draft with what was rewritten before it, and with what else could be."""
    if draft.reasons or advised.reasons:
        chosen = replace(chosen, reasons=(*draft.reasons, *advised.reasons, *chosen.reasons))
    return replace(chosen, consents=draft.consents, arranged=draft.request) if draft.consents else chosen
