"""The prices that hold for a prompt under a policy."""

from __future__ import annotations

from agentaccel.cache.price import PriceCard, price_card
from agentaccel.policy import Policy
from agentaccel.types import Prompt


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
