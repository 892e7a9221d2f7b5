"""How much memory a server needs: keys and values, states, weights, and how many sessions fit. Pure arithmetic.

    size = size_of(Setting(...))

Of a layer of full attention a conversation of n tokens keeps n times 2 x key-value heads x head dimension numbers; of
multi-head latent attention n times its latent rank and the rotary part (DeepSeek-V2, arXiv:2405.04434); of a sliding
window at most the window; and of a linear layer a state that does not grow.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentaccel.checks import check_count, is_amount
from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost.gpus import (
    Gpu,
    StoredAs,
    bytes_of_weights,
    kv_stored_as,
    weights_stored_as,
)
from agentaccel.selfhost.model_shape import LayerShape, ModelShape

MOST = 10**9
"""Of tokens, sessions and GPUs: above it, a number is a slip."""
MOST_GPUS = 64
"""What shares one model, at most: more is several servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """A model on GPUs, and what is asked of it. Raises `ConfigError` for what cannot be."""

    shape: ModelShape
    gpu: Gpu
    context: int
    """Tokens of one session, its replies included."""
    batch: int = 1
    """Sessions at once."""
    gpus: int = 1
    """GPUs that share the model by tensor parallelism."""
    kv_dtype: str | None = None
    weights_dtype: str | None = None
    draft: ModelShape | None = None
    prefix: int = 0
    """Tokens at the beginning that all sessions share."""
    share: float = 0.92
    """Of a GPU's memory, what the engine takes; the usual one is vLLM's."""

    def __post_init__(self) -> None:
        for name, least in (("context", 1), ("batch", 1), ("gpus", 1), ("prefix", 0)):
            check_count(f"--{name}", getattr(self, name), least)
            if getattr(self, name) > MOST:
                raise ConfigError(f"--{name} is {getattr(self, name):,}; give at most {MOST:,}")
        if self.prefix > self.context:
            raise ConfigError(
                f"--prefix is {self.prefix:,} of a --context of {self.context:,} tokens; give no more of it"
            )
        if not is_amount(self.share) or not 0 < self.share <= 1:
            raise ConfigError(f"--memory-share is {self.share!r}; give a share of the GPU's memory, such as 0.92")
        if self.shape.head:
            raise ConfigError("this config is a head of another model: give that model's, and the head with --draft")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSize:
    """What a draft model, or a head, needs beside the model."""

    attention: str
    parameters: int
    weights: int
    """Bytes."""
    per_token: int
    """Bytes of keys and values of one token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixSharing:
    """What sharing one prefix saves, against a copy for each session."""

    tokens: int
    once: int
    """Bytes of one copy."""
    saved: int
    """Bytes of the copies that the batch does not need: what has left a sliding window is in none of them."""
    sessions: int
    """Sessions that fit with one copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSize:
    """What a server needs, in bytes: of the model and its draft together, where nothing else is said."""

    attention: str
    kv_dtype: str
    per_token: int
    """Of one token, in all layers of the model that keep tokens."""
    per_token_beyond: int
    """Of one more token, once all sliding windows are full."""
    state: int
    """Of one session, whatever its length: the states of linear layers."""
    session: int
    """Of one session of `context` tokens."""
    batch: int
    """Of all sessions of the batch, each with a copy of its own."""
    unquantised_batch: int | None
    """The same in the model's own type; None where that is what is stored, or not known."""
    weights_dtype: str
    parameters: int
    """Of the model alone."""
    weights: int
    """Of the model alone."""
    draft: DraftSize | None
    gpu_memory: int
    """Of one GPU."""
    gpu_usable: int
    """Of that, what the engine takes."""
    gpu_weights: int
    """On each GPU: of the model and its draft."""
    gpu_session: int
    """On each GPU: of one session."""
    sessions: int
    """Sessions of `context` tokens that fit, each with a copy of its own."""
    gpus_needed: int | None
    """The fewest GPUs of this kind that hold weights and the batch; None where no number does, because each keeps
    what cannot be shared out."""
    prefix: PrefixSharing | None


