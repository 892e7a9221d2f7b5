"""Resources that calls read, and the simplest guess of the next one: those that were named last.

Where the exact arguments of a call cannot be told, the file or the page that it will read often can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import orjson

from agentaccel.predict.events import Asked, Event, Returned
from benchmarks.speculation.calls import Key, key_of
from benchmarks.speculation.read import Run

MOST = 10
"""Resources that are guessed for one turn."""

_ADDRESS = r"(?:https?://|www\.)[^\s\"'<>)\]},]+"
_PATH = r"~?/?[\w.@+\-]+(?:/[\w.@+\-]+)*"
_WHOLE = re.compile(rf"{_ADDRESS}|~?(?=.*/){_PATH}/?|[\w\-]+\.[a-z]\w{{0,4}}")
_NAMED = re.compile(rf"{_ADDRESS}|(?<![\w.@+\-]){_PATH}\.[a-z]\w{{0,4}}\b")  # where a run of characters begins
_LONGEST = 300


def resource_of(key: Key) -> str | None:
    """The first argument that is a path or an address as a whole; None where there is none.

    >>> resource_of(("read", b'{"limit":9,"path":"src/main.go"}')), resource_of(("grep", b'{"pattern":"a b"}'))
    ('src/main.go', None)
    """
    for value in orjson.loads(key[1]).values():
        for one in value[:1] if isinstance(value, list) else [value]:
            if isinstance(one, str) and len(one) <= _LONGEST and _WHOLE.fullmatch(one):
                return one
    return None


def foretold(resource: str, guesses: Iterable[str]) -> bool:
    """Whether one of `guesses` names it; a relative path names what ends with it, since a prefetch resolves it.

    >>> foretold("/src/cmd/main.go", ["cmd/main.go"]), foretold("/src/main.go", ["ain.go"])
    (True, False)
    """
    return any(resource == guess or resource.endswith("/" + guess) for guess in guesses)


def by_recency(run: Run) -> tuple[tuple[str, ...], ...]:
    """Before each turn of `run`, the resources that were named last, newest first."""
    seen: dict[str, None] = {}
    turns, found = {turn.at for turn in run.turns}, []
    for i, event in enumerate(run.events):
        if i in turns:
            found.append(tuple(name for _, name in zip(range(MOST), reversed(seen), strict=False)))
        for name in _named(event):
            seen.pop(name, None)
            seen[name] = None
    return tuple(found)


def _named(event: Event) -> Iterator[str]:
    """Oldest first; what stands at the head of a text counts as newer than what follows it."""
    if isinstance(event, Asked):
        yield from (name for call in event.calls if (name := resource_of(key_of(call))) is not None)
    else:
        text = event.result if isinstance(event, Returned) else event.text
        yield from reversed([match[0].rstrip(".,;:!?") for match in _NAMED.finditer(text) if len(match[0]) <= _LONGEST])
