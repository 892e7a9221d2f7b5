"""Runs the demo's forms in three columns and says what each cost."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from agentaccel.accel import Accel
from agentaccel.cache.price import PriceCard, input_cost, price_card
from agentaccel.clock import ManualClock
from agentaccel.demo.desk import FORMS, TURNS, DeskForm, desk_tools, open_desk, scripted
from agentaccel.demo.vendors import VENDORS, Vendor
from agentaccel.errors import ConfigError
from agentaccel.facts import cache_facts
from agentaccel.policy import CachePolicy, Policy, StorePolicy
from agentaccel.predict.redaction import FLEET
from agentaccel.store.patterns import read_shelf
from agentaccel.store.store import open_reader
from agentaccel.types import Usage
from agentaccel_emulator import RunningServer, serve

OURS = "agentaccel"
COLUMNS = ("no caching", "automatic", OURS)
PAUSE = 1.4
"""How long the user is away in the form with a pause, in lifetimes of an entry: 7 minutes of 5, or 42 of 30."""
CONSENT = CachePolicy(move_volatile=True, freeze_tools=True)
"""What the desk's owner allows agentaccel to do."""
BEGINNING = datetime(2026, 11, 21, 9, tzinfo=UTC).timestamp()
"""When the desk opens, in the emulator's time: the same in every run."""
_DAY = 86_400.0
QUERY = 0.15
"""Seconds of the emulator's time that a tool takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """One form in one column, as the provider counted it."""

    usage: Usage
    cost: float
    """USD of input."""
    first_two_premium: float
    """USD paid for writing the first two prompts beyond their uncached price."""
    transcript: str
    """What was said and done, to show that every column does the same."""
    earlier: tuple[Usage, ...] = ()
    """What the sessions of the days before used, which are no part of the cost."""
    consents: tuple[str, ...] = ()
    """Consents of the policy that were used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormResult:
    """One form in all columns."""

    form: DeskForm
    vendor: Vendor
    runs: Mapping[str, DemoRun]

    @property
    def complaints(self) -> list[str]:
        """Why this form does not hold what the demo promises; empty where it does.

        Never dearer than without caching, nor than the SDK as it comes, by over the write premiums of the first two
        prompts; and where caching has to be asked for, never dearer than asking for all of it.
        """
        ours, automatic, none = (self.runs[name] for name in (OURS, "automatic", "no caching"))
        allowed = ours.first_two_premium + 1e-12
        found = []
        if ours.cost > automatic.cost * (1 + 1e-9) + (allowed if self.vendor.bare == "automatic" else 0.0):
            found.append(f"{self.form.name}: dearer than automatic caching")
        if ours.cost > none.cost + allowed:
            found.append(f"{self.form.name}: dearer than no caching by over the write premiums of two prompts")
        if len({run.transcript for run in self.runs.values()}) != 1:
            found.append(f"{self.form.name}: the transcripts differ")
        return found


def run_demo(
    store: Path,
    progress: Callable[[str], None] = lambda what: None,
    *,
    provider: str = "anthropic",
    cache: CachePolicy = CONSENT,
) -> list[FormResult]:
    """Run every form in every column; turns in the column of agentaccel are recorded in a fresh store at `store`.

    `cache` is the policy of that column. Raises MissingExtraError where the SDK of `provider` is not installed,
    ConfigError where something else than the store of a demo is at `store`, and TraceError or OSError where there can
    be none.
    """
    vendor = VENDORS[provider]
    if store.exists() and (not store.is_file() or store.stat().st_size):
        if not _is_a_demos(store):
            raise ConfigError(f"{store} is not what a demo has left: choose another path with --store")
        for suffix in ("", "-wal", "-shm", ".key"):
            store.with_name(store.name + suffix).unlink(missing_ok=True)
    policy = Policy(strict=True, cache=cache, store=StorePolicy(path=store))
    Accel(policy, environ={}).close()  # a path that cannot be is told before anything is run
    results = []
    for form in FORMS:
        runs = {}
        for column in COLUMNS:
            progress(f"{form.name}, {column}")
            days = [_run(vendor, form, column, policy, day) for day in range(form.earlier + 1)]
            runs[column] = replace(days[-1], earlier=tuple(run.usage for run in days[:-1]))
        results.append(FormResult(form=form, vendor=vendor, runs=runs))
    return results


