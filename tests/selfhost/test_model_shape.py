"""What configs of real models mean for memory, against figures worked by hand; and every config that is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost.fields import row_of
from agentaccel.selfhost.gpus import Gpu, bytes_of_weights, kv_stored_as, weights_stored_as
from agentaccel.selfhost.model_shape import ModelShape, read_shape
from agentaccel.selfhost.sizing import kept_bytes, state_bytes
from tests.selfhost.configs import (
    DEEPSEEK_V3,
    EAGLE3,
    FURTHER,
    GEMMA2_9B,
    GEMMA3_4B,
    GPT_OSS_20B,
    JAMBA,
    LLAMA_8B,
    LLAMA_70B,
    MISTRAL_7B,
    MODELS,
    NEMOTRON_NANO,
    PARAMETERS,
    PHI_2,
    QWEN3_30B,
    QWEN3_NEXT,
    QWEN25_7B,
    Json,
)

ANY = Gpu(name="any", memory=10**12)


def kept(shape: ModelShape, tokens: int, dtype: str = "bf16") -> int:
    return kept_bytes(shape, tokens, kv_stored_as(dtype, shape, ANY))


BY_HAND: dict[str, tuple[str, int, int, int]] = {
    # layers x (keys, values) x key-value heads x head dimension x 2 bytes
    "Llama 3.1 8B": ("GQA, 8 key-value heads of 128", 32 * 2 * 8 * 128 * 2, 8192, 1_073_741_824),
    "Llama 3.1 70B": ("GQA, 8 key-value heads of 128", 327_680, 8192, 2_684_354_560),
    # every layer keeps its last 4,096 tokens: 4,096 x 131,072 bytes
    "Mistral 7B v0.1": ("GQA, 8 key-value heads of 128", 32 * 2 * 8 * 128 * 2, 32_768, 536_870_912),
    "Gemma 2B": ("MQA, 1 key-value head of 256", 18 * 2 * 1 * 256 * 2, 8192, 18_432 * 8192),
    # 8,192 bytes a layer; 21 layers keep all of 8,192 tokens, 21 the last 4,096
    "Gemma 2 9B": ("GQA, 8 key-value heads of 256", 42 * 8192, 8192, 21 * 8192 * 8192 + 21 * 4096 * 8192),
    # 4,096 bytes a layer; layers 6, 12, 18, 24 and 30 of 34 keep all of 32,768 tokens, 29 the last 1,024
    "Gemma 3 4B": ("GQA, 4 key-value heads of 256", 34 * 4096, 32_768, 5 * 32_768 * 4096 + 29 * 1024 * 4096),
    # 2 x 8 x 64 x 2 bytes a layer; 12 of 24 keep the last 128 tokens
    "gpt-oss-20b": ("GQA, 8 key-value heads of 64", 24 * 2048, 131_072, 12 * 131_072 * 2048 + 12 * 128 * 2048),
    # (512 of the latent vector + 64 of the rotary part) x 61 layers x 2 bytes
    "DeepSeek-V3": ("MLA, one latent vector of 576", 61 * (512 + 64) * 2, 4096, 70_272 * 4096),
    "Qwen3-30B-A3B": ("GQA, 4 key-value heads of 128", 48 * 2 * 4 * 128 * 2, 4096, 98_304 * 4096),
    # `use_sliding_window` is false: its window of 131,072 tokens means nothing
    "Qwen2.5 7B": ("GQA, 4 key-value heads of 128", 28 * 2 * 4 * 128 * 2, 262_144, 57_344 * 262_144),
    # 2560 / 32 is a head dimension of 80, and there is a head of keys for each of queries
    "Phi-2": ("MHA, 32 key-value heads of 80", 32 * 2 * 32 * 80 * 2, 2048, 327_680 * 2048),
    # layers 4, 12, 20 and 28 of 32 have attention
    "Jamba v0.1": ("GQA, 8 key-value heads of 128", 4 * 2 * 8 * 128 * 2, 262_144, 16_384 * 262_144),
    # every fourth of 48
    "Qwen3-Next-80B-A3B": ("GQA, 2 key-value heads of 256", 12 * 2 * 2 * 256 * 2, 262_144, 24_576 * 262_144),
    # six stars in its pattern
    "Nemotron 3 Nano 30B-A3B": ("GQA, 2 key-value heads of 128", 6 * 2 * 2 * 128 * 2, 262_144, 6144 * 262_144),
}
"""What it is, bytes of a token, and bytes of so many tokens."""


@pytest.mark.parametrize("name", MODELS)
def test_a_token_takes_what_the_dimensions_of_the_model_say(name: str) -> None:
    attention, token, tokens, session = BY_HAND[name]
    shape = read_shape(MODELS[name])
    assert (shape.attention, kept(shape, 1), kept(shape, tokens)) == (attention, token, session)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_as_many_parameters_as_transformers_builds(name: str) -> None:
    assert sum(read_shape(MODELS[name]).parameters) == PARAMETERS[name]


@pytest.mark.parametrize("name", FURTHER)
def test_every_other_model_type_has_them_too(name: str) -> None:
    parameters, config = FURTHER[name]
    assert sum(read_shape(config).parameters) == parameters


def test_every_model_type_was_compared() -> None:
    configs = [*MODELS.values(), *(config for _, config in FURTHER.values())]
    compared = {config.get("text_config", config)["model_type"] for config in configs}
    assert compared | {"kimi_k2"} == set(table("shapes")["models"])
    assert row_of("kimi_k2") == {**(row_of("deepseek_v3") or {}), "like": "deepseek_v3"}


@pytest.mark.parametrize(
    ("config", "state"),
    [
        # 28 layers x 8,192 channels x (3 inputs of the convolution + 16 of the state) x 2 bytes
        (JAMBA, 28 * 8192 * (3 + 16) * 2),
        # 36 layers x ((2 x 2,048 + 4,096) x 3 + 32 heads x 128 x 128) x 2 bytes
        (QWEN3_NEXT, 36 * (8192 * 3 + 32 * 128 * 128) * 2),
        # 23 layers x (6,144 x 3 x 2 bytes + 64 heads x 64 x 128 x 4 bytes): its config asks for float32
        (NEMOTRON_NANO, 23 * (6144 * 3 * 2 + 64 * 64 * 128 * 4)),
        (LLAMA_8B, 0),
    ],
    ids=["jamba", "qwen3-next", "nemotron", "llama"],
)
def test_a_layer_without_attention_keeps_a_state_that_does_not_grow(config: Json, state: int) -> None:
    assert state_bytes(read_shape(config)) == state


@pytest.mark.parametrize(
    ("config", "dtype", "size"),
    [
        (LLAMA_70B, None, 2 * 70_553_706_496),
        # 24 layers x 32 experts x 3 x 2,880 x 2,880 in 17 bytes for 32, the rest in 16 bits: 12.8 GiB, as its card says
        (GPT_OSS_20B, None, 19_110_297_600 * 17 // 32 + 2 * (20_914_757_184 - 19_110_297_600)),
        # its own quantisation is told: embeddings, head, routers and norms stay in 16 bits
        (LLAMA_8B, "fp8", (8_030_261_248 - 2 * 128_256 * 4096 - 65 * 4096) + 2 * (2 * 128_256 * 4096 + 65 * 4096)),
        (LLAMA_8B, "fp32", 4 * 8_030_261_248),
    ],
    ids=["bf16", "mxfp4", "fp8", "fp32"],
)
def test_weights_take_what_their_type_makes_of_them(config: Json, dtype: str | None, size: int) -> None:
    shape = read_shape(config)
    assert bytes_of_weights(shape, weights_stored_as(dtype, shape)) == size


def test_a_head_of_eagle_has_one_layer_and_a_small_vocabulary() -> None:
    """By hand: 3 states projected, attention over 2 x 4,096, an MLP, 32,000 words. Embeddings are the target's."""
    shape = read_shape(EAGLE3)
    projections = 3 * 4096 * 4096 + 2 * 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336
    assert shape.head
    assert shape.parameters == (projections, 0, 32_000 * 4096 + 4 * 4096)
    assert kept(shape, 1) == 2 * 8 * 128 * 2


