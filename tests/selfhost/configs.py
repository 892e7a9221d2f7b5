"""Configs of real models, as their `config.json` has them: the fields that say something of memory.

The values are those that are commonly published with the weights; what is left out says nothing of memory, or has the
value that transformers takes. `PARAMETERS` are what transformers 5.19.0 builds from these very objects (their
`text_config`, where there is one; `architectures` and `quantization_config` left out), counted on its meta device on
2026-11-28: none of our own arithmetic is in them, and they are the counts that the models are known by (8.03, 70.55,
671.03 billion). The pattern of Nemotron 3 Nano, and the fields beside it, are those of the copy of
nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B's config in a public repository's tests, read on the same day.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

LLAMA_70B: Json = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
    "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "attention_bias": False,
    "attention_dropout": 0.0, "mlp_bias": False, "pretraining_tp": 1, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA_8B: Json = {
    **LLAMA_70B,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
MISTRAL_7B: Json = {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "torch_dtype": "bfloat16", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "sliding_window": 4096, "vocab_size": 32000, "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip
GEMMA_2B: Json = {
    "architectures": ["GemmaForCausalLM"], "model_type": "gemma", "torch_dtype": "bfloat16", "hidden_size": 2048,
    "intermediate_size": 16384, "num_hidden_layers": 18, "num_attention_heads": 8, "num_key_value_heads": 1,
    "head_dim": 256, "vocab_size": 256000, "max_position_embeddings": 8192, "attention_bias": False,
}  # fmt: skip
GEMMA2_9B: Json = {
    "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "torch_dtype": "bfloat16", "hidden_size": 3584,
    "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8,
    "head_dim": 256, "sliding_window": 4096, "sliding_window_size": 4096, "attn_logit_softcapping": 50.0,
    "query_pre_attn_scalar": 256, "cache_implementation": "hybrid", "vocab_size": 256000, "attention_bias": False,
}  # fmt: skip
GEMMA3_4B: Json = {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "torch_dtype": "bfloat16",
    "mm_tokens_per_image": 256, "image_token_index": 262144, "vision_config": {"num_attention_heads": 16},
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
        "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
}  # fmt: skip
GPT_OSS_20B: Json = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "torch_dtype": "bfloat16", "hidden_size": 2880,
    "intermediate_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 64, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 12,
    "num_local_experts": 32, "experts_per_token": 4, "num_experts_per_tok": 4, "vocab_size": 201088,
    "attention_bias": True, "max_position_embeddings": 131072, "swiglu_limit": 7.0, "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
}  # fmt: skip
DEEPSEEK_V3: Json = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "bfloat16",
    "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "num_nextn_predict_layers": 1, "vocab_size": 129280, "max_position_embeddings": 163840,
    "attention_bias": False, "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}  # fmt: skip
QWEN3_30B: Json = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "torch_dtype": "bfloat16",
    "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
    "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "sliding_window": None,
    "use_sliding_window": False, "max_window_layers": 48, "vocab_size": 151936, "max_position_embeddings": 40960,
    "attention_bias": False, "norm_topk_prob": True, "tie_word_embeddings": False,
}  # fmt: skip
QWEN25_7B: Json = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "bfloat16", "hidden_size": 3584,
    "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 28, "vocab_size": 152064,
    "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip
PHI_2: Json = {
    "architectures": ["PhiForCausalLM"], "model_type": "phi", "torch_dtype": "float16", "hidden_size": 2560,
    "intermediate_size": 10240, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
    "partial_rotary_factor": 0.4, "qk_layernorm": False, "vocab_size": 51200, "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}  # fmt: skip
JAMBA: Json = {
    "architectures": ["JambaForCausalLM"], "model_type": "jamba", "torch_dtype": "bfloat16", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1,
    "num_experts": 16, "num_experts_per_tok": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_dt_rank": 256, "mamba_conv_bias": True, "mamba_proj_bias": False, "use_mamba_kernels": True,
    "sliding_window": None, "vocab_size": 65536, "max_position_embeddings": 262144, "tie_word_embeddings": False,
}  # fmt: skip
QWEN3_NEXT: Json = {
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "torch_dtype": "bfloat16",
    "hidden_size": 2048, "intermediate_size": 5120, "moe_intermediate_size": 512, "num_hidden_layers": 48,
    "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "num_experts": 512, "num_experts_per_tok": 10,
    "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936,
    "max_position_embeddings": 262144, "attention_bias": False, "tie_word_embeddings": False,
}  # fmt: skip
NEMOTRON_NANO: Json = {
    "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "torch_dtype": "bfloat16",
    "hidden_size": 2688, "intermediate_size": 1856, "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712, "num_hidden_layers": 52, "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128,
    "n_groups": 8, "conv_kernel": 4, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 6,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "use_conv_bias": True,
    "mamba_ssm_cache_dtype": "float32", "vocab_size": 131072, "tie_word_embeddings": False,
}  # fmt: skip
EAGLE3: Json = {
    "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "torch_dtype": "float16", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 1, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "draft_vocab_size": 32000, "tie_word_embeddings": False,
}  # fmt: skip

MODELS = {
    "Llama 3.1 8B": LLAMA_8B,
    "Llama 3.1 70B": LLAMA_70B,
    "Mistral 7B v0.1": MISTRAL_7B,
    "Gemma 2B": GEMMA_2B,
    "Gemma 2 9B": GEMMA2_9B,
    "Gemma 3 4B": GEMMA3_4B,
    "gpt-oss-20b": GPT_OSS_20B,
    "DeepSeek-V3": DEEPSEEK_V3,
    "Qwen3-30B-A3B": QWEN3_30B,
    "Qwen2.5 7B": QWEN25_7B,
    "Phi-2": PHI_2,
    "Jamba v0.1": JAMBA,
    "Qwen3-Next-80B-A3B": QWEN3_NEXT,
    "Nemotron 3 Nano 30B-A3B": NEMOTRON_NANO,
}

PARAMETERS = {
    "Llama 3.1 8B": 8_030_261_248,
    "Llama 3.1 70B": 70_553_706_496,
    "Mistral 7B v0.1": 7_241_732_096,
    "Gemma 2B": 2_506_172_416,
    "Gemma 2 9B": 9_241_705_984,
    "Gemma 3 4B": 3_880_263_168,  # of its text model; the class's vocabulary of 262,208
    "gpt-oss-20b": 20_914_757_184,
    "DeepSeek-V3": 671_026_419_200,  # without its MTP module
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen2.5 7B": 7_615_616_512,
    "Phi-2": 2_779_683_840,
    "Jamba v0.1": 51_570_323_328,
    "Qwen3-Next-80B-A3B": 79_674_391_296,  # without its MTP module
    "Nemotron 3 Nano 30B-A3B": 31_577_940_288,
}
"""Counted by transformers 5.19.0, the routers' correction biases (buffers there) included."""

