"""What agentaccel would do with a request, and why: what it does with it in a session of its own, in virtual time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from agentaccel.accel import Accel
from agentaccel.cache.breakpoints import awaited
from agentaccel.cache.pauses import TOOL
from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.checks import is_amount
from agentaccel.clients.endpoint import endpoint_of
from agentaccel.clock import ManualClock
from agentaccel.errors import ConfigError, UnknownModel
from agentaccel.facts import CacheFacts, cache_facts, known_model, known_place, platforms
from agentaccel.policy import CONSENTS, CachePolicy, HistoryPolicy, Policy, StorePolicy
from agentaccel.rewrite.drift import compare
from agentaccel.turn import CallClosed, Finished, FirstByte, Reported, Started
from agentaccel.types import CachePlan, Drift, Endpoint, Request, ToolCall, Usage, show_path
from agentaccel.wire import dialect
from agentaccel.wire.json import name_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A plan with everything that it rests on."""

    facts: CacheFacts
    prefix: Prefixes
    plan: CachePlan
    drift: Drift | None
    """Where the request leaves the one before it; None where it goes on, or where there is none."""
    compared: bool
    """Whether there was a request before it."""

    def as_json(self) -> dict[str, Any]:
        """The explanation as plain JSON values; tokens are estimates, costs in USD."""
        expected = self.plan.expected
        return {
            "model": self.prefix.prompt.model,
            "provider": self.facts.provider,
            "platform": self.facts.platform,
            "minimum_tokens": self.facts.min_tokens,
            "segments": len(self.prefix.prompt.segments),
            "held_by_provider": self.prefix.prompt.held or None,
            "illegal_as_written": list(self.prefix.prompt.illegal),
            "kept": [{"at": show_path(m.path), "ttl": m.ttl} for m in self.prefix.prompt.markers],
            "switched_off": [{"at": show_path(m.path), "ttl": m.ttl} for m in self.plan.without],
            "options": dict(self.plan.options),
            "markers": [{"at": show_path(m.path), "ttl": m.ttl, "reason": m.reason} for m in self.plan.markers],
            "reasons": list(self.plan.reasons),
            "consents": list(self.plan.consents),
            "expected": None
            if expected is None
            else {
                "read": round(expected.read),
                "write": {label: round(tokens) for label, tokens in expected.write.items()},
                "uncached": round(expected.uncached),
                "input_cost": self.plan.expected_cost,
            },
            "drift": None if self.drift is None else asdict(self.drift),
            "source": f"{self.facts.source.what}, {self.facts.source.date}",
        }


def explain(
    request: Request,
    previous: Request | None = None,
    *,
    provider: str | None = None,
    platform: str | None = None,
    gap: float = 10.0,
    consents: Collection[str] = (),
) -> Explanation:
    """What would be added to `request`, sent `gap` seconds after `previous` was answered, with nothing else known.

    Without a `provider` it is the one that `platform` or the model's name belongs to; without a `platform`, the
    provider's first. `consents` are those of a policy that need no function: `CONSENTS`. Raises `UnknownModel` for a
    model without facts, `ConfigError` for a provider, a platform, a gap, a consent or a request that cannot be.
    """
    if not is_amount(gap):
        raise ConfigError(f"the gap is {gap!r}; give the seconds between the two requests, 0 or more")
    endpoint = endpoint_of(request, provider, platform)
    if previous is not None:
        endpoint_of(previous, endpoint.provider, endpoint.platform)
    model = name_of(request.get("model") or "")
    provider, platform, wire = endpoint[:3]
    facts = cache_facts(model, provider=provider, platform=platform, wire=wire)
    if facts is None:
        raise _unknown(model, endpoint)
    decode = dialect(wire).decode
    prefix = prefixes(decode(request, facts, place=(provider, platform)), facts)
    drift = None
    if previous is not None:
        drift = compare(previous, request, decode(previous, facts, place=(provider, platform)), prefix.prompt, facts)
    made = _planned(request, previous, endpoint, gap, awaited(prefix.prompt), _policy(consents))
    return Explanation(facts=facts, prefix=prefix, plan=made, drift=drift, compared=previous is not None)


def _unknown(model: str, endpoint: Endpoint) -> ConfigError:
    """Why there is no plan, and what to give."""
    provider, platform = endpoint[:2]
    if not model:
        return ConfigError("the request names no model: add one, or give one, for example --as claude-sonnet-5")
    if not known_place(provider, platform):
        known = ", ".join(name for name in platforms(provider) if known_place(provider, name))
        return ConfigError(f"nothing is known of the cache of platform {platform!r}: name one with --platform: {known}")
    if known_model(model):
        return UnknownModel(model, f"{provider!r} does not serve it; name another provider or platform, or none")
    alias = f"Policy(aliases={{{model!r}: 'claude-sonnet-5'}})"
    return UnknownModel(model, f"name a known one, for example --as claude-sonnet-5 here, and {alias} in a run")


def _policy(consents: Collection[str]) -> Policy:
    unknown = sorted(set(consents) - set(CONSENTS))
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is no consent; there are {', '.join(CONSENTS)}")
    return Policy(
        strict=True,
        store=StorePolicy(enabled=False),
        cache=CachePolicy(move_volatile="move_volatile" in consents, freeze_tools="freeze_tools" in consents),
        history=HistoryPolicy(clear_results="clear_results" in consents),
    )


def _planned(
    request: Request, previous: Request | None, endpoint: Endpoint, gap: float, awaits: str, policy: Policy
) -> CachePlan:
    """The plan for `request` in a session in which `previous` was planned, sent, and billed as expected.

    `awaits` is what the pause between them was for: a tool that the reply asked for, or a person.
    """
    clock, place = ManualClock(), {"provider": endpoint.provider, "platform": endpoint.platform}
    with Accel(policy, clock=clock, environ={}) as accel, accel.session("explained") as session:
        if previous is not None:
            turn = accel.turn(previous, **place)
            expected, now = turn.plan.expected, clock.monotonic()
            usage = Usage()
            if expected is not None:
                write = {label: round(tokens) for label, tokens in expected.write.items()}
                usage = Usage(input=round(expected.total), read=0, write=write)
            call = CallClosed(ToolCall(name="", arguments={}), now)  # of which tool is not known, nor needed
            asked = (call,) if awaits == TOOL else ()
            for event in (Started(now), FirstByte(now), *asked, Reported(usage=usage), Finished(now)):
                turn.handle(event)
            clock.advance(gap)
        # Whoever compares the two says that the one follows the other, however little they have in common.
        return accel._engine.preview(request, endpoint, follows=session.conversation)
