"""What `wrap` adds to a model call is at most 40 % of what the vendor's SDK takes for it. CPU time of the whole
process for one call of `messages.create`, or of `chat.completions.create`, at 30,000 tokens and 230 blocks, against a
server on this machine that answers at once, with the call that the conversation goes on with; planning, settling and
recording included.

Each round makes the same call with the bare client and with ours. Then, in rounds of their own because each call leaves
the processor's caches to the next, the bare client and ours without recording; for `anthropic` also a client whose
middleware does nothing, and one whose middleware changes the request by the SDK's own `copy`, which copies the body to
its leaves.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import click

from agentaccel import Accel, Policy, StorePolicy
from benchmarks.conversation import Conversation, chat_of
from benchmarks.measure import ROUNDS, Action, Rounds, alternated
from benchmarks.registry import Result, Table, benchmark

BOUND = 0.40
"""At most this share of the bare SDK's time: within that, simpler code wins."""
TITLE = "CPU time of one call"
TURNS = 72
CONVERSATIONS = 3
"""So many are gone through, a round for each of their turns."""
BLOCK_BYTES = 460
"""So that 230 blocks are 30,000 tokens."""

SERVER = (sys.executable, "-m", "benchmarks._server", str(BLOCK_BYTES))
ROOT = Path(__file__).parent.parent


@benchmark()
@click.option("--rounds", default=ROUNDS, show_default=True, help=f"Rounds of each of {CONVERSATIONS} conversations.")
@click.option("--provider", type=click.Choice(["anthropic", "openai"]), default="anthropic", show_default=True)
def overhead(rounds: int, provider: str) -> Result:
    return measure(rounds=rounds, provider=provider)


def measure(*, rounds: int = ROUNDS, quick: bool = False, provider: str = "anthropic") -> Result:
    """The benchmark; `quick` takes few rounds."""
    rounds = 3 if quick else rounds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sdk = SDKS[provider]
        calls = stack.enter_context(_calls(folder, sdk))
        conversation = Conversation(TURNS, block_bytes=BLOCK_BYTES)
        bare = calls.pop("bare")
        rows = [(name, *_beside(bare, call, sdk, rounds)) for name, call in calls.items()]
        tokens, blocks = conversation.tokens, conversation.blocks
    _, _, alone, added = rows[0]
    broken = [] if added <= BOUND else [f"wrap adds {added:.0%} to the bare SDK's time, and {BOUND:.0%} is the bound"]
    return Result(
        figure=f"wrap adds {added:.0%} to the {alone:.1f} ms that the {provider} SDK takes by itself.",
        inputs={"rounds": rounds * CONVERSATIONS, "tokens": tokens, "blocks": blocks, "client": sdk.name},
        n=rounds * CONVERSATIONS,
        tables=(
            Table(
                title=TITLE if provider == "anthropic" else f"{TITLE}, {provider}",
                columns=("client", "ms", "bare, ms", "beyond bare"),
                rows=tuple(rows),
                notes=("no store: wrapped, with recording switched off", *sdk.notes),
            ),
        ),
        broken=tuple(broken),
    )


Call = Callable[[Any], object]
"""Makes a call with a request."""


def _beside(bare: Call, call: Call, sdk: Sdk, rounds: int) -> tuple[float, float, float]:
    """Milliseconds of a call and of the bare client's, in turns, and the share that the former adds."""
    times = reduce(add, [_conversation(bare, call, sdk, rounds) for _ in range(CONVERSATIONS)])
    return times.median("it") * 1e3, times.median("bare") * 1e3, times.ratio("it", to="bare") - 1.0


def _conversation(bare: Call, call: Call, sdk: Sdk, rounds: int) -> Rounds:
    calls = {name: Action(run=one, prepare=_requests(sdk)) for name, one in (("bare", bare), ("it", call))}
    return alternated(calls, rounds=rounds)


class Sdk(NamedTuple):
    """One vendor's SDK, and what else of it is measured."""

    name: str
    connect: Callable[[str], Any]
    """A bare client for a server at a URL."""
    others: Callable[[Any], dict[str, Any]]
    """Clients derived from the bare one, to compare ours with."""
    call: Callable[[Any], Call]
    """The call that a client is measured by."""
    form: Callable[[dict[str, Any]], dict[str, Any]]
    """A request of a conversation in the SDK's form."""
    platform: str | None
    """What to call the server, where its host does not tell."""
    notes: tuple[str, ...] = ()


def _requests(sdk: Sdk) -> Callable[[], dict[str, Any]]:
    """A conversation's requests one after another, from somewhat below to somewhat above the length meant."""
    conversation = Conversation(TURNS - 23, block_bytes=BLOCK_BYTES)
    return lambda: sdk.form(dict(conversation.grow()))


@contextmanager
def _calls(folder: Path, sdk: Sdk) -> Iterator[dict[str, Call]]:
    server = subprocess.Popen(SERVER, stdout=subprocess.PIPE, cwd=ROOT)
    assert server.stdout is not None
    bare = sdk.connect(f"http://127.0.0.1:{int(server.stdout.readline())}")
    try:
        with (
            Accel(Policy(store=StorePolicy(path=folder / "trace.db"))) as recording,
            Accel(Policy(store=StorePolicy(enabled=False))) as forgetting,
        ):
            wrapped = sdk.call(recording.wrap(bare, platform=sdk.platform))

            def recorded(request: Any) -> None:
                wrapped(request)
                recording.flush()  # what the thread that writes takes is counted with the call

            yield {
                "bare": sdk.call(bare),
                "wrapped": recorded,
                "no store": sdk.call(forgetting.wrap(bare, platform=sdk.platform)),
                **{name: sdk.call(one) for name, one in sdk.others(bare).items()},
            }
    finally:
        bare.close()
        server.terminate()
        server.wait()
        server.stdout.close()


def _claude(url: str) -> Any:
    import anthropic

    return anthropic.Anthropic(api_key="none", base_url=url, max_retries=0)


def _middleware(bare: Any) -> dict[str, Any]:
    import anthropic

    class Nothing(anthropic.Middleware):
        def handle(self, request: Any, call_next: Any) -> Any:
            return call_next(request)

    class Copies(anthropic.Middleware):
        def handle(self, request: Any, call_next: Any) -> Any:
            return call_next(request.copy(body={**request.json}))

    return {"empty middleware": bare.with_middleware(Nothing()), "the SDK's copy": bare.with_middleware(Copies())}


def _gpt(url: str) -> Any:
    import openai

    return openai.OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0)


SDKS = {
    "anthropic": Sdk(
        name="anthropic.Anthropic, JSON replies",
        connect=_claude,
        others=_middleware,
        call=lambda client: lambda body: client.messages.create(**body),
        form=lambda body: body,
        platform=None,
        notes=("the SDK's copy: what any middleware pays that changes a body as the SDK proposes; ours does not",),
    ),
    "openai": Sdk(
        name="openai.OpenAI, Chat Completions, JSON replies",
        connect=_gpt,
        others=lambda bare: {},
        call=lambda client: lambda body: client.chat.completions.create(**body),
        form=chat_of,
        platform="api",
    ),
}
