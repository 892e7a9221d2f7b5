"""`agentaccel selfhost choose`: how an engine should guess tokens ahead, from what was said to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from agentaccel.cli.options import layout, options, pairs, progress, read_json, refuse, value_of, write

if TYPE_CHECKING:
    from rich.console import Console

    from agentaccel.cli.options import Progress
    from agentaccel.selfhost.advising import EngineAdvice, Found, Wanted
    from agentaccel.selfhost.draft_replay import Talk
    from agentaccel.selfhost.sizing import ServerPlan
    from agentaccel.selfhost.step_time import StepTime
    from agentaccel.sources.tally import ImportTally

_COUNT = click.IntRange(1)
_FILE = click.Path(dir_okay=False, path_type=Path)
_ENGINE = (
    click.option("--engine", "engine", multiple=True, metavar="NAME", help="vllm, sglang, llamacpp or trtllm  [all]"),
    click.option("--engine-version", "version", metavar="VERSION", help="Of that engine  [the newest that is known]"),
    click.option(
        "--device", type=click.Choice(("gpu", "cpu")), default="gpu", show_default=True, help="What computes."
    ),
    click.option(
        "--heads",
        multiple=True,
        metavar="METHOD=MODEL[:ACCEPTANCE]",
        help="A draft model or head that there is: eagle3=my/head:0.62, mtp; repeatable.",
    ),
    click.option(
        "--draft-set", multiple=True, metavar="NAME=VALUE", help="A setting by the engine's name; repeatable."
    ),
    click.option("--lossy", is_flag=True, help="Allow settings that change what the model says."),
)
_LOAD = (
    click.option("--concurrency", type=_COUNT, help="Requests at once, as usual  [default: 8, a guess]"),
    click.option("--peak", type=_COUNT, help="Requests at once, at most  [default: as usual]"),
    click.option("--temperature", type=float, help="At which replies are sampled  [default: as recorded]"),
)
_STEPS = (
    click.option("--model", "config", type=_FILE, metavar="CONFIG.json", help="The model's config.json, with --gpu."),
    click.option("--gpu", metavar="NAME", help="The GPU by its name: H100, A100-80GB, L40S, …"),
    click.option("--gpus", type=_COUNT, default=1, show_default=True, help="GPUs that share the model."),
    click.option("--context", type=_COUNT, default=8192, show_default=True, help="Tokens of a conversation, usually."),
    click.option("--kv-dtype", metavar="TYPE", help="Of keys and values, as `size` has it."),
    click.option("--weights-dtype", metavar="TYPE", help="Of weights, as `size` has it."),
    click.option("--measured", type=_FILE, metavar="FILE.json", help="What steps took, with a method and without."),
)


class _Source(NamedTuple):
    """One source, and what was found of it."""

    name: str
    talks: list[Talk]
    found: Found

    @property
    def said(self) -> int:
        """Replies."""
        return sum(passage.said for talk in self.talks for passage in talk.passages)


@click.command("choose")
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...", type=click.Path(path_type=Path))
@options(*_ENGINE, *_LOAD, *_STEPS)
@click.option("--tokenizer", metavar="URL", help="Of an engine that has the model, for exact tokens.")
@click.option("--write", "into", type=_FILE, metavar="PLAN.json", help="Where to write what `render --plan` reads.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", help="How to show it.")
def choose_command(traces: tuple[Path, ...], tokenizer: str | None, into: Path | None, form: str, **given: Any) -> None:
    """Say how an engine should guess tokens ahead, from conversations that were recorded.

    TRACES are files and folders of agent runs, Claude Code's logs, or trace stores that keep content. What the model
    said in them is replayed through each engine's ways of drafting from text; draft models and heads come in with
    --heads. Nothing is started, and nothing is sent but text to --tokenizer.
    """
    from agentaccel.errors import AgentAccelError
    from agentaccel.selfhost.chosen import advised_to
    from agentaccel.sources.tally import ImportTally

    tally = ImportTally()
    try:
        server = _server(given)
        wanted = _wanted(given, _step(given, server))
        if into is not None and len(wanted.engines) > 1:
            refuse("choose", "--write is of one engine: say with --engine which")
        if into is not None and (into.exists() or into.is_symlink()):
            refuse(
                "choose", f"{into} is there already, and nothing is overwritten: name a new file, or remove this one"
            )
        with progress() as told:
            sources = list(_sources(traces, wanted, tokenizer, tally, told))
        silent = [f"nothing was said in {one.name}" for one in sources if not one.said]
        sources = [one for one in sources if one.said]
        if not sources:
            refuse("choose", "; ".join(("nothing was said in these records", *_notes(tally))))
        shown = [(source, _advised(source, wanted)) for source in (*sources, *_all_of(sources))]
    except AgentAccelError as error:
        refuse("choose", str(error))
    if into is not None:
        _write_plan(into, shown[-1][1], wanted)
    guess = () if given["concurrency"] else (f"{wanted.concurrency} requests at once are a guess: say --concurrency",)
    notes = [*guess, *_room(server, wanted), *advised_to(wanted), *silent, *_notes(tally)]
    write(_json(shown, wanted, notes) if form == "json" else _text(shown, wanted, notes))


def _wanted(given: dict[str, Any], step: StepTime | None) -> Wanted:
    from agentaccel.facts import table
    from agentaccel.selfhost.advising import Wanted, heads_of
    from agentaccel.selfhost.measured_steps import read_measurements
    from agentaccel.selfhost.render import engines

    return Wanted(
        engines=tuple(dict.fromkeys(given["engine"])) or engines(),
        version=given["version"],
        device=given["device"],
        concurrency=given["concurrency"] or table("drafting")["assumed"]["concurrency"],
        peak=given["peak"],
        temperature=given["temperature"],
        heads=heads_of(given["heads"]),
        step=step,
        measured=None if given["measured"] is None else read_measurements(read_json(given["measured"])),
        settings={name: value_of(text) for name, text in pairs("--draft-set", given["draft_set"]).items()},
        lossy=given["lossy"],
    )


def _step(given: dict[str, Any], server: ServerPlan | None) -> StepTime | None:
    """What a step takes, as far as the model and the GPU tell; None where neither is named."""
    from agentaccel.errors import ConfigError
    from agentaccel.facts import table
    from agentaccel.selfhost.gpus import gpu_of
    from agentaccel.selfhost.step_time import assumed, estimated

    if server is not None:
        return estimated(server)
    if alone := [name for name in ("kv_dtype", "weights_dtype") if given[name] is not None]:
        raise ConfigError(f"--{alone[0].replace('_', '-')} says nothing without --model and --gpu: give both")
    if given["gpu"] is None:
        return None
    return assumed("gpu", table("drafting")["assumed"]["cpu_tokens"], gpu_of(given["gpu"]))


def _server(given: dict[str, Any]) -> ServerPlan | None:
    """The model on its GPU; None where one of them is not named."""
    from agentaccel.errors import ConfigError
    from agentaccel.selfhost.gpus import gpu_of
    from agentaccel.selfhost.model_shape import read_shape
    from agentaccel.selfhost.sizing import ServerPlan

    if given["gpu"] is not None and given["device"] == "cpu":
        raise ConfigError("--gpu and --device cpu contradict each other: give one of the two")
    if given["config"] is None:
        return None
    if given["gpu"] is None:
        raise ConfigError("--model says nothing of speed without --gpu: give the GPU that it runs on")
    same = {name: given[name] for name in ("gpus", "context", "kv_dtype", "weights_dtype")}
    return ServerPlan(shape=read_shape(read_json(given["config"])), gpu=gpu_of(given["gpu"]), **same)


def _room(server: ServerPlan | None, wanted: Wanted) -> Iterator[str]:
    """Where not as many conversations fit as are to run."""
    from agentaccel.selfhost.sizing import size_of

    most = max(wanted.concurrency, wanted.peak or 0)
    if server is not None and (fit := size_of(server).sessions) < most:
        tokens, gpus = f"{server.context:,} tokens", f"{server.gpus} x {server.gpu.name}"
        yield f"only {fit:,} conversations of {tokens} fit on {gpus}, of {most:,}: see agentaccel selfhost size"


def _sources(
    traces: Sequence[Path], wanted: Wanted, tokenizer: str | None, tally: ImportTally, told: Progress
) -> Iterator[_Source]:
    from agentaccel.replay.events import recorded_by_source
    from agentaccel.replay.talks import tokenised
    from agentaccel.selfhost.candidates import replay_all, ways_of
    from agentaccel.selfhost.tokens import ByRule, ByServer

    cut = ByRule() if tokenizer is None else ByServer(tokenizer)
    reading = recorded_by_source(traces, tally, lambda read, total: told("reading", read, total))
    called: Counter[str] = Counter()
    for name, runs in reading:
        called[name] += 1
        name = name if called[name] == 1 else f"{name} ({called[name]})"  # files of one name in two folders
        talks = list(tokenised(runs, cut))
        total = sum(len(passage.tokens) for talk in talks for passage in talk.passages) * ways_of(
            wanted.engines, wanted.settings
        )
        done = 0

        def tell(tokens: int, total: int = total, name: str = name) -> None:
            nonlocal done
            done += tokens
            told(f"replaying {name}", done, total)

        yield _Source(name, talks, replay_all(wanted.engines, talks, tell, wanted.settings))


def _all_of(sources: Sequence[_Source]) -> Iterator[_Source]:
    """Several sources as one: what is served by one engine."""
    if len(sources) > 1:
        talks = [talk for source in sources for talk in source.talks]
        keys = dict.fromkeys(key for source in sources for key in source.found)
        found = {
            key: {f"{one.name}: {site}": of for one in sources for site, of in one.found[key].items()} for key in keys
        }
        yield _Source("all of them", talks, found)


def _advised(source: _Source, wanted: Wanted) -> list[tuple[EngineAdvice, tuple[str, ...]]]:
    """What fits each engine, and why."""
    from agentaccel.selfhost.advising import advise
    from agentaccel.selfhost.candidates import alone_of
    from agentaccel.selfhost.chosen import sentences

    def alone(advice: EngineAdvice) -> float | None:
        return alone_of(advice.engine, advice.choice.chosen.candidate, source.talks, wanted.settings)

    return [(advice, sentences(advice, wanted, alone(advice))) for advice in advise(wanted, source.found)]


def _notes(tally: ImportTally) -> list[str]:
    return tally.notes("in no format that has what was said")


def _write_plan(into: Path, advised: Sequence[tuple[EngineAdvice, tuple[str, ...]]], wanted: Wanted) -> None:
    from agentaccel.selfhost.chosen import as_options
    from agentaccel.store.files import place_file

    try:
        place_file(into, (json.dumps(as_options(advised[0][0], wanted), indent=2) + "\n").encode())
    except OSError as error:
        refuse("choose", f"{into} cannot be written: {error.strerror}")


# --- how it looks -----------------------------------------------------------------------------------------------------

_Shown = Sequence[tuple[_Source, Sequence[tuple["EngineAdvice", tuple[str, ...]]]]]


def _json(shown: _Shown, wanted: Wanted, notes: Sequence[str]) -> str:
    from agentaccel.selfhost.chosen import as_value, know

    sources = [
        {**_counts(source), "engines": [as_value(advice, wanted, reasons) for advice, reasons in advised]}
        for source, advised in shown
    ]
    return json.dumps({"sources": sources, "know": know(), "notes": list(notes)}, indent=2) + "\n"


def _counts(source: _Source) -> dict[str, Any]:
    said = (len(passage.tokens) for talk in source.talks for passage in talk.passages if passage.said)
    return {
        "name": source.name,
        "conversations": len(source.talks),
        "replies": source.said,
        "tokens": sum(said),
    }


def _text(shown: _Shown, wanted: Wanted, notes: Sequence[str]) -> str:
    from agentaccel.report.numbers import clean, plural
    from agentaccel.report.render import drawn, terminal
    from agentaccel.selfhost.chosen import know

    width, color = layout()
    console = terminal(width, color=color)
    for source, advised in shown:
        counts = _counts(source)
        talks, tokens = plural(counts["conversations"], "conversation"), plural(counts["tokens"], "token")
        replies = f"{counts['replies']:,} {'reply' if counts['replies'] == 1 else 'replies'}"
        said = f"{talks}; {tokens} were said in {replies}"
        console.print(clean(source.name), style="bold", markup=False, highlight=False)
        console.print(said, highlight=False)
        _draw(console, advised, wanted)
    console.print("to know", style="bold")
    for line in (*notes, *know()):
        _item(console, line)
    return drawn(console)


def _draw(console: Console, advised: Sequence[tuple[EngineAdvice, tuple[str, ...]]], wanted: Wanted) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from agentaccel.report.numbers import clean, clean_lines
    from agentaccel.selfhost.chosen import as_lines, as_options, engine_name, pays_up_to

    for advice, reasons in advised:
        under = advice.choice.circumstances
        console.print()
        console.print(
            f"{engine_name(advice)}: {clean(advice.choice.chosen.candidate.label)}", style="bold", markup=False
        )
        grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        grid.add_column("  method", overflow="fold", ratio=1)
        for title in ("tokens a step", f"speed at {under.concurrency:,}", "pays up to"):
            grid.add_column(title, justify="right", overflow="fold")
        for option in advice.choice.options[:_SHOWN]:
            row = (f"{option.rates.tokens_per_step:.2f}", f"{option.speed:.2f}", pays_up_to(option))
            if option.candidate.method == "none":
                row = ("1.00", "1.00", "")
            grid.add_row(Padding(Text(clean(option.candidate.label)), (0, 0, 0, 2)), *row)
        console.print(grid)
        if len(advice.sites) > 1:
            _sites(console, advice)
        for reason in reasons:
            _item(console, reason)
        console.print(Text(clean_lines(as_lines(as_options(advice, wanted), console.width))), soft_wrap=True)
    console.print()


_SHOWN = 6
"""Methods that are shown of an engine."""


def _sites(console: Console, advice: EngineAdvice) -> None:
    for site, choice in list(advice.sites.items())[:_PLACES]:
        best = choice.best
        rate = "" if best is None else f": {best.candidate.rates.tokens_per_step:.2f} tokens a step at best"
        _item(console, f"{site}{rate}, so {choice.chosen.candidate.label} ({choice.chosen.speed:.2f} times as fast)")
    if len(advice.sites) > _PLACES:
        _item(console, f"and {len(advice.sites) - _PLACES:,} more places: --format json has all of them")


_PLACES = 8
"""Places in the user's program that are shown."""


def _item(console: Console, line: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from agentaccel.report.numbers import clean

    item = Table.grid(padding=(0, 1, 0, 0))
    item.add_row("-", Text(clean(line), overflow="fold"))
    console.print(item)
