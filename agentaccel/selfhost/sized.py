"""The size of a server, and the budget of a turn, in sentences and as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from agentaccel.checks import is_amount
from agentaccel.errors import ConfigError
from agentaccel.selfhost.gpus import kv_stored_as, weights_stored_as
from agentaccel.selfhost.sizing import MOST_GPUS, ServerPlan, ServerSize, kept_bytes, state_bytes
from agentaccel.selfhost.turn_budget import LEAST, TurnBudget, TurnPlan


def amount(count: int) -> str:
    """Bytes in few digits; a GB is 10**9 of them.

    >>> amount(327_680), amount(196_608_000), amount(2_684_354_560), amount(1_500_000_000_000)
    ('327,680 bytes', '196.6 MB', '2.68 GB', '1,500.00 GB')
    """
    if count < 10**6:
        return f"{count:,} bytes"
    return f"{count / 1e6:,.1f} MB" if count < 10**9 else f"{count / 1e9:,.2f} GB"


def duration(seconds: float | None) -> str:
    """A time in ms, or in seconds from ten on.

    >>> duration(0.16), duration(12.5), duration(None)
    ('160 ms', '12.5 s', 'n/a')
    """
    if seconds is None:
        return "n/a"
    return f"{seconds:,.1f} s" if seconds >= 10 else f"{1000 * seconds:,.0f} ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disaggregation:
    """What a turn would move from a server that computes prompts to one that writes replies."""

    computing: float
    """Seconds that the uncached tokens take where they are: what other requests would no longer wait for."""
    moved_warm: int
    """Bytes to a server that has the cached prefix: those of the uncached tokens."""
    moved_cold: int
    """Bytes to one that has not: those of the whole prompt."""


def disaggregation_of(plan: ServerPlan, turn: TurnPlan, budget: TurnBudget) -> Disaggregation | None:
    """None where the prompt, or the rate at which it is computed, was not stated."""
    if turn.prompt is None or turn.uncached is None or not budget.prefill:
        return None
    stored = kv_stored_as(plan.kv_dtype, plan.shape, plan.gpu)
    state = state_bytes(plan.shape)
    return Disaggregation(
        computing=budget.prefill,
        moved_warm=kept_bytes(plan.shape, turn.uncached, stored) + state,
        moved_cold=kept_bytes(plan.shape, turn.prompt, stored) + state,
    )


def check_link(link: float | None) -> None:
    """Raise `ConfigError` for what is no rate of a link in GB a second."""
    if link is not None and (not is_amount(link) or link < LEAST):
        raise ConfigError(f"--link is {link!r}; give the GB a second between two servers, such as 12.5")


def sentences(plan: ServerPlan, size: ServerSize) -> tuple[str, ...]:
    """What follows from the size, and what it rests on."""
    found = (
        *_fits(plan, size),
        *_stored(plan, size),
        *_windows(plan, size),
        *_prefix(plan, size),
        *_assumed(plan, size),
    )
    draft = plan.draft.notes if plan.draft is not None else ()
    return (*found, *plan.shape.notes, *(f"of the draft, {note}" for note in draft))


def turn_sentences(turn: TurnPlan, parting: Disaggregation | None, link: float | None) -> tuple[str, ...]:
    """What the rates say of speculation, and of splitting prompts from replies."""
    said = []
    if (gain := turn.speed_up) is not None:
        what = f"{gain.tokens_per_step:.2f} tokens a step, each step at {gain.step_cost:.2f} of its cost"
        said.append(f"speculation: {what}, make decoding {gain.factor:.2f} times as fast ({gain.source})")
        if gain.factor <= 1:
            said.append(
                "speculation is below its break-even: tokens a step must exceed the cost of a step; leave it off"
            )
    if parting is not None:
        said.append(_parting(turn, parting, link))
    return tuple(said)


def as_json(plan: ServerPlan, size: ServerSize, **further: Any) -> str:
    """Everything as one JSON object: the plan, the size, and whatever else was worked out, by name."""
    asked = {name: getattr(plan, name) for name in ("context", "batch", "gpus", "prefix", "share")}
    asked |= {"model_type": plan.shape.model_type, "gpu": plan.gpu.name, "generation": plan.gpu.generation}
    return json.dumps({"plan": asked, "size": asdict(size), **further}, indent=2) + "\n"


def _fits(plan: ServerPlan, size: ServerSize) -> Iterator[str]:
    where = plan.gpu.described() if plan.gpus == 1 else f"{plan.gpus} x {plan.gpu.described()}"
    needs = f"all of it needs {size.gpus_needed} of them"
    if size.gpus_needed is None:
        needs = (
            f"nor does it on {MOST_GPUS}, which share out weights and heads: take several servers, or data parallelism"
        )
    if size.gpu_weights >= size.gpu_usable:
        need = f"{amount(size.gpu_weights)} on each, of {amount(size.gpu_usable)} that an engine takes"
        yield f"the weights do not fit on {where}, {need}; {needs}"
        return
    fits = f"{size.sessions:,} session{'s' * (size.sessions != 1)} of {plan.context:,} tokens fit on {where}"
    if size.sessions >= plan.batch:
        yield f"{fits}: a batch of {plan.batch:,} does"
    else:
        yield f"{fits}: a batch of {plan.batch:,} does not; {needs}"


def _stored(plan: ServerPlan, size: ServerSize) -> Iterator[str]:
    if size.unquantised_batch is not None:
        plain = f"in {plan.shape.dtype} {amount(size.unquantised_batch)}"
        yield f"in {size.kv_dtype} the batch takes {amount(size.batch)}, {plain}"
        if plan.gpu.generation is None:
            yield f"whether {plan.gpu.name} has {size.kv_dtype} is not known here: name the GPU with --gpu"
    stored = (kv_stored_as(plan.kv_dtype, plan.shape, plan.gpu), weights_stored_as(plan.weights_dtype, plan.shape))
    yield from (f"{one.name}: {one.note}" for one in stored if one.note is not None)
    together = size.gpu_session * plan.gpus
    if together > size.session + plan.gpus * len(plan.shape.layers):  # more than what rounding up makes of it
        yield (
            f"the {plan.gpus} GPUs together keep {amount(together)} for a session of {amount(size.session)}: what "
            "cannot be shared out, a latent vector or a head, is kept by several"
        )


def _windows(plan: ServerPlan, size: ServerSize) -> Iterator[str]:
    windows = sorted({layer.window for layer in plan.shape.layers if layer.window is not None})
    if windows:
        of = sum(layer.window is not None for layer in plan.shape.layers)
        beyond = f"a token beyond it takes {amount(size.per_token_beyond)} in place of {amount(size.per_token)}"
        yield f"{of} of {len(plan.shape.layers)} layers keep a window of {windows[-1]:,} tokens: {beyond}"
    if size.state:
        yield f"{amount(size.state)} of each session are states of linear layers, whatever its length"


def _prefix(plan: ServerPlan, size: ServerSize) -> Iterator[str]:
    if size.prefix is not None:
        shared = f"one copy of a prefix of {plan.prefix:,} tokens takes {amount(size.prefix.once)}"
        saved = f"sharing it saves {amount(size.prefix.saved)} of {plan.batch:,} sessions' copies"
        yield f"{shared}; {saved}, and {size.prefix.sessions:,} sessions fit"
        if size.state:
            yield "states of linear layers are not shared: each session has its own; a prefix cache keeps more"


def _assumed(plan: ServerPlan, size: ServerSize) -> Iterator[str]:
    if plan.shape.context is not None and plan.context > plan.shape.context:
        yield f"the model is for {plan.shape.context:,} tokens (max_position_embeddings), not for {plan.context:,}"
    yield (
        f"of the {amount(size.gpu_memory)} of a GPU an engine is taken to use {100 * plan.share:.0f} %; activations, "
        "graphs and whole blocks come off that, too, and are not counted: keep some room"
    )


def _parting(turn: TurnPlan, parting: Disaggregation, link: float | None) -> str:
    warm, cold = parting.moved_warm, parting.moved_cold
    computes = f"{turn.uncached:,} of {turn.prompt:,} prompt tokens are computed, {duration(parting.computing)}"
    moves = f"{amount(warm)} would move to a decode server that has the prefix, {amount(cold)} to one that has not"
    said = f"disaggregation: {computes}; {moves}"
    least, most = (moved / parting.computing / 1e9 for moved in (warm, cold))
    if link is None:
        bounds = f"{least:,.2f} GB/s" if warm == cold else f"{least:,.2f} or {most:,.2f} GB/s"
        return f"{said}: on a link below {bounds} the move takes longer than the computing, and it hurts"
    times = " or ".join(duration(moved / link / 1e9) for moved in (warm, cold))
    hurts = "it hurts" if link < least else "it hurts where the prefix is not there" if link < most else "it may pay"
    return f"{said}: {times} at {link:g} GB/s, so {hurts}"
