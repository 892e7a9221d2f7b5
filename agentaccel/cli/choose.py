"""`agentaccel selfhost choose`: how an engine should guess tokens ahead, from what was said to it."""

from __future__ import annotations

import json
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
    from agentaccel.sources.tally import ImportTally

    tally = ImportTally()
    try:
        wanted = _wanted(given)
        if into is not None and len(wanted.engines) > 1:
            refuse("choose", "--write is of one engine: say with --engine which")
        with progress() as told:
            sources = list(_sources(traces, wanted, tokenizer, tally, told))
        if not sources:
            refuse("choose", "; ".join(("nothing was said in these records", *_notes(tally))))
        shown = [(source, _advised(source, wanted)) for source in (*sources, *_all_of(sources))]
    except AgentAccelError as error:
        refuse("choose", str(error))
    if into is not None:
        _write_plan(into, shown[-1][1], wanted)
    notes = [*(() if given["concurrency"] else ("8 requests at once are a guess: say --concurrency",)), *_notes(tally)]
    write(_json(shown, wanted, notes) if form == "json" else _text(shown, wanted, notes))


def _wanted(given: dict[str, Any]) -> Wanted:
    from agentaccel.facts import table
    from agentaccel.selfhost.advising import Wanted, heads_of
    from agentaccel.selfhost.measured_steps import read_measurements
    from agentaccel.selfhost.render import engines

    return Wanted(
        engines=given["engine"] or engines(),
        version=given["version"],
        device=given["device"],
        concurrency=given["concurrency"] or table("drafting")["assumed"]["concurrency"],
        peak=given["peak"],
        temperature=given["temperature"],
        heads=heads_of(given["heads"]),
        step=_step(given),
        measured=None if given["measured"] is None else read_measurements(read_json(given["measured"])),
        settings={name: value_of(text) for name, text in pairs("--draft-set", given["draft_set"]).items()},
        lossy=given["lossy"],
    )


def _step(given: dict[str, Any]) -> StepTime | None:
    """What a step takes, as far as the model and the GPU tell; None where neither is named."""
    from agentaccel.errors import ConfigError
    from agentaccel.facts import table
    from agentaccel.selfhost.gpus import gpu_of
    from agentaccel.selfhost.model_shape import read_shape
    from agentaccel.selfhost.sizing import ServerPlan
    from agentaccel.selfhost.step_time import assumed, estimated

    if given["gpu"] is None:
        if given["config"] is not None:
            raise ConfigError("--model says nothing of speed without --gpu: give the GPU that it runs on")
        return None
    gpu = gpu_of(given["gpu"])
    if given["config"] is None:
        return assumed("gpu", table("drafting")["assumed"]["cpu_tokens"], gpu)
    same = {name: given[name] for name in ("gpus", "context", "kv_dtype", "weights_dtype")}
    shape = read_shape(read_json(given["config"]))
    return estimated(ServerPlan(shape=shape, gpu=gpu, **same), shape)


def _sources(
    traces: Sequence[Path], wanted: Wanted, tokenizer: str | None, tally: ImportTally, told: Progress
) -> Iterator[_Source]:
    from agentaccel.replay.events import recorded_by_source
    from agentaccel.replay.talks import tokenised
    from agentaccel.selfhost.candidates import replay_all, ways_of
    from agentaccel.selfhost.tokens import ByRule, ByServer

    cut = ByRule() if tokenizer is None else ByServer(tokenizer)
    reading = recorded_by_source(traces, tally, lambda read, total: told("reading", read, total))
    for name, runs in reading:
        talks = list(tokenised(runs, cut))
        total = sum(len(passage.tokens) for talk in talks for passage in talk.passages) * ways_of(wanted.engines)
        done = 0

        def tell(tokens: int, total: int = total, name: str = name) -> None:
            nonlocal done
            done += tokens
            told(f"replaying {name}", done, total)

        found = replay_all(wanted.engines, talks, tell)
        if any(passage.said for talk in talks for passage in talk.passages):
            yield _Source(name, talks, found)


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

    return [
        (advice, sentences(advice, wanted, alone_of(advice.engine, advice.choice.chosen.candidate, source.talks)))
        for advice in advise(wanted, source.found)
    ]


def _notes(tally: ImportTally) -> list[str]:
    return tally.notes("in no format that has what was said")


def _write_plan(into: Path, advised: Sequence[tuple[EngineAdvice, tuple[str, ...]]], wanted: Wanted) -> None:
    from agentaccel.selfhost.chosen import as_options

    try:
        into.write_text(json.dumps(as_options(advised[0][0], wanted), indent=2) + "\n", encoding="utf-8")
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
    said = [passage.tokens for talk in source.talks for passage in talk.passages if passage.said]
    return {
        "name": source.name,
        "conversations": len(source.talks),
        "replies": len(said),
        "tokens": sum(map(len, said)),
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
    for line in (*know(), *notes):
        _item(console, line)
    return drawn(console)


def _draw(console: Console, advised: Sequence[tuple[EngineAdvice, tuple[str, ...]]], wanted: Wanted) -> None:
    from rich.table import Table

    from agentaccel.report.numbers import clean
    from agentaccel.selfhost.chosen import as_options, as_words, engine_name, pays_up_to

    for advice, reasons in advised:
        under = advice.choice.circumstances
        console.print()
        console.print(
            f"{engine_name(advice)}: {clean(advice.choice.chosen.candidate.label)}", style="bold", markup=False
        )
        grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        grid.add_column("  method", overflow="fold", ratio=1)
        for title in ("tokens a step", f"speed at {under.concurrency}", "pays up to"):
            grid.add_column(title, justify="right", no_wrap=title != "tokens a step", max_width=13)
        for option in advice.choice.options[:_SHOWN]:
            rates = option.candidate.rates
            row = (f"{rates.tokens_per_step:.2f}", f"{option.speed:.2f}", pays_up_to(option))
            if option.candidate.method == "none":
                row = ("1.00", "1.00", "")
            grid.add_row(f"  {clean(option.candidate.label)}", *row)
        console.print(grid)
        if len(advice.sites) > 1:
            _sites(console, advice)
        for reason in reasons:
            _item(console, reason)
        _item(console, as_words(as_options(advice, wanted)))
    console.print()


_SHOWN = 6
"""Methods that are shown of an engine."""


def _sites(console: Console, advice: EngineAdvice) -> None:
    for site, choice in advice.sites.items():
        best = choice.best
        rate = "" if best is None else f": {best.candidate.rates.tokens_per_step:.2f} tokens a step at best"
        _item(console, f"{site}{rate}, so {choice.chosen.candidate.label} ({choice.chosen.speed:.2f} times as fast)")


def _item(console: Console, line: str) -> None:
    from agentaccel.report.numbers import clean

    console.print(f"- {clean(line)}", markup=False, highlight=False)
