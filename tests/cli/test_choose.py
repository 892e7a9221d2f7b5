"""`agentaccel selfhost choose`: what it prints and writes, and that what it refuses is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentaccel.cli import main
from tests.selfhost.configs import LLAMA_70B

LINES = "\n".join(f"def name_{n}(value):\n    return value * {n}" for n in range(15))
CALL = {"id": "c1", "type": "function", "function": {"name": "write", "arguments": json.dumps({"text": LINES})}}


def conversation(id_: str, domain: str, *replies: dict[str, Any]) -> dict[str, Any]:
    user = {"role": "user", "content": f"Write this file again as it is:\n{LINES}" if domain == "edits" else "Think."}
    return {"id": id_, "task_id": id_, "domain": domain, "system": "Be brief.", "messages": [user, *replies]}


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of runs, two that copy and two that do not; commands run in its folder."""
    monkeypatch.chdir(tmp_path)
    runs = [
        conversation(f"e{n}", "edits", {"role": "assistant", "content": None, "tool_calls": [CALL]}) for n in range(2)
    ]
    for n in range(2):
        words = " ".join(f"word{n}x{i * 7919 % 1009} {chr(97 + i % 26)}{i}" for i in range(70))
        runs.append(conversation(f"p{n}", "plans", {"role": "assistant", "content": words}))
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, runs)), encoding="utf-8")
    return path


def run(*words: str, command: str = "choose") -> Result:
    return CliRunner().invoke(main, ["selfhost", command, *words])


def chosen(*words: str) -> str:
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("traces")
def test_each_engine_is_told_what_fits_and_why() -> None:
    said = chosen("runs.jsonl", "--concurrency", "4")
    for engine in (
        "vLLM 0.33.0: suffix",
        "SGLang 0.5.23: ngram",
        "llama.cpp server b11549:",
        "TensorRT-LLM 1.4.0: suffix",
    ):
        assert engine in said
    for part in (
        "tokens a step  speed at 4",
        "agent edits",
        "agent plans",
        "how sure",
        "PEARL",
        "agentaccel selfhost render vllm",
    ):
        assert part in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.usefixtures("traces")