def test_an_interval_means_what_the_list_of_its_layers_says() -> None:
    """Chosen by the vendors: both spellings are in use."""
    spelled = {"linear_attention": 3, "full_attention": 1}
    types = [word for word, count in spelled.items() for _ in range(count)] * 12
    listed = {**QWEN3_NEXT, "layer_types": types}
    assert read_shape(listed).layers == read_shape(QWEN3_NEXT).layers
    listed["layer_types"] = ["full_attention"] * 48
    assert kept(read_shape(listed), 1) == 4 * kept(read_shape(QWEN3_NEXT), 1)


def test_newer_names_of_a_field_mean_what_the_older_ones_do() -> None:
    """As transformers 5 writes Qwen3's config, and older files of Nemotron-H."""
    renamed = {**QWEN3_30B, "num_local_experts": QWEN3_30B["num_experts"]}
    del renamed["num_experts"]
    assert read_shape(renamed) == read_shape(QWEN3_30B)
    wide = {**NEMOTRON_NANO, "attention_head_dim": 64}
    del wide["head_dim"]
    assert kept(read_shape(wide), 1) == 3072


def test_a_window_that_is_switched_on_begins_at_its_layer() -> None:
    """As transformers has it: the first `max_window_layers` keep everything."""
    shape = read_shape({**QWEN25_7B, "use_sliding_window": True, "max_window_layers": 20, "sliding_window": 4096})
    assert [layer.window for layer in shape.layers] == [None] * 20 + [4096] * 8
    assert [layer.window for layer in read_shape({**MISTRAL_7B, "sliding_window": None}).layers] == [None] * 32