def size_of(plan: ServerPlan) -> ServerSize:
    """What the plan needs. Raises `ConfigError` where the GPU has no such type, or the config does not say its own."""
    stored, weights = (
        kv_stored_as(plan.kv_dtype, plan.shape, plan.gpu),
        weights_stored_as(plan.weights_dtype, plan.shape),
    )
    models = [plan.shape] if plan.draft is None else [plan.shape, plan.draft]
    draft = None if plan.draft is None else _draft(plan.draft, stored, plan.gpu)
    own = bytes_of_weights(plan.shape, weights)
    heavy = own + (draft.weights if draft is not None else 0)

    def kept(tokens: int, gpus: int = 1) -> int:
        return sum(kept_bytes(one, tokens, stored, gpus=gpus) + state_bytes(one, gpus=gpus) for one in models)

    session, each = kept(plan.context), kept(plan.context, plan.gpus)
    usable, gpu_weights = int(plan.gpu.memory * plan.share), -(-heavy // plan.gpus)
    free = max(0, usable - gpu_weights)
    return ServerSize(
        attention=plan.shape.attention,
        kv_dtype=stored.name,
        per_token=kept_bytes(plan.shape, 1, stored),
        per_token_beyond=sum(layer_bytes(one, stored) for one in plan.shape.layers if one.window is None),
        state=sum(state_bytes(one) for one in models),
        session=session,
        batch=plan.batch * session,
        unquantised_batch=_unquantised(plan, models, stored),
        weights_dtype=weights.name,
        parameters=sum(plan.shape.parameters),
        weights=own,
        draft=draft,
        gpu_memory=plan.gpu.memory,
        gpu_usable=usable,
        gpu_weights=gpu_weights,
        gpu_session=each,
        sessions=free // each if each else plan.batch,
        gpus_needed=next(
            (n for n in range(1, MOST_GPUS + 1) if -(-heavy // n) + plan.batch * kept(plan.context, n) <= usable), None
        ),
        prefix=_prefix(plan, models, stored, free) if plan.prefix else None,
    )


def layer_bytes(layer: LayerShape, stored: StoredAs, gpus: int = 1) -> int:
    """Bytes that a layer keeps of one token, on each of `gpus`: a head is on one of them, or, where there are fewer
    heads, on several."""
    if not layer.heads:
        return 0
    heads = -(-layer.heads // gpus)
    return stored.of(heads * layer.per_head) + heads * 2 * stored.scale


def kept_bytes(shape: ModelShape, tokens: int, stored: StoredAs, *, gpus: int = 1) -> int:
    """Bytes of keys and values of one session of `tokens`, on each of `gpus`."""
    within = (tokens if layer.window is None else min(tokens, layer.window) for layer in shape.layers)
    return sum(count * layer_bytes(layer, stored, gpus) for layer, count in zip(shape.layers, within, strict=True))


def shared_bytes(shape: ModelShape, prefix: int, context: int, stored: StoredAs, *, gpus: int = 1) -> int:
    """Bytes that a session of `context` tokens keeps of its first `prefix`: of a window, what is still in it."""
    total = 0
    for layer in shape.layers:
        left = 0 if layer.window is None else max(0, context - layer.window)
        total += max(0, prefix - left) * layer_bytes(layer, stored, gpus)
    return total


def state_bytes(shape: ModelShape, *, gpus: int = 1) -> int:
    """Bytes of the states of one session, on each of `gpus`. Raises `ConfigError` where their type is not known."""
    if not any(layer.recurrent for layer in shape.layers):
        return 0
    if shape.dtype is None:
        raise ConfigError(
            'this config does not say its dtype, which its states have: add "dtype": "bfloat16" to a copy'
        )
    rows = table("gpus")["weights_dtypes"]
    own, slow = rows[shape.dtype]["bytes"], rows[shape.state_dtype or shape.dtype]["bytes"]
    return sum(-(-layer.state // gpus) * own + -(-layer.recurrent // gpus) * slow for layer in shape.layers)


def _draft(shape: ModelShape, stored: StoredAs, gpu: Gpu) -> DraftSize:
    try:
        kv_stored_as(stored.name, shape, gpu)  # raises for what its attention has not
        weights = bytes_of_weights(shape, weights_stored_as(None, shape))
    except ConfigError as error:
        raise ConfigError(f"of the draft: {error}") from None
    return DraftSize(
        attention=shape.attention,
        parameters=sum(shape.parameters),
        weights=weights,
        per_token=kept_bytes(shape, 1, stored),
    )


def _unquantised(plan: ServerPlan, models: list[ModelShape], stored: StoredAs) -> int | None:
    if not stored.quantised or plan.shape.dtype is None:
        return None
    own = kv_stored_as(plan.shape.dtype, plan.shape, Gpu(name="any", memory=0))
    return plan.batch * sum(kept_bytes(one, plan.context, own) + state_bytes(one) for one in models)


def _prefix(plan: ServerPlan, models: list[ModelShape], stored: StoredAs, free: int) -> PrefixSharing:
    once = sum(kept_bytes(one, plan.prefix, stored) for one in models)
    shared = [shared_bytes(one, plan.prefix, plan.context, stored) for one in models]
    each = [shared_bytes(one, plan.prefix, plan.context, stored, gpus=plan.gpus) for one in models]
    whole = sum(kept_bytes(one, plan.context, stored, gpus=plan.gpus) for one in models)
    alone = whole + sum(state_bytes(one, gpus=plan.gpus) for one in models) - sum(each)
    copy = sum(kept_bytes(one, plan.prefix, stored, gpus=plan.gpus) for one in models)
    return PrefixSharing(
        tokens=plan.prefix,
        once=once,
        saved=(plan.batch - 1) * sum(shared),
        sessions=(free - copy) // alone if alone and free > copy else 0,
    )
