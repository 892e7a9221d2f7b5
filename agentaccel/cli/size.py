"""`agentaccel selfhost size`: what a model needs in memory, and what a turn takes in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentaccel.cli.options import layout, options, read_json, refuse, write

if TYPE_CHECKING:
    from agentaccel.selfhost.gpus import Gpu
    from agentaccel.selfhost.sizing import ServerPlan, ServerSize
    from agentaccel.selfhost.turn_budget import SpeedUp, TurnBudget, TurnPlan

_COUNT = click.IntRange(1)
_FILE = click.Path(dir_okay=False, path_type=Path)
_SERVER = (
    click.option("--context", type=_COUNT, required=True, help="Tokens of one session, its replies included."),
    click.option("--batch", type=_COUNT, default=1, show_default=True, help="Sessions at once."),
    click.option("--gpu", metavar="NAME", help="A GPU by its name: H100, A100-80GB, L40S, …"),
    click.option("--gpu-memory", type=float, metavar="GIB", help="Memory of one GPU, in place of its name."),
    click.option("--gpus", type=_COUNT, default=1, show_default=True, help="GPUs that share the model."),
    click.option("--kv-dtype", metavar="TYPE", help="bf16, fp16, fp8, int8, int4, q8_0, q4_0  [default: the model's]"),
    click.option("--weights-dtype", metavar="TYPE", help="bf16, fp16, fp8, int8, int4, mxfp4  [default: the config's]"),
    click.option(
        "--draft", type=_FILE, metavar="CONFIG.json", help="The config of a draft model, or of an EAGLE-3 head."
    ),
    click.option(
        "--prefix", type=click.IntRange(0), default=0, help="Tokens at the beginning that all sessions share."
    ),
    click.option(
        "--memory-share", type=float, help="Of a GPU's memory, what the engine takes  [default: 0.92, vLLM's]"
    ),
)
_TURN = (
    click.option("--prompt", type=_COUNT, help="Tokens of the prompt of one turn."),
    click.option("--output", type=_COUNT, help="Tokens of its reply."),
    click.option("--hit-rate", type=float, default=0.0, help="The share of the prompt that is cached, 0 to 1."),
    click.option("--prefill-rate", type=float, metavar="TOKENS", help="Prompt tokens that are computed in a second."),
    click.option(
        "--decode-rate", type=float, metavar="TOKENS", help="Tokens of a reply a second, without speculation."
    ),
    click.option("--tokens-per-step", type=float, help="With speculation, as measured."),
    click.option("--step-cost", type=float, help="Of a step with speculation, in steps without  [default: 1]"),
    click.option("--acceptance", type=float, help="The share of drafted tokens that is accepted, for the formula."),
    click.option("--draft-tokens", type=_COUNT, help="Tokens that are drafted at once, for the formula."),
    click.option("--draft-cost", type=float, help="Of one drafted token, as a share of a step, for the formula."),
    click.option("--tools", type=float, default=0.0, metavar="SECONDS", help="What a turn waits for its tools."),
    click.option("--network", type=float, default=0.0, metavar="SECONDS", help="What it spends on the network."),
    click.option("--link", type=float, metavar="GB/S", help="Between a server for prompts and one for replies."),
)


@click.command("size")
@click.argument("config", metavar="MODEL_CONFIG.json", type=_FILE)
@options(*_SERVER, *_TURN)
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", help="How to show it.")
def size_command(config: Path, form: str, **given: Any) -> None:
    """Say what a model needs: bytes of keys and values, weights, how many sessions fit, and what a turn takes.

    MODEL_CONFIG.json is the config.json that lies beside a model's weights. Nothing is loaded and nothing is started.
    A config that is not understood is refused, with what to give.
    """
    from agentaccel.errors import AgentAccelError
    from agentaccel.selfhost.sized import as_json, check_link, disaggregation_of, sentences, turn_sentences
    from agentaccel.selfhost.sizing import size_of
    from agentaccel.selfhost.turn_budget import budget_of

    try:
        plan, turn, link = _plan(config, given), _turn(given), given["link"]
        check_link(link)
        size, budget = size_of(plan), budget_of(turn)
        parting = disaggregation_of(plan, turn, budget)
    except AgentAccelError as error:
        refuse("size", str(error))
    notes = (*sentences(plan, size), *turn_sentences(turn, parting, link))
    if form == "json":
        gain = None if turn.speed_up is None else {**asdict(turn.speed_up), "factor": turn.speed_up.factor}
        moved = None if parting is None else asdict(parting)
        write(as_json(plan, size, turn=asdict(budget), speed_up=gain, disaggregation=moved, notes=notes))
    else:
        write(_text(plan, size, budget, notes))


def _plan(config: Path, given: dict[str, Any]) -> ServerPlan:
    from agentaccel.facts import table
    from agentaccel.selfhost.model_shape import read_shape
    from agentaccel.selfhost.sizing import ServerPlan

    same = ("context", "batch", "gpus", "kv_dtype", "weights_dtype", "prefix")
    share = given["memory_share"]
    return ServerPlan(
        shape=read_shape(read_json(config)),
        draft=None if given["draft"] is None else read_shape(read_json(given["draft"])),
        gpu=_gpu(given["gpu"], given["gpu_memory"]),
        share=table("gpus")["engine"]["share"] if share is None else share,
        **{name: given[name] for name in same},
    )


def _gpu(name: str | None, gib: float | None) -> Gpu:
    from agentaccel.errors import ConfigError
    from agentaccel.selfhost.gpus import gpu_of, unnamed_gpu

    if gib is not None and name is None:
        return unnamed_gpu(gib)
    if name is None or gib is not None:
        raise ConfigError(
            "say either with --gpu which GPU it is, such as H100, or with --gpu-memory how many GiB it has"
        )
    return gpu_of(name)


def _turn(given: dict[str, Any]) -> TurnPlan:
    from agentaccel.selfhost.turn_budget import TurnPlan

    same = ("prompt", "output", "hit_rate", "prefill_rate", "decode_rate", "tools", "network")
    return TurnPlan(speed_up=_speed_up(given), **{name: given[name] for name in same})


def _speed_up(given: dict[str, Any]) -> SpeedUp | None:
    """As measured, or by the formula: one of both."""
    from agentaccel.errors import ConfigError
    from agentaccel.selfhost.turn_budget import SpeedUp, speed_up_of

    tokens, cost = given["tokens_per_step"], given["step_cost"]
    parts = (given["acceptance"], given["draft_tokens"], given["draft_cost"])
    measured, formula = (tokens, cost) != (None, None), parts != (None, None, None)
    if measured and formula:
        raise ConfigError("say either --tokens-per-step, as measured, or --acceptance, for the formula")
    if formula:
        if None in parts:
            raise ConfigError("the formula needs --acceptance, --draft-tokens and --draft-cost: say all three")
        return speed_up_of(*parts)
    if not measured:
        return None
    if tokens is None:
        raise ConfigError("--step-cost says nothing without --tokens-per-step")
    return SpeedUp(tokens_per_step=tokens, step_cost=1.0 if cost is None else cost)


# --- how it looks -----------------------------------------------------------------------------------------------------


def _text(plan: ServerPlan, size: ServerSize, budget: TurnBudget, notes: Sequence[str]) -> str:
    from rich.table import Table

    from agentaccel.report.numbers import clean
    from agentaccel.report.render import drawn, terminal

    width, color = layout()
    console = terminal(width, color=color)
    for title, rows in (("memory", _memory(plan, size)), ("one turn", _times(budget))):
        grid = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for row in rows:
            grid.add_row(f"  {clean(row[0])}", *map(clean, row[1:]))
        if grid.row_count:
            console.print(title, style="bold")
            console.print(grid)
    for note in notes:
        console.print(f"- {clean(note)}", markup=False, highlight=False)
    return drawn(console)


def _memory(plan: ServerPlan, size: ServerSize) -> Iterator[tuple[str, str]]:
    from agentaccel.selfhost.sized import amount

    yield "attention", size.attention
    yield f"a token, in {size.kv_dtype}", amount(size.per_token)
    yield f"a session of {plan.context:,} tokens", amount(size.session)
    yield f"a batch of {plan.batch:,}", amount(size.batch)
    yield f"weights, in {size.weights_dtype}", f"{amount(size.weights)}, {size.parameters:,} parameters"
    if (draft := size.draft) is not None:
        yield "draft", f"{amount(draft.weights)}, and {amount(draft.per_token)} a token ({draft.attention})"
    if size.prefix is not None:
        yield (
            f"a prefix of {size.prefix.tokens:,} tokens",
            f"{amount(size.prefix.once)}; sharing saves {amount(size.prefix.saved)}",
        )
    yield "sessions that fit", f"{size.sessions:,}"


def _times(budget: TurnBudget) -> Iterator[tuple[str, str]]:
    from agentaccel.selfhost.sized import duration

    if budget.prefill is None and budget.decode is None:
        return
    yield (
        f"prefill of {budget.uncached:,} tokens" if budget.prefill is not None else "prefill",
        duration(budget.prefill),
    )
    if budget.prefill != budget.cold_prefill:
        yield "the same with nothing cached", duration(budget.cold_prefill)
    yield "decode", duration(budget.decode)
    if budget.decode_speculated is not None:
        yield "decode with speculation", duration(budget.decode_speculated)
    yield "tools and network", duration(budget.tools + budget.network)
    yield "in all", duration(budget.total)
    if budget.decode_speculated is not None:
        yield "in all, with speculation", duration(budget.total_speculated)
