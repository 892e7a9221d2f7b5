"""What a model keeps of each token, and how large its weights are, read from its `config.json`. Pure.

    shape = read_shape(json.loads(Path("config.json").read_text()))
    shape.attention, shape.parameters, shape.layers[0].per_head

What each `model_type` means is data: `facts/shapes.toml`, with source and date. A config that is not understood is a
`ConfigError` that names the field, and what to give.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost.fields import Fields, row_of, unknown_fields
from agentaccel.selfhost.layers import kinds_of
from agentaccel.selfhost.parameters import (
    Parameters,
    of_attention,
    of_delta,
    of_ends,
    of_experts,
    of_feed_forward,
    of_latent,
    of_mamba1,
    of_mamba2,
    of_mlp,
    of_norms,
    rank_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    """What one layer keeps of a conversation."""

    heads: int = 0
    """Key-value heads: GPUs share them out. One for a latent vector, which each GPU keeps whole."""
    per_head: int = 0
    """Numbers that a head keeps of each token: a key and a value, or the latent vector."""
    window: int | None = None
    """The last tokens that it keeps; None for all of them."""
    state: int = 0
    """Numbers that it keeps whatever the length, in the model's own type: the inputs of a convolution."""
    recurrent: int = 0
    """The same, in the type of the recurrent state."""
    latent: bool = False
    """True if it is multi-head latent attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A model, as far as memory is concerned."""

    model_type: str
    attention: str
    """MHA, GQA, MQA or MLA, and with what: "GQA, 8 key-value heads of 128"."""
    layers: tuple[LayerShape, ...]
    parameters: Parameters
    dtype: str | None
    """The type of its weights as the config has it, in our spelling (bf16); None where it says nothing."""
    state_dtype: str | None
    """The type of the recurrent state; None for the model's own."""
    quantised: str | None
    """`quant_method` of the config, or None."""
    context: int | None
    """Tokens that it was made for."""
    active: float | None = None
    """Of its experts, the share that one token goes through; None without experts, or where the config does not say."""
    head: bool = False
    """True if it is a head of another model (EAGLE-3), and not a model."""
    notes: tuple[str, ...] = ()
    """What was taken without being stated, and what is not counted."""


def read_shape(config: object) -> ModelShape:
    """The shape that a `config.json` states, that of its text model if it has several. Raises `ConfigError` for one
    that is not understood, with what to give."""
    if not isinstance(config, Mapping):
        raise ConfigError("a config is a JSON object, such as the config.json that lies beside a model's weights")
    _check_kind(config)
    inner, notes = _text_model(config)
    _check_kind(inner)
    model_type = inner.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise ConfigError('this config does not say its model_type: add "model_type": …, as the model\'s own has it')
    row = row_of(model_type)
    if row is None:
        raise ConfigError(_not_known(model_type, inner))
    fields = Fields(inner, row)
    head = _head_of(fields)
    shape = _read(fields) if head is None else _read_head(fields, head)
    fields.check_rest()
    return replace(shape, active=_active(fields), notes=(*shape.notes, *_assumed(fields), *notes))


def _active(fields: Fields) -> float | None:
    """The share of its experts that a token goes through."""
    known = table("shapes")["per_token"]
    used = next((fields.config[name] for name in known if name in fields.config), None)
    count = fields.config.get((fields.row.get("experts") or {}).get("count", ""))
    if type(used) is not int or type(count) is not int or not 0 < used <= count:
        return None
    return used / count


def _check_kind(config: Mapping[str, Any]) -> None:
    for name, why in table("shapes")["refused"].items():
        if config.get(name) not in (None, False, [], {}):
            raise ConfigError(f"this config says {name}: {why}; size such a model by what its engine logs at its start")


