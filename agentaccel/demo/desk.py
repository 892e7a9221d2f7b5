"""The support desk: its database, its tools and its instructions."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from agentaccel_emulator import ScriptedReply, Turn, say

SYSTEM = """You are the support agent of Brass & Beam, a shop for office furniture. You work on one ticket at a time.

How to work
- Read the ticket and its notes before anything else, then look up the customer and the orders that the ticket is about.
- Never rely on what the customer says about an order when the database can tell you. Where the two disagree, say so
  kindly, name the order number and the date, and ask one precise question.
- Look for an article before you decide. Articles are our policy; your own sense of what is fair is not. If no article
  covers the case, write a note that says so and hand the ticket over.
- One action at a time. After each action, check that it did what you wanted: read the ticket again.
- Money: name amounts with two decimals and the currency. Never promise a refund that an article does not allow. Refunds
  above 500 EUR need a second pair of eyes; write a note that asks for it.
- Dates: write them as 21 November 2026. Count working days from the day after the order was placed.
- Parcels: quote the carrier by name. Do not send tracking links; the customer's account page shows them.

How to write
- Short sentences. No exclamation marks, no emoji, no apology that is longer than one sentence.
- Use the customer's name once, at the beginning. Sign as "Brass & Beam support".
- Answer the question that was asked first, then say what happens next and by when, then what the customer can do.
- If two things went wrong, treat them in two paragraphs, the worse one first.
- Never mention tools, databases, identifiers other than order and ticket numbers, or these instructions.

What you may do without asking
- read everything; add notes; set a ticket to "waiting" or "solved" when the customer has what the articles promise.
What you may not do
- change orders, prices or addresses; speak about other customers; close a ticket whose last note is a question.

Escalate to a person when: the customer mentions a lawyer, an injury, a fire or a journalist; the amount is above 500
EUR; the same customer has had three tickets in thirty days; a carrier has lost two parcels of the same order; or you have
made two attempts and the facts still do not fit together. Escalating is not failing. Say what you found, what you
tried, and what you would do next, in three lines.
"""


def _tool(name: str, description: str, **properties: tuple[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "input_schema": {
            "type": "object",
            "properties": {key: {"type": kind, "description": text} for key, (kind, text) in properties.items()},
            "required": list(properties),
            "additionalProperties": False,
        },
    }


TOOLS: tuple[dict[str, Any], ...] = (
    _tool(
        "read_ticket",
        "Read one support ticket with everything that was written on it so far: its subject, its status (open, waiting "
        "or solved), the day it was opened, the number of the customer who opened it, and every note in the order in "
        "which it was written, each with its author. Use it first, and again after every change that you make, because "
        "colleagues may have written on the same ticket in the meantime. It never changes anything.",
        ticket_id=("integer", "The number of the ticket, for example 501."),
    ),
    _tool(
        "get_customer",
        "Look up one customer by number: name, e-mail address, country as a two-letter code, the plan that the "
        "customer is on (solo, team or enterprise) and the day the customer joined. The country decides which carrier delivers "
        "and which consumer law applies; the plan decides how fast we promised to answer. It never changes anything.",
        customer_id=("integer", "The customer's number, as the ticket or an order gives it."),
    ),
    _tool(
        "list_orders",
        "List all orders of one customer, oldest first, each with its number, the item, the amount in cents of a euro, "
        "the status (in transit, delivered, returned or lost), the day it was placed and the carrier. Use it before "
        "get_order when the customer does not name an order number, and to see whether something was ordered twice.",
        customer_id=("integer", "The customer's number, as the ticket gives it."),
    ),
    _tool(
        "get_order",
        "Read one order by its number: the customer, the item, the amount in cents of a euro, the status, the day it "
        "was placed and the carrier. The status comes from the carrier and may be up to six hours old; a parcel that shows "
        "as delivered may still have been left with a neighbour. It never changes anything.",
        order_id=("integer", "The order's number, four digits, for example 1004."),
    ),
    _tool(
        "search_articles",
        "Search the policy articles by words in their title or text, and return the whole text of up to three. "
        "Articles are binding: what they allow you may promise, what they do not mention you may not. Search with one or two "
        "plain words, such as 'refund' or 'lost'; longer questions find less, not more.",
        words=("string", "One or two plain words."),
    ),
    _tool(
        "add_note",
        "Write a note on a ticket. The customer can read every note, so write it as you would write to the customer, "
        "in the style that your instructions ask for. A note cannot be changed or taken back once it is written. Returns "
        "the number of the note. Writing the same note twice puts it on the ticket twice.",
        ticket_id=("integer", "The number of the ticket."),
        text=("string", "What to write, without a signature; the signature is added."),
    ),
    _tool(
        "set_status",
        "Set a ticket to 'waiting' (the customer or a carrier has to do something next) or 'solved' (the customer has "
        "what the articles promise). Returns the ticket's new status. Setting a ticket to 'solved' sends the customer "
        "a short survey, so do it once and last, and never while a question of the customer is unanswered.",
        ticket_id=("integer", "The number of the ticket."),
        status=("string", "Either 'waiting' or 'solved'."),
    ),
)


def open_desk() -> sqlite3.Connection:
    """A fresh copy of the desk's database, in memory."""
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    connection.executescript(resources.files("agentaccel.demo").joinpath("desk.sql").read_text(encoding="utf-8"))
    return connection


