"""How much memory a server needs: published figures, what holds of every model, and what a GPU does not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost.gpus import (
    Gpu,
    StoredAs,
    gpu_of,
    kv_dtypes,
    kv_stored_as,
    unnamed_gpu,
    weights_dtypes,
    weights_stored_as,
)
from agentaccel.selfhost.model_shape import LayerShape, ModelShape, read_shape
from agentaccel.selfhost.parameters import Parameters
from agentaccel.selfhost.sized import sentences
from agentaccel.selfhost.sizing import ServerPlan, kept_bytes, shared_bytes, size_of
from tests.selfhost.configs import (
    DEEPSEEK_V3,
    EAGLE3,
    GEMMA3_4B,
    GPT_OSS_20B,
    JAMBA,
    LLAMA_8B,
    LLAMA_70B,
    MISTRAL_7B,
    QWEN3_NEXT,
)

ANY = Gpu(name="any", memory=10**12)


def planned(config: dict[str, Any] = LLAMA_70B, **changes: Any) -> ServerPlan:
    asked = {"shape": read_shape(config), "gpu": gpu_of("H100"), "context": 8192, "batch": 32, "gpus": 4}
    return ServerPlan(**{**asked, **changes})


# --- published figures ------------------------------------------------------------------------------------------------


def test_llama_3_1_70b_takes_what_is_published_of_it() -> None:
    """327,680 bytes a token, 2.68 GB at 8,192 tokens, 85.9 GB at a batch of 32, 1.97 GB of a prefix of 6,000."""
    size = size_of(planned(prefix=6000))
    assert (size.per_token, size.session, size.batch) == (327_680, 2_684_354_560, 85_899_345_920)
    assert size.prefix is not None
    assert size.prefix.once == 1_966_080_000
    assert size.weights == 141_107_412_992


def test_sessions_fit_into_what_the_weights_leave() -> None:
    """By hand: 92 % of 80 GB less a quarter of the weights is 38,323,146,752; a quarter of a session 671,088,640."""
    size = size_of(planned(prefix=6000))
    assert size.sessions == 38_323_146_752 // 671_088_640 == 57
    # a quarter of the prefix, once: 491,520,000; a session has 2,192 tokens of its own, 179,568,640 on each GPU
    assert size.prefix is not None
    assert size.prefix.sessions == (38_323_146_752 - 491_520_000) // 179_568_640 == 210
    assert size.prefix.saved == 31 * 1_966_080_000
    assert size.gpus_needed == 4  # of three, each had 69 GB for 75.7
    assert "57 sessions of 8,192 tokens fit on 4 x H100 (Hopper): a batch of 32 does" in sentences(planned(), size)


def test_what_does_not_fit_is_said_with_how_many_gpus_it_needs() -> None:
    """By hand: (141.1 + 85.9) GB on GPUs of 73.6."""
    said = sentences(plan := planned(gpus=1), size_of(plan))[0]
    assert said == (
        "the weights do not fit on H100 (Hopper), 141.11 GB on each, of 73.60 GB that an engine takes; all of it needs "
        "4 of them"
    )
    said = sentences(plan := planned(gpus=2), size_of(plan))[0]
    assert (
        said == "2 sessions of 8,192 tokens fit on 2 x H100 (Hopper): a batch of 32 does not; all of it needs 4 of them"
    )


def test_gpus_share_out_heads_and_never_a_latent_vector() -> None:
    """As vLLM does: tensor parallelism copies what cannot be shared out."""
    wide = size_of(planned(LLAMA_8B, gpus=16))
    assert wide.gpu_session * 8 == wide.session  # 8 heads on 16 GPUs: each has one
    latent = planned(DEEPSEEK_V3, gpu=gpu_of("h200"), gpus=8, context=131_072)
    size = size_of(latent)
    assert size.gpu_session == size.session == 70_272 * 131_072
    assert size.gpus_needed is None
    said = sentences(latent, size)
    assert "nor does it on 64, which share out weights and heads: take several servers" in said[0]
    assert any("the 8 GPUs together keep 73.69 GB for a session of 9.21 GB" in one for one in said)


def test_what_does_not_fit_is_no_session_and_no_fewer() -> None:
    """On one GPU the weights alone are too much; on four of 40 GB the prefix is."""
    assert size_of(planned(gpus=1)).sessions == 0
    tight = size_of(planned(gpu=Gpu(name="tight", memory=38_900_000_000), prefix=8191))
    assert tight.gpu_usable - tight.gpu_weights == 511_146_752
    assert tight.prefix is not None
    assert (tight.sessions, tight.prefix.sessions) == (0, 0)  # one copy is 671,006,720 on each


def test_states_belong_to_each_session_and_are_shared_out_and_not_shared() -> None:
    """By hand: 16,384 bytes a token and 8,716,288 of states; of a prefix each session has the rest, and its states."""
    size = size_of(planned(JAMBA, prefix=6000))
    session = 8192 * 16_384 + 8_716_288
    assert (size.session, size.gpu_session) == (session, session // 4)
    assert size.prefix is not None
    assert (size.prefix.once, size.prefix.saved) == (6000 * 16_384, 31 * 6000 * 16_384)
    room = 73_600_000_000 - 51_570_323_328 * 2 // 4 - 6000 * 16_384 // 4
    assert size.prefix.sessions == room // ((2192 * 16_384 + 8_716_288) // 4)


def test_a_block_that_has_begun_takes_what_a_whole_one_does_not() -> None:
    """33 numbers of 32 in 34 bytes: 36 bytes, and no half of one."""
    assert StoredAs(name="q8_0", values=32, bytes=34).of(33) == 36
    assert StoredAs(name="q8_0", values=32, bytes=34).of(32) == 34


def test_a_draft_has_weights_and_keys_of_its_own() -> None:
    """By hand: 4,096 bytes a token, and two bytes a parameter."""
    alone, beside = size_of(planned(LLAMA_8B)), size_of(planned(LLAMA_8B, draft=read_shape(EAGLE3)))
    assert beside.draft is not None
    assert beside.draft.per_token == 4096
    assert beside.draft.weights == 2 * beside.draft.parameters
    assert beside.session == alone.session + 8192 * 4096
    assert beside.gpu_weights == -(-(alone.weights + beside.draft.weights) // 4)
    assert beside.per_token == alone.per_token


def test_of_a_prefix_a_session_shares_what_is_still_in_its_window() -> None:
    """By hand: of 6,000 tokens, at 8,192, a window of 4,096 has the last 1,904."""
    mistral, stored = read_shape(MISTRAL_7B), kv_stored_as("bf16", read_shape(MISTRAL_7B), ANY)
    assert shared_bytes(mistral, 6000, 8192, stored) == 1904 * 131_072
    assert shared_bytes(mistral, 4000, 8192, stored) == 0
    size = size_of(planned(MISTRAL_7B, prefix=6000))
    assert size.prefix is not None
    assert (size.prefix.once, size.prefix.saved) == (4096 * 131_072, 31 * 1904 * 131_072)


def test_scales_count_where_each_head_and_token_has_them() -> None:
    """By hand: 80 layers x 8 heads x (256 numbers + two scales of 4 bytes)."""
    shape = read_shape(LLAMA_70B)
    bytes_of = {name: kept_bytes(shape, 1, kv_stored_as(name, shape, ANY)) for name in kv_dtypes()}
    assert bytes_of["bf16"] == bytes_of["fp16"] == bytes_of["fp32"] // 2 == 327_680
    assert bytes_of["fp8"] == 163_840
    assert bytes_of["int8"] == 80 * 8 * (256 + 8)
    assert bytes_of["int4"] == 80 * 8 * (128 + 8)
    assert (bytes_of["q8_0"], bytes_of["q4_0"]) == (163_840 * 34 // 32, 163_840 * 18 // 32)


def test_what_quantised_keys_save_is_said() -> None:
    plan = planned(kv_dtype="fp8")
    size = size_of(plan)
    assert (size.batch, size.unquantised_batch) == (42_949_672_960, 85_899_345_920)
    assert size_of(planned()).unquantised_batch is None
    said = sentences(plan, size)
    assert "in fp8 the batch takes 42.95 GB, in bf16 85.90 GB" in said
    unnamed = replace(plan, gpu=unnamed_gpu(80))
    assert any(
        "has fp8 is not known here: name the GPU with --gpu" in one for one in sentences(unnamed, size_of(unnamed))
    )
    assert not any("--gpu" in one for one in said)


def test_windows_states_and_a_context_too_long_are_said() -> None:
    said = " ".join(sentences(plan := planned(GEMMA3_4B), size_of(plan)))
    assert (
        "29 of 34 layers keep a window of 1,024 tokens: a token beyond it takes 20,480 bytes in place of 139,264"
        in said
    )
    said = " ".join(sentences(plan := planned(QWEN3_NEXT, prefix=100), size_of(plan)))
    assert "39.5 MB of each session are states of linear layers" in said
    assert "states of linear layers are not shared" in said
    said = " ".join(sentences(plan := planned(context=200_000), size_of(plan)))
    assert "the model is for 131,072 tokens (max_position_embeddings), not for 200,000" in said


# --- GPUs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["A100-80GB", "a10", "RTX 3090", "nvidia a40"])
def test_an_ampere_has_no_keys_in_fp8(name: str) -> None:
    with pytest.raises(ConfigError, match=r"\(Ampere\) has no keys and values in fp8: .* 8\.9, Ada Lovelace, or later"):
        size_of(planned(gpu=gpu_of(name), gpus=8, kv_dtype="fp8"))


@pytest.mark.parametrize(("name", "dtype"), [("l4", "fp8"), ("H100", "fp8"), ("b200", "fp8"), ("a100-80gb", "int8")])
def test_later_ones_have_it_and_an_ampere_has_int8(name: str, dtype: str) -> None:
    """The twin."""
    assert size_of(planned(gpu=gpu_of(name), gpus=8, kv_dtype=dtype)).kv_dtype == dtype


def test_a_turing_has_no_bfloat16() -> None:
    """As vLLM says of compute capability below 8.0; and the type of the model is what is asked for unasked."""
    with pytest.raises(ConfigError, match=r"T4 \(Turing\) has no keys and values in bf16: .*give --kv-dtype fp16"):
        size_of(planned(LLAMA_8B, gpu=gpu_of("t4")))
    assert size_of(planned(LLAMA_8B, gpu=gpu_of("t4"), kv_dtype="fp16")).kv_dtype == "fp16"


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_a_latent_vector_is_not_stored_with_scales_of_heads(dtype: str) -> None:
    with pytest.raises(ConfigError, match=f"MLA has no keys and values in {dtype}"):
        size_of(planned(DEEPSEEK_V3, kv_dtype=dtype))
    assert size_of(planned(DEEPSEEK_V3, kv_dtype="fp8")).per_token == 61 * 576


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a prefix longer than the context": ({"prefix": 8193}, "--prefix is 8,193 of a --context of 8,192"),
    "a share of nothing": ({"share": 0}, "--memory-share is 0"),
    "a share above one": ({"share": 1.5}, "--memory-share is 1.5"),
    "too much": ({"context": 10**12}, "give at most 1,000,000,000"),
    "no batch": ({"batch": 0}, "--batch is 0"),
    "a head for a model": ({"shape": read_shape(EAGLE3)}, "this config is a head of another model"),
    "an unknown type": ({"kv_dtype": "fp3"}, "--kv-dtype is 'fp3'; give one of fp32, fp16"),
    "an unknown type of weights": ({"weights_dtype": "fp3"}, "--weights-dtype is 'fp3'; give one of fp32"),
    "experts' type without experts": ({"weights_dtype": "mxfp4"}, "mxfp4 is of experts alone"),
    "no type": ({"shape": read_shape({**LLAMA_8B, "torch_dtype": None})}, "give --kv-dtype"),
    "no type of weights": (
        {"shape": read_shape({**LLAMA_8B, "torch_dtype": None}), "kv_dtype": "bf16"},
        "or give --weights-dtype",
    ),
    "an unknown quantisation": (
        {"shape": read_shape({**LLAMA_8B, "quantization_config": {"quant_method": "awq"}})},
        "quantised by 'awq': say with --weights-dtype",
    ),
    "a draft without a type": (
        {"draft": read_shape({**EAGLE3, "torch_dtype": None})},
        "of the draft: this config does not say its dtype",
    ),
    "a draft that has not the model's type": (
        {"kv_dtype": "int8", "draft": read_shape(DEEPSEEK_V3)},
        "of the draft: MLA has no keys and values in int8",
    ),
    "states without a type": (
        {"shape": read_shape({**QWEN3_NEXT, "torch_dtype": None}), "kv_dtype": "bf16", "weights_dtype": "bf16"},
        "does not say its dtype, which its states have",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_sized_is_one_sentence(name: str) -> None:
    changes, said = REFUSED[name]
    with pytest.raises(ConfigError) as error:
        size_of(planned(**changes))
    assert said in str(error.value)


def test_the_same_plan_without_that_is_sized() -> None:
    """The twin of the test above, and what helps where a type was missing."""
    assert size_of(planned(prefix=8192, share=1.0, batch=1, kv_dtype="fp8", weights_dtype="int4")).sessions > 0
    awq = read_shape({**LLAMA_8B, "quantization_config": {"quant_method": "awq"}})
    assert size_of(planned(shape=awq, weights_dtype="int4")).weights < size_of(planned(LLAMA_8B)).weights / 2
    assert size_of(planned(GPT_OSS_20B)).weights_dtype == "mxfp4"
    assert size_of(planned(draft=read_shape(EAGLE3))).draft is not None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("A100", "in several sizes: give --gpu a100-40gb or --gpu a100-80gb"),
        ("h900", "is not known; known are v100"),
        (" ", "is not known"),
    ],
)
def test_a_gpu_that_is_not_known_is_not_guessed(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        gpu_of(name)


@pytest.mark.parametrize("gib", [0, -1, float("nan"), float("inf"), 10**7])
def test_a_memory_that_cannot_be_is_refused(gib: float) -> None:
    with pytest.raises(ConfigError, match="--gpu-memory is"):
        unnamed_gpu(gib)


def test_every_gpu_and_type_has_a_source_and_a_generation_that_is_known() -> None:
    facts = table("gpus")
    for kind in ("gpus", "kv_dtypes", "weights_dtypes"):
        assert all(row["source"] in facts["sources"] for row in facts[kind].values())
    assert all(row["generation"] in facts["generations"] for row in facts["gpus"].values())
    assert all(set(row["on"]) <= set(facts["generations"]) for row in facts["kv_dtypes"].values())
    lacking = [row for row in facts["kv_dtypes"].values() if set(row["on"]) != set(facts["generations"])]
    assert all(row["why"] for row in lacking)
    assert {*facts["spellings"].values(), *facts["quant_methods"].values()} <= set(weights_dtypes())


# --- what holds of every model ----------------------------------------------------------------------------------------

heads = st.integers(1, 64)
widths = st.integers(1, 32).map(lambda eighths: 8 * eighths)
windows = st.one_of(st.none(), st.integers(1, 5000))


@st.composite
def layers(draw: st.DrawFn) -> LayerShape:
    kind = draw(st.sampled_from(("heads", "latent", "state")))
    if kind == "state":
        return LayerShape(state=draw(st.integers(0, 9999)), recurrent=draw(st.integers(1, 99_999)))
    if kind == "latent":
        return LayerShape(heads=1, per_head=draw(widths), window=draw(windows), latent=True)
    return LayerShape(heads=draw(heads), per_head=2 * draw(widths), window=draw(windows))


def shaped(*one: LayerShape) -> ModelShape:
    return ModelShape(
        model_type="any", attention="any", layers=one, parameters=Parameters(10**6, 10**6, 10**6), dtype="bf16",
        state_dtype="fp32", quantised=None, context=None,
    )  # fmt: skip


shapes = st.lists(layers(), min_size=1, max_size=6).map(lambda some: shaped(*some))
quick = settings(max_examples=20, deadline=None)


@quick
@given(shapes, st.integers(1, 9999), st.integers(1, 200), st.integers(1, 16))
def test_a_batch_grows_by_a_session_each_and_a_longer_context_never_takes_less(
    shape: ModelShape, context: int, batch: int, gpus: int
) -> None:
    one = size_of(planned(shape=shape, context=context, batch=1, gpus=gpus, gpu=ANY))
    many = size_of(planned(shape=shape, context=context, batch=batch, gpus=gpus, gpu=ANY))
    longer = size_of(planned(shape=shape, context=context + 100, batch=1, gpus=gpus, gpu=ANY))
    assert many.batch == batch * one.batch
    assert (longer.session, longer.gpu_session) >= (one.session, one.gpu_session)
    assert longer.sessions <= one.sessions
    assert one.gpu_session * gpus >= one.session  # nothing is kept on no GPU


@quick
@given(shapes, st.integers(1, 9999), st.sampled_from(kv_dtypes()))
def test_quantised_keys_never_take_more(shape: ModelShape, context: int, dtype: str) -> None:
    """Scales included, from heads of 8 numbers on."""
    if table("gpus")["kv_dtypes"][dtype].get("quantised"):
        latent = any(layer.latent for layer in shape.layers)
        if not latent or table("gpus")["kv_dtypes"][dtype].get("latent", True):
            size = size_of(planned(shape=shape, context=context, kv_dtype=dtype, gpu=ANY))
            assert size.unquantised_batch is not None
            assert size.batch <= size.unquantised_batch


@quick
@given(shapes, st.integers(1, 9999), st.integers(0, 9999), st.integers(1, 50), st.integers(1, 8))
def test_sharing_a_prefix_never_takes_more_than_copies_of_it(
    shape: ModelShape, context: int, prefix: int, batch: int, gpus: int
) -> None:
    size = size_of(planned(shape=shape, context=context, prefix=min(prefix, context), batch=batch, gpus=gpus, gpu=ANY))
    if size.prefix is not None:
        assert 0 <= size.prefix.saved <= size.batch
        if all(layer.window is None for layer in shape.layers) and size.prefix.sessions:
            assert size.prefix.sessions >= size.sessions


@quick
@given(heads, widths, widths, widths, st.data())
def test_a_latent_vector_takes_no_more_than_the_heads_that_it_stands_for(
    count: int, nope: int, rope: int, value: int, data: st.DataObject
) -> None:
    """A rank that compresses is at most as wide as what it is made of."""
    rank = data.draw(st.integers(1, count * (nope + value)))
    latent = read_shape({
        **DEEPSEEK_V3, "num_attention_heads": count, "num_key_value_heads": count, "kv_lora_rank": rank,
        "qk_rope_head_dim": rope, "qk_nope_head_dim": nope, "v_head_dim": value, "num_hidden_layers": 4,
    })  # fmt: skip
    same = shaped(*(LayerShape(heads=count, per_head=nope + rope + value) for _ in range(4)))
    stored = kv_stored_as("bf16", same, ANY)
    assert kept_bytes(latent, 100, stored) <= kept_bytes(same, 100, stored)


def test_weights_in_fewer_bits_are_smaller() -> None:
    shape = read_shape(GPT_OSS_20B)
    names = ("fp32", "bf16", "fp8", "mxfp4", "int4")
    sizes = [size_of(planned(GPT_OSS_20B, weights_dtype=name)).weights for name in names]
    assert sizes == sorted(sizes, reverse=True)
    assert weights_stored_as(None, shape).name == "mxfp4"
