"""`agentaccel selfhost`: what `render` writes and `serve` starts, what is refused, and that nothing of it is left."""

from __future__ import annotations

import itertools
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agentaccel.cli import main
from agentaccel.selfhost.launch import free_port
from tests.selfhost.test_launch import FAKE, connected, has_ended

ROOT = Path(__file__).parents[2]


def refused(*words: str, command: str = "serve") -> str:
    done = CliRunner().invoke(main, ["selfhost", command, *words])
    assert done.exit_code == 2
    return done.stderr


def hears_control_c() -> None:
    """A job that was started in the background ignores Ctrl-C, and its children would, too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_an_engine_of_your_own_is_served_until_control_c() -> None:
    """The first line is where it answers; then how to use it. What COMMAND is told is what stands behind the dashes."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "agentaccel", "selfhost", "serve", "--health", f"{url}/health?deep=1", "--"]
    words = [*command, sys.executable, "-I", "-S", FAKE, str(port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, preexec_fn=hears_control_c) as serving:
        assert serving.stdout is not None
        said = list(itertools.takewhile(lambda one: one != "Ctrl-C stops it.\n", serving.stdout))
        with connected(port) as line:
            serving.send_signal(signal.SIGINT)
            assert has_ended(line)
        rest = serving.stdout.read()
    assert said[0] == f"{url}/v1\n"
    assert f'openai.OpenAI(base_url="{url}/v1", api_key="none")' in said[2]
    assert rest == "\nstopped\n"
    assert serving.returncode == 0


@pytest.mark.slow
def test_an_engine_that_ends_says_why() -> None:
    """Its last lines as it printed them, each a line, and nothing in them reaches a terminal as an escape sequence."""
    url = f"http://127.0.0.1:{free_port()}/health"
    code = r"print('first'); print('\x1b[31mno such flag'); raise SystemExit(3)"
    said = refused("--health", url, "--", sys.executable, "-c", code)
    assert "ended with status 3 before it was ready; the last lines of its log:\nfirst\n?[31mno such flag\n" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give either --tiny, or the command"),
        (("--tiny", "--", "vllm"), "give either --tiny, or the command"),
        (("--", "my-engine"), "say with --health URL"),
        (("vllm",), "say with --model what the engine serves; of a command of your own, say with --health URL"),
        (("llamacpp", "--model", "m", "--slots", "2"), "--slots is for --tiny only"),
        (("--tiny", "--block-size", "16"), "--block-size is for an ENGINE only"),
        (("--tiny", "--speculate", "suffix"), "speculate must be one of none, ngram-simple, ngram-mod"),
        (("llamacpp", "--model", "m", "--block-size", "16"), "llama.cpp server has no block_size"),
        (("llamacpp", "--model", "m", "--host", "0.0.0.0"), "url must be of this machine"),
        (("trtllm", "--model", "m"), "TensorRT-LLM is not started here"),
        (("--health", "http://127.0.0.1:1/", "--slots", "2", "--", "vllm"), "--slots is for --tiny only"),
        (("--tiny", "--health", "http://127.0.0.1:1/"), "--health is for a command of your own only"),
        (("--health", "http://10.1.1.1:1/", "--", "vllm"), "url must be of this machine"),
        (("--tiny", "--model", "/nowhere/x.gguf"), "the weights must be a GGUF file; /nowhere/x.gguf is none"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    error = refused(*words)
    assert error.startswith(f"agentaccel selfhost serve: {said}")
    assert error.count("\n") == 1


# --- an engine by its name -------------------------------------------------------------------------------------------

EVERY = shlex.split(
    "vllm --model m --served-name tiny --host 0.0.0.0 --port 8001 --context 4096 --concurrency 8 --block-size 16"
    " --no-prefix-caching --kv-events tcp://*:5557 --kv-replay tcp://*:5558 --kv-topic kv@a@m --priorities --no-figures"
    " --speculate eagle3 --draft-model H --draft-tokens 5 --draft-schedule 16:5,64:0 --lossy"
    " --draft-set rejection_sample_method=fly --draft-set draft_tensor_parallel_size=2"
    " --draft-set parallel_drafting=true"
    " --offload cpu --offload-gib 1 --role prefill --device gpu --engine-version 0.32.1 --binary 'uv run vllm serve'"
    " --env A=1 --env B=x=y -- --dtype float32"
)
AS_ARGV = (
    "A=1 B=x=y uv run vllm serve m --served-model-name tiny --host 0.0.0.0 --port 8001 --max-num-seqs 8"
    " --max-model-len 4096 --block-size 16 --no-enable-prefix-caching --scheduling-policy priority --kv-events-config"
    ' \'{"endpoint":"tcp://*:5557","enable_kv_cache_events":true,"publisher":"zmq","replay_endpoint":"tcp://*:5558",'
    '"topic":"kv@a@m"}\' --speculative-config \'{"method":"eagle3","model":"H","num_speculative_tokens":5,'
    '"num_speculative_tokens_per_batch_size":[[1,16,5],[17,64,0]],"rejection_sample_method":"fly",'
    '"draft_tensor_parallel_size":2,"parallel_drafting":true}\' --kv-transfer-config'
    ' \'{"kv_connector":"MultiConnector","kv_role":"kv_both",'
    '"kv_connector_extra_config":{"connectors":[{"kv_connector":"OffloadingConnector",'
    '"kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":1073741824}},{"kv_connector":"NixlConnector",'
    '"kv_role":"kv_both"}]},"kv_load_failure_policy":"recompute"}\' --dtype float32\n'
)
"""Every option, once. By hand: vLLM's names of them, 1 GiB as bytes, both connectors in one."""


def rendered(*words: str) -> str:
    done = CliRunner().invoke(main, ["selfhost", "render", *words])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_every_option_is_rendered_as_the_engine_spells_it() -> None:
    assert shlex.split(rendered(*EVERY)) == shlex.split(AS_ARGV)


def test_reasons_are_said_beside_the_command_and_within_what_a_program_reads() -> None:
    done = CliRunner().invoke(main, ["selfhost", "render", "llamacpp", "--model", "m.gguf"])
    assert done.stdout.startswith("llama-server --model m.gguf --host 127.0.0.1 --port 8080 --parallel 4 ")
    assert "# --metrics: without it there are no counters to observe\n" in done.stderr
    done = CliRunner().invoke(main, ["selfhost", "render", "llamacpp", "--model", "m.gguf", "--as", "json"])
    assert "--metrics: without it there are no counters to observe" in json.loads(done.stdout)["reasons"]
    assert done.stderr == ""


def test_a_container_listens_where_others_reach_it_unless_it_is_told() -> None:
    """Kubernetes asks for the health from outside of the container."""
    text = rendered("vllm", "--model", "m", "--as", "yaml")
    assert "# --host 0.0.0.0: probes and clients are outside of the container\n" in text
    container, file = yaml.safe_load_all(text)
    assert container["command"] == ["vllm", "serve"]
    assert container["args"][:5] == ["m", "--host", "0.0.0.0", "--port", "8000"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": 8000}
    assert file["model"] == "m"
    told = rendered("vllm", "--model", "m", "--as", "yaml", "--host", "10.0.0.7")
    assert next(yaml.safe_load_all(told))["args"][2] == "10.0.0.7"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("vllm",), "say with --model what the engine serves"),
        (("tgi", "--model", "m"), "the engine is 'tgi'; give one of vllm, sglang, llamacpp, trtllm"),
        (("vllm", "--model", "m", "--offload", "cpu"), "--offload and --offload-gib go together"),
        (("vllm", "--model", "m", "--kv-topic", "t"), "--kv-replay and --kv-topic go with --kv-events"),
        (("vllm", "--model", "m", "--env", "A"), "--env is 'A'; give NAME=VALUE"),
        (
            ("vllm", "--model", "m", "--speculate", "ngram", "--draft-schedule", "8"),
            "--draft-schedule is '8'; give LOAD",
        ),
        (("vllm", "--model", "m", "--draft-tokens", "3"), "a speculation without a method has nothing else"),
    ],
)
def test_what_cannot_be_rendered_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    error = refused(*words, command="render")
    assert error.startswith(f"agentaccel selfhost render: {said}")
    assert error.count("\n") == 1


