"""The support desk on a real engine, as it is written and with agentaccel, side by side.

The engine is llama.cpp's server with a small open model, on this machine. The model is too small to call tools, so what
the agent does next is scripted, and is the same in both columns; what the model says is shown. The engine is started
anew for each column, so neither finds what the other has left.
"""

from __future__ import annotations

import functools
import json
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from agentaccel.accel import Accel
from agentaccel.clock import Clock, SystemClock
from agentaccel.demo.desk import SYSTEM, TOOLS, desk_tools, open_desk
from agentaccel.errors import EngineError, MissingExtraError
from agentaccel.hooks import Told
from agentaccel.policy import CachePolicy, HistoryPolicy, Policy, StorePolicy
from agentaccel.records import TurnRecord
from agentaccel.selfhost.tiny import TinyOptions
from agentaccel.types import EngineWork
from agentaccel.wire import dialect
from agentaccel.wire.openai.usage import work_of

BARE, OURS = "as written", "agentaccel"
COLUMNS = (BARE, OURS)
CONSENT = Policy(
    strict=True,
    cache=CachePolicy(move_volatile=True, freeze_tools=True),
    history=HistoryPolicy(clear_results=True, keep_results=1),
)
"""What the desk's owner allows agentaccel to do."""
TURNS = 6
MOST_TOKENS = 16
"""Of a reply: what it says is not used."""
STEP = 17.0
"""Seconds by which the clock that a form shows goes on from request to request, however long one takes: both columns
see the same."""

Message = dict[str, Any]


class DeskStep(NamedTuple):
    """What happens before one model call of a session, and what the agent takes the reply for."""

    asked: tuple[Message, ...]
    answer: Message


# --- The forms -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalForm:
    """One way to run the desk."""

    name: str
    what: str
    """What it does, in a few words."""
    system: Callable[[float], str]
    """The system prompt at a time, in seconds since the epoch."""
    steps: Callable[[int], Sequence[DeskStep]]
    """The steps of a session."""
    tools: Callable[[int], list[Mapping[str, Any]]] = lambda turn: []
    """The tools of a turn."""
    sessions: int = 1
    """They take turns."""
    engine: TinyOptions = field(default_factory=TinyOptions)
    quick: bool = False
    """True if it is run where not all forms are asked for."""


_ABOUT = (
    ("Where is order 1004, and when does it come?", "It left us on 12 November with heavyhaul."),
    ("And if it does not come this week?", "Then you may choose between a new date and a refund."),
    ("How long would a refund take?", "Three to five working days to a card."),
    ("Can I get an invoice with my tax number?", "Yes, once the order has shipped."),
    ("Who pays for sending a duplicate back?", "We do: the label is in your account."),
    ("Please sum up what we agreed on.", "A new date or a refund, and an invoice."),
)
"""What a customer asks, and what the desk has answered."""


_BRIEF = "You are the support agent of Brass & Beam, a shop for office furniture. You work on one ticket at a time."


@functools.cache
def _instructed() -> str:
    """The desk's instructions with what it looks up most: orders and articles."""
    with closing(open_desk()) as desk:
        orders = "\n".join(", ".join(map(str, row)) for row in desk.execute("SELECT * FROM orders"))
        articles = "\n".join(f"{row['title']}: {row['body']}" for row in desk.execute("SELECT * FROM articles"))
    return (
        f"{SYSTEM}\nOrders (number, customer, item, cents, status, placed, carrier)\n{orders}\n\nArticles\n{articles}"
    )


def _with_clock(now: float) -> str:
    return f"It is {datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC.\n\n{_instructed()}"


def _talk(session: int) -> Sequence[DeskStep]:
    """A customer asks, and the desk answers."""
    who = ("Ines", "Tom", "Mei", "Lou")[session % 4]
    return [
        DeskStep(({"role": "user", "content": f"{who}: {question}"},), {"role": "assistant", "content": answer})
        for question, answer in _ABOUT
    ]


def _work(session: int) -> Sequence[DeskStep]:
    """The desk works on a ticket with its tools."""
    ticket, customer = 501 + session % 4, 1 + session % 4
    calls: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
        ("I will read the ticket first.", "read_ticket", {"ticket_id": ticket}),
        ("Let me see the customer.", "get_customer", {"customer_id": customer}),
        ("Now all orders of this customer.", "list_orders", {"customer_id": customer}),
        ("Is there an article on duplicates?", "search_articles", {"words": "duplicate"}),
        ("And on how long a refund takes.", "search_articles", {"words": "refund"}),
        ("Let me check what the ticket says now.", "read_ticket", {"ticket_id": ticket}),
    )
    opening = {"role": "user", "content": f"Please take ticket {ticket} and bring it as far as you can."}
    return list(_called(calls, opening, lambda text: text))


