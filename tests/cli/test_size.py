"""`agentaccel selfhost size`: what it prints, as text and as JSON, and that what it refuses is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentaccel.cli import main
from tests.selfhost.configs import DEEPSEEK_V3, EAGLE3, LLAMA_8B, LLAMA_70B


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with configs, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    for name, config in (("70b", LLAMA_70B), ("8b", LLAMA_8B), ("v3", DEEPSEEK_V3), ("head", EAGLE3)):
        (tmp_path / f"{name}.json").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["selfhost", "size", *words])


def sized(*words: str) -> str:
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    return done.stdout


SERVER = ("70b.json", "--context", "8192", "--batch", "32", "--gpu", "H100", "--gpus", "4")
TURN = ("--prompt", "6000", "--output", "200", "--hit-rate", "0.9", "--prefill-rate", "5000", "--decode-rate", "500")


@pytest.mark.usefixtures("configs")
def test_the_published_figures_stand_in_the_table() -> None:
    said = sized(*SERVER, "--prefix", "6000", *TURN, "--tokens-per-step", "2.5", "--tools", "0.5", "--network", "0.02")
    for row in (
        "attention                  GQA, 8 key-value heads of 128",
        "a token, in bf16           327,680 bytes",
        "a session of 8,192 tokens  2.68 GB",
        "a batch of 32              85.90 GB",
        "weights, in bf16           141.11 GB, 70,553,706,496 parameters",
        "a prefix of 6,000 tokens   1.97 GB; sharing saves 60.95 GB",
        "sessions that fit          57",
        "prefill of 600 tokens         120 ms",
        "the same with nothing cached  1,200 ms",
        "decode                        400 ms",
        "decode with speculation       160 ms",
        "tools and network             520 ms",
        "in all                        1,040 ms",
        "in all, with speculation      800 ms",
    ):
        assert f"\n  {row}\n" in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.usefixtures("configs")
def test_json_has_everything() -> None:
    told = json.loads(sized(*SERVER, "--prefix", "6000", *TURN, "--tokens-per-step", "2.5", "--format", "json"))
    assert told["plan"]["generation"] == "hopper"
    assert told["size"]["per_token"] == 327_680
    assert told["size"]["prefix"]["once"] == 1_966_080_000
    assert told["turn"]["decode_speculated"] == pytest.approx(0.16)
    assert told["speed_up"]["factor"] == 2.5
    assert told["disaggregation"]["moved_warm"] == 600 * 327_680
    assert len(told["notes"]) >= 5
    bare = json.loads(sized(*SERVER, "--format", "json"))
    assert (bare["speed_up"], bare["disaggregation"], bare["turn"]["total"]) == (None, None, None)


@pytest.mark.usefixtures("configs")
def test_what_was_not_stated_is_not_made_up() -> None:
    """Contract: n/a, and never 0."""
    assert "one turn" not in sized(*SERVER)
    said = sized(*SERVER, "--output", "200", "--decode-rate", "500")
    assert "  prefill            n/a\n" in said
    assert "  in all             n/a\n" in said


@pytest.mark.usefixtures("configs")
def test_a_draft_stands_beside_its_model() -> None:
    said = sized("8b.json", "--context", "8192", "--gpu-memory", "24", "--draft", "head.json")
    assert "4,096 bytes a token (EAGLE-3 head, GQA" in " ".join(said.split())
    assert "fit on GPU of 24 GiB" in said


@pytest.mark.usefixtures("configs")
def test_a_smaller_share_of_the_memory_holds_fewer_sessions() -> None:
    few, many = (json.loads(sized(*SERVER, "--memory-share", one, "--format", "json")) for one in ("0.6", "1"))
    assert few["size"]["sessions"] < many["size"]["sessions"]


WRONG: tuple[tuple[tuple[str, ...], str], ...] = (
    (("70b.json", "--context", "8"), "say either with --gpu which GPU it is"),
    ((*SERVER, "--gpu-memory", "80"), "say either with --gpu which GPU it is"),
    (("70b.json", "--context", "8", "--gpu", "a100"), "a100 is sold in several sizes: give --gpu a100-40gb"),
    (
        ("70b.json", "--context", "8", "--gpu", "a100-80gb", "--kv-dtype", "fp8"),
        "A100 80GB (Ampere) has no keys and values in fp8: an FP8 KV cache needs",
    ),
    ((*SERVER, "--prefix", "9000"), "--prefix is 9,000 of a --context of 8,192 tokens"),
    ((*SERVER, *TURN, "--tokens-per-step", "2", "--acceptance", "0.5"), "say either --tokens-per-step"),
    ((*SERVER, *TURN, "--acceptance", "0.5"), "the formula needs --acceptance, --draft-tokens and --draft-cost"),
    ((*SERVER, *TURN, "--step-cost", "1.1"), "--step-cost says nothing without --tokens-per-step"),
    ((*SERVER, "--decode-rate", "5"), "--decode-rate says nothing without --output"),
    ((*SERVER, *TURN, "--link", "0"), "--link is 0.0"),
    (("nowhere.json", *SERVER[1:]), "nowhere.json cannot be read"),
    (("head.json", *SERVER[1:]), "this config is a head of another model"),
    ((*SERVER, "--draft", "broken.json"), "broken.json is not JSON"),
    (("list.json", *SERVER[1:]), "a config is a JSON object"),
    (("escape.json", *SERVER[1:]), "model_type"),
)


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_what_cannot_be_sized_is_one_sentence(configs: Path, words: tuple[str, ...], said: str) -> None:
    (configs / "broken.json").write_text("{", encoding="utf-8")
    (configs / "list.json").write_text("[]", encoding="utf-8")
    (configs / "escape.json").write_text(json.dumps({"model_type": "\x1b[31m\nllama"}), encoding="utf-8")
    done = run(*words)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"agentaccel selfhost size: {said}")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    "changes",
    [
        {"num_key_value_heads": None},
        {"hidden_size": 4096.0},
        {"layers": 3},
        {"num_hidden_layers": -1},
        {"vocab_size": []},
    ],
)
@pytest.mark.usefixtures("configs")
def test_a_config_is_sized_or_refused_and_never_fails(configs: Path, changes: dict[str, Any]) -> None:
    (configs / "odd.json").write_text(json.dumps({**LLAMA_70B, **changes}), encoding="utf-8")
    done = run("odd.json", *SERVER[1:])
    assert done.exit_code in (0, 2)
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.usefixtures("configs")
def test_the_formula_is_taken_and_named() -> None:
    said = sized(*SERVER, *TURN, "--acceptance", "0.8", "--draft-tokens", "5", "--draft-cost", "0.05")
    assert "make decoding 2.95 times as fast (Leviathan et al. 2023, arXiv:2211.17192" in " ".join(said.split())