def test_a_written_plan_is_rendered() -> None:
    chosen("runs.jsonl", "--engine", "vllm", "--concurrency", "4", "--write", "plan.json")
    rendered = run("vllm", "--plan", "plan.json", "--model", "m", command="render")
    assert rendered.exit_code == 0, rendered.stderr
    assert '"method":"suffix"' in rendered.stdout
    over = run("vllm", "--plan", "plan.json", "--model", "m", "--draft-tokens", "7", command="render")
    assert '"num_speculative_tokens":7' in over.stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"engine": "sglang"}', "no plan for vllm"),
        ("[]", "no plan for vllm"),
        ('{"engine": "vllm", "speculate": 5}', "has speculate 5"),
        ('{"engine": "vllm", "draft_tokens": true}', "has draft_tokens True"),
        ('{"engine": "vllm", "rm": "-rf"}', "has rm"),
        ("{", "is not JSON"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    done = run("vllm", "--plan", str(path), "--model", "m", command="render")
    assert done.exit_code == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("traces")
def test_json_holds_what_the_text_says() -> None:
    value = json.loads(chosen("runs.jsonl", "--engine", "vllm", "--format", "json"))
    [source] = value["sources"]
    assert (source["name"], source["conversations"], source["replies"]) == ("runs", 4, 4)
    [engine] = source["engines"]
    assert engine["method"] == "suffix"
    assert set(engine["sites"]) == {"agent edits", "agent plans"}
    assert engine["render"]["draft_tokens"] == 16
    assert "say --concurrency" in value["notes"][0]


@pytest.mark.usefixtures("traces")
def test_several_sources_are_each_told_of_and_all_together(tmp_path: Path, traces: Path) -> None:
    (tmp_path / "more.jsonl").write_text(traces.read_text(encoding="utf-8"), encoding="utf-8")
    value = json.loads(chosen("runs.jsonl", "more.jsonl", "--engine", "vllm", "--format", "json"))
    assert [source["name"] for source in value["sources"]] == ["runs", "more", "all of them"]
    together = value["sources"][-1]
    assert together["tokens"] == 2 * value["sources"][0]["tokens"]
    assert set(together["engines"][0]["sites"]) == {
        f"{of}: agent {site}" for of in ("runs", "more") for site in ("edits", "plans")
    }


@pytest.mark.usefixtures("traces")
def test_a_model_and_its_gpu_make_a_better_guess(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(LLAMA_70B), encoding="utf-8")
    said = chosen("runs.jsonl", "--engine", "vllm", "--model", "model.json", "--gpu", "H100", "--gpus", "4")
    assert "what a step takes is estimated, from the data sheet of H100" in " ".join(said.split())
    assert "only 0 conversations" not in said
    small = chosen("runs.jsonl", "--engine", "vllm", "--model", "model.json", "--gpu", "H100")
    assert "only 0 conversations of 8,192 tokens fit on 1 x H100, of 8" in " ".join(small.split())
    alone = chosen("runs.jsonl", "--engine", "vllm", "--gpu", "H100")
    assert "short contexts on H100" in " ".join(alone.split())


@pytest.mark.usefixtures("traces")
def test_what_was_measured_goes_before_what_was_replayed(tmp_path: Path) -> None:
    """Here the suffix tree costs more than it gives."""
    rows = [
        {"method": "none", "requests": 8, "step": 1.0},
        {"method": "suffix", "requests": 8, "step": 4.0, "acceptance": 0.5, "drafted_per_token": 1.0},
        {"method": "ngram", "requests": 8, "step": 5.0},
    ]
    (tmp_path / "measured.json").write_text(json.dumps(rows), encoding="utf-8")
    said = chosen("runs.jsonl", "--engine", "vllm", "--concurrency", "8", "--measured", "measured.json")
    assert "vLLM 0.33.0: none" in said


@pytest.mark.usefixtures("traces")
def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    """Least of all the traces, before they are read."""
    (tmp_path / "plan.json").symlink_to("nowhere.json")
    for name in ("runs.jsonl", "plan.json"):
        done = run("runs.jsonl", "--engine", "vllm", "--write", name)
        assert done.exit_code == 2
        assert f"{name} is there already" in done.stderr
    assert not (tmp_path / "nowhere.json").exists()
    chosen("runs.jsonl", "--engine", "vllm", "--write", "new.json")
    assert json.loads((tmp_path / "new.json").read_text(encoding="utf-8"))["engine"] == "vllm"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.json", "plan.json", "runs.jsonl"]


def test_names_from_outside_are_harmless(traces: Path) -> None:
    """As escape sequences of a terminal, as markup of what draws the table, and as words of a shell."""
    text = traces.read_text(encoding="utf-8").replace("plans", "x\\u001b[2J[red]")
    (traces.parent / "[bold]\x1b.jsonl").write_text(text, encoding="utf-8")
    said = chosen("[bold]\x1b.jsonl", "--engine", "vllm", "--heads", "eagle3=[/b]x y:0.99")
    assert "\x1b" not in said
    assert "[bold]?" in said
    assert "agent x?[2J[red]" in said
    assert "vLLM 0.33.0: eagle3, 8 tokens, [/b]x y" in said
    assert "--draft-model '[/b]x y'" in said


@pytest.mark.usefixtures("traces")
def test_sources_in_which_nothing_was_said_are_named(tmp_path: Path) -> None:
    silent = {"id": "1", "messages": [{"role": "user", "content": "Hello?"}]}
    (tmp_path / "silent.jsonl").write_text(json.dumps(silent), encoding="utf-8")
    value = json.loads(chosen("runs.jsonl", "silent.jsonl", "--engine", "vllm", "--format", "json"))
    assert [source["name"] for source in value["sources"]] == ["runs"]
    assert "nothing was said in silent" in value["notes"]


def test_sources_of_one_name_are_told_apart(tmp_path: Path, traces: Path) -> None:
    """Else the figures of one would stand for both."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "runs.jsonl").write_text(traces.read_text(encoding="utf-8"), encoding="utf-8")
    value = json.loads(chosen("runs.jsonl", "other", "--engine", "vllm", "--format", "json"))
    assert [source["name"] for source in value["sources"]] == ["runs", "runs (2)", "all of them"]
    assert len(value["sources"][-1]["engines"][0]["sites"]) == 4


@pytest.mark.usefixtures("traces")
def test_an_engine_that_is_named_twice_is_told_of_once() -> None:
    assert chosen("runs.jsonl", "--engine", "vllm", "--engine", "vllm").count("vLLM 0.33.0") == 1


@pytest.mark.usefixtures("traces")
@pytest.mark.parametrize("load", ["4096", "1000000"])
def test_a_load_that_is_high_fits_the_table(load: str) -> None:
    said = chosen("runs.jsonl", "--engine", "vllm", "--concurrency", load)
    assert f"speed at {int(load):,}" in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.usefixtures("traces")
def test_of_many_places_some_are_shown(tmp_path: Path) -> None:
    runs = [conversation(f"{n}", f"place{n}", {"role": "assistant", "content": LINES * 3}) for n in range(12)]
    (tmp_path / "many.jsonl").write_text("\n".join(map(json.dumps, runs)), encoding="utf-8")
    assert "- and 4 more places: --format json has all of them" in chosen("many.jsonl", "--engine", "vllm")


@pytest.mark.usefixtures("traces")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.jsonl"], "no such file"),
        (["runs.jsonl", "--engine", "tgi"], "give one of vllm"),
        (["runs.jsonl", "--heads", "eagle"], "--heads is 'eagle'"),
        (["runs.jsonl", "--write", "plan.json"], "say with --engine which"),
        (["runs.jsonl", "--engine", "vllm", "--write", "no/such/plan.json"], "cannot be written"),
        (["runs.jsonl", "--model", "m.json"], "without --gpu"),
        (["runs.jsonl", "--gpu", "H900"], "is not known"),
        (["runs.jsonl", "--kv-dtype", "fp8"], "--kv-dtype says nothing without --model"),
        (["runs.jsonl", "--gpu", "H100", "--device", "cpu"], "contradict each other"),
        (["runs.jsonl", "--measured", "measured.json"], "--measured is of one engine"),
        (
            ["runs.jsonl", "--engine", "vllm", "--draft-set", "rejection_sample_method=fly"],
            "changes what the model says",
        ),
        (["runs.jsonl", "--tokenizer", "tokenizer.json"], "give the http URL"),
        (["runs.jsonl", "--tokenizer", "http://127.0.0.1:1"], "nothing answers there"),
        (["runs.jsonl", "--measured", "runs.jsonl"], "is not JSON"),
        (["empty.jsonl"], "nothing was said"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(tmp_path: Path, words: list[str], says: str) -> None:
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "measured.json").write_text('[{"method": "none", "requests": 1, "step": 1}]', encoding="utf-8")
    done = run(*words)
    assert done.exit_code == 2, done.stdout
    assert says in done.stderr
    assert done.stderr.startswith("agentaccel selfhost choose: ")
    assert "Traceback" not in done.stderr
