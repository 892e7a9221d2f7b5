"""Runs the demo's forms in three columns and says what each cost."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentaccel.accel import Accel
from agentaccel.cache.price import PriceCard, input_cost, price_card
from agentaccel.clock import ManualClock
from agentaccel.demo.desk import desk_tools, open_desk
from agentaccel.demo.forms import FORMS, TURNS, Form, scripted
from agentaccel.emulator import RunningServer, serve
from agentaccel.errors import MissingExtra
from agentaccel.policy import Policy, StorePolicy
from agentaccel.types import Usage

if TYPE_CHECKING:
    from anthropic import Anthropic

MODEL = "claude-sonnet-5"
COLUMNS = ("no caching", "automatic", "agentaccel")
OPENING = "Please take ticket 501 and bring it as far as you can."
PAUSE = 420.0
"""Seconds that the user is away in the form with a pause; an entry lives for 300."""
BEGINNING = datetime(2026, 11, 21, 9, tzinfo=UTC).timestamp()
"""When the desk opens, in the emulator's time: the same in every run."""
QUERY = 0.15
"""Seconds of the emulator's time that a tool takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One form in one column, as the provider counted it."""

    usage: Usage
    cost: float
    """USD of input."""
    first_two_premium: float
    """USD paid for writing the first two prompts beyond their uncached price."""
    transcript: str
    """What was said and done, to show that every column does the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormResult:
    """One form in all columns."""

    form: Form
    runs: Mapping[str, Run]

    @property
    def complaints(self) -> list[str]:
        """Why this form does not hold what the demo promises; empty where it does."""
        ours, automatic, none = (self.runs[name] for name in ("agentaccel", "automatic", "no caching"))
        found = []
        if ours.cost > automatic.cost * (1 + 1e-9):
            found.append(f"{self.form.name}: dearer than automatic caching")
        if ours.cost > none.cost + ours.first_two_premium + 1e-12:
            found.append(f"{self.form.name}: dearer than no caching by over the write premiums of two prompts")
        if len({run.transcript for run in self.runs.values()}) != 1:
            found.append(f"{self.form.name}: the transcripts differ")
        return found


def run_demo(store: Path, progress: Callable[[str], None] = lambda what: None) -> list[FormResult]:
    """Run every form in every column; turns in the column of agentaccel are recorded in a fresh store at `store`."""
    for suffix in ("", "-wal", "-shm", ".key"):
        store.with_name(store.name + suffix).unlink(missing_ok=True)
    results = []
    for form in FORMS:
        runs = {}
        for column in COLUMNS:
            progress(f"{form.name}, {column}")
            runs[column] = _run(form, column, store)
        results.append(FormResult(form=form, runs=runs))
    return results


def _run(form: Form, column: str, store: Path) -> Run:
    try:
        import anthropic
    except ImportError:
        raise MissingExtra("anthropic", "anthropic") from None
    extra: dict[str, Any] = {"cache_control": {"type": "ephemeral"}} if column == "automatic" else {}
    with (
        serve(script=scripted(form), clock=ManualClock(now=BEGINNING)) as server,
        anthropic.Anthropic(base_url=server.url, api_key="demo", max_retries=0) as client,
        closing(open_desk()) as desk,
        _wrapped(client, slow(desk_tools(desk), server.clock), column, store, server, form) as (caller, tools),
    ):
        usages, transcript = _loop(caller, tools, form, server, extra)
        total = server.counters.total
    card = price_card("anthropic", MODEL, input_tokens=0)
    assert card is not None  # the model is listed
    write = {label: count for label, count in (("5m", total.write_5m), ("1h", total.write_1h)) if count}
    usage = Usage(input=total.input, read=total.read, write=write, output=total.output)
    return Run(
        usage=usage,
        cost=input_cost(card, usage) or 0.0,
        first_two_premium=sum(_premium(card, one) for one in usages[:2]),
        transcript=transcript,
    )


def slow(tools: Mapping[str, Callable[..., str]], clock: Any) -> dict[str, Callable[..., str]]:
    """The tools, each of whose runs takes `QUERY` seconds of the emulator's time, as a real desk's would."""

    def slowed(tool: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(tool)
        def run(**arguments: Any) -> str:
            clock.advance(QUERY)
            return tool(**arguments)

        return run

    return {name: slowed(tool) for name, tool in tools.items()}


def _premium(card: PriceCard, usage: Usage) -> float:
    return sum((card.write[label] - card.input) * count for label, count in (usage.write or {}).items())


@contextmanager
def _wrapped(
    client: Anthropic,
    tools: dict[str, Callable[..., str]],
    column: str,
    store: Path,
    server: RunningServer,
    form: Form,
) -> Iterator[tuple[Anthropic, dict[str, Callable[..., str]]]]:
    """The client and the tools of a column: wrapped and in a session for ours, bare for the others."""
    if column != "agentaccel":
        yield client, tools
        return
    policy = Policy(strict=True, store=StorePolicy(path=store))
    with (
        # The user's own settings and store are not for invented conversations.
        Accel(policy, clock=server.clock, environ={}) as accel,
        accel.session(f"demo: {form.name}", agent=f"support desk, {form.name}"),
    ):
        yield accel.wrap(client), accel.tools(tools)


def _loop(
    client: Anthropic,
    tools: Mapping[str, Callable[..., str]],
    form: Form,
    server: RunningServer,
    extra: Mapping[str, Any],
) -> tuple[list[Usage], str]:
    """A plain agent loop, as anyone would write it."""
    messages: list[Any] = [{"role": "user", "content": OPENING}]
    usages: list[Usage] = []
    for turn in range(TURNS):
        if turn == form.pause_before:
            server.clock.advance(PAUSE)
        with client.messages.stream(
            model=MODEL,
            max_tokens=4096,
            system=form.system(turn, server.clock.wall()),
            tools=form.tools(turn),  # type: ignore[arg-type]  # plain dictionaries
            messages=messages,
            **extra,
        ) as stream:
            reply = stream.get_final_message()
        usages.append(_usage(reply.usage))
        content = [block.model_dump(exclude_none=True) for block in reply.content]
        messages.append({"role": "assistant", "content": content})
        calls = [block for block in content if block["type"] == "tool_use"]
        if not calls:
            break
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": tools[call["name"]](**call["input"])}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    return usages, repr(messages)


def _usage(raw: Any) -> Usage:
    from agentaccel.providers.anthropic import usage_of

    return usage_of(raw.model_dump())
