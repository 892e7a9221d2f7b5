"""Train and save a tiny Llama, its tokenizer and a draft twin, on CPU only.

The model is a toy, but an honest one: four layers, 0.92 M parameters, a byte-level BPE tokenizer of 512 tokens and a
chat template, trained on synthetic coding-agent transcripts. It answers with tool calls and repeats part of what it
was shown, which is what makes speculative decoding and prefix caching visible. Every engine that loads a Hugging Face
Llama folder can serve it.

    python make_tiny.py models                 # models/tiny and models/tiny-draft, about 7 minutes on two cores
    python make_tiny.py models --steps 0       # random weights, seconds; enough for tests of the wire

Needs ``torch``, ``transformers`` and ``tokenizers``. The same seed, steps, versions and CPU give the same bytes. Never
assert on a particular output text: assert that two engines, or two speculation methods, agree on one set of weights.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCAB_SIZE = 512
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]  # ids 0, 1, 2
CHAT_TEMPLATE = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' + m['role'] + '\n' + (m['content'] or '') + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WORDS = (  # noqa: SIM905 - to be read
    "open read parse config loader cache token prefix tree node agent plan step tool call result error retry "
    "file path index search query merge split batch queue worker lease lock state graph edge route model "
    "draft verify accept reject stream chunk"
).split()


def transcript(rng: random.Random) -> str:
    """One synthetic agent run: read a file, write it back, say that it is done."""

    def name() -> str:
        return "_".join(rng.sample(WORDS, 2))

    functions = [name() for _ in range(3)]
    path = f"src/{rng.choice(WORDS)}/{name()}.py"
    file = "".join(
        f"def {f}({rng.choice(WORDS)}, {rng.choice(WORDS)}):\n    return {rng.choice(WORDS)}({rng.randint(0, 99)})\n\n"
        for f in functions
    )
    messages = [
        ("system", "You are a coding agent. Call tools as JSON."),
        ("user", f"Fix {functions[0]} in {path}."),
        ("assistant", json.dumps({"tool": "read_file", "path": path})),
        ("tool", file),
        ("assistant", json.dumps({"tool": "write_file", "path": path}) + "\n" + file),
        ("tool", "ok"),
        ("assistant", f"Done: fixed {functions[0]} in {path}."),
    ]
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)


def train_tokenizer(corpus: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE with the GPT-2 splitting rule, so that a GGUF may name the ``gpt-2`` pre-tokenizer."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    plain = (t.replace("<|im_start|>", "").replace("<|im_end|>", "") for t in corpus)
    bpe.train_from_iterator(plain, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token="<|endoftext|>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def build_model() -> LlamaForCausalLM:
    """An untrained model. ``head_dim`` 32 is one that vLLM's CPU attention supports; keep it when you resize."""
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=8192,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=0,
        tie_word_embeddings=False,
        dtype="float32",
    )
    return LlamaForCausalLM(config)


def train(model: LlamaForCausalLM, tokens: torch.Tensor, steps: int, rng: random.Random) -> None:
    """Plain next-token training on random 384-token windows, batch 12, linear decay.

    With the default of 1,500 steps the loss rests near 0.87 until step 450, when attention learns to copy from the
    context, and ends at 0.62. Other step counts change the decay and may stay at the first plateau.
    """
    window, batch, peak_lr = 384, 12, 3e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak_lr, betas=(0.9, 0.95), weight_decay=0.05)
    model.train()
    start = time.perf_counter()
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = peak_lr * min(1.0, step / 50) * max(0.05, 1 - step / steps)
        offsets = [rng.randrange(len(tokens) - window - 1) for _ in range(batch)]
        inputs = torch.stack([tokens[o : o + window] for o in offsets])
        loss = model(input_ids=inputs, labels=inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0 or step == steps:
            print(f"step {step}/{steps} loss {loss.item():.3f} {time.perf_counter() - start:.0f} s", flush=True)
    model.eval()


def noised_twin(model: LlamaForCausalLM, relative_noise: float = 0.05) -> LlamaForCausalLM:
    """A same-tokenizer draft model that agrees with its target often, not always."""
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            scale = parameter.std().nan_to_num(0) * relative_noise
            parameter.add_(torch.randn_like(parameter) * scale)
    return twin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder that receives tiny/ and tiny-draft/")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    rng = random.Random(args.seed)
    corpus = [transcript(rng) for _ in range(4000)]
    tokenizer = train_tokenizer(corpus)
    model = build_model().eval()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, {len(tokenizer)} tokens")
    if args.steps:
        tokens = torch.cat([torch.tensor(tokenizer(t)["input_ids"]) for t in corpus])
        train(model, tokens, args.steps, rng)
    for folder, weights in (("tiny", model), ("tiny-draft", noised_twin(model))):
        weights.save_pretrained(args.out / folder)
        tokenizer.save_pretrained(args.out / folder)

    prompt = "<|im_start|>user\nFix read_cache in src/tree/lock_state.py.<|im_end|>\n<|im_start|>assistant\n"
    ids = torch.tensor([tokenizer(prompt)["input_ids"]])
    output = model.generate(ids, max_new_tokens=40, do_sample=False, pad_token_id=0)
    print(repr(tokenizer.decode(output[0][ids.shape[1] :])))


if __name__ == "__main__":
    main()
