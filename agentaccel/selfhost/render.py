"""An engine as it is to be started: a plan in one vocabulary, and what it is in the engine's own options. Pure.

    plan = LaunchPlan(engine="vllm", model="/models/m", speculation=Speculation(method="eagle3", model="/models/head"))
    launched = render(plan)
    launched.argv, launched.env, launched.reasons

What an engine, or its version, cannot do is a `ConfigError` when the plan is made. What is set without having been
asked for has a reason. Everything that is known of engines is in `facts/launch.toml`, with source and date.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentaccel.checks import check_count, check_flags, check_mapping, check_part
from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost.drafting import place_speculation
from agentaccel.selfhost.plan import KvEvents, Offload, Speculation
from agentaccel.selfhost.sheet import Row, Sheet, options, put

_VERSION = "[A-Za-z0-9][A-Za-z0-9.+_!-]{0,63}"


def engines() -> tuple[str, ...]:
    """The engines that a plan can be made for.

    >>> engines()
    ('vllm', 'sglang', 'llamacpp', 'trtllm')
    """
    return tuple(table("launch")["engines"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """One engine, as it is to be started. Raises `ConfigError` for what cannot be, and says what to do instead."""

    engine: str
    """One of `engines()`."""
    model: str
    """The model's name, or where its files lie."""
    version: str | None = None
    """Of the engine: options come and go. None for the newest that is known."""
    program: tuple[str, ...] = ()
    """The words that start it; empty for the usual ones, found by PATH."""
    device: Literal["gpu", "cpu"] = "gpu"
    served_name: str | None = None
    """What clients call the model; None for what the engine makes of `model`."""
    host: str = "127.0.0.1"
    """The address that it listens at; `0.0.0.0` for all of this machine's."""
    port: int | None = None
    """None for the engine's usual one."""
    context: int | None = None
    """Tokens that one request may have, its reply included."""
    concurrency: int | None = None
    """Requests that are computed at once."""
    block_size: int | None = None
    """Tokens of a block: of a prefix, whole blocks are reused."""
    prefix_caching: bool = True
    kv_events: KvEvents | None = None
    priorities: bool = False
    """True if requests are taken by the priority that they are sent with."""
    figures: bool = True
    """True if the engine is to count, and to say in each reply what it did."""
    speculation: Speculation = field(default_factory=Speculation)
    offload: Offload | None = None
    role: Literal["both", "prefill", "decode"] = "both"
    """What it computes of a request: all of it, the prompt, or the reply."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that it sees beside those that it needs."""
    extra: tuple[str, ...] = ()
    """Further words of the command, as they are; none of them may repeat what the plan says."""
    lossy: bool = False
    """True if ways of guessing are allowed that change what the model says."""

    def __post_init__(self) -> None:
        if self.engine not in engines():
            raise ConfigError(f"the engine is {self.engine!r}; give one of {', '.join(engines())}")
        if self.device not in ("gpu", "cpu"):
            raise ConfigError(f"LaunchPlan.device is {self.device!r}; give gpu or cpu")
        if not self.model or self.model.startswith("-"):
            raise ConfigError(f"LaunchPlan.model is {self.model!r}; give the model's name, or where its files lie")
        self._check_parts()
        launched = render(self)  # raises for what the engine cannot do
        for word in (*launched.argv, *launched.env.values(), *launched.reasons):
            if not isinstance(word, str) or not word.isprintable():
                raise ConfigError(f"a word of the command is {word!r}; give printable text")

    def _check_parts(self) -> None:
        check_flags(self, "prefix_caching", "priorities", "figures", "lossy")
        check_part(self, "speculation", Speculation)
        check_mapping(self, "env", '{"HF_HUB_OFFLINE": "1"}')
        for part, kind in (("kv_events", KvEvents), ("offload", Offload)):
            if getattr(self, part) is not None:
                check_part(self, part, kind)
        for part in ("port", "context", "concurrency", "block_size"):
            if getattr(self, part) is not None:
                check_count(f"LaunchPlan.{part}", getattr(self, part), 1)
        if self.port is not None and self.port > 65535:
            raise ConfigError(f"LaunchPlan.port is {self.port}; give at most 65535")
        for part in ("program", "extra"):
            if not isinstance(getattr(self, part), tuple):
                raise ConfigError(f"LaunchPlan.{part} is {getattr(self, part)!r}; give a tuple of words")
        if wrong := [name for name in self.env if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)]:
            raise ConfigError(f"a variable is called {wrong[0]!r}; give letters, digits and _")
        if self.version is not None and not re.fullmatch(_VERSION, str(self.version)):
            raise ConfigError(f"LaunchPlan.version is {self.version!r}; give a version, such as 0.33.0 or b11549")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a plan is in an engine's own words."""

    engine: str
    version: str
    """The version whose options these are."""
    program: tuple[str, ...]
    """The first words of the command: what is run."""
    arguments: tuple[str, ...]
    """All others."""
    env: Mapping[str, str]
    """Variables that it needs, and those of the plan."""
    file: Mapping[str, Any] | None
    """What the engine's own configuration file says: the same as `arguments` but for `extra`, or what has no option
    there (see `reads`). None for an engine that has no such file."""
    reads: str | None
    """The file that the command names, and that has to be written first; None where everything is in the command."""
    host: str
    port: int
    health: str
    """The path that answers 200 once it is ready."""
    reasons: tuple[str, ...]
    """Why something was set that was not asked for, and what to know."""
    extra: tuple[str, ...]
    """The last words, which no file holds."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command."""
        return (*self.program, *self.arguments)


