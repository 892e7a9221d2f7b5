"""What a situation says, and the one reader of situation files; `docs/reference/situations.md` explains each key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import click

from agentaccel.facts import CacheFacts, cache_facts, platforms
from benchmarks.situations.amounts import Amount, read_amount

FOLDER = Path(__file__).parent
GRID = FOLDER / "grid"
"""Where the situations stand that `python -m benchmarks situations` measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """What the prompts are made of; sizes in tokens."""

    tools: Amount = 3_000
    """All tools together; 0 for none."""
    tool_count: int = 8
    system: Amount = 2_000
    """0 for none."""
    profile: Amount = 0
    """A block behind the system prompt that each session has for itself; 0 for none."""
    document: Amount = 0
    """A block that stands before the text of the first message; 0 for none."""
    first: Amount = 300
    """The text of the first message."""
    shared: bool = True
    """Whether all sessions have the same tools, system and document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What each turn adds; sizes in tokens."""

    text: Amount = 60
    """What the model says."""
    thinking: Amount = 0
    """A block of thinking before it; 0 for none."""
    calls: Amount = 1
    """Tool calls at once; 0 makes the model answer in text and the user write."""
    call: Amount = 60
    """The arguments of one call."""
    result: Amount = 400
    """The result of one call."""
    user: Amount = 120
    """What the user writes, where there are no calls."""
    paired: bool = False
    """Whether a text stands before each call, so that calls are not one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds."""

    between: Amount = 60
    """Between the starts of two sessions; 0 starts all at once."""
    first_byte: Amount = 2
    """From a request to the first byte of its reply; never more than `reply`."""
    reply: Amount = 5
    """From a request to the end of its reply."""
    tool: Amount = 2
    """From a reply to the next request where tools ran."""
    user: Amount = 30
    """From a reply to the next request where the user wrote."""
    slow: Amount = 0
    """The same for every `slow_every`-th reply, in place of the two above."""
    slow_every: int = 0
    """0 for never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volatile:
    """What changes from request to request."""

    clock_in_system: bool = False
    """The time stands at the beginning of the system prompt, to the second."""
    clock: str = ""
    """The same at the "start", in the "middle" or at the "end" of the system prompt, or in the first "tool"."""
    date: bool = False
    """The day on which the session began stands first in the system prompt; it never changes within a session."""
    memory: Amount = 0
    """Tokens of a block behind the system prompt that is written anew now and then."""
    memory_every: int = 0
    """Every so many requests; 0 for never."""
    memory_chance: float = 0.0
    """In each request, with this probability."""
    shuffled_tools: bool = False
    """Tools come in another order in every request."""
    tools_added: tuple[int, ...] = ()
    """Requests, by their index, from which on there is one more tool, in the middle of the list."""
    tools_removed: tuple[int, ...] = ()
    """Requests, by their index, from which on there is one tool less."""
    reconnect_chance: float = 0.0
    """That the second half of the tools is gone in a request; in the next it is back, in another order."""
    choice_every: int = 0
    """Every so many requests the model must call a tool, and then need not again; 0 for never."""
    context: Amount = 0
    """Tokens of retrieved text at the end of the last user message, which the next request no longer holds."""
    edit_every: int = 0
    """Every so many requests all tool results but the last three are replaced by a short note; 0 for never."""
    edit_chance: float = 0.0
    """In each request, with this probability."""
    compact_every: int = 0
    """Every so many requests the history begins again, with a summary of 600 tokens; 0 for never."""
    compact_chance: float = 0.0
    """In each request, with this probability."""
    leaves_out: bool = False
    """Whether calls of tools and their results are left out once a person has written again."""
    switch_every: int = 0
    """Every so many requests go to `other_model`, as many as to the first; 0 for never."""
    other_model: str = "claude-haiku-4-5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """What the agent's author had placed."""

    at: tuple[str, ...] = ()
    """Any of "tools", "system", "tail" and "top" (the request's own field)."""
    ttl: str = "5m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Agents of one kind at work."""

    name: str
    what: str = ""
    """In a sentence."""
    model: str = "claude-sonnet-5"
    platform: str = "api"
    sessions: int = 10
    turns: Amount = 10
    """Requests of a session."""
    in_turn: bool = False
    """Whether a session begins when the one before has ended, and `times.between` after that."""
    fan_out: int = 1
    """Conversations of one session that begin at once, with the same tools and system prompt."""
    streamed: bool = False
    """Whether replies are streamed."""
    second_costs: Amount = 0.01
    """What a second of waiting costs the user, in USD: `CachePolicy.cost_per_second`."""
    seed: int = 0
    bytes_per_token: Amount = 3.6
    """What the provider's tokenizer makes of this agent's text; drawn once for all sessions."""
    prompts: Prompts = Prompts()
    turn: Turns = Turns()
    times: Times = Times()
    volatile: Volatile = Volatile()
    markers: Markers = Markers()
    consents: tuple[str, ...] = ()
    """What the user of agentaccel has agreed to, by the names that `CachePolicy` has for it."""
    lengths: tuple[int, ...] = (1, 3, 8, 30, 150)
    """Turns of a session in the benchmark of situations, in place of `turns`."""
    ends_at_random: bool = False
    """Whether those are means there, and a session may end after any turn with the same odds."""
    platforms: tuple[str, ...] = ("api", "bedrock")
    """Whose rules that benchmark takes, in place of `platform`."""

    def facts(self, model: str | None = None) -> CacheFacts:
        """The cache rules that hold for `model`, or for the situation's own. Raises ValueError where none are known."""
        found = cache_facts(model or self.model, platform=self.platform)
        if found is None:
            raise ValueError(f"nothing is known about the model {model or self.model!r}")
        return found


