"""`agentaccel selfhost serve`: what it says, what it refuses, and that nothing of it is left."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentaccel.cli import main
from agentaccel.selfhost.launch import free_port
from tests.selfhost.test_launch import FAKE, connected, has_ended

ROOT = Path(__file__).parents[2]


def refused(*words: str) -> str:
    done = CliRunner().invoke(main, ["selfhost", "serve", *words])
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
        (("--", "vllm"), "say with --health URL"),
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


def test_on_windows_it_says_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert "attach to a server that runs already" in refused("--tiny")


def test_the_help_names_every_option_of_the_tiny_engine() -> None:
    said = CliRunner().invoke(main, ["selfhost", "serve", "--help"]).output
    for option in ("--tiny", "--model", "--port", "--slots", "--context", "--speculate", "--template", "--cache-ram"):
        assert option in said
