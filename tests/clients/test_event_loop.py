"""Nothing of ours waits for a disk on an event loop, but `Accel()` itself, which opens the trace store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from agentaccel.records import PREWARM
from agentaccel.store.store import open_reader

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
    accel = Accel(Policy(mode=sys.argv[1], strict=True, store=StorePolicy(enabled=False)))  # it is opened here

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


# --- Many sessions at once, with a trace store ------------------------------------------------------------------------

SESSIONS = """
import asyncio, json, logging, sys
import anthropic, blockbuster, httpx2
import agentaccel
from agentaccel import Accel, CachePolicy, Policy, StorePolicy
from agentaccel.concurrency import Inline
from agentaccel.testing.inside import engine

TOOLS = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}]
SYSTEM = "Be good. " * 600

ahead = asyncio.Event()

def answer(request):
    if json.loads(request.content)["max_tokens"] == 0:
        ahead.set()
    asks = len(json.loads(request.content)["messages"]) % 4 == 1
    text = {"type": "text", "text": "Hello"}
    content = {"type": "tool_use", "id": "t", "name": "look", "input": {}} if asks else text
    return httpx2.Response(200, json={
        "id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "content": [content],
        "stop_reason": "tool_use" if asks else "end_turn", "usage": {"input_tokens": 7, "output_tokens": 5}})

async def main(accel):
    @accel.tool(effect="read_local", concurrent=True)
    async def look() -> str:
        return "seen"

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = accel.wrap(anthropic.AsyncAnthropic(api_key="k", http_client=http))

    async def ask(messages):
        reply = await client.messages.create(
            model="claude-sonnet-5", max_tokens=9, messages=messages, tools=TOOLS, system=SYSTEM)
        messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
        seen = [await look() for block in reply.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": "t", "content": one} for one in seen]
        messages.append({"role": "user", "content": results or "Go on."})

    async def agent(number):
        messages = [{"role": "user", "content": f"Hello {number} " * 500}]
        for name in ("first", "again"):  # the second is another handle of the same session
            async with accel.session(f"s{number}", agent="a"):
                await ask(messages)
                await ask(messages)
        await ask(messages[:1])  # without a session

    async def announced():
        async with accel.session("announced", agent="a") as session:
            session.prewarm(client.messages.create, model="claude-sonnet-5", max_tokens=9, tools=TOOLS, system=SYSTEM)
            await asyncio.sleep(0)  # it is a task from here on, until it has failed
            while not ahead.is_set() and len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)

    await asyncio.gather(*(agent(number) for number in range(int(sys.argv[2]))))
    if "announced" in sys.argv[4:]:
        await announced()
    await http.aclose()
    await accel.aclose()

logging.basicConfig()
allowed = CachePolicy(prewarm=True, cost_per_second=1.0)
accel = Accel(Policy(mode=sys.argv[3], store=StorePolicy(path=sys.argv[1]), cache=allowed))
if "inline" in sys.argv[4:]:
    engine(accel).recorder._worker = Inline()
with blockbuster.blockbuster_ctx(scanned_modules=[agentaccel]) as detector:
    for function in detector.functions.values():
        function.can_block_in("logging/__init__.py", {"emit"})
    asyncio.run(main(accel))
print("done")
"""


def sessions(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SESSIONS, str(path), *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["observe", "on"])
def test_sessions_record_and_look_up_beside_their_loop(mode: str, tmp_path: Path) -> None:
    """By hand: five requests and three runs of the tool in each session; each is in the store, and no file is read or
    written on the loop, where what blocks it raises."""
    ran = sessions(tmp_path / "trace.db", "40", mode)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("done\n", "", 0)
    with open_reader(tmp_path / "trace.db") as reader:
        turns, tools = list(reader.turns()), list(reader.tools())
    assert len(turns) == 40 * 5
    assert len(tools) >= 40 * 3  # runs that were begun early and not asked for have records of their own
    assert {turn.outcome for turn in turns} == {"ok"}
    assert sum(turn.session.startswith("s") and not turn.session.startswith("s-") for turn in turns) == 40 * 4


@pytest.mark.slow
def test_what_is_announced_is_looked_up_beside_the_loop(tmp_path: Path) -> None:
    """By hand: one request is written ahead for what is announced; without it there is none, as in the test above."""
    ran = sessions(tmp_path / "trace.db", "0", "on", "announced")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("done\n", "", 0)
    with open_reader(tmp_path / "trace.db") as reader:
        assert [(turn.session, turn.mode) for turn in reader.turns()] == [("announced", PREWARM)]


@pytest.mark.slow
@pytest.mark.parametrize("what", [("2", "on"), ("0", "on", "announced")], ids=["sessions", "announced"])
def test_twin_a_store_that_is_used_on_the_loop_is_noticed(what: tuple[str, ...], tmp_path: Path) -> None:
    assert "Blocking call to" in sessions(tmp_path / "trace.db", *what, "inline").stderr


# --- Requests that begin alike ----------------------------------------------------------------------------------------

ALIKE = """
import asyncio, logging, sys
import anthropic, blockbuster, httpx2
import agentaccel
from agentaccel import Accel, Policy, StorePolicy
from agentaccel.engine import engine

SYSTEM = "Be good. " * 20_000
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "stop_reason": "end_turn",
           "content": [{"type": "text", "text": "Hello"}], "usage": {"input_tokens": 7, "output_tokens": 5}}

async def main(accel):
    held = asyncio.Event()

    async def answer(request):
        if not held.is_set():
            held.set()
            await asyncio.sleep(0.05)  # the others find this one under way
        return httpx2.Response(200, json=MESSAGE)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = accel.wrap(anthropic.AsyncAnthropic(api_key="k", http_client=http))

    async def agent(number):
        async with accel.session(f"s{number}", agent="a"):
            said = [{"role": "user", "content": f"Hello {number}"}]
            await client.messages.create(model="claude-sonnet-5", max_tokens=9, system=SYSTEM, messages=said)

    await asyncio.gather(*(agent(number) for number in range(3)))
    await http.aclose()
    await accel.aclose()

logging.basicConfig()
accel = Accel(Policy(store=StorePolicy(path=sys.argv[1])))
if sys.argv[2:] == ["late"]:
    engine.prices_are_loaded = lambda: True
with blockbuster.blockbuster_ctx(scanned_modules=[agentaccel]) as detector:
    for function in detector.functions.values():
        function.can_block_in("logging/__init__.py", {"emit"})
    asyncio.run(main(accel))
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "blocks"), [((), False), (("late",), True)], ids=["beside", "twin"])
def test_prices_are_read_beside_the_loop_before_a_request_is_held(
    how: tuple[str, ...], blocks: bool, tmp_path: Path
) -> None:
    """Three sessions begin alike, and two are held for the first. The twin asks for prices only then."""
    arguments = [sys.executable, "-c", ALIKE, str(tmp_path / "trace.db"), *how]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert ran.stdout == "done\n"
    assert ("Blocking call to" in ran.stderr) == blocks
    assert bool(ran.stderr) == blocks
