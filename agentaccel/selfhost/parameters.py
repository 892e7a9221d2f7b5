"""How many parameters a model has, from the dimensions that its config states. Pure.

The parts are those of the facts (`shapes.toml`): a layer has its attention or its state, and an MLP or experts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentaccel.selfhost.fields import Fields


class Parameters(NamedTuple):
    """Numbers of parameters, by what quantisation may cover."""

    matrices: int = 0
    """Of projections: what quantisation of weights covers."""
    experts: int = 0
    """The same, of experts."""
    rest: int = 0
    """Embeddings, output head, routers, norms, biases and the like: they stay in 16 bits."""

    def plus(self, other: Parameters) -> Parameters:
        """The sum of both."""
        return Parameters(*(one + two for one, two in zip(self, other, strict=True)))


def of_attention(fields: Fields, heads: int, kv_heads: int, head_dim: int, width: int | None = None) -> Parameters:
    """Projections of queries, keys, values and the output; `width` is what goes into the first three, where that is
    not the hidden size."""
    row, hidden = fields.row, fields.count("hidden_size")
    queries, keys = heads * head_dim, kv_heads * head_dim
    asked = queries * (2 if row.get("gate") else 1)
    matrices = (width or hidden) * (asked + 2 * keys) + queries * hidden
    rest = asked + 2 * keys if fields.flag(row.get("qkv_bias", False)) else 0
    rest += hidden if fields.flag(row.get("o_bias", False)) else 0
    rest += heads if row.get("sinks") else 0
    if "qk_norm" in row and fields.flag(row.get("qk_norm_if", True)):
        rest += 2 * head_dim if row["qk_norm"] == "head" else queries + keys
    return Parameters(matrices=matrices, rest=rest)


def of_latent(fields: Fields, heads: int, rank: int, rope: int) -> Parameters:
    """Projections of multi-head latent attention, DeepSeek-V2 (arXiv:2405.04434), section 2.1."""
    hidden = fields.count("hidden_size")
    nope, value = fields.count("qk_nope_head_dim"), fields.count("v_head_dim")
    low = fields.maybe("q_lora_rank")
    queries = heads * (nope + rope)
    matrices = hidden * queries if low is None else low * (hidden + queries)
    matrices += hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden
    return Parameters(matrices=matrices, rest=rank + (low or 0))


def of_mamba1(hidden: int, inner: int, size: int, kernel: int, rank: int) -> Parameters:
    """A Mamba layer with the norms of Jamba (arXiv:2403.19887)."""
    matrices = hidden * 2 * inner + inner * (rank + 2 * size) + rank * inner + inner * hidden
    return Parameters(matrices=matrices, rest=inner * (kernel + 1) + inner + inner * size + inner + rank + 2 * size)


def of_mamba2(hidden: int, inner: int, heads: int, conv: int, kernel: int) -> Parameters:
    """A Mamba-2 layer (arXiv:2405.21060); `conv` channels go through the convolution."""
    matrices = hidden * (inner + conv + heads) + inner * hidden
    return Parameters(matrices=matrices, rest=conv * (kernel + 1) + 3 * heads + inner)


def of_delta(hidden: int, keys: int, values: int, heads: int, value_dim: int, kernel: int) -> Parameters:
    """A gated delta-rule layer (arXiv:2412.06464), with the projections of Qwen3-Next."""
    matrices = hidden * (2 * keys + 2 * values + 2 * heads) + values * hidden
    return Parameters(matrices=matrices, rest=(2 * keys + values) * kernel + 2 * heads + value_dim)


def of_norms(fields: Fields) -> Parameters:
    """The norms of one layer."""
    each = 2 if fields.row.get("norm_bias") else 1
    return Parameters(rest=fields.row.get("norms", 2) * each * fields.count("hidden_size"))


def of_mlp(fields: Fields, inner: int) -> Parameters:
    """A feed-forward part that is `inner` wide; a gated one has a third matrix."""
    hidden, gated = fields.count("hidden_size"), fields.row["mlp"] == "gated"
    ups = inner * (2 if gated else 1)
    bias = ups + hidden if fields.flag(fields.row.get("mlp_bias", False)) else 0
    return Parameters(matrices=hidden * (ups + inner), rest=bias)


def of_feed_forward(fields: Fields, index: int) -> Parameters:
    """What stands behind the attention of layer `index`: experts where the config has them there, else an MLP."""
    experts: Mapping[str, Any] = fields.row.get("experts") or {}
    if experts and _has_experts(fields, experts, index):
        return of_experts(fields, experts)
    return of_mlp(fields, fields.count("intermediate_size"))


def of_experts(fields: Fields, experts: Mapping[str, Any]) -> Parameters:
    """All experts of a layer, its router, and the expert that every token goes to."""
    hidden, count, size = fields.count("hidden_size"), fields.count(experts["count"], 0), fields.count(experts["size"])
    one = of_mlp(fields, size)
    bias = count * (size * 2 + hidden) if experts.get("bias") else 0
    found = Parameters(experts=count * one.matrices, rest=count * hidden + bias)
    found = found.plus(Parameters(rest=count if experts.get("router_bias") else 0))
    shared = fields.count(experts["shared"], 0) if "shared" in experts else 1 if "shared_size" in experts else 0
    wide = fields.count(experts["shared_size"]) if "shared_size" in experts else size
    if shared:
        found = found.plus(of_mlp(fields, shared * wide))
    return found.plus(Parameters(rest=hidden if experts.get("shared_gate") else 0))


def _has_experts(fields: Fields, experts: Mapping[str, Any], index: int) -> bool:
    """True if layer `index` has experts, by the rules that the facts name fields of."""
    if experts.get("no_router_if_one") and fields.count(experts["count"]) == 1:
        return False
    if "first" in experts and index < fields.count(experts["first"], 0):
        return False
    if "dense" in experts:
        dense = fields.get(experts["dense"]) or []
        if not isinstance(dense, list) or not all(type(one) is int for one in dense):
            fields.refuse(experts["dense"], "give a list of layers")
        if index in dense:
            return False
    if "step" in experts:
        step = fields.count(experts["step"])
        return index % step == (fields.count(experts["offset"], 0) if "offset" in experts else step - 1)
    return True


def of_ends(fields: Fields) -> Parameters:
    """Embeddings, the last norm, and the output head, which may be the embeddings once more."""
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    heads = 1 if fields.flag("tie_word_embeddings") else 2
    norm = hidden * (2 if fields.row.get("norm_bias") else 1)
    return Parameters(rest=heads * vocab * hidden + norm + (vocab if fields.row.get("head_bias") else 0))


def rank_of(fields: Fields, name: str) -> int:
    """The rank of Mamba's step projection; `auto` is a sixteenth of the hidden size, rounded up."""
    if fields.get(name) == "auto":
        return math.ceil(fields.count("hidden_size") / 16)
    return fields.count(name)