def _files(session: int) -> Sequence[DeskStep]:
    """The desk reads long exports, each once."""
    calls = tuple(
        (f"I will read the export of week {week}.", "read_export", {"week": week, "desk": session})
        for week in range(40, 40 + TURNS)
    )
    opening = {"role": "user", "content": "Please go through the exports and say what is late."}
    return list(_called(calls, opening, lambda text: text))


def _called(
    calls: Sequence[tuple[str, str, Mapping[str, Any]]], opening: Message, shown: Callable[[str], str]
) -> Iterator[DeskStep]:
    with closing(open_desk()) as desk:
        tools = {**desk_tools(desk), "read_export": _export}
        asked: tuple[Message, ...] = (opening,)
        for number, (text, name, arguments) in enumerate(calls):
            call = {"id": f"call_{number}", "type": "function"}
            call["function"] = {"name": name, "arguments": json.dumps(arguments)}  # type: ignore[assignment]
            yield DeskStep(asked, {"role": "assistant", "content": text, "tool_calls": [call]})
            result = shown(tools[name](**arguments))
            asked = ({"role": "tool", "tool_call_id": f"call_{number}", "content": result},)


def _export(week: int, desk: int) -> str:
    """A list of parcels, some 500 tokens long."""
    drawn = random.Random(100 * week + desk)
    lines = (
        f"order {drawn.randrange(1000, 9999)}, {drawn.choice(('lamp', 'desk', 'arm', 'tray'))}, "
        f"{drawn.choice(('late', 'delivered', 'in transit'))}, week {week}"
        for _ in range(24)
    )
    return "\n".join(lines)


def _functions(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["input_schema"],
            },
        }
        for tool in tools
    ]


FORMS: tuple[LocalForm, ...] = (
    LocalForm(
        name="clock in system",
        what="seconds in the first line of the instructions",
        system=_with_clock,
        steps=_talk,
        quick=True,
    ),
    LocalForm(
        name="shuffled tools",
        what="a new random tool order every turn",
        system=lambda now: _BRIEF,
        steps=_work,
        tools=lambda turn: _functions(random.Random(turn).sample(TOOLS, len(TOOLS))),
        quick=True,
    ),
    LocalForm(
        name="three sessions on two slots",
        what="they take turns, with the clock of the first form",
        system=_with_clock,
        steps=_talk,
        sessions=3,
    ),
    LocalForm(
        name="long old results",
        what="two sessions on one slot read exports",
        system=lambda now: _BRIEF,
        steps=_files,
        sessions=2,
        engine=TinyOptions(slots=1, cache_ram=0),
    ),
    LocalForm(
        name="plain loop",
        what="history only grows: nothing to be won",
        system=lambda now: _instructed(),
        steps=_talk,
    ),
)


