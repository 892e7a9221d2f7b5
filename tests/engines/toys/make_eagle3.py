"""Train a tiny EAGLE-3 draft head for a model made by ``make_tiny.py``, on CPU only.

The head follows the checkpoint layout that vLLM and SGLang load (``LlamaForCausalLMEagle3``): a fusion layer over
three hidden states of the target, one decoder layer whose attention reads ``[token embedding, feature]``, and its own
output layer. It learns to predict the token that the *target* would choose (its arg-max), not the token of the text.

    python make_eagle3.py models/tiny models/tiny-eagle3

Needs ``torch``, ``transformers`` and ``safetensors``. The method is EAGLE-3 (Li et al., 2025, arXiv:2503.01840),
shortened: three training-time-test steps, full target vocabulary, no data beyond ``make_tiny.transcript``.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

import torch
from make_tiny import transcript
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

AUX_LAYERS = [1, 2, 3]
"""Features are the *inputs* of these target layers, which is ``hidden_states[i]`` in transformers."""

CHECKPOINT_NAMES = {
    "fuse": "fc",
    "query": "midlayer.self_attn.q_proj",
    "key": "midlayer.self_attn.k_proj",
    "value": "midlayer.self_attn.v_proj",
    "attention_out": "midlayer.self_attn.o_proj",
    "gate": "midlayer.mlp.gate_proj",
    "up": "midlayer.mlp.up_proj",
    "down": "midlayer.mlp.down_proj",
    "norm_embedding": "midlayer.input_layernorm",
    "norm_feature": "midlayer.hidden_norm",
    "norm_mlp": "midlayer.post_attention_layernorm",
    "norm_out": "norm",
    "lm_head": "lm_head",
}


class Eagle3Head(nn.Module):
    """One decoder layer that drafts from the target's features."""

    def __init__(self, target: nn.Module) -> None:
        super().__init__()
        c = self.config = target.config
        hidden, heads, kv_heads, dim = c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim

        def linear(n_in: int, n_out: int) -> nn.Linear:
            return nn.Linear(n_in, n_out, bias=False)

        def norm() -> nn.RMSNorm:
            return nn.RMSNorm(hidden, eps=c.rms_norm_eps)

        self.fuse = linear(len(AUX_LAYERS) * hidden, hidden)
        self.query, self.key, self.value = (linear(2 * hidden, n * dim) for n in (heads, kv_heads, kv_heads))
        self.attention_out = linear(heads * dim, hidden)
        self.gate, self.up = linear(hidden, c.intermediate_size), linear(hidden, c.intermediate_size)
        self.down = linear(c.intermediate_size, hidden)
        self.norm_embedding, self.norm_feature, self.norm_mlp, self.norm_out = norm(), norm(), norm(), norm()
        self.lm_head = linear(hidden, c.vocab_size)
        self.lm_head.weight.data.copy_(target.lm_head.weight.data)

    def forward(
        self, embedding: torch.Tensor, feature: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits and the feature that the next draft step reads, both [batch, time, ...]."""
        c = self.config
        batch, length, _ = embedding.shape

        x = torch.cat([self.norm_embedding(embedding), self.norm_feature(feature)], dim=-1)
        query, key, value = (
            projection(x).view(batch, length, -1, c.head_dim).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        query, key = apply_rotary_pos_emb(query, key, cos, sin)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = self.attention_out(attended.transpose(1, 2).reshape(batch, length, -1)) + feature
        y = self.norm_mlp(x)
        y = self.down(F.silu(self.gate(y)) * self.up(y)) + x
        return self.lm_head(self.norm_out(y)), y


def train(head: Eagle3Head, target: nn.Module, tokens: torch.Tensor, steps: int, rng: random.Random) -> None:
    """Cross-entropy against the target's own choices, over three draft steps that feed their own features back."""
    window, batch, draft_steps = 320, 8, 3
    rotary = LlamaRotaryEmbedding(config=target.config)
    optimizer = torch.optim.AdamW(head.parameters(), lr=2e-3)
    positions = torch.arange(window - 1)[None].expand(batch, -1)
    start = time.perf_counter()
    for step in range(1, steps + 1):
        offsets = [rng.randrange(len(tokens) - window - 1) for _ in range(batch)]
        ids = torch.stack([tokens[o : o + window] for o in offsets])
        with torch.no_grad():
            out = target(ids, output_hidden_states=True)
            features = torch.cat([out.hidden_states[i] for i in AUX_LAYERS], dim=-1)
            choices = out.logits.argmax(-1)
            embedding = target.model.embed_tokens(ids[:, 1:])
            cos, sin = rotary(embedding, positions)
        # Position i holds (feature of token i, embedding of token i+1); its label is the target's choice after i+1.
        feature, labels = head.fuse(features[:, :-1]), choices[:, 1:]
        loss = torch.zeros(())
        for draft_step in range(draft_steps):
            logits, own_feature = head(embedding, feature, cos, sin)
            loss = loss + F.cross_entropy(logits.flatten(0, 1), labels.flatten()) * 0.8**draft_step
            if draft_step == 0:
                agreement = (logits.argmax(-1) == labels).float().mean().item()
            # The next step drafts one token later, from this step's feature instead of the target's.
            embedding, labels, feature = embedding[:, 1:], labels[:, 1:], own_feature[:, :-1]
            cos, sin = cos[:, 1:], sin[:, 1:]
        loss.backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0 or step == steps:
            seconds = time.perf_counter() - start
            print(
                f"step {step}/{steps} loss {loss.item():.3f} top-1 agreement {agreement:.3f} {seconds:.0f} s",
                flush=True,
            )


def save(head: Eagle3Head, folder: Path) -> None:
    """Write ``model.safetensors`` and ``config.json``.

    The layer list is written twice because readers differ: vLLM takes the top-level key first, SGLang reads only
    ``eagle_config``, and llama.cpp's converter reads only the top level and otherwise *guesses* three layers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"{name}.weight": getattr(head, attribute).weight for attribute, name in CHECKPOINT_NAMES.items()}
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, folder / "model.safetensors")
    config = head.config.to_dict() | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": head.config.vocab_size,
        "target_hidden_size": head.config.hidden_size,
        "tie_word_embeddings": False,
        "eagle_aux_hidden_state_layer_ids": AUX_LAYERS,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": AUX_LAYERS, "use_aux_hidden_state": True},
    }
    for key in ("layer_types", "_name_or_path"):
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    rng = random.Random(args.seed)
    target = AutoModelForCausalLM.from_pretrained(args.target, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.target)
    head = Eagle3Head(target)
    tokens = torch.cat([torch.tensor(tokenizer(transcript(rng))["input_ids"]) for _ in range(1500)])
    train(head, target, tokens, args.steps, rng)
    save(head, args.out)
    tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