FURTHER: dict[str, tuple[int, Json]] = {
    "Mixtral 8x7B": (46_702_792_704, {
        "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "vocab_size": 32000,
        "tie_word_embeddings": False,
    }),
    "Qwen3 8B": (8_190_735_360, {
        "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32,
        "num_hidden_layers": 36, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
        "tie_word_embeddings": False,
    }),
    "SmolLM3 3B": (3_075_098_624, {
        "model_type": "smollm3", "hidden_size": 2048, "intermediate_size": 11008, "num_attention_heads": 16,
        "num_hidden_layers": 36, "num_key_value_heads": 4, "vocab_size": 128256, "tie_word_embeddings": True,
    }),
    "Granite 3.1 8B": (8_170_848_256, {
        "model_type": "granite", "hidden_size": 4096, "intermediate_size": 12800, "num_attention_heads": 32,
        "num_hidden_layers": 40, "num_key_value_heads": 8, "vocab_size": 49155, "tie_word_embeddings": True,
    }),
    "OLMo 2 7B": (7_298_617_344, {
        "model_type": "olmo2", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 100352, "tie_word_embeddings": False,
    }),
    "Olmo 3 7B": (7_298_011_136, {
        "model_type": "olmo3", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 100278, "sliding_window": 4096,
        "tie_word_embeddings": False,
    }),
    "StarCoder2 7B": (7_173_923_840, {
        "model_type": "starcoder2", "hidden_size": 4608, "intermediate_size": 18432, "num_attention_heads": 36,
        "num_hidden_layers": 32, "num_key_value_heads": 4, "vocab_size": 49152, "sliding_window": 4096,
        "use_bias": True,
    }),
    "Command R7B": (8_028_033_024, {
        "model_type": "cohere2", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 256000, "sliding_window": 4096,
        "sliding_window_pattern": 4,
    }),
    "Phi-3 mini": (3_821_079_552, {
        "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 32064, "tie_word_embeddings": False,
        "sliding_window": 2047,
    }),
    "GLM-4.5-Air": (106_852_251_264, {
        "model_type": "glm4_moe", "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408,
        "n_routed_experts": 128, "n_shared_experts": 1, "num_attention_heads": 96, "num_hidden_layers": 46,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151552, "first_k_dense_replace": 1,
        "attention_bias": True, "use_qk_norm": False, "tie_word_embeddings": False,
    }),
    "DeepSeek-V2-Lite": (15_706_484_224, {
        "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
        "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16,
        "num_hidden_layers": 27, "num_key_value_heads": 16, "q_lora_rank": None, "kv_lora_rank": 512,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "first_k_dense_replace": 1,
        "vocab_size": 102400, "tie_word_embeddings": False,
    }),
    "Nemotron-H 8B": (8_100_852_736, {
        "model_type": "nemotron_h", "hidden_size": 4096, "intermediate_size": 21504, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 64,
        "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "vocab_size": 131072,
        "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", "num_hidden_layers": 52,
        "tie_word_embeddings": False,
    }),
    "Granite 4.0 H Small": (32_207_337_984, {
        "model_type": "granitemoehybrid", "hidden_size": 4096, "intermediate_size": 768,
        "shared_intermediate_size": 1536, "num_local_experts": 72, "num_attention_heads": 32,
        "num_hidden_layers": 40, "num_key_value_heads": 8, "vocab_size": 100352, "mamba_n_heads": 128,
        "mamba_d_head": 64, "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_n_groups": 1, "mamba_expand": 2,
        "layer_types": (["mamba"] * 5 + ["attention"] + ["mamba"] * 4) * 4, "tie_word_embeddings": True,
    }),
    "Qwen3.5 27B": (26_895_998_464, {
        "model_type": "qwen3_5_text", "hidden_size": 5120, "intermediate_size": 17408, "num_attention_heads": 24,
        "num_hidden_layers": 64, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 248320,
        "linear_num_value_heads": 48, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
        "tie_word_embeddings": False,
    }),
    "Qwen3.6 35B-A3B": (34_660_610_688, {
        "model_type": "qwen3_5_moe_text", "hidden_size": 2048, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512, "num_experts": 256, "num_attention_heads": 16,
        "num_hidden_layers": 40, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 248320,
        "linear_num_value_heads": 32, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
        "tie_word_embeddings": False,
    }),
}  # fmt: skip
"""Of every other `model_type` that the facts list (but kimi_k2, which is deepseek_v3 by another name): a config of the
dimensions of that model, and as many parameters as transformers builds from it."""