def desk_tools(desk: sqlite3.Connection) -> dict[str, Callable[..., str]]:
    """The tools as functions over `desk`, by name; each returns JSON."""

    def rows(query: str, *values: object) -> list[dict[str, Any]]:
        return [dict(row) for row in desk.execute(query, values)]

    def read_ticket(ticket_id: int) -> str:
        notes = rows("SELECT author, text FROM notes WHERE ticket_id = ? ORDER BY id", ticket_id)
        return json.dumps([*rows("SELECT * FROM tickets WHERE id = ?", ticket_id), {"notes": notes}])

    def get_customer(customer_id: int) -> str:
        return json.dumps(rows("SELECT * FROM customers WHERE id = ?", customer_id))

    def list_orders(customer_id: int) -> str:
        return json.dumps(rows("SELECT * FROM orders WHERE customer_id = ? ORDER BY placed", customer_id))

    def get_order(order_id: int) -> str:
        return json.dumps(rows("SELECT * FROM orders WHERE id = ?", order_id))

    def search_articles(words: str) -> str:
        like = f"%{words}%"
        return json.dumps(rows("SELECT title, body FROM articles WHERE title || body LIKE ? LIMIT 3", like))

    def add_note(ticket_id: int, text: str) -> str:
        signed = f"{text}\nBrass & Beam support"
        cursor = desk.execute(
            "INSERT INTO notes (ticket_id, author, text) VALUES (?, 'support', ?)", (ticket_id, signed)
        )
        return json.dumps({"note": cursor.lastrowid})

    def set_status(ticket_id: int, status: str) -> str:
        desk.execute("UPDATE tickets SET status = ? WHERE id = ?", (status, ticket_id))
        return json.dumps({"ticket": ticket_id, "status": status})

    functions = (read_ticket, get_customer, list_orders, get_order, search_articles, add_note, set_status)
    return {function.__name__: function for function in functions}


Call = tuple[str, Mapping[str, Any]]

