"""The snippets of the reference page run, and the command does what it prints."""

from __future__ import annotations

import functools
import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from agentaccel_emulator import Emulator

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "emulator.md"


def snippets(language):
    """The fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("code", snippets("python"), ids=["server", "openai", "core"])
def test_the_python_of_the_page_runs(code):
    """Every snippet asserts what it shows."""
    exec(compile(code, str(PAGE), "exec"), {})


def test_the_files_of_the_page_load():
    """The script is the first, the faults are the second."""
    script, faults = (json.loads(block) for block in snippets("json"))
    Emulator(script=script, faults=faults)


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted():
    """Its first line is the URL; its last are the totals."""
    command = [sys.executable, "-m", "agentaccel_emulator", "--model", "claude-sonnet-5"]
    # A job that was started in the background ignores interruptions, and its children would, too.
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1, preexec_fn=heard) as process:
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(f"{url}/_ctl/counters", timeout=10) as reply:
            assert json.load(reply)["total"]["requests"] == 0
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=10)
    assert rest.endswith("0 requests, 0 input tokens, 0 of them from the cache\n")
    assert process.returncode == 0
