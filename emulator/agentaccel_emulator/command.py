"""The command that runs the emulator: `python -m agentaccel_emulator`, and `agentaccel emulate`."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import click

from agentaccel.clock import ManualClock
from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel_emulator.behaviour import Behaviour
from agentaccel_emulator.core import Emulator
from agentaccel_emulator.server import serve
from agentaccel_emulator.server_clock import RealClock

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--model", help="Serve this model only [default: every model that is known].")
@click.option("--script", type=_FILE, help="Replies, as JSON or JSON lines.")
@click.option("--faults", type=_FILE, help="What goes wrong, as JSON or JSON lines.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="a free one", help="Port on 127.0.0.1.")
@click.option(
    "--platform",
    default="api",
    show_default=True,
    help="Whose rules hold where paths are shared: api, azure, bedrock, vertex, vllm, deepseek, openrouter, ...",
)
@click.option(
    "--host", "hosts", multiple=True, help="A name by which clients address it, beside localhost; repeatable."
)
@click.option("--realtime", is_flag=True, help="Let bytes leave when they are due, instead of at once.")
def emulate(
    model: str | None,
    script: Path | None,
    faults: Path | None,
    port: int,
    platform: str,
    hosts: tuple[str, ...],
    realtime: bool,
) -> None:
    """Run a local provider with the documented prompt caches, until Ctrl-C. It costs nothing and knows nothing.

    The APIs of Anthropic (also as on Bedrock and Vertex) and OpenAI (also as on Azure), and a gateway like OpenRouter,
    are told apart by their paths. Where only the host would tell, --platform does: `vllm` has /v1/chat/completions
    answer like vLLM, `bedrock` has /v1/messages follow Bedrock's rules.
    """
    try:
        emulator = Emulator(
            model=model,
            script=script,
            faults=faults,
            platform=platform,
            behaviour=Behaviour(hosts=frozenset(name.lower() for name in hosts)),
            clock=RealClock() if realtime else ManualClock(),
        )
    except ConfigError as error:
        _refuse(str(error))
    with contextlib.ExitStack() as running:
        try:
            server = running.enter_context(serve(emulator, port=port))
        except OSError as error:
            _refuse(f"port {port} cannot be taken ({error.strerror}): choose another one with --port")
        try:
            click.echo(_usage(server.url, model, dict(emulator.places)))
            threading.Event().wait()
        except KeyboardInterrupt:
            total = server.counters.total
            click.echo(f"\n{total.requests} requests, {total.input} input tokens, {total.read} of them from the cache")


def _refuse(why: str) -> NoReturn:
    click.echo(f"agentaccel emulate: {why}", err=True)
    sys.exit(2)


def _usage(url: str, model: str | None, places: Mapping[str, tuple[str, str]]) -> str:
    place = places["/v1"][1]
    claude = model or table("anthropic")["models"][0]["match"][0]
    gpt = model or table("openai")["models"][0]["match"][0]
    return f"""{url}

  export ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=any OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=any
  export AGENTACCEL_PLATFORM={place}    # whose rules hold at /v1
  python -c 'import anthropic; print(anthropic.Anthropic().messages.create(
      model="{claude}", max_tokens=99, messages=[{{"role": "user", "content": "Hello"}}]))'
  python -c 'import openai; print(openai.OpenAI().responses.create(model="{gpt}", input="Hello"))'
  curl {url}/_ctl/counters        # what was read, written and neither
  curl {url}/_ctl/log             # every request
  curl {url}/_ctl --json '{{"op": "advance", "seconds": 301}}'
"""