def _run(vendor: Vendor, form: DeskForm, column: str, policy: Policy, day: int) -> DemoRun:
    with (
        serve(script=scripted(form), clock=ManualClock(now=BEGINNING + day * _DAY)) as server,
        vendor.client(server.url) as client,
        closing(open_desk()) as desk,
        _wrapped(client, slow(desk_tools(desk), server.clock), server, _RunName(vendor, form, column, day), policy) as (
            caller,
            tools,
        ),
    ):
        usages, transcript = _loop(vendor, caller, tools, form, server, vendor.without.get(column, {}))
        total = server.counters.total
    consents = _consents(policy.store.path, form) if column == OURS else ()
    card = price_card(vendor.provider, vendor.model, input_tokens=0)
    assert card is not None  # the model is listed
    write: dict[str, int] = {}
    for one in usages:
        for label, count in (one.write or {}).items():
            write[label] = write.get(label, 0) + count
    usage = Usage(input=total.input, read=total.read, write=write, output=total.output)
    assert usage.uncached == total.uncached  # told and counted agree
    return DemoRun(
        usage=usage,
        cost=input_cost(card, usage) or 0.0,
        first_two_premium=sum(_premium(card, one) for one in usages[:2]),
        transcript=transcript,
        consents=consents,
    )


_SESSION, _AGENT = "demo: ", "support desk, "
"""How the names of every session and agent of a demo begin."""


def _is_a_demos(store: Path) -> bool:
    """Whether what is at `store` is what a demo has left: a trace store of sessions and agents of demos alone."""
    try:
        with open_reader(store) as reader:
            sessions = {one.session for one in reader.turns()} | {one.session for one in reader.tools()}
            shelf = read_shelf(reader)
            learned = {*shelf.parts, *shelf.barred} - {FLEET}
            whole = bool(sessions) and not reader.skipped
    except Exception:  # noqa: BLE001 - what cannot be read is nobody's to replace
        return False
    ours = all(name.startswith(_SESSION) for name in sessions)
    return whole and ours and all(name.startswith(f"agent {_AGENT}") for name in learned)


def _session(form: DeskForm, day: int) -> str:
    before = form.earlier - day
    return f"{_SESSION}{form.name}" + (f", {before} day before" if before else "")


def _consents(store: Path | str | None, form: DeskForm) -> tuple[str, ...]:
    """The consents that any turn of the form says it used."""
    assert store is not None  # the demo names its store
    with open_reader(Path(store)) as reader:
        used = {
            name for turn in reader.turns() if turn.session == _session(form, form.earlier) for name in turn.consents
        }
    return tuple(sorted(used))


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


class _RunName(NamedTuple):
    """Which run of the demo it is."""

    vendor: Vendor
    form: DeskForm
    column: str
    day: int


@contextmanager
def _wrapped(
    client: Any, tools: dict[str, Callable[..., str]], server: RunningServer, place: _RunName, policy: Policy
) -> Iterator[tuple[Any, dict[str, Callable[..., str]]]]:
    """The client and the tools of a column: wrapped and in a session for ours, bare for the others."""
    if place.column != OURS:
        yield client, tools
        return
    with (
        # The user's own settings and store are not for invented conversations.
        Accel(policy, clock=server.clock, environ={}) as accel,
        accel.session(_session(place.form, place.day), agent=f"{_AGENT}{place.form.name}"),
    ):
        yield accel.wrap(client, platform=place.vendor.platform), accel.tools(tools)


def _loop(
    vendor: Vendor,
    client: Any,
    tools: Mapping[str, Callable[..., str]],
    form: DeskForm,
    server: RunningServer,
    extra: Mapping[str, Any],
) -> tuple[list[Usage], str]:
    """A plain agent loop, as anyone would write it."""
    history = vendor.begin(form.system(0, server.clock.wall()))
    given = len(history)
    usages: list[Usage] = []
    for turn in range(TURNS):
        if turn == form.pause_before:
            server.clock.advance(PAUSE * _lifetime(vendor))
        spoken = vendor.ask(client, history, form.system(turn, server.clock.wall()), form.tools(turn), extra)
        usages.append(spoken.usage)
        history += spoken.messages
        if not spoken.calls:
            break
        history += vendor.results([(id_, tools[name](**arguments)) for id_, name, arguments in spoken.calls])
    # Not what was given: a clock in it shows another time where replies come sooner.
    return usages, repr(history[given:])


def _lifetime(vendor: Vendor) -> float:
    """Seconds that an entry lives, where nobody chooses."""
    facts = cache_facts(vendor.model, provider=vendor.provider)
    assert facts is not None  # the model is listed
    return facts.ttls[0].seconds