def test_what_a_config_does_not_say_is_said() -> None:
    """Never guessed silently: what transformers takes stands in the notes, and so does what is not counted."""
    notes = " ".join(read_shape(GEMMA3_4B).notes)
    assert "does not say, and transformers takes: head_dim 256, num_attention_heads 8, num_key_value_heads 4" in notes
    assert "only the model of text_config is counted" in notes
    assert read_shape(LLAMA_70B).notes == ()
    assert "(MTP) are not counted" in read_shape(DEEPSEEK_V3).notes[-1]
    without = {name: value for name, value in PHI_2.items() if name != "num_key_value_heads"}
    assert "num_key_value_heads 32" in read_shape(without).notes[0]


T5 = {"model_type": "t5", "is_encoder_decoder": True, "num_layers": 12}
UNKNOWN: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no object": ([], {}, "a config is a JSON object"),
    "no model_type": (LLAMA_8B, {"model_type": None}, "does not say its model_type"),
    "another model_type": (LLAMA_8B, {"model_type": "llama9"}, "model_type 'llama9' is not known here"),
    "shared keys": (
        LLAMA_8B,
        {"model_type": "gemma3n_text", "num_kv_shared_layers": 15},
        "model_type 'gemma3n_text' with num_kv_shared_layers is not known here",
    ),
    "an index": (
        DEEPSEEK_V3,
        {"model_type": "deepseek_v32", "index_topk": 2048, "index_head_dim": 128},
        "index_head_dim, index_topk",
    ),
    "chunks": (LLAMA_8B, {"model_type": "llama4_text", "attention_chunk_size": 8192}, "with attention_chunk_size"),
    "an encoder": (T5, {}, "says is_encoder_decoder: an encoder beside the decoder"),
    "cross attention": (LLAMA_8B, {"add_cross_attention": True}, "says add_cross_attention: cross attention keeps"),
    "cross layers": (LLAMA_8B, {"cross_attention_layers": [3, 8]}, "says cross_attention_layers: cross attention"),
    "attention_type": (LLAMA_8B, {"attention_type": "lightning"}, "says attention_type: which attention that is"),
    "an unknown field": (LLAMA_8B, {"kv_sharing_map": [1, 2]}, "are not understood: kv_sharing_map"),
    "a window where none is": (LLAMA_8B, {"sliding_window": 4096}, "are not understood: sliding_window"),
    "an unknown layer": (GPT_OSS_20B, {"layer_types": ["chunked_attention"] * 24}, "is 'chunked_attention', of which"),
    "too few layers": (GPT_OSS_20B, {"layer_types": ["full_attention"] * 23}, "it has 23 words for 24 layers"),
    "no list of layers": (GPT_OSS_20B, {"layer_types": "full_attention"}, "give a list with a word for each layer"),
    "an unknown letter": (NEMOTRON_NANO, {"hybrid_override_pattern": "MX" * 26}, "give a letter for each layer, of M"),
    "too few letters": (NEMOTRON_NANO, {"hybrid_override_pattern": "ME*"}, "it has 3 letters for 52 layers"),
    "no pattern": (
        NEMOTRON_NANO,
        {"hybrid_override_pattern": None},
        "add layers_block_type or hybrid_override_pattern",
    ),
    "a missing count": (
        LLAMA_8B,
        {"num_hidden_layers": None},
        'does not say num_hidden_layers: add "num_hidden_layers"',
    ),
    "a missing rank": (DEEPSEEK_V3, {"kv_lora_rank": None}, "does not say kv_lora_rank"),
    "a missing window": (
        GEMMA2_9B,
        {"sliding_window": None, "sliding_window_size": None},
        "does not say sliding_window",
    ),
    "no number": (
        LLAMA_8B,
        {"hidden_size": "4096"},
        'hidden_size of this config (llama) is "4096"; give a whole number',
    ),
    "true": (LLAMA_8B, {"num_hidden_layers": True}, "give a whole number of at least 1"),
    "too much": (LLAMA_8B, {"hidden_size": 10**9}, "give a whole number of at least 1"),
    "too many layers": (LLAMA_8B, {"num_hidden_layers": 10**6}, "give at most 10,000"),
    "heads that do not divide": (LLAMA_8B, {"num_key_value_heads": 5}, "give a divisor of num_attention_heads, 32"),
    "a width that does not divide": (LLAMA_8B, {"hidden_size": 4097}, "give a multiple of num_attention_heads, 32"),
    "a flag that is none": (LLAMA_8B, {"attention_bias": "no"}, "give true or false"),
    "only one value": (PHI_2, {"qk_layernorm": True}, "only false is understood"),
    "another frequency": (DEEPSEEK_V3, {"moe_layer_freq": 2}, "only 1 is understood"),
    "two that contradict": (
        GEMMA2_9B,
        {"sliding_window_size": 512},
        "and sliding_window, which means the same, is 4096",
    ),
    "another architecture": (
        LLAMA_8B,
        {"architectures": ["LlamaForSequenceClassification"]},
        "understood are LlamaFor",
    ),
    "no architectures": (LLAMA_8B, {"architectures": "LlamaForCausalLM"}, "give a list of names"),
    "an unknown dtype": (LLAMA_8B, {"torch_dtype": "float8_e5m2"}, "understood are float32, float16"),
    "no text model": (GEMMA3_4B, {"text_config": [1]}, "text_config of this config is no object"),
    "a quantisation without a name": (LLAMA_8B, {"quantization_config": {"bits": 4}}, "give one with its quant_method"),
    "dense layers of no list": (QWEN3_30B, {"mlp_only_layers": "all"}, "give a list of layers"),
    "a state where none is": (GPT_OSS_20B, {"layer_types": ["linear_attention"] * 24}, "gpt_oss has none"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_config_that_is_not_understood_is_refused_with_what_to_give(name: str) -> None:
    config, changes, said = UNKNOWN[name]
    with pytest.raises(ConfigError) as error:
        read_shape({**config, **changes} if changes else config)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [name for name, (_, changes, _) in UNKNOWN.items() if changes])
