"""`agentaccel explain`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from agentaccel.cli.options import read_json, write
from agentaccel.errors import TraceError
from agentaccel.policy import CONSENTS


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
        from agentaccel.cli.explain_text import render

        write(render(explanation, color=sys.stdout.isatty()))


def _read_as(request: dict[str, Any], name: object, model: str) -> dict[str, Any]:
    """`request` as one for `model`, where it is for what is called `name`, or says as little as that one."""
    return {**request, "model": model} if request.get("model") == name else request


def _load(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict) or not ("messages" in value or "input" in value):
        raise TraceError(f"{path} is not a request body: expected an object with 'messages' or 'input'")
    return value