def render(plan: LaunchPlan) -> Launch:
    """The engine's own options. Raises `ConfigError` for what the engine, in its version, cannot do."""
    sheet = Sheet(plan.engine, plan.version)
    values = _values(plan, sheet)
    said = {"figures": plan.figures, "cpu": plan.device == "cpu", "speculates": plan.speculation.method != "none"}
    sheet.words |= {word for word, holds in {**values, **said}.items() if holds}
    program = plan.program or _program(sheet)
    for name in values:
        _set(sheet, name, values)
    given = list(_options_in(plan.extra, sheet.known))
    if plan.speculation.method != "none":
        place_speculation(sheet, plan.speculation, lossy=plan.lossy, beside=given)
    _connect(sheet, _chosen(sheet, plan))
    env = _unasked(sheet)
    _check_given(sheet, given)
    return _launch(plan, sheet, program, {**env, **plan.env}, values["port"])


def _launch(plan: LaunchPlan, sheet: Sheet, program: tuple[str, ...], env: Mapping[str, str], port: int) -> Launch:
    known = sheet.known
    placed = {at: value for at, value in sheet.placed.items() if at.startswith("-")}
    inside = {at: value for at, value in sheet.placed.items() if not at.startswith("-")}
    if inside:
        option, name = known["reads"]
        placed[option] = name
    model = known["settings"]["model"]["at"] if program[-1] == known.get("alone_after") else None
    words = [word for at, value in placed.items() for word in _words("" if at == model else at, value)]
    same = {at.lstrip("-"): value if isinstance(value, bool | int) else _text(value) for at, value in placed.items()}
    return Launch(
        engine=plan.engine,
        version=sheet.version,
        program=program,
        arguments=(*words, *plan.extra),
        env=env,
        file=inside or (same if "file" in known else None),
        reads=known["reads"][1] if inside else None,
        host=plan.host,
        port=port,
        health=known["health"],
        reasons=tuple(sheet.reasons),
        extra=plan.extra,
    )


def _words(option: str, value: Any) -> list[str]:
    """An option and its value: none for False, the option alone for True."""
    if isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, str) and (not value or value.startswith("-")):  # an engine would take it for an option
        raise ConfigError(f"{option or 'the model'} is {value!r}; give one that does not begin with a dash")
    return [option, _text(value)] if option else [_text(value)]


def _text(value: Any) -> str:
    """A value as one word: JSON for what has parts."""
    has_parts = isinstance(value, dict | list)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if has_parts else str(value)


# --- what is asked for ------------------------------------------------------------------------------------------------


def _program(sheet: Sheet) -> tuple[str, ...]:
    row = next(one for one in reversed(sheet.known["programs"]) if sheet.applies(one))
    sheet.say(row.get("why"), shlex.join(row["words"]))
    return tuple(row["words"])


def _values(plan: LaunchPlan, sheet: Sheet) -> dict[str, Any]:
    """The simple parts of the plan by their names in the facts, each after those that its value needs."""
    events = plan.kv_events
    return {
        "model": plan.model,
        "served_name": plan.served_name,
        "host": plan.host,
        "port": plan.port or sheet.known["port"],
        "concurrency": plan.concurrency,
        "context": plan.context,
        "block_size": plan.block_size,
        "prefix_caching": plan.prefix_caching,
        "priorities": plan.priorities or None,
        "kv_events": events and events.endpoint,
        "kv_replay": events and events.replay,
        "kv_topic": events and events.topic,
    }


