"""Nothing of ours but the store waits for a disk on an event loop, from the first `Accel()` of a process on."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

pytest.importorskip("blockbuster")

AGENT = """
import asyncio, sys
import anthropic, openai, blockbuster
import httpx2
import agentaccel
from agentaccel import Accel, Policy, StorePolicy

MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "stop_reason": "end_turn",
           "content": [{"type": "text", "text": "Hello"}], "usage": {"input_tokens": 7, "output_tokens": 5}}
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-6.1-sol",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}}
SAID = [{"role": "user", "content": "Hello " * 3000}]

async def main():
    accel = Accel(Policy(mode=sys.argv[1], strict=True, store=StorePolicy(enabled=False)))  # the store is the exception

    @accel.tool(effect="read_local", concurrent=True)
    async def look(name: str) -> str:
        return name

    def answer(request):
        return httpx2.Response(200, json=MESSAGE if "v1" in str(request.url) else CHAT)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    claude = accel.wrap(anthropic.AsyncAnthropic(api_key="k", http_client=http))
    gpt = accel.wrap(openai.AsyncOpenAI(api_key="k", base_url="http://localhost", http_client=http))
    async with accel.session("s", agent="a"):
        for _ in range(2):
            await claude.messages.create(model="claude-sonnet-5", max_tokens=9, messages=SAID)
            await gpt.chat.completions.create(model="gpt-6.1-sol", messages=SAID)
            await look(name="x")
    await http.aclose()
    accel.close()

with blockbuster.blockbuster_ctx(scanned_modules=[agentaccel]) as detector:
    asyncio.run(main())
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["observe", "on"])
def test_the_first_accel_of_a_process_may_be_made_in_a_running_loop(mode: str) -> None:
    """Made, wrapped and used there, in a process that has read nothing yet: no file is read on the loop."""
    ran = subprocess.run([sys.executable, "-c", AGENT, mode], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == ("done\n", 0), ran.stderr


@pytest.mark.slow
def test_a_data_file_that_is_read_when_it_is_needed_is_noticed() -> None:
    """The twin: the facts are read when they are asked for first, as they were."""
    late = """
    import pathlib, tomllib, agentaccel.facts.tables as tables
    folder = pathlib.Path(tables.__file__).parent
    class Late(dict):
        def __missing__(self, name):
            return (folder / f"{name}.toml").read_text(encoding="utf-8")
    tables._FILES = Late()
    """
    ran = subprocess.run(
        [sys.executable, "-c", dedent(late) + AGENT, "on"], capture_output=True, text=True, check=False
    )
    assert "Blocking call to" in ran.stderr
