"""`agentaccel explain`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from agentaccel.cli.options import read_json, write
from agentaccel.errors import TraceError
from agentaccel.explain import Explanation
from agentaccel.policy import CONSENTS
from agentaccel.report.numbers import clean
from agentaccel.report.render import drawn, terminal
from agentaccel.types import show_path


@click.command("explain")
@click.argument("request_file", metavar="REQUEST.json", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("previous_file", metavar="[PREVIOUS.json]", required=False, type=click.Path(path_type=Path))
@click.option("--provider", help="anthropic, openai or compatible; by default what platform and model say.")
@click.option("--platform", help="api, bedrock, vertex, azure, openrouter, vllm, …; by default the provider's own.")
@click.option("--as", "as_model", metavar="MODEL", help="Read the request as one for this model.")
@click.option("--gap", default=10.0, show_default=True, help="Seconds between the two requests.")
@click.option(
    "--consent",
    "consents",
    multiple=True,
    type=click.Choice(CONSENTS),
    help="Plan as with this consent of your policy; may be given more than once.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as JSON.")
def explain_command(
    request_file: Path,
    previous_file: Path | None,
    provider: str | None,
    platform: str | None,
    as_model: str | None,
    gap: float,
    consents: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what would be added to REQUEST.json, why, and what it is expected to cost.

    With PREVIOUS.json, the request before it in the same conversation: also where the two prompts first differ, and the
    likely cause. "-" reads the request from standard input. Nothing is sent and nothing is stored.
    """
    from agentaccel.explain import explain

    previous = _load(previous_file) if previous_file is not None else None
    request = _load(request_file)
    if as_model is not None:
        name = request.get("model")
        request, previous = _read_as(request, name, as_model), previous and _read_as(previous, name, as_model)
    explanation = explain(request, previous, provider=provider, platform=platform, gap=gap, consents=consents)
    if as_json:
        write(json.dumps(explanation.as_json(), indent=2) + "\n")
    else:
        write(render(explanation, color=sys.stdout.isatty()))


def _read_as(request: dict[str, Any], name: object, model: str) -> dict[str, Any]:
    """`request` as one for `model`, where it is for what is called `name`, or says as little as that one."""
    return {**request, "model": model} if request.get("model") == name else request


def _load(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict) or not ("messages" in value or "input" in value):
        raise TraceError(f"{path} is not a request body: expected an object with 'messages' or 'input'")
    return value


# --- How an explanation looks in a terminal ---------------------------------------------------------------------------

Say = Callable[..., None]
"""Prints a line of markup, indented by so many columns."""


def render(explanation: Explanation, *, color: bool, width: int = 80) -> str:
    """The explanation for people, at most `width` columns wide."""
    from rich.padding import Padding

    console = terminal(width, color=color, markup=True)

    def line(text: str, indent: int = 0) -> None:
        console.print(Padding(text, (0, 0, 0, indent)), markup=True)

    _facts(explanation, line)
    _plan(explanation, line)
    _expected(explanation, line)
    if explanation.compared:
        _drift(explanation, line)
    return drawn(console)


def _facts(it: Explanation, say: Say) -> None:
    facts = it.facts
    kind = " (family's cautious figures)" if facts.family else ""
    say(f"[bold]{_safe(it.prefix.prompt.model)}[/bold] on {facts.platform}{kind}")
    how = {
        "markers": f"caches prefixes of {facts.min_tokens} tokens or more, at most {facts.max_markers} markers",
        "breakpoints": f"caches prefixes of {facts.min_tokens} tokens or more, also where nobody asks; "
        f"writes at most {facts.max_markers} breakpoints",
        "automatic": f"keeps every prefix of {facts.min_tokens} tokens or more by itself",
    }
    if facts.key == "opts_in":
        how["automatic"] = f"keeps prefixes where the request has a {facts.key_field}"
    say(f"{how[facts.physics]}, reads at {facts.read:g} of the input price", 2)
    say(f"source: {facts.source.what}, {facts.source.date}", 2)


def _plan(it: Explanation, say: Say) -> None:
    say("")
    say("[bold]Markers[/bold]")
    for marker in it.prefix.prompt.markers:
        own = it.facts.physics == "breakpoints" and not marker.path
        place = "the provider's own breakpoint" if own else _safe(show_path(marker.path) or "top level")
        gone = "switched off" if own else "yours, taken out" if marker.path else "yours, moved"
        kept = "kept" if own else "yours, kept"
        say(f"{place}  {marker.ttl}  {gone if marker in it.plan.without else kept}", 2)
    for marker in it.plan.markers:
        say(f"[green]+[/green] {_safe(show_path(marker.path) or 'top level')}  {marker.ttl}", 2)
        say(_safe(marker.reason), 4)
    if not it.plan.markers:
        say("none added", 2)
    if it.plan.options:
        say("")
        say("[bold]Fields[/bold]")
    for name, value in it.plan.options.items():
        say(f"[green]+[/green] {_safe(name)}  {_safe(json.dumps(value))}", 2)
    if it.plan.consents:
        say("")
        say("[bold]Content[/bold]")
    for consent in it.plan.consents:
        say(f"[green]+[/green] changed with {_safe(consent)}", 2)
    say("")
    say("[bold]Why[/bold]")
    for reason in it.plan.reasons:
        say(_safe(reason), 2)


def _expected(it: Explanation, say: Say) -> None:
    expected = it.plan.expected
    if expected is None:
        return
    say("")
    say("[bold]Expected[/bold] (estimated from bytes; the provider counts)")
    write = ", ".join(f"{tokens:,.0f} for {label}" for label, tokens in expected.write.items()) or "0"
    say(f"read {expected.read:,.0f}   written {write}   neither {expected.uncached:,.0f} tokens", 2)
    cost = it.plan.expected_cost
    say("input cost n/a: no price is known" if cost is None else f"input cost {cost:.6f} USD", 2)


def _drift(it: Explanation, say: Say) -> None:
    drift = it.drift
    say("")
    say("[bold]Against the previous request[/bold]")
    if drift is None:
        say("it only goes on: everything before the new part is unchanged", 2)
        return
    place = f"{drift.where}, byte {drift.byte}" if drift.byte is not None else drift.where
    say(f"first difference: [bold]{_safe(place)}[/bold]", 2)
    say(f"likely cause: [bold]{_safe(drift.likely)}[/bold]{f' ({_safe(drift.detail)})' if drift.detail else ''}", 2)


def _safe(text: str) -> str:
    from rich.markup import escape

    return escape(clean(text))