def _set(sheet: Sheet, name: str, values: dict[str, Any]) -> None:
    row: Row | None = sheet.known["settings"].get(name)
    if row is None:
        if values[name] not in (None, False):
            sheet.lacks(name)
        return
    row = {**row, **row.get("cpu", {})} if "cpu" in sheet.words else row
    if values[name] is None and "usual" in row:
        values[name] = row["usual"]
        sheet.say(row["why"], f"{row['at']} {row['usual']}")
    value = values[name]
    if value is None:
        return
    if not sheet.has(row):
        sheet.lacks(name, row)
    if (step := row.get("multiple")) and value % step:
        raise ConfigError(f"{name} is {value}; give a multiple of {step}: {row['why']}")
    if "times_by" in row:
        by = values[row["times_by"]]
        sheet.say(row["why"], f"{row['at']} {value * by}, {by} times {value}")
        value *= by
    if isinstance(value, bool):  # an option for yes, and one for no; a place in a file is one for both
        at = row.get("at" if value else "off")
        if at is not None:
            sheet.place(at, row.get("value", value or at.startswith("-")))
    else:
        sheet.place(row["at"], value)
    sheet.place_all(row)


def _chosen(sheet: Sheet, plan: LaunchPlan) -> list[dict[str, Any]]:
    """Place offload and role; those that a connector does are returned."""
    offload = plan.offload
    asked = {
        "offload": None if offload is None else offload.to,
        "roles": None if plan.role == "both" else plan.role,
    }
    connectors = list[dict[str, Any]]()
    for kind, what in asked.items():
        if what is None:
            continue
        row: Row | None = sheet.known.get(kind, {}).get(what)
        if row is None:
            sheet.lacks(what)
        if "cpu" in sheet.words and "not_on_cpu" in row:
            raise ConfigError(f"{sheet.name} has no offload {what} on a CPU: {row['not_on_cpu']}")
        sheet.place_all(row)
        gib = offload.gib if offload is not None else 0
        inside = {**row.get("connector", {}), **sheet.known.get("connectors", {}).get("each", {})}
        if "gib" in row:
            at = row["gib"]["at"].split(".")
            put(inside if "connector" in row else sheet.placed, at, gib * row["gib"].get("times", 1))
        connectors += [inside] if "connector" in row else []
        if "why" in row:
            sheet.say(row["why"].format(gib=gib), what)
    return connectors


def _connect(sheet: Sheet, connectors: list[dict[str, Any]]) -> None:
    if connectors:
        known = sheet.known["connectors"]
        several = {**known["several"], "kv_connector_extra_config": {"connectors": connectors}}
        sheet.place(known["at"], {**(several if len(connectors) > 1 else connectors[0]), **known["outer"]})
        sheet.say(known["why"], f"{known['at']} {json.dumps(known['outer'])}")


# --- what is not asked for, and what was written by hand --------------------------------------------------------------


def _unasked(sheet: Sheet) -> dict[str, str]:
    """Place what the engine needs beside what was asked for; the variables that it needs are returned."""
    env = dict[str, str]()
    for row in sheet.known["own"]:
        if sheet.applies(row) and sheet.has(row):
            sheet.place_all(row)
            env |= row.get("env", {})
            sheet.say(row["why"], ", ".join(row.get("put", ())))
    return env


def _options_in(words: Iterable[str], known: Row) -> Iterator[str]:
    """The options among `words`, as the facts spell them."""
    aliases, ours = known.get("aliases", {}), options(known)
    for word in words:
        if word.startswith("-"):
            given = word.partition("=")[0].partition(".")[0]
            dashed = f"--{given[2:].replace('_', '-')}"
            yield aliases.get(given, dashed if dashed in ours else given)


def _check_given(sheet: Sheet, given: Iterable[str]) -> None:
    """Nothing that was written by hand may take the place of what the plan says, or stop the start."""
    gone, ours = sheet.known.get("gone", {}), options(sheet.known)
    for option in given:
        if option in gone:
            raise ConfigError(f"{sheet.name} has no {option} any more: give {gone[option]}")
        if option in ours:
            raise ConfigError(f"{option} is the plan's own: say it there, and not among the further words")
