"""What `wrap` adds to a model call stays below a quarter of what the vendor's SDK takes for it. CPU time of the whole
process for one call of `messages.create` at 30,000 tokens and 230 blocks, against a server on this machine that answers
at once; planning, settling and recording included.

Each round makes the same call four times: with the bare client, with a client whose middleware does nothing, with one
whose middleware changes the request by the SDK's own `copy`, which copies the body to its leaves, and with ours.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from agentaccel import Accel, Policy, StorePolicy
from benchmarks.conversation import Conversation
from benchmarks.measure import ROUNDS, Action, alternated
from benchmarks.registry import Result, Table, benchmark

BOUND = 0.25
"""At most this share of the bare SDK's time."""
TURNS = 72
BLOCK_BYTES = 460
"""So that 230 blocks are 30,000 tokens."""

SERVER = Path(__file__).parent / "_server.py"


@benchmark()
@click.option("--rounds", default=ROUNDS, show_default=True)
def overhead(rounds: int) -> Result:
    return measure(rounds=rounds)


def measure(*, rounds: int = ROUNDS, quick: bool = False) -> Result:
    """The benchmark; `quick` takes few rounds."""
    rounds = 3 if quick else rounds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clients = stack.enter_context(_clients(folder))
        conversation = Conversation(TURNS, block_bytes=BLOCK_BYTES)
        calls = {name: Action(run=_call(client), prepare=_requests()) for name, client in clients.items()}
        times = alternated(calls, rounds=rounds)
        tokens, blocks = conversation.tokens, conversation.blocks
    bare = times["bare"]
    added = (times["wrapped"] - bare) / bare
    rows = tuple((name, time * 1e3, (time - bare) / bare) for name, time in times.items())
    broken = [] if added <= BOUND else [f"wrap adds {added:.0%} to the bare SDK's time, and {BOUND:.0%} is the bound"]
    return Result(
        figure=f"wrap adds {added:.0%} to the {bare * 1e3:.1f} ms that the SDK takes by itself.",
        inputs={"rounds": rounds, "tokens": tokens, "blocks": blocks, "client": "anthropic.Anthropic, JSON replies"},
        n=rounds,
        tables=(
            Table(
                title="CPU time of one call",
                columns=("client", "ms", "beyond bare"),
                rows=rows,
                notes=(
                    "no store: wrapped, with recording switched off",
                    "the SDK's copy: what any middleware pays that changes a body as the SDK proposes; ours does not",
                ),
            ),
        ),
        broken=tuple(broken),
    )


def _requests() -> Callable[[], dict[str, Any]]:
    """A conversation's requests one after another, from somewhat below to somewhat above the length meant."""
    conversation = Conversation(TURNS - 23, block_bytes=BLOCK_BYTES)
    return lambda: dict(conversation.grow())


def _call(client: Any) -> Callable[[Any], object]:
    return lambda body: client.messages.create(**body)


@contextmanager
def _clients(folder: Path) -> Iterator[dict[str, Any]]:
    import anthropic

    class Nothing(anthropic.Middleware):
        def handle(self, request: Any, call_next: Any) -> Any:
            return call_next(request)

    class Copies(anthropic.Middleware):
        def handle(self, request: Any, call_next: Any) -> Any:
            return call_next(request.copy(body={**request.json}))

    server = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    bare = anthropic.Anthropic(api_key="none", base_url=f"http://127.0.0.1:{port}", max_retries=0)
    try:
        with (
            Accel(Policy(store=StorePolicy(path=folder / "trace.db"))) as recording,
            Accel(Policy(store=StorePolicy(enabled=False))) as forgetting,
        ):
            yield {
                "bare": bare,
                "empty middleware": bare.with_middleware(Nothing()),
                "the SDK's copy": bare.with_middleware(Copies()),
                "wrapped": recording.wrap(bare),
                "no store": forgetting.wrap(bare),
            }
    finally:
        bare.close()
        server.terminate()
        server.wait()
        server.stdout.close()
