"""What `render` writes and `serve` starts, on the engines themselves: the same text by every method of speculation, and
figures of it that are the engine's own."""

from __future__ import annotations

import ast
import itertools
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import openai
import pytest
from click.testing import CliRunner

from agentaccel import Accel
from agentaccel.cli import main
from agentaccel.selfhost.launch import free_port
from tests.engines.conftest import placed
from tests.engines.exchange import play

pytestmark = pytest.mark.engines

FLOATS = ["--", "-t", "2", "--poll", "0", "-ctk", "f32", "-ctv", "f32", "--jinja", "--offline"]
"""Keys and values are 32-bit floats: 16 bits break ties of greedy decoding, and change what is written."""
MODES: dict[str, tuple[str, ...]] = {
    "ngram": ("--draft-tokens", "16", "--draft-set", "spec-ngram-simple-size-n=4"),
    "ngram-mod": (
        *("--draft-tokens", "16", "--draft-set", "spec-ngram-mod-n-match=8"),
        *("--draft-set", "spec-ngram-mod-n-min=2"),
    ),
    "draft": ("--draft-model", "tiny-draft.gguf", "--draft-tokens", "4"),
    "eagle3": ("--draft-model", "tiny-eagle3.gguf", "--draft-tokens", "3"),
}
"""Each method with its options; models are in the folder of the toys."""


def hears_control_c() -> None:
    """A job that was started in the background ignores Ctrl-C, and its children would, too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def serving(words: list[str], models: Path) -> Iterator[str]:
    """`agentaccel selfhost serve`, until the block is left; its base URL."""
    command = [sys.executable, "-m", "agentaccel", "selfhost", "serve", *words]
    with subprocess.Popen(
        command, cwd=models, stdout=subprocess.PIPE, text=True, preexec_fn=hears_control_c
    ) as process:
        assert process.stdout is not None
        lines = itertools.takewhile(lambda line: line != "Ctrl-C stops it.\n", process.stdout)
        url = next(lines, "").rstrip("\n")
        assert url, "it did not start"
        list(lines)
        try:
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2].partition("/")[0])), timeout=5)


def served(program: Path, models: Path, *options: str) -> AbstractContextManager[str]:
    """llama-server with the toy model, two slots of 4096 tokens."""
    words = ["llamacpp", "--model", "tiny.gguf", "--served-name", "tiny", "--binary", str(program), *options]
    words += ["--port", str(free_port()), "--context", "4096", "--concurrency", "2", *FLOATS]
    return serving(words, models)


@pytest.fixture(scope="module")
def plain(llama_server: Path, models: Path) -> str:
    """What the toy model writes without speculation, as a digest."""
    with served(llama_server, models) as url, sdk(url) as bare:
        return play(bare).digest


def sdk(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=300)


@pytest.mark.parametrize("method", MODES)
def test_every_method_writes_what_none_does_and_is_counted_as_the_engine_counts_it(
    method: str, plain: str, llama_server: Path, models: Path, accel: Accel
) -> None:
    """Greedy, on one set of 32-bit weights: byte by byte the same. Acceptance, steps and tokens a step are those of
    the replies' `timings`, added up: with A accepted of D drafted, A / D, and of N tokens N / (N - A) at most."""
    with served(llama_server, models, "--speculate", method, *MODES[method]) as url, sdk(url) as bare:
        backend = accel.backend(url)
        assert backend.wait_ready()
        with backend.observe() as seen:
            played = play(bare)
    timings = [one.model_extra["timings"] for one in played.replies]
    drafted = sum(one.get("draft_n", 0) for one in timings)
    accepted = sum(one.get("draft_n_accepted", 0) for one in timings)
    assert played.digest == plain
    assert 0 < accepted < drafted
    assert (seen.figures.drafted, seen.figures.accepted) == (drafted, accepted)
    assert seen.figures.acceptance == accepted / drafted
    assert seen.figures.tokens_per_step is not None
    assert 1 < seen.figures.tokens_per_step <= played.output / (played.output - accepted)
    assert seen.figures.cached == sum(played.cached)


def test_the_twin_drafts_that_are_taken_unchecked_change_the_text(plain: str, llama_server: Path, models: Path) -> None:
    """What `render` refuses without `--lossy`: llama.cpp takes drafts by a made-up rate. The digest tells."""
    mode = ("--speculate", "ngram", *MODES["ngram"], "--draft-set", "spec-synth-len=4")
    assert "spec-synth-len=4 changes what the model says" in refused(llama_server, *mode)
    with served(llama_server, models, *mode, "--lossy") as url, sdk(url) as bare:
        assert play(bare).digest != plain


def test_without_speculation_nothing_is_drafted_and_there_is_no_acceptance(
    plain: str, llama_server: Path, models: Path, accel: Accel
) -> None:
    """llama.cpp counts 0 drafts, truthfully; a share of none is n/a."""
    with served(llama_server, models) as url, sdk(url) as bare:
        backend = accel.backend(url)
        assert backend.wait_ready()
        with backend.observe() as seen:
            played = play(bare)
    assert played.digest == plain
    assert (seen.figures.drafted, seen.figures.acceptance, seen.figures.tokens_per_step) == (0, None, 1.0)


def refused(program: Path, *options: str) -> str:
    words = ["selfhost", "serve", "llamacpp", "--model", "tiny.gguf", "--binary", str(program), *options]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    return done.stderr


def test_a_head_that_is_not_there_is_said_in_the_engines_words(
    llama_server: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models)
    said = refused(llama_server, "--port", str(free_port()), "--speculate", "eagle3", "--draft-model", "none.gguf")
    assert "llamacpp ended with status 1 before it was ready; the last lines of its log:" in said
    assert "none.gguf" in said.partition("the last lines of its log:")[2]