def _text_model(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The part that writes text, and what follows from there being other parts."""
    inner = config.get("text_config")
    if inner is None:
        return config, ()
    if not isinstance(inner, Mapping):
        raise ConfigError("text_config of this config is no object; give the model's own config.json")
    outer = ("torch_dtype", "dtype", "tie_word_embeddings", "quantization_config", "architectures")
    shared = {name: config[name] for name in outer if name in config}
    what = "only the model of text_config is counted: encoders of images or sound are not"
    return {**shared, **inner}, (what,)


def _not_known(model_type: str, config: Mapping[str, Any]) -> str:
    known = {*table("shapes")["models"]["llama"].get("usual", {}), *_PLAIN}
    fields = unknown_fields(config, known)
    beside = f" with {', '.join(fields)}" if fields else ""
    return (
        f"model_type {model_type[:60]!r}{beside} is not known here, and is not guessed at; known are "
        f"{', '.join(table('shapes')['models'])}. If it is built as one of these is, say so in a copy of the config"
    )


_PLAIN = ("num_attention_heads", "num_key_value_heads", "head_dim")


def _head_of(fields: Fields) -> Mapping[str, Any] | None:
    """The row of the head that the architecture is; None for a model. Raises for an architecture of neither."""
    named = fields.config.get("architectures") or []
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        fields.refuse("architectures", "give a list of names")
    for head in table("shapes")["heads"].values():
        if set(named) & set(head["architectures"]) and fields.model_type in head["models"]:
            found: Mapping[str, Any] = head
            return found
    if named and not set(named) & set(fields.row["architectures"]):
        fields.refuse(
            "architectures", f"understood are {', '.join(fields.row['architectures'])}, and EAGLE-3 heads of llama"
        )
    return None


def _assumed(fields: Fields) -> Iterable[str]:
    taken = {name: value for name, value in fields.taken.items() if value is not False}
    if taken:
        said = ", ".join(f"{name} {json.dumps(value)}" for name, value in sorted(taken.items()))
        yield f"the config does not say, and transformers takes: {said}"
    if any(fields.config.get(name) for name in table("shapes")["predicting"]):
        yield "layers that predict several tokens (MTP) are not counted: their weights are loaded where they are used"


# --- a model ----------------------------------------------------------------------------------------------------------


def _read(fields: Fields) -> ModelShape:
    kept = {"full": _attention, "window": _attention, "state": _state}
    single = bool(fields.row.get("single"))
    layers, total = [], of_ends(fields)
    for index, kind in enumerate(kinds_of(fields)):
        layer, own = kept[kind](fields, kind) if kind in kept else (LayerShape(), Parameters())
        layers.append(layer)
        total = total.plus(own).plus(of_norms(fields))
        if kind == "experts":
            total = total.plus(of_experts(fields, fields.row["experts"]))
        elif kind == "mlp":
            total = total.plus(of_mlp(fields, fields.count("intermediate_size")))
        elif not single:
            total = total.plus(of_feed_forward(fields, index))
    return _shape(fields, layers, total)


def _shape(fields: Fields, layers: list[LayerShape], total: Parameters) -> ModelShape:
    quantised = fields.config.get("quantization_config")
    method = quantised.get("quant_method") if isinstance(quantised, Mapping) else None
    if quantised and not isinstance(method, str):
        fields.refuse("quantization_config", "give one with its quant_method")
    return ModelShape(
        model_type=fields.model_type,
        attention=_named(fields, layers),
        layers=tuple(layers),
        parameters=total,
        dtype=_dtype(fields, "dtype") or _dtype(fields, "torch_dtype"),
        state_dtype=_state_dtype(fields) if any(layer.recurrent for layer in layers) else None,
        quantised=method,
        context=fields.maybe("max_position_embeddings"),
    )


def _named(fields: Fields, layers: list[LayerShape]) -> str:
    first = next((layer for layer in layers if layer.heads), None)
    if first is None:
        return "no attention"
    if first.latent:
        return f"MLA, one latent vector of {first.per_head}"
    heads = fields.count("num_attention_heads")
    kind = "MQA" if first.heads == 1 < heads else "MHA" if first.heads == heads else "GQA"
    return f"{kind}, {first.heads} key-value head{'s' if first.heads > 1 else ''} of {first.per_head // 2}"


def _dtype(fields: Fields, name: str) -> str | None:
    said = fields.get(name)
    if said is None:
        return None
    known = table("gpus")["spellings"]
    if not isinstance(said, str) or said not in known:
        fields.refuse(name, f"understood are {', '.join(known)}")
    return str(known[said])


def _state_dtype(fields: Fields) -> str | None:
    *names, last = fields.row["state_dtype"]
    said = (_dtype(fields, name) for name in names if fields.config.get(name) != "auto")
    found = next((one for one in said if one is not None), None)
    return found or (None if last == "model" else str(table("gpus")["spellings"][last]))


def _attention(fields: Fields, kind: str) -> tuple[LayerShape, Parameters]:
    window = None
    if kind == "window":
        optional = fields.row["layers"].get("all") == "sliding_attention"  # null means none there
        window = fields.maybe("sliding_window") if optional else fields.count("sliding_window")
    if fields.row["attention"] == "latent":
        heads, rank, rope = (fields.count(name) for name in ("num_attention_heads", "kv_lora_rank", "qk_rope_head_dim"))
        kept = LayerShape(heads=1, per_head=rank + rope, window=window, latent=True)
        return kept, of_latent(fields, heads, rank, rope)
    heads, kv_heads, head_dim = _heads(fields)
    return LayerShape(heads=kv_heads, per_head=2 * head_dim, window=window), of_attention(
        fields, heads, kv_heads, head_dim
    )


def _heads(fields: Fields) -> tuple[int, int, int]:
    """Heads of queries, heads of keys and values, and the width of a head."""
    heads = fields.count("num_attention_heads")
    kv_heads = fields.maybe("num_key_value_heads")
    if kv_heads is None:
        kv_heads = fields.taken["num_key_value_heads"] = heads
    if heads % kv_heads:
        fields.refuse("num_key_value_heads", f"give a divisor of num_attention_heads, {heads}")
    if (head_dim := fields.maybe("head_dim")) is not None:
        return heads, kv_heads, head_dim
    hidden = fields.count("hidden_size")
    if hidden % heads:
        fields.refuse("hidden_size", f"without a head_dim, give a multiple of num_attention_heads, {heads}")
    return heads, kv_heads, hidden // heads


def _state(fields: Fields, kind: str) -> tuple[LayerShape, Parameters]:
    """A layer of kind `kind` with a state of one size: what vLLM keeps of it for one conversation."""
    names: Mapping[str, str] = fields.row.get("state") or {}
    hidden = fields.count("hidden_size")
    if not names:
        raise ConfigError(
            f"this config ({fields.model_type}) has layers with a {kind}, and {fields.model_type} has none"
        )
    kernel = fields.count(names["kernel"])
    if names["kind"] == "mamba1":
        inner, size = hidden * fields.count(names["expand"]), fields.count(names["size"])
        kept = LayerShape(state=inner * (kernel - 1), recurrent=inner * size)
        return kept, of_mamba1(hidden, inner, size, kernel, rank_of(fields, names["rank"]))
    if names["kind"] == "mamba2":
        heads, width, size, groups = (fields.count(names[name]) for name in ("heads", "head_dim", "size", "groups"))
        inner = heads * width
        conv = inner + 2 * groups * size
        kept = LayerShape(state=conv * (kernel - 1), recurrent=inner * size)
        return kept, of_mamba2(hidden, inner, heads, conv, kernel)
    parts = (fields.count(names[name]) for name in ("key_heads", "key_dim", "value_heads", "value_dim"))
    key_heads, key_dim, heads, width = parts
    keys, values = key_heads * key_dim, heads * width
    kept = LayerShape(state=(2 * keys + values) * (kernel - 1), recurrent=values * key_dim)
    return kept, of_delta(hidden, keys, values, heads, width, kernel)


# --- a head -----------------------------------------------------------------------------------------------------------


def _read_head(fields: Fields, head: Mapping[str, Any]) -> ModelShape:
    """EAGLE-3 (arXiv:2503.01840): a first projection of three of the target's states, one layer that takes embeddings
    and states, and an output head of a vocabulary of its own. The embeddings are the target's."""
    hidden = fields.count("hidden_size")
    target = next(value for name in head["hidden"] if (value := fields.maybe(name)) is not None)
    vocab = next(value for name in head["vocab"] if (value := fields.maybe(name)) is not None)
    heads, kv_heads, head_dim = _heads(fields)
    layers, total = [], Parameters(matrices=3 * target * hidden, rest=vocab * hidden + 2 * hidden)
    for index in range(len(kinds_of(fields))):
        layers.append(LayerShape(heads=kv_heads, per_head=2 * head_dim))
        total = total.plus(of_attention(fields, heads, kv_heads, head_dim, 2 * hidden if index == 0 else None))
        total = total.plus(of_norms(fields)).plus(of_mlp(fields, fields.count("intermediate_size")))
    fields.read |= {"tie_word_embeddings", "vocab_size", "draft_vocab_size"}
    fields.taken.pop("tie_word_embeddings", None)
    return replace(_shape(fields, layers, total), head=True, attention=f"{head['name']}, {_named(fields, layers)}")
