"""What agentaccel would do with a request, and why: the pure line from two request bodies to an explanation."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from agentaccel.cache.beliefs import Beliefs, Observation
from agentaccel.cache.marks import marks_of
from agentaccel.cache.observe import Observed, observe
from agentaccel.cache.plan import plan
from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.cache.price import expected_cost, price_card
from agentaccel.cache.scale import scale
from agentaccel.cache.scene import View
from agentaccel.cache.sent import Sent
from agentaccel.cache.settle import settle
from agentaccel.cache.state import Head, State, head_of
from agentaccel.checks import is_amount
from agentaccel.errors import ConfigError, UnknownModel
from agentaccel.facts import PROVIDERS, CacheFacts, cache_facts, known_model, known_place, platforms
from agentaccel.prompt.drift import compare
from agentaccel.providers import dialect, wire_of
from agentaccel.providers.values import name_of
from agentaccel.types import CachePlan, Drift, Request, Usage, show_path


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
    platform: str = "api",
    gap: float = 10.0,
) -> Explanation:
    """What would be added to `request`, sent `gap` seconds after `previous` with nothing else known.

    Without a `provider` it is the one that `platform` or the model's name belongs to. Raises `UnknownModel` for a model
    without facts, `ConfigError` for a provider or platform that is not known.
    """
    if not is_amount(gap):
        raise ConfigError(f"the gap is {gap!r}; give the seconds between the two requests, 0 or more")
    model = name_of(request.get("model", ""))
    provider = _provider(model, platform) if provider is None else provider
    if provider == "":
        known = ", ".join(dict.fromkeys(name for one in PROVIDERS for name in platforms(one)))
        raise ConfigError(f"platform is {platform!r}; known are {known}")
    if provider not in PROVIDERS:
        raise ConfigError(f"provider is {provider!r}; known are {', '.join(PROVIDERS)}")
    if platform not in platforms(provider):
        known = ", ".join(platforms(provider))
        raise ConfigError(f"{provider!r} has no platform {platform!r}; name one with --platform: {known}")
    wire = wire_of(provider, request)
    facts = cache_facts(model, provider=provider, platform=platform, wire=wire)
    if facts is None:
        raise _unknown(model, provider, platform)
    decode = dialect(wire).decode
    prefix = prefixes(decode(request, facts, place=(provider, platform)), facts)
    state, head, drift = State(), None, None
    if previous is not None:
        before = prefixes(decode(previous, facts, place=(provider, platform)), facts)
        state, head = _answered(before)
        drift = compare(previous, request, before.prompt, prefix.prompt, facts)
    observed = observe(state, head, prefix, gap)
    beliefs = Beliefs().after((*_seen(state), *observed.stability))
    made = plan(prefix, View(state=state, beliefs=beliefs, now=gap, cut=observed.cut)).plan
    if made.expected is not None:
        card = price_card(provider, model, input_tokens=round(made.expected.total), platform=platform)
        made = replace(made, expected_cost=expected_cost(card, made.expected))
    return Explanation(facts=facts, prefix=prefix, plan=made, drift=drift, compared=previous is not None)


def _unknown(model: str, provider: str, platform: str) -> ConfigError:
    """Why there is no plan, and what to give."""
    if not known_place(provider, platform):
        return ConfigError(f"nothing is known of the cache of platform {platform!r}: name another one")
    if known_model(model):
        return UnknownModel(model, f"{provider!r} does not serve it; name another provider or platform, or none")
    alias = f"Policy(aliases={{{model!r}: 'claude-sonnet-5'}})"
    return UnknownModel(model, f"name a known one, for example --as claude-sonnet-5 here, and {alias} in a run")


def _provider(model: str, platform: str) -> str:
    """Whose `platform` or `model` that is: the first that knows it."""
    at = [name for name in PROVIDERS if platform in platforms(name)]
    return next((name for name in at if cache_facts(model, provider=name, platform=platform) is not None), (*at, "")[0])


def _answered(prefix: Prefixes) -> tuple[State, Head]:
    """The state after the request of `prefix` was planned by us and answered as expected, at time 0."""
    made = plan(prefix, View(state=State(), beliefs=Beliefs(), now=0.0)).plan
    expected = made.expected
    total = round(scale(prefix, {}, None)(len(prefix.hashes) - 1)) if prefix.hashes else 0
    write = {label: round(tokens) for label, tokens in expected.write.items()} if expected is not None else {}
    sent = Sent(
        prefix=prefix,
        marks=marks_of(prefix, (*(m for m in prefix.prompt.markers if m not in made.without), *made.markers)),
        written_marks=marks_of(prefix, prefix.prompt.markers),
        started=0.0,
        visible=0.0,
        usage=Usage(input=total, read=0, write=write),
        ours=bool(made.markers or made.without),
    )
    state = settle(State(), None, sent, Observed((), {}, 0)).state
    return state, head_of(prefix, started=0.0, tokens=total, message_id=None)


def _seen(state: State) -> list[Observation]:
    return [Observation(topic, yes, n) for topic, (yes, n) in state.seen.counts.items()]