@pytest.mark.slow
def test_what_is_rendered_is_what_is_served(tmp_path: Path) -> None:
    """The engine is a fake that keeps its words; it is told those that `render` writes, and sees its variables.
    Who looks on sees neither their values nor keys."""
    port = free_port()
    kept = tmp_path / "words.json"
    program = tmp_path / "engine.py"
    program.write_text(
        "import json, os, runpy, sys\n"
        f"json.dump([sys.argv[1:], os.environ['MY']], open({str(kept)!r}, 'w'))\n"
        f"sys.argv[1:] = [{str(port)!r}]\n"
        f"runpy.run_path({FAKE!r}, run_name='__main__')\n",
        encoding="utf-8",
    )
    binary = shlex.join([sys.executable, "-I", "-S", str(program)])
    options = ["llamacpp", "--model", "m.gguf", "--context", "512", "--port", str(port), "--env", "MY=own"]
    options += ["--speculate", "ngram-mod", "--binary", binary, "--", "-ctk", "f32", "--api-key", "sk-SECRET"]
    words = [sys.executable, "-m", "agentaccel", "selfhost", "serve", *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                          preexec_fn=hears_control_c) as serving:  # fmt: skip
        assert serving.stdout is not None
        assert serving.stderr is not None
        assert serving.stdout.readline() == f"http://127.0.0.1:{port}/v1\n"
        serving.send_signal(signal.SIGINT)
        serving.stdout.read()
        told = serving.stderr.read().splitlines()
    assert serving.returncode == 0
    command = shlex.split(rendered(*options))
    assert json.loads(kept.read_text()) == [command[1 + len(shlex.split(binary)) :], "own"]
    assert shlex.split(told[-1]) == ["MY=…", *command[1:-1], "…"]
    assert command[-1] == "sk-SECRET"
    assert "# --metrics: without it there are no counters to observe" in told


def test_on_windows_it_says_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert "attach to a server that runs already" in refused("--tiny")


def test_the_help_names_every_option_of_the_tiny_engine() -> None:
    said = CliRunner().invoke(main, ["selfhost", "serve", "--help"]).output
    for option in ("--tiny", "--model", "--port", "--slots", "--context", "--speculate", "--template", "--cache-ram"):
        assert option in said
