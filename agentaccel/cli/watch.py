"""`agentaccel selfhost watch`: what an engine does, window by window, and what to change of it."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from agentaccel.cli.options import pairs, refuse, say

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from agentaccel.selfhost.attach import Backend
    from agentaccel.selfhost.metrics import ServerFigures
    from agentaccel.selfhost.watching import Proposal, WatchPolicy

_SHOWN = 12
"""Windows that a terminal shows."""
_SAID_LINES = 8
"""Lines of a terminal that are kept for what is said, and the head of the table."""


class _Window(NamedTuple):
    """One window, and what is new with it."""

    at: datetime
    figures: ServerFigures
    proposals: tuple[Proposal, ...]


@click.command("watch")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--metrics", multiple=True, metavar="URL", help="Where the counters are, one for each URL, if elsewhere.")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="Sent with each question; repeatable.")
@click.option("--dialect", help="Who answers, where a router hides it: vllm, sglang, llamacpp, ...")
@click.option("--every", type=click.FloatRange(0), default=20.0, show_default=True, help="Seconds of a window.")
@click.option("--count", type=click.IntRange(1), help="Windows to look at  [default: until Ctrl-C]")
@click.option("--once", is_flag=True, help="One window, judged by itself; exits with 1 where something is to change.")
@click.option(
    "--break-even",
    metavar="LOAD:TOKENS,...",
    help="Tokens a step that drafts must give from so many requests at once on  [default: 1:1.2]",
)
@click.option("--holds", type=click.IntRange(1), help="Windows that a finding must hold  [default: 3]")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", help="How to show it.")
def watch_command(urls: tuple[str, ...], every: float, count: int | None, once: bool, form: str, **chosen: Any) -> None:
    """Look at the counters of servers that run, all together, and say what to change. Nothing is changed.

    A step is a pass of the model. Where it guesses ahead, a pass gives several tokens, and takes longer: --break-even
    says how many it must give, as you have measured it (seconds between tokens with it over those without).

    As json, each window is one line. Exits with 2 where no server has counters.
    """
    from agentaccel.accel import Accel
    from agentaccel.errors import AgentAccelError
    from agentaccel.policy import Policy, StorePolicy

    try:
        policy = _policy(once, chosen)
        with Accel(Policy(store=StorePolicy(enabled=False)), environ={}) as accel:
            backend = accel.backend(
                urls,
                metrics=chosen["metrics"] or None,
                headers=pairs("--header", chosen["header"]) or None,
                dialect=chosen["dialect"],
            )
            backend.wait_ready(within=10.0)
            windows = _windows(backend, policy, every, 1 if once else count)
            last = _shown(windows, once=once, form=form)
    except AgentAccelError as error:
        refuse("watch", str(error))
    if last is not None and last.figures.prompt is None and last.figures.output is None:
        refuse("watch", f"no counters from {', '.join(last.figures.missing) or ', '.join(urls)}")
    if once and last is not None and last.proposals:
        sys.exit(1)


def _policy(once: bool, chosen: Mapping[str, Any]) -> WatchPolicy:
    from agentaccel.errors import ConfigError
    from agentaccel.selfhost.watching import WatchPolicy

    given: dict[str, Any] = {"holds": 1} if once else {}
    if chosen["holds"] is not None:
        given["holds"] = chosen["holds"]
    if (text := chosen["break_even"]) is not None:
        try:
            pairs = [one.split(":") for one in text.split(",")]
            given["break_even"] = tuple((int(load), float(tokens)) for load, tokens in pairs)
        except ValueError:
            raise ConfigError(f"--break-even is {text!r}; give LOAD:TOKENS,…, such as 1:1.2,8:2.0") from None
    return WatchPolicy(**given)


def _windows(backend: Backend, policy: WatchPolicy, every: float, count: int | None) -> Iterator[_Window]:
    """One window after the other, until Ctrl-C or as many as were asked for."""
    from agentaccel.selfhost.watching import Watcher

    watcher, number, seen = Watcher(policy), 0, None
    with contextlib.suppress(KeyboardInterrupt):
        while count is None or number < count:
            with backend.observe(since=seen) as seen:
                time.sleep(every)
            number += 1
            yield _Window(datetime.now().astimezone(), seen.figures, watcher.see(seen.figures))


def _shown(windows: Iterator[_Window], *, once: bool, form: str) -> _Window | None:
    """Show each as it comes; the last one."""

    last = None
    with screen() if form == "text" and sys.stdout.isatty() and not once else contextlib.nullcontext() as draw:
        for last in windows:
            if form == "json":
                say(json.dumps(as_json(last)))
            elif draw is not None:
                draw(last)
            elif once:
                say(*str(last.figures).split("\n"), *_sentences(last.proposals))
            else:
                say(_line(last), *_sentences(last.proposals))
    return last


def as_json(seen: _Window) -> dict[str, Any]:
    """A window, for programs: what was counted, what follows from it, and what is new. None is *not reported*."""
    figures = seen.figures
    ratios = ("hit_rate", "acceptance", "tokens_per_step", "mean_accepted_length")
    counted = {**asdict(figures), **{name: getattr(figures, name) for name in ratios}}
    return {"at": seen.at.isoformat(), "figures": counted, "proposals": [asdict(one) for one in seen.proposals]}


def _sentences(proposals: Sequence[Proposal]) -> list[str]:
    return [f"  {'over: ' if one.over else ''}{one}" for one in proposals]


_COLUMNS = ("", "tokens a step", "accepted", "read", "running", "waiting", "memory")


def _cells(seen: _Window) -> tuple[str, ...]:
    from agentaccel.selfhost.metrics import as_count, as_number, as_percent

    figures = seen.figures
    return (
        f"{seen.at:%H:%M:%S}",
        as_number(figures.tokens_per_step),
        as_percent(figures.acceptance),
        as_percent(figures.hit_rate),
        as_count(figures.running),
        as_count(figures.waiting),
        as_percent(figures.kv_use),
    )


def _line(seen: _Window) -> str:
    at, *cells = _cells(seen)
    return f"{at}  " + ", ".join(f"{name} {cell}" for name, cell in zip(_COLUMNS[1:], cells, strict=True))


@contextlib.contextmanager
def screen(console: Console | None = None) -> Iterator[Callable[[_Window], None]]:
    """A table that changes in its place; in this process's terminal where no other is given."""
    from rich.live import Live

    rows: deque[_Window] = deque(maxlen=_SHOWN)
    said: deque[str] = deque(maxlen=6)
    with Live(drawn(rows, said), console=console, auto_refresh=False) as live:

        def draw(seen: _Window) -> None:
            rows.append(seen)
            said.extendleft(f"{seen.at:%H:%M:%S} {line.strip()}" for line in _sentences(seen.proposals))
            fit = max(1, live.console.height - _SAID_LINES)
            live.update(drawn(list(rows)[-fit:], said), refresh=True)

        yield draw


def drawn(rows: Sequence[_Window], said: Sequence[str]) -> RenderableType:
    """The last windows as a table, and below it what was said of late, the newest first: a terminal that is too low
    cuts the last lines off."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from agentaccel.report.numbers import clean

    table = Table(box=None, pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name else "left", overflow="fold")  # no digit is cut off
    for row in rows:
        table.add_row(*_cells(row))
    lines = [Text(clean(line)) for line in said] or [Text("nothing to change so far")]
    return Group(table, Text(""), *lines)
