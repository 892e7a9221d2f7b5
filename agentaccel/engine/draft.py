"""A model call on its way: a draft, then planned, ended, settled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from agentaccel.cache.beliefs import Observation
from agentaccel.cache.breakpoints import lifetime_written
from agentaccel.cache.ledger import Entry
from agentaccel.cache.observe import Observed
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.price import PriceCard, price_card
from agentaccel.cache.settle import Reconciled
from agentaccel.cache.standing import Standing
from agentaccel.cache.state import PreviousPrompt
from agentaccel.engine.conversation import Conversation, ConversationState
from agentaccel.engine.gate import Flight
from agentaccel.engine.scope import NO_SENDER, Sender, Within
from agentaccel.facts import CacheFacts
from agentaccel.hooks import Began
from agentaccel.policy import Policy
from agentaccel.records import TurnRecord
from agentaccel.rewrite.arranging import Arranged
from agentaccel.rewrite.drift import Print
from agentaccel.rewrite.results import Edited
from agentaccel.turn import Ended, Reported
from agentaccel.types import CachePlan, Drift, Endpoint, Marker, Prompt, Request
from agentaccel.wire import ReplyTap
from agentaccel.wire.json import terms_of, unusual

TurnMode = Literal["on", "observe", "holdout", "bypass"]


class Draft(NamedTuple):
    """A request on its way to being planned. Nothing changes a draft: a rewrite returns another one."""

    request: Request
    """Empty where nothing but its prompt is known, as in a replay."""
    prompt: Prompt
    """How `request` reads."""
    facts: CacheFacts | None
    endpoint: Endpoint
    model: str
    """As the client names it, where that is not in the request."""
    sender: Sender = NO_SENDER
    arranged: Arranged | None = None
    """How its beginning was arranged; None without consent."""
    edited: Edited | None = None
    """How its history was edited; None without consent."""
    reasons: tuple[str, ...] = ()
    consents: tuple[str, ...] = ()
    """Those that were used."""

    @property
    def place(self) -> tuple[object, ...]:
        """Where what is computed for one request can take the place of what was for another."""
        return self.endpoint.server, self.endpoint.platform, self.prompt.model


class Planned(NamedTuple):
    """A model call that was planned: everything that its settlement needs and that later calls must not change."""

    conversation: Conversation
    request: Request
    prompt: Prompt
    facts: CacheFacts | None
    prefix: Prefixes | None
    observed: Observed | None
    plan: CachePlan
    """As computed, whether or not it was applied."""
    mode: TurnMode
    attempt: int
    known_as: str | None
    """As in `TurnRecord`."""
    started: float
    """Wall time."""
    head: PreviousPrompt | None
    print: Print | None
    lent: Mapping[bytes, Entry] = {}
    """What other sessions of this process held when it was sent."""
    waited: float | None = None
    """As in `TurnRecord`."""
    arranged: Arranged | None = None
    """How it was arranged; None without consent. `request`, `prompt` and `prefix` are what is sent."""
    edited: Edited | None = None
    """How its history was edited; None without consent."""
    written: Prompt | None = None
    """The prompt as the user wrote it, where another one is sent."""
    drift: Drift | None = None
    """Where it leaves the prompt before, where that was found out already."""
    standing: Standing | None = None
    """The decision that it is sent by, where that may stand for the next ones."""
    region: str = ""
    """As in `Endpoint`."""
    beside: tuple[str, ...] = ()
    """As in `TurnRecord`."""
    earlier: Mapping[str, float] = {}
    """When sessions that begin alike had last been answered, by topic; of a first request. Filled in once the store
    was asked, which is before the call is recorded."""

    @property
    def lifetime(self) -> str:
        """As in `lifetime_written`."""
        return lifetime_written(self.prompt, self.markers_sent, self.facts)

    def terms(self, said: Mapping[str, str]) -> Mapping[str, str]:
        """What it is priced by, where that is not the usual: what the reply has `said`, else what the request asks for;
        and by its place."""
        return unusual({"region": self.region, **terms_of(self.request), **said})

    @property
    def inside(self) -> bool:
        """True if it goes out streamed although its caller asks for a whole reply."""
        return self.mode == "on" and "stream" in self.plan.options

    @property
    def streamed(self) -> bool:
        """True if its reply comes as a stream, whatever the caller sees."""
        return self.prompt.stream or self.inside

    @property
    def apart(self) -> str:
        """What it goes out with that keeps its prefixes apart from those of other sessions."""
        return apart(self.plan, self.facts) if self.facts is not None and self.mode == "on" else ""

    @property
    def as_written(self) -> Prompt:
        return self.written if self.written is not None else self.prompt

    @property
    def lasting(self) -> Prompt:
        """The prompt without what this request alone has."""
        return replace(self.prompt, segments=self.prompt.lasting, ephemeral=0) if self.prompt.ephemeral else self.prompt

    @property
    def markers_sent(self) -> tuple[Marker, ...]:
        """The markers that went out: the user's, and ours where the plan was applied."""
        return self.plan.beside(self.prompt.markers) if self.mode == "on" else self.prompt.markers