_ALLOWED = {
    "platform": platforms("anthropic"),
    "platforms": platforms("anthropic"),
    "ttl": ("5m", "1h"),
    "at": ("tools", "system", "tail", "top"),
    "clock": ("", "start", "middle", "end", "tool"),
    # The consent to clear history comes here once the product has it; `bound` then says what its oracle may do.
    "consents": ("move_volatile", "freeze_tools", "keep_alive"),
}
"""What a key may say, where not anything goes."""

_SECTIONS: Mapping[str, type[Any]] = {
    "prompts": Prompts,
    "turn": Turns,
    "times": Times,
    "volatile": Volatile,
    "markers": Markers,
}


def load(path: Path) -> list[Situation]:
    """The situations of one TOML file. Raises click.UsageError naming file, situation and key for anything amiss."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path}: {error}") from error
    rows = data.get("situation")
    if set(data) != {"situation"} or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise click.UsageError(f"{path}: must hold [[situation]] tables and nothing else")
    try:
        found = [_situation(row, f"situation {number}") for number, row in enumerate(rows, 1)]
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from error
    names = [one.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise click.UsageError(f"{path}: more than one situation is called {', '.join(map(repr, twice))}")
    return found


def bundled() -> list[Situation]:
    """The situations that come with this repository."""
    return [one for path in sorted(FOLDER.glob("*.toml")) for one in load(path)]


def grid() -> list[Situation]:
    """The situations that come with this repository for their lengths: see `benchmarks.situations.run`."""
    return [one for path in sorted(GRID.glob("*.toml")) for one in load(path)]


def _situation(row: Mapping[str, object], where: str) -> Situation:
    name = row.get("name")
    situation: Situation = _read(Situation, row, f"situation {name!r}" if isinstance(name, str) else where)
    for model in (situation.model, situation.volatile.other_model):
        try:
            situation.facts(model)
        except ValueError as error:
            raise ValueError(f"situation {situation.name!r}: {error}") from error
    if len(situation.markers.at) > situation.facts().max_markers:
        raise ValueError(f"situation {situation.name!r}: more markers than the model takes")
    return situation


def _read(kind: type[Any], row: Mapping[str, object], where: str) -> Any:
    """`row` as a `kind`. Raises ValueError naming the key and what is allowed."""
    known, hints = {one.name: one for one in fields(kind)}, get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in row.items():
        if key not in known:
            raise ValueError(f"{where}: unknown key {key!r}; there are {', '.join(known)}")
        if key in _SECTIONS and kind is Situation:
            if not isinstance(value, Mapping):
                raise ValueError(f"{where}: {key} must be a table")
            values[key] = _read(_SECTIONS[key], value, f"{where}: {key}")
            continue
        try:
            values[key] = _value(key, hints[key], value)
        except ValueError as error:
            raise ValueError(f"{where}: {key} {error}") from error
    missing = [one.name for one in known.values() if one.default is MISSING and one.name not in values]
    if missing:
        raise ValueError(f"{where}: {', '.join(missing)} is missing")
    return kind(**values)


def _value(key: str, hint: object, value: object) -> object:
    """`value` as a field of type `hint` takes it. Raises ValueError saying what is allowed."""
    allowed = _ALLOWED.get(key, ())
    names = ", ".join(map(repr, allowed))
    if hint is bool:
        if not isinstance(value, bool):
            raise ValueError("must be true or false")
        return value
    if hint is int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError("must be a whole number of at least 0")
        return value
    if hint is float or hint == tuple[int, ...]:
        return _figures(hint, value)
    if hint is str:
        if not isinstance(value, str) or (allowed and value not in allowed):
            raise ValueError(f"must be one of {names}" if allowed else "must be a string")
        return value
    if key in _ALLOWED:
        if not isinstance(value, list) or any(one not in allowed for one in value) or len(set(value)) < len(value):
            raise ValueError(f"must be a list of different ones of {names}")
        return tuple(value)
    return read_amount(value)


def _figures(hint: object, value: object) -> object:
    """A probability, or whole numbers."""
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ValueError("must be a probability, from 0 to 1")
        return float(value)
    whole = isinstance(value, list) and all(isinstance(one, int) and one > 0 for one in value)
    if not isinstance(value, list) or not whole or len(set(value)) < len(value):
        raise ValueError("must be a list of different whole numbers of at least 1")
    return tuple(value)