# --- Running them ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReply:
    """One reply, as the engine and this process's clock told of it."""

    text: str
    prompt: int
    """Tokens of the prompt."""
    computed: int
    """Those of them that the engine computed."""
    first: float
    """Seconds to the first token."""
    made: int
    work: EngineWork


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRun:
    """One form in one column."""

    replies: tuple[LocalReply, ...]
    consents: tuple[str, ...] = ()
    """Consents of the policy that were used."""

    @property
    def prompt(self) -> int:
        """Tokens of all prompts."""
        return sum(one.prompt for one in self.replies)

    @property
    def computed(self) -> int:
        """Those of them that the engine computed."""
        return sum(one.computed for one in self.replies)

    @property
    def first(self) -> float:
        """Seconds to the first token, over all turns."""
        return sum(one.first for one in self.replies)

    @property
    def tokens_per_step(self) -> float:
        """Tokens made for each pass of the model: those that were drafted and accepted took none of their own."""
        made = sum(one.made for one in self.replies)
        return made / max(made - sum(one.work.accepted or 0 for one in self.replies), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResult:
    """One form in both columns, each run so many times, in turn."""

    form: LocalForm
    runs: Mapping[str, Sequence[LocalRun]]

    def first(self, column: str) -> float:
        """Seconds to the first token over all turns: the median of the runs."""
        return statistics.median(run.first for run in self.runs[column])

    @property
    def complaints(self) -> list[str]:
        """Why this form does not hold what the demo promises; empty where it does."""
        bare, ours = (max(run.computed for run in self.runs[column]) for column in COLUMNS)
        return [f"{self.form.name}: more tokens computed than as written"] if ours > bare else []


class Running(Protocol):
    """An engine that runs."""

    @property
    def url(self) -> str: ...


Start = Callable[[TinyOptions], AbstractContextManager[Running]]
"""Starts an engine, which runs while the context lasts."""


def run_local(
    start: Start,
    forms: Sequence[LocalForm],
    progress: Callable[[str], None] = lambda what: None,
    *,
    runs: int = 1,
    policy: Policy = CONSENT,
    clock: Clock | None = None,
) -> list[LocalResult]:
    """Run each form in both columns, so many times in turn, each time on a new engine and from an empty store.

    Raises `MissingExtraError` where the `openai` SDK is not installed, `EngineError` where the engine does not start.
    """
    clock = clock or SystemClock()
    results, begun = [], clock.wall()
    for form in forms:
        found: dict[str, list[LocalRun]] = {column: [] for column in COLUMNS}
        for number in range(runs):
            for column in COLUMNS if number % 2 == 0 else COLUMNS[::-1]:
                progress(f"{form.name}, {column}" + (f", {number + 1} of {runs}" if runs > 1 else ""))
                found[column].append(_run(start, form, _Arm(column, policy, clock, begun)))
        results.append(LocalResult(form=form, runs=found))
    return results


class _Arm(NamedTuple):
    """In which column a form is run, and when."""

    column: str
    policy: Policy
    clock: Clock
    begun: float


def _run(start: Start, form: LocalForm, arm: _Arm) -> LocalRun:
    try:
        import openai
    except ImportError:
        raise MissingExtraError("openai", "openai") from None
    with (
        start(form.engine) as engine,
        openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as client,
    ):
        _asked(client, [{"role": "user", "content": "."}], {}, arm.clock)  # what only a first request takes
        if arm.column == BARE:
            return LocalRun(replies=tuple(_replies(form, client, arm, lambda session: nullcontext())))
        used = set[str]()

        def told(ended: Told) -> None:
            used.update(ended.record.consents if isinstance(ended.record, TurnRecord) else ())

        with tempfile.TemporaryDirectory() as folder:
            # The user's own settings and store are not for invented conversations.
            here = replace(arm.policy, store=StorePolicy(path=Path(folder) / "demo.db"))
            with Accel(here, clock=arm.clock, environ={}, hooks=[told]) as accel:
                wrapped = accel.wrap(client, platform="llamacpp")
                within = functools.partial(accel.session, agent="support desk")
                replies = tuple(_replies(form, wrapped, arm, lambda session: within(f"desk {session}")))
        return LocalRun(replies=replies, consents=tuple(sorted(used)))


def _replies(
    form: LocalForm, client: Any, arm: _Arm, within: Callable[[int], AbstractContextManager[Any]]
) -> Iterator[LocalReply]:
    """A plain agent loop, as anyone would write it; of several sessions each has its turn."""
    histories: list[list[Message]] = [[] for _ in range(form.sessions)]
    steps = [form.steps(session) for session in range(form.sessions)]
    for turn in range(TURNS):
        for session, history in enumerate(histories):
            asked, answer = steps[session][turn]
            history += asked
            now = arm.begun + STEP * (turn * form.sessions + session)
            messages = [{"role": "system", "content": form.system(now)}, *history]
            tools = form.tools(turn)
            with within(session):
                yield _asked(client, messages, {"tools": tools} if tools else {}, arm.clock)
            history.append(answer)


def _asked(client: Any, messages: list[Message], extra: Mapping[str, Any], clock: Clock) -> LocalReply:
    begun, first, texts, last = clock.monotonic(), None, list[str](), dict[str, Any]()
    with client.chat.completions.create(
        model="local",
        messages=messages,
        max_tokens=MOST_TOKENS,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        **extra,
    ) as stream:
        for chunk in stream:
            if first is None and chunk.choices and chunk.choices[0].delta.content:
                first = clock.monotonic() - begun
            texts += [choice.delta.content or "" for choice in chunk.choices]
            last = chunk.model_dump() if chunk.usage is not None else last
    usage, work = dialect("chat").usage_of(last.get("usage") or {}), work_of(last)
    if usage.input is None or work is None or work.computed is None:
        raise EngineError("the engine does not say what it has computed: is it llama.cpp's server?")
    return LocalReply(
        text="".join(texts),
        prompt=usage.input,
        computed=work.computed,
        first=clock.monotonic() - begun if first is None else first,
        made=usage.output or 0,
        work=work,
    )