STEPS: tuple[tuple[str, tuple[Call, ...]], ...] = (
    ("I will read the ticket first.", (("read_ticket", {"ticket_id": 501}),)),
    ("Two charges for one lamp. Let me see the customer.", (("get_customer", {"customer_id": 1}),)),
    ("Now all orders of this customer.", (("list_orders", {"customer_id": 1}),)),
    (
        "Orders 1001 and 1002 look alike. I will read both.",
        (("get_order", {"order_id": 1001}), ("get_order", {"order_id": 1002})),
    ),
    ("Is there an article on duplicates?", (("search_articles", {"words": "duplicate"}),)),
    ("And on how long a refund takes.", (("search_articles", {"words": "refund"}),)),
    (
        "The second order is a duplicate, and it is sealed.",
        (
            (
                "add_note",
                {
                    "ticket_id": 501,
                    "text": "Ines, order 1002 was placed within a minute of order 1001, so it counts as a duplicate. "
                    "Please send the sealed parcel back with the label in your account. We refund 89.00 EUR once it is "
                    "on its way; card refunds take three to five working days.",
                },
            ),
        ),
    ),
    ("Let me check what the ticket says now.", (("read_ticket", {"ticket_id": 501}),)),
    ("The customer acts next.", (("set_status", {"ticket_id": 501, "status": "waiting"}),)),
    ("One more look, as the instructions ask.", (("read_ticket", {"ticket_id": 501}),)),
    (
        "Ines has two older orders; are they all right?",
        (("get_order", {"order_id": 1003}), ("search_articles", {"words": "invoice"})),
    ),
)
"""What the scripted model does on ticket 501, one entry per turn."""

CLOSING = "Ticket 501 is waiting for the return of order 1002. Nothing else is open for this customer."


# --- The five forms in which the same support desk is run, each with what it does to a prompt cache -------------------

TURNS = len(STEPS) + 1
"""Model calls per run: one per step and one that closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskForm:
    """One way to run the desk. All are functions of the turn and the time, so that every column sees the same."""

    name: str
    what: str
    """What it does, in a few words."""
    system: Callable[[int, float], str]
    """The system prompt of a turn, given its index and the wall time."""
    tools: Callable[[int], list[dict[str, Any]]]
    """The tool list of a turn."""
    pairs: int = 0
    """Text and tool call pairs per turn in place of the step's own calls; 0 leaves the step as it is."""
    pause_before: int = -1
    """The turn before which the user is away for seven minutes; -1 for never."""
    earlier: int = 0
    """Sessions just like it on the days before, which are not counted: agentaccel learns from them."""


def _plain_system(turn: int, now: float) -> str:
    return SYSTEM


def _clock_system(turn: int, now: float) -> str:
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return SYSTEM.replace("How to work\n", f"It is {shown} UTC.\n\nHow to work\n")


def _plain_tools(turn: int) -> list[dict[str, Any]]:
    return list(TOOLS)


def _shuffled_tools(turn: int) -> list[dict[str, Any]]:
    return random.Random(turn).sample(TOOLS, len(TOOLS))


FORMS: tuple[DeskForm, ...] = (
    DeskForm(name="plain loop", what="history only grows", system=_plain_system, tools=_plain_tools),
    DeskForm(name="clock in system", what="seconds in the one system string", system=_clock_system, tools=_plain_tools),
    DeskForm(name="shuffled tools", what="a new random tool order every turn", system=_plain_system, tools=_shuffled_tools),
    DeskForm(
        name="30 pairs a turn", what="text and tool_use interleaved", system=_plain_system, tools=_plain_tools, pairs=30
    ),
    DeskForm(
        name="7-minute pause", what="as in the session the day before", system=_plain_system, tools=_plain_tools,
        pause_before=6, earlier=1,
    ),
)  # fmt: skip


def scripted(form: DeskForm) -> Callable[[Turn], ScriptedReply]:
    """The model's side of `form`."""

    def answer(turn: Turn) -> ScriptedReply:
        if turn.index >= len(STEPS):
            return say(CLOSING)
        text, calls = STEPS[turn.index]
        if not form.pairs:
            blocks: list[Mapping[str, Any]] = [{"type": "text", "text": text}]
            blocks += [{"type": "tool_use", "name": name, "input": dict(arguments)} for name, arguments in calls]
            return ScriptedReply(content=tuple(blocks))
        blocks = []
        for i in range(form.pairs):
            blocks.append({"type": "text", "text": f"{text} Check {i + 1} of {form.pairs}."})
            blocks.append({"type": "tool_use", "name": "get_order", "input": {"order_id": 1001 + (turn.index + i) % 9}})
        return ScriptedReply(content=tuple(blocks))

    return answer
