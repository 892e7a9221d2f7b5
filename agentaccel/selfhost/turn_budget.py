"""How long one turn of an agent takes at stated rates, and what speculation makes of it. Pure arithmetic.

Expected speed-up: tokens per step over what a step then costs, in steps without speculation. From an acceptance a of
each token, k drafted tokens and a draft that costs c of a step (Leviathan et al. 2023, arXiv:2211.17192, theorem 3.8):

    (1 - a^(k+1)) / ((1 - a) (k c + 1))
"""

from __future__ import annotations

from dataclasses import dataclass

from agentaccel.checks import check_count, is_amount
from agentaccel.errors import ConfigError

LEVIATHAN = "Leviathan et al. 2023, arXiv:2211.17192, theorem 3.8: (1 - a^(k+1)) / ((1 - a)(kc + 1))"

LEAST, MOST = 1e-6, 10**9
"""Of rates, seconds and costs: beyond these, a number is a slip."""


def _check(option: str, value: float, least: float, most: float, remedy: str) -> None:
    if not is_amount(value) or not least <= value <= most:
        raise ConfigError(f"{option} is {value!r}; {remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedUp:
    """What speculation does for decoding."""

    tokens_per_step: float
    """Tokens that one pass of the model gives, as engines count them: N / max(S, N - A)."""
    step_cost: float = 1.0
    """What a step takes with speculation, in steps without."""
    source: str = "tokens per step over the cost of a step"

    def __post_init__(self) -> None:
        _check("--tokens-per-step", self.tokens_per_step, 1, MOST, "give 1 or more, such as 2.5")
        _check("--step-cost", self.step_cost, LEAST, MOST, "give a number above 0, such as 1.2")

    @property
    def factor(self) -> float:
        """By how much decoding gets faster; below 1, slower."""
        return self.tokens_per_step / self.step_cost


def speed_up_of(acceptance: float, drafted: int, cost: float) -> SpeedUp:
    """The expected speed-up, by the formula of Leviathan et al. `cost` is that of one drafted token, as a share of a
    step of the model.

    >>> round(speed_up_of(0.8, 5, 0.05).factor, 3), speed_up_of(1.0, 4, 0.0).factor
    (2.951, 5.0)
    """
    _check("--acceptance", acceptance, 0, 1, "give the share of drafted tokens that is accepted, 0 to 1")
    check_count("--draft-tokens", drafted, 1)
    _check("--draft-tokens", drafted, 1, 1000, "give at most 1,000")
    _check("--draft-cost", cost, 0, 1000, "give the share of a step that one drafted token costs, such as 0.05")
    tokens = sum(acceptance**i for i in range(drafted + 1))  # the formula's fraction, and right at a = 1, too
    return SpeedUp(tokens_per_step=tokens, step_cost=drafted * cost + 1, source=LEVIATHAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """One turn of an agent, and the rates at which a server works. Raises `ConfigError` for what cannot be."""

    prompt: int | None = None
    """Tokens of the prompt."""
    output: int | None = None
    """Tokens of the reply."""
    hit_rate: float = 0.0
    """The share of the prompt that the server has cached."""
    prefill_rate: float | None = None
    """Prompt tokens a second."""
    decode_rate: float | None = None
    """Tokens of one reply a second, without speculation."""
    speed_up: SpeedUp | None = None
    tools: float = 0.0
    """Seconds that the turn waits for tools."""
    network: float = 0.0
    """Seconds on the network."""

    def __post_init__(self) -> None:
        _check("--hit-rate", self.hit_rate, 0, 1, "give the cached share of the prompt, 0 to 1")
        for name in ("tools", "network"):
            _check(f"--{name}", getattr(self, name), 0, MOST, "give seconds, 0 or more")
        for name, needs in (("prefill_rate", "prompt"), ("decode_rate", "output")):
            rate, option = getattr(self, name), f"--{name.replace('_', '-')}"
            if rate is not None:
                _check(option, rate, LEAST, MOST, "give tokens a second, more than 0")
            if rate is not None and getattr(self, needs) is None:
                raise ConfigError(f"{option} says nothing without --{needs}: give its tokens")
        for name in ("prompt", "output"):
            if getattr(self, name) is not None:
                check_count(f"--{name}", getattr(self, name), 1)
                _check(f"--{name}", getattr(self, name), 1, MOST, f"give at most {MOST:,} tokens")
        if self.speed_up is not None and self.decode_rate is None:
            raise ConfigError(
                "a speed-up of decoding says nothing without --decode-rate: give tokens a second without it"
            )

    @property
    def uncached(self) -> int | None:
        """Prompt tokens that are computed: the last one always is."""
        return None if self.prompt is None else max(1, self.prompt - round(self.prompt * self.hit_rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBudget:
    """Seconds of one turn; None for what nothing was stated of."""

    uncached: int | None
    prefill: float | None
    cold_prefill: float | None
    """The same with nothing cached."""
    decode: float | None
    """Without speculation."""
    decode_speculated: float | None
    tools: float
    network: float
    total: float | None
    total_speculated: float | None


def budget_of(plan: TurnPlan) -> TurnBudget:
    """The seconds of each part, and their sum where each is known: the parts follow one another."""
    prefill = cold = decode = None
    if plan.prefill_rate is not None and plan.prompt is not None and plan.uncached is not None:
        prefill, cold = plan.uncached / plan.prefill_rate, plan.prompt / plan.prefill_rate
    if plan.decode_rate is not None and plan.output is not None:
        decode = plan.output / plan.decode_rate
    faster = None if decode is None or plan.speed_up is None else decode / plan.speed_up.factor
    rest = plan.tools + plan.network

    def total(decoding: float | None) -> float | None:
        return None if prefill is None or decoding is None else prefill + decoding + rest

    return TurnBudget(
        uncached=plan.uncached,
        prefill=prefill,
        cold_prefill=cold,
        decode=decode,
        decode_speculated=faster,
        tools=plan.tools,
        network=plan.network,
        total=total(decode),
        total_speculated=total(faster),
    )