def test_the_same_config_without_that_is_read(name: str) -> None:
    """The twin: what is refused is the change, and nothing else of the config."""
    assert read_shape(UNKNOWN[name][0]).layers


@pytest.mark.parametrize(
    "name", ["num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "intermediate_size"]
)
def test_a_dimension_that_is_missing_is_named(name: str) -> None:
    config = copy.deepcopy(LLAMA_8B)
    del config[name]
    with pytest.raises(ConfigError, match=f"does not say {name}: add"):
        read_shape(config)


def test_fields_that_say_nothing_refuse_nothing() -> None:
    """Null, false, 0 and nothing in a list: writers of configs leave them in."""
    silent = {
        "sliding_window": None,
        "cross_attention_layers": [],
        "moe_layers": {},
        "kv_sharing": False,
        "ssm_rank": 0,
    }
    assert read_shape({**LLAMA_8B, **silent}) == read_shape(LLAMA_8B)


def test_everything_that_is_known_of_models_has_a_source_and_words_that_are_known() -> None:
    facts = table("shapes")
    for name in facts["models"]:
        row = row_of(name)
        assert row is not None
        assert row["source"] in facts["sources"]
        assert row["attention"] in ("heads", "latent")
        assert row["mlp"] in ("gated", "plain")
        words = {row["layers"]["all"]} if "all" in row["layers"] else set()
        words |= {row["layers"]["every"][word] for word in ("is", "else") if "every" in row["layers"]}
        assert words <= set(facts["kinds"])
    assert all(head["source"] in facts["sources"] for head in facts["heads"].values())
    assert json.dumps(facts["letters"]) != "{}"