def apart(plan: CachePlan, facts: CacheFacts) -> str:
    """What of the plan keeps the request's prefixes apart from those of other sessions; empty where nothing does."""
    names = (facts.salt_field, facts.key_field if facts.key in ("routes", "partitions") else "")
    return " ".join(str(plan.options[name]) for name in names if name in plan.options)


class Done(NamedTuple):
    """One model call that has ended: what was planned, and what came of it. Nothing is added to it afterwards."""

    planned: Planned
    """The call as it went out, which may have been later than planned."""
    endpoint: Endpoint
    reply: Ended
    flight: Flight | None = None
    """The call as others saw it that begin alike."""
    began: Began | None = None
    """What hooks noted as it began; None where there are none."""


class Settled(NamedTuple):
    """What a call amounts to."""

    record: TurnRecord
    next: ConversationState
    """What its conversation knows from then on."""
    reconciled: Reconciled | None = None
    """The call against what the provider was believed to hold; None where the reply told nothing that can be used."""
    learned: tuple[Observation, ...] = ()
    """What the workload learns beside what `reconciled` has."""


Observer = Callable[[Done, Settled], None]
"""Is told of each call that has ended; called from any thread, and must not wait."""


def reported(tap: ReplyTap) -> Reported:
    """What a reply says of itself."""
    metered = tap.metered
    return Reported(
        usage=metered.usage,
        besides=metered.besides,
        doubts=metered.doubts,
        stop=tap.stop,
        message_id=tap.message_id,
        diagnostics=tap.diagnosis,
        model=metered.model or tap.model,
        terms=tap.terms,
        work=tap.work,
    )


# --- What we may do in a session: act, or only look -------------------------------------------------------------------


def mode_of(policy: Policy, key: bytes, session: str, within: Within) -> TurnMode:
    """The mode of what happens in `session`; `key` is the one that all processes agree on."""
    if within.bypass:
        return "bypass"
    if policy.mode == "observe":
        return "observe"
    if not policy.holdout:
        return "on"
    drawn = hashlib.blake2b(session.encode("utf-8", "replace"), digest_size=8, key=key).digest()
    return "holdout" if int.from_bytes(drawn) < policy.holdout * 2**64 else "on"


# --- The prices that hold for a prompt under a policy -----------------------------------------------------------------


def card_of(prompt: Prompt, policy: Policy, tokens: int, at: float | None = None) -> PriceCard | None:
    """What a request like `prompt`, of so many tokens, is billed by `at` a time in seconds since the epoch, or now."""
    return price_card(
        prompt.provider,
        prompt.model,
        input_tokens=tokens,
        platform=prompt.platform,
        at=at,
        aliases=policy.aliases,
        override=policy.prices,
    )