def test_an_option_that_is_gone_stops_the_start_as_is_known(
    llama_server: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `render` refuses is refused by the engine, too, where it is started by hand."""
    monkeypatch.chdir(models)
    assert "has no --draft-max any more: give --spec-draft-n-max" in refused(llama_server, "--", "--draft-max", "8")
    done = subprocess.run([llama_server, "--draft-max", "8"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "--spec-draft-n-max" in done.stderr


def test_a_port_that_is_taken_is_said_and_nothing_is_started(
    llama_server: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refused(llama_server, "--port", str(taken.getsockname()[1]))
    assert "something listens at http://127.0.0.1:" in said


# --- vLLM -------------------------------------------------------------------------------------------------------------


def test_vllm_is_served_on_a_cpu_and_writes_with_a_head_what_llama_server_writes_without(
    plain: str, models: Path, accel: Accel
) -> None:
    """By `--device cpu` alone: its entry point, and blocks of 32 tokens. Greedy, for on a CPU it can be nothing else.
    Cached tokens are whole blocks, and the figures of speculation are those of the replies."""
    module = f"{placed('vllm') / 'bin' / 'python'} -m vllm.entrypoints.openai.api_server"
    words = ["vllm", "--device", "cpu", "--binary", module, "--model", "tiny", "--served-name", "tiny"]
    words += ["--context", "4096", "--concurrency", "8", "--port", str(free_port()), "--engine-version", "0.32.0"]
    words += ["--speculate", "eagle3", "--draft-model", "tiny-eagle3", "--patience", "500"]
    settings = (
        "VLLM_CPU_KVCACHE_SPACE=1",
        "VLLM_CPU_OMP_THREADS_BIND=nobind",
        "HF_HUB_OFFLINE=1",
        "VLLM_NO_USAGE_STATS=1",
    )
    words += [word for one in settings for word in ("--env", one)]
    with serving([*words, "--", "--dtype", "float32", "--enforce-eager"], models) as url, sdk(url) as bare:
        backend = accel.backend(url)
        assert backend.wait_ready()
        with backend.observe() as seen:
            played = play(bare)
    told = [one.model_extra["metrics"]["speculative_decoding"] for one in played.replies]
    assert played.digest == plain
    assert played.cached[1] > 0
    assert not any(cached % 32 for cached in played.cached)
    assert seen.figures.drafted == sum(one["num_draft_tokens"] for one in told)
    assert seen.figures.accepted == sum(one["num_accepted_draft_tokens"] for one in told) > 0


READS = """
import json, sys, tempfile
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

def read(words):
    said = vars(make_arg_parser(FlexibleArgumentParser()).parse_args(words))
    if said["kv_transfer_config"] is not None:
        said["kv_transfer_config"].engine_id = None  # drawn
    return {name: str(value) for name, value in said.items() if name != "config"}

for words, file in json.load(sys.stdin):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as written:
        written.write(file)
        written.flush()
        by_words, by_file = read(words), read(["--config", written.name])
    print(json.dumps([by_words, by_file]))
"""
PLANS = (
    "--device cpu --context 4096 --speculate suffix --draft-set suffix_decoding_min_token_prob=0.5",
    "--device cpu --speculate eagle3 --draft-model H --draft-schedule 16:5,64:3,512:0 --concurrency 8 --priorities",
    "--device cpu --no-prefix-caching --speculate ngram --served-name tiny",
    "--device cpu --role prefill --offload lmcache --offload-gib 4 --kv-events tcp://*:5557 --kv-topic kv@a@m",
    "--device cpu --speculate draft --draft-model D --draft-set use_heterogeneous_vocab=true --no-figures",
)


def test_vllm_reads_from_its_words_and_from_its_file_what_the_plan_says() -> None:
    """vLLM's own parser, without starting it. Values by hand."""
    rendered = []
    for plan in PLANS:
        forms = {}
        for form in ("json", "yaml"):
            words = ["selfhost", "render", "vllm", "--model", "m", *plan.split(), "--host", "127.0.0.1", "--as", form]
            done = CliRunner().invoke(main, words)
            assert done.exit_code == 0, done.stderr
            forms[form] = done.stdout
        argv = json.loads(forms["json"])["argv"]
        rendered.append((argv[3:], forms["yaml"].partition("---\n")[2]))
    python = placed("vllm") / "bin" / "python"
    done = subprocess.run(
        [python, "-c", READS], input=json.dumps(rendered), capture_output=True, text=True, timeout=300, check=True
    )
    read = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(read) == len(PLANS)
    assert all(by_words == by_file for by_words, by_file in read)
    suffix, eagle, ngram, pair, draft = (by_words for by_words, _ in read)
    assert (suffix["max_model_len"], suffix["block_size"], suffix["enable_prefix_caching"]) == ("4096", "32", "True")
    assert ast.literal_eval(suffix["speculative_config"]) == {
        "method": "suffix",
        "num_speculative_tokens": 16,
        "suffix_decoding_min_token_prob": 0.5,
    }
    schedule = ast.literal_eval(eagle["speculative_config"])["num_speculative_tokens_per_batch_size"]
    assert (schedule, eagle["max_num_seqs"]) == ([[1, 16, 5], [17, 64, 3], [65, 512, 0]], "8")
    assert eagle["scheduling_policy"] == "priority"
    assert (ngram["enable_prefix_caching"], ngram["served_model_name"]) == ("False", "['tiny']")
    assert all(name in pair["kv_transfer_config"] for name in ("LMCacheMPConnector", "NixlConnector"))
    assert "topic='kv@a@m'" in pair["kv_events_config"]
    assert draft["enable_prompt_tokens_details"] == "False"
