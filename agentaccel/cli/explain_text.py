"""How an explanation looks in a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable

from agentaccel.explain import Explanation
from agentaccel.report.numbers import clean
from agentaccel.report.terminal import drawn, terminal
from agentaccel.types import show_path

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
        kept = "switched off" if own and marker in it.plan.without else "kept" if own else "yours, kept"
        say(f"{place}  {marker.ttl}  {'yours, moved' if marker in it.plan.without and not own else kept}", 2)
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
