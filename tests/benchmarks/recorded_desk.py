"""Made-up runs of a service desk in the normalised format: who is it, what did they order, and each order in turn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.speculation.calls import Key
from benchmarks.speculation.guesses import Before, Guess
from benchmarks.speculation.read import Run, run_of

TOOLS = {"find_user": True, "get_order": True, "cancel_order": False}


def line(task: str, turns: Sequence[tuple[Any, ...]], trial: int = 0, **fields: Any) -> dict[str, Any]:
    """One run. A turn is `("user", text)`, `("text", text)`, or `("calls", (tool, arguments, result), …)`."""
    ids = itertools.count()
    messages = list[dict[str, Any]]()
    for kind, *rest in turns:
        if kind != "calls":
            messages.append({"role": "user" if kind == "user" else "assistant", "content": rest[0]})
            continue
        asked = [(f"call_{next(ids)}", *one) for one in rest]
        calls = [
            {"id": id_, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
            for id_, tool, arguments, _ in asked
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": id_, "content": result} for id_, _, _, result in asked]
    tools = [{"name": name, "origin": "code", "read_only": reads} for name, reads in TOOLS.items()]
    own = {"id": f"{task}/{trial}", "task_id": task, "domain": "desk", "tools": tools, "messages": messages}
    return {**own, **fields}


def desk(number: int, trial: int = 0) -> dict[str, Any]:
    """A customer whose two orders are looked at, one after the other; then one that nothing has named."""
    user, orders = f"mia_li_{1000 + number}", [f"{chr(65 + number % 26)}{i}Q{number:03}" for i in (1, 2)]
    return line(
        f"desk-{number}",
        [
            ("user", f"Hello, I am {user} and ask about my orders."),
            ("calls", ("find_user", {"user": user}, json.dumps({"orders": orders}))),
            *(
                ("calls", ("get_order", {"order": order}, json.dumps({"total": number})))
                for order in (*orders, f"elsewhere {number * 7919}")
            ),
            ("text", "Both are on their way."),
            ("user", "Thank you, ###STOP###"),
        ],
        trial,
    )


def run(task: str, turns: Sequence[tuple[Any, ...]]) -> Run:
    return run_of(line(task, turns))


def written(folder: Path, name: str, lines: Iterable[dict[str, Any]]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def guess(key: Key, probability: float = 0.9, reads: bool = True) -> Guess:
    return Guess(key, probability, probability, reads)


class Silent:
    """A model that expects nothing."""

    def learn(self, runs: Sequence[Run]) -> None:
        pass

    def before(self, run: Run) -> tuple[Before, ...]:
        return tuple(Before() for _ in run.turns)


class Clairvoyant(Silent):
    """A model that is told the future."""

    def before(self, run: Run) -> tuple[Before, ...]:
        return tuple(
            Before(tuple(guess(key, 1.0, reads) for key, reads in zip(turn.keys, turn.reads, strict=True)))
            for turn in run.turns
        )
