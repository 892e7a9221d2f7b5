"""Whether an agent is what it was, once agentaccel takes part in it: for those who write an adapter, and for ours.

The same scripted conversations are held twice with an agent of a framework, in front of the emulator: as it is, and
with an adapter of yours, or with `install`. Whatever differs that should not is a fault, told in words.

    @asynccontextmanager
    async def desk(setting: Setting) -> AsyncIterator[Ask]:
        agent = build(setting.url, setting.tools, accel=setting.accel)
        yield agent.ask

    assert_conforms(desk)
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentaccel.accel import Accel
from agentaccel.concurrency import WORKER
from agentaccel.effects.spec import is_early
from agentaccel.errors import ConfigError
from agentaccel.installation import install
from agentaccel.policy import CachePolicy, Policy, StorePolicy, ToolPolicy
from agentaccel.records import TurnRecord
from agentaccel.store.store import open_reader
from agentaccel.testing.states import differences, same_but_ids
from agentaccel.types import Cause
from agentaccel_emulator import Conversation, Fault, RunningServer, Script, ScriptedReply, call, say, serve

Ask: TypeAlias = Callable[..., Awaitable[Any]]
"""Asks the agent: `await ask(question, "conversation")` gives the whole state of that conversation after the reply, as
JSON: messages, artifacts, checkpoints, streamed chunks, whatever its users see."""

Tool: TypeAlias = Callable[..., Awaitable[str]]
Means = Literal["adapter", "install"]

READS = frozenset({"find_order", "stock"})
"""Tools that only read, to be declared as such."""
GATED = frozenset({"pay"})
"""A tool that reads as well, and that a person has to allow: it is allowed once the model has asked for it."""
MODELS = {"messages": "claude-sonnet-5", "chat": "gpt-6.1-sol", "responses": "gpt-6.1-sol"}
"""By the wire that the framework speaks."""
INSTRUCTIONS = "You are the desk of a warehouse. Look up orders, and never guess what is in stock. " * 400
"""Long enough for every provider's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a framework makes its agent of."""

    url: str
    """The emulator's; the base URL of Anthropic's clients, and with `/v1` behind it of OpenAI's."""
    model: str
    tools: Mapping[str, Tool]
    """Coroutine functions with annotated arguments and docstrings, by name; what they raise, they raise."""
    accel: Accel | None = None
    """What an adapter is to use; None where the agent is to be as it was, and with `install`."""
    instructions: str = INSTRUCTIONS
    max_tokens: int = 500
    """Of a reply."""
    conversations: dict[str, Any] = field(default_factory=dict)
    """Where agents keep their conversations: one that is made anew of this setting goes on with them."""
    _watched: list[tuple[object, dict[str, int]]] = field(default_factory=list)

    def watch(self, *things: object) -> None:
        """Objects of the user's, such as a client, that an adapter is given and has to leave as they are."""
        self._watched.extend((one, _fields(one)) for one in things)

    def changed(self) -> list[str]:
        """What of them is not as it was."""
        return [
            f"{type(one).__name__}.{name}"
            for one, before in self._watched
            for name in sorted(name for name, _ in before.items() - _fields(one).items())
        ]


Framework: TypeAlias = Callable[[Setting], AbstractAsyncContextManager[Ask]]


def _fields(thing: object) -> dict[str, int]:
    """What an object has, by identity; what is added later is its own: SDKs make their resources when they are used."""
    return {name: id(value) for name, value in vars(thing).items() if not callable(value)}


# --- The tools, and what is asked -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Desk:
    """The tools of one agent, and what was run."""

    name: str = "main"
    ran: list[tuple[str, str, bool]] = field(default_factory=list)
    """Tool, argument, and whether it was begun before the model had asked."""
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0
    colleague: Ask | None = None
    """Another agent, which a tool asks."""
    told: Any = None
    """The state of that conversation."""

    def tools(self) -> dict[str, Tool]:
        """Their docstrings are what the model reads of them."""
        ran, desk = self.ran, self

        async def find_order(number: str) -> str:
            """Say where an order is."""
            ran.append(("find_order", number, is_early()))
            await asyncio.sleep(0)
            return f"{desk.name}: order {number} is on its way"

        async def stock(item: str) -> str:
            """Say how many of an item there are."""
            ran.append(("stock", item, is_early()))
            return f"{desk.name}: 3 of {item}"

        async def cancel_order(number: str) -> str:
            """Cancel an order."""
            ran.append(("cancel_order", number, is_early()))
            return f"{desk.name}: order {number} is cancelled"

        async def pay(amount: str) -> str:
            """Say what it would cost to pay."""
            ran.append(("pay", amount, is_early()))
            return f"{desk.name}: paying {amount} is free"

        async def refuse(number: str) -> str:
            """Look at an order that does not exist."""
            ran.append(("refuse", number, is_early()))
            raise LookupError(f"no order {number}")

        async def wait(number: str) -> str:
            """Wait for an order."""
            ran.append(("wait", number, is_early()))
            desk.waiting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                desk.cancelled += 1
                raise
            return "never"

        async def delegate(question: str) -> str:
            """Ask a colleague."""
            ran.append(("delegate", question, is_early()))
            assert desk.colleague is not None
            desk.told = await desk.colleague(question, "delegated")
            return "It is done."

        return {one.__name__: one for one in (find_order, stock, cancel_order, pay, refuse, wait, delegate)}


def _both(*calls: ScriptedReply) -> ScriptedReply:
    return ScriptedReply(content=tuple(block for one in calls for block in one.content))


SCRIPT = (
    Conversation(
        match="Where is order 7?",
        replies=(
            _both(say("I look."), call("find_order", {"number": "7"}), call("stock", {"item": "lamps"})),
            call("cancel_order", {"number": "7"}),
            call("find_order", {"number": "7"}),
            say("It is cancelled."),
            call("stock", {"item": "desks"}),
            say("There are three."),
        ),
    ),
    Conversation(match="What does it cost?", replies=(call("pay", {"amount": "5"}), say("Nothing."))),
    Conversation(match="Is order 0 there?", replies=(call("refuse", {"number": "0"}), say("It is not."))),
    Conversation(match="Wait for order 9.", replies=(call("wait", {"number": "9"}), say("It is here."))),
    Conversation(
        match="Ask a colleague.", replies=(call("delegate", {"question": "Where is order 7?"}), say("It is cancelled."))
    ),
)


# --- One conversation, as it went -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Conduct:
    """What can be seen of a scenario from outside."""

    states: dict[str, Any] = field(default_factory=dict)
    """By question, as all of them are: conversations at once end in any order."""
    errors: dict[str, str] = field(default_factory=dict)
    ran: list[tuple[str, str, bool]] = field(default_factory=list)
    cancelled: int = 0
    statuses: list[int] = field(default_factory=list)
    offered: list[list[str]] = field(default_factory=list)
    """Names of the tools of each request that was answered."""
    marked: int = 0
    """Requests with markers."""
    read: int = 0
    billed: int = 0
    """Tokens of input, by the emulator's own count."""
    left: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    records: list[TurnRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scenario:
    """What is asked, of whom, and what goes wrong."""

    name: str
    asked: Sequence[tuple[str, str]]
    """Question and conversation, one after the other."""
    at_once: bool = False
    faults: tuple[Fault, ...] = ()
    cancel: bool = False
    """The task that asks is cancelled once the tool waits."""
    anew: bool = False
    """The agent is made anew for each question, as a web server does."""
    delegates: bool = False
    """There is a second agent, with tools of the same names, which a tool of the first one asks."""
    calls: frozenset[str]
    """Tools that an agent calls in it which works."""


_PLAIN, _PAY = ("Where is order 7?", "a"), ("What does it cost?", "b")
_ALL = READS | {"cancel_order"}
_later = Fault(kind="529", at=2, headers={"retry-after-ms": "1"})
_never = Fault(kind="500", at=2, headers={"x-should-retry": "false"})
SCENARIOS = (
    _Scenario(name="a conversation", asked=(_PLAIN, ("And desks?", "a")), calls=_ALL),
    _Scenario(name="agents made anew", asked=(_PLAIN, ("And desks?", "a")), calls=_ALL, anew=True),
    _Scenario(name="a gated tool", asked=(_PAY,), calls=GATED),
    _Scenario(name="a tool that raises", asked=(("Is order 0 there?", "a"),), calls=frozenset({"refuse"})),
    _Scenario(name="a cancelled task", asked=(("Wait for order 9.", "a"),), calls=frozenset({"wait"}), cancel=True),
    _Scenario(name="a retry", asked=(_PLAIN,), calls=_ALL, faults=(_later,)),
    _Scenario(name="a refusal", asked=(_PLAIN,), calls=READS, faults=(_never,)),
    _Scenario(name="conversations at once", asked=(_PLAIN, _PAY), calls=_ALL | GATED, at_once=True),
    _Scenario(
        name="a sub-agent", asked=(("Ask a colleague.", "a"), _PAY), calls=_ALL | GATED, at_once=True, delegates=True
    ),
)


async def _held(
    scenario: _Scenario, settings: Sequence[Setting], framework: Framework, desk: _Desk, seen: _Conduct
) -> None:
    async def asked(ask: Ask, question: str, conversation: str) -> None:
        try:
            seen.states[question] = await ask(question, conversation)
        except Exception as error:  # noqa: BLE001 - whatever the framework raises is what is compared
            seen.errors[question] = f"{type(error).__name__}: {error}"

    async with AsyncExitStack() as stack:
        ask, *others = [await stack.enter_async_context(framework(setting)) for setting in settings]
        desk.colleague = next(iter(others), None)
        if scenario.cancel:
            task = asyncio.create_task(asked(ask, *scenario.asked[0]))
            waits = asyncio.create_task(desk.waiting.wait())
            await asyncio.wait((task, waits), return_when=asyncio.FIRST_COMPLETED)
            waits.cancel()
            task.cancel()
            [ended] = await asyncio.gather(task, return_exceptions=True)
            if ended is not None:
                seen.errors[scenario.asked[0][0]] = type(ended).__name__
        elif scenario.at_once:
            await asyncio.gather(*[asked(ask, *one) for one in scenario.asked])
        else:
            for one in scenario.asked:
                if scenario.anew:
                    ask = await stack.enter_async_context(framework(settings[0]))
                await asked(ask, *one)
    if scenario.delegates:
        seen.states["delegated"] = desk.told


@contextmanager
def _taking_part(
    means: Means | None, policy: Policy, tables: list[dict[str, Tool]]
) -> Iterator[tuple[Accel | None, list[dict[str, Tool]]]]:
    """What an adapter is given, and the tools as each agent is given them."""
    if means is None:
        yield None, tables
    elif means == "adapter":
        with Accel(policy, environ={}) as accel:
            yield accel, tables
    else:
        with install(policy) as installed:
            accel = installed.accel
            read = accel.tool(effect="read_local", concurrent=True)
            gated = accel.tool(effect="read_local", concurrent=True, needs_approval=True)
            of_kind = {**dict.fromkeys(READS, read), **dict.fromkeys(GATED, gated)}
            yield None, [{name: of_kind.get(name, accel.tool)(tool) for name, tool in one.items()} for one in tables]
            accel.flush()


def _seen(scenario: _Scenario, framework: Framework, wire: str, means: Means | None, policy: Policy) -> _Conduct:
    """Hold the conversation of a scenario, and look."""
    seen, desks = _Conduct(), [_Desk(), *([_Desk("second")] if scenario.delegates else ())]
    threads = set(threading.enumerate())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(serve(script=Script(conversations=SCRIPT), faults=scenario.faults or None))
        own = StorePolicy(path=folder / "trace.db")
        kept = replace(policy, store=own, strict=True)
        with _taking_part(means, kept, [desk.tools() for desk in desks]) as (accel, tables):
            settings = [Setting(url=server.url, model=MODELS[wire], tools=tools, accel=accel) for tools in tables]

            async def main() -> None:
                before = asyncio.all_tasks()
                await _held(scenario, settings, framework, desks[0], seen)
                await asyncio.sleep(0)
                seen.left += [f"task {one.get_coro()!r}" for one in asyncio.all_tasks() - before if not one.done()]

            asyncio.run(main())
            seen.changed = [one for setting in settings for one in setting.changed()]
        if means is not None:
            with open_reader(folder / "trace.db") as store:
                seen.records = list(store.turns())
        _look_at(server, seen)
    seen.left += [f"thread {one.name}" for one in set(threading.enumerate()) - threads if _goes_on(one)]
    seen.ran, seen.cancelled = [one for desk in desks for one in desk.ran], desks[0].cancelled
    return seen


def _goes_on(thread: threading.Thread) -> bool:
    """True if a thread does not end: neither the one that all of agentaccel shares, nor one of the emulator's, which
    ends with its client."""
    if thread is WORKER._thread or "process_request" in thread.name:
        return False
    thread.join(_PATIENCE)
    return thread.is_alive()


_PATIENCE = 10.0
"""Seconds that a thread may take for its end, on a machine that has other things to do."""


def _look_at(server: RunningServer, seen: _Conduct) -> None:
    for entry in server.log:
        seen.statuses.append(entry.status)
        if entry.usage is None or entry.request is None:
            continue
        names = [one.get("name") or one.get("function", {}).get("name") for one in entry.request.get("tools") or ()]
        seen.offered.append([str(name) for name in names])
        seen.marked += "cache_control" in json.dumps(entry.request)
        seen.read += entry.usage.read or 0
        seen.billed += entry.usage.input


# --- What is compared -------------------------------------------------------------------------------------------------


def _faults(scenario: _Scenario, bare: _Conduct, ours: _Conduct, wire: str, guesses: bool) -> Iterator[str]:
    missing = scenario.calls - {one[0] for one in bare.ran}
    if missing:
        raised = [*bare.errors.values()] or "no error"
        yield f"without agentaccel the agent does not call {', '.join(sorted(missing))}: {raised}"
    for number, question in enumerate(dict.fromkeys((*[one[0] for one in scenario.asked], *bare.states))):
        yield from _answered_otherwise(question, bare, ours, f"state[{number}]")
    yield from _run_otherwise(bare, ours, guesses)
    if ours.statuses != bare.statuses:
        yield f"the provider answered {ours.statuses}, and used to answer {bare.statuses}"
    if ours.offered != bare.offered:
        yield "the model is offered tools that its author did not give it, or not those that he gave it"
    yield from (f"left behind: {one}" for one in ours.left if one not in bare.left)
    yield from (f"an object of the user's was changed: {one}" for one in ours.changed if one not in bare.changed)
    yield from _misrecorded(scenario, ours, wire)


def _answered_otherwise(question: str, bare: _Conduct, ours: _Conduct, path: str) -> Iterator[str]:
    was, state = (same_but_ids(one.states.get(question)) for one in (bare, ours))
    yield from differences(was, state, path)
    used, raised = (same_but_ids(one.errors.get(question, "nothing")) for one in (bare, ours))
    if raised != used:
        yield f"it raised {raised}, and used to raise {used}"


def _run_otherwise(bare: _Conduct, ours: _Conduct, guesses: bool) -> Iterator[str]:
    counted, before = Counter(one[:2] for one in ours.ran), Counter(one[:2] for one in bare.ran)
    for name, argument in sorted(counted.keys() | before.keys()):
        more = counted[name, argument] - before[name, argument]
        if more and not (guesses and more > 0 and name in READS):
            yield f"{name}({argument!r}) was run {before[name, argument] + more} times, and {more:+} is not as it was"
    for name, argument, early in ours.ran:
        if early and name not in READS:
            yield f"{name}({argument!r}) was begun before the model had asked for it"
    if ours.cancelled != bare.cancelled:
        yield f"{ours.cancelled} tools were cancelled, and used to be {bare.cancelled}"


def _misrecorded(scenario: _Scenario, ours: _Conduct, wire: str) -> Iterator[str]:
    answered = len(ours.offered)
    recorded = [one for one in ours.records if one.usage.input is not None]
    if len(recorded) != answered:
        yield f"{len(recorded)} requests are recorded of {answered} that were answered"
    elif sum(one.usage.input or 0 for one in recorded) != ours.billed:
        yield "the tokens that are recorded are not those that were billed"
    elif sum(one.usage.read or 0 for one in recorded) != ours.read:
        yield "the tokens that are recorded as read are not those that were read"
    if wire == "messages" and answered > 1 and not scenario.faults and not ours.marked:
        yield "no request has a marker"
    if answered > 3 and not ours.read:
        yield "nothing was ever read from the cache"
    for one in recorded:
        for miss in one.misses:
            if miss.cause in _NEVER:
                yield f"a miss is told where there is none: {miss.cause}"


_NEVER = (Cause.CHANGED, Cause.MODEL, Cause.PARAMETER, Cause.COMPACTED, Cause.UNKNOWN)
"""Causes that nothing in these conversations has."""


_STRICT = Policy(cache=CachePolicy(freeze_tools=True), tools=ToolPolicy(speculate=False))
"""Tools are begun as the model writes, and never guessed: how often each runs is then told by the model alone."""


def faults(
    framework: Framework, *, means: Means = "adapter", wire: str = "messages", policy: Policy | None = None
) -> list[str]:
    """What differs between an agent as it is and with agentaccel; empty where nothing does that should not.

    `means` says who takes part: your adapter, or `agentaccel.install` with the tools declared. `wire` is the API that
    the agent speaks: "messages", "chat" or "responses". With a `policy` that guesses, readers may run more often than
    the model asks. Raises `ConfigError` for another wire.
    """
    if wire not in MODELS:
        raise ConfigError(f"wire is {wire!r}; give one of {', '.join(map(repr, MODELS))}")
    told, policy = list[str](), policy or _STRICT
    for scenario in SCENARIOS:
        bare = _seen(scenario, framework, wire, None, policy)
        ours = _seen(scenario, framework, wire, means, policy)
        guesses = policy.tools.speculate
        told += [f"{scenario.name}: {fault}" for fault in _faults(scenario, bare, ours, wire, guesses)]
    return told


def assert_conforms(
    framework: Framework, *, means: Means = "adapter", wire: str = "messages", policy: Policy | None = None
) -> None:
    """Raises `AssertionError` with every fault that `faults` finds."""
    found = faults(framework, means=means, wire=wire, policy=policy)
    assert not found, "\n".join(found)
