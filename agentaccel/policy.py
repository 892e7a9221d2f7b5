"""`Policy`: every choice a user can make, frozen and checked where it is written.

By default requests gain markers and options of caches, and may wait for another that writes what they begin with; calls
of tools that are declared to read may be run early or remembered. Whatever changes content or sends requests of our own
is off until it is switched on here.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

from agentaccel.checks import check_count, check_flags, check_mapping, check_part, check_prices, is_amount, is_names
from agentaccel.errors import ConfigError, UnknownModel
from agentaccel.facts import known_model, lifetimes
from agentaccel.former import former_fields
from agentaccel.types import Effect, EffectSaid

Mode = Literal["on", "observe", "off"]
Retention = Literal["24h", "in_memory"]


CONSENTS = ("move_volatile", "freeze_tools", "clear_results")
"""Consents to change content that are given by a word; those to condense it need a function of yours, too."""


@former_fields(hold_at_most="max_wait", second_costs="cost_per_second", keep_alive_budget="own_requests_budget")
@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy:
    """Choices about the prompt cache. What changes content, or sends a request of our own, is off until you say so."""

    ttl: str = "auto"
    """Lifetime to mark with: a label of the provider ("5m", "1h"), or "auto" for the one that is expected to cost
    least, marker by marker."""
    isolate_tenants: bool = True
    """Whether the prefixes of each tenant that a session names are kept apart from those of others, where a provider
    or server has a field for that. It costs a write for each tenant of what all begin with; False lets them share."""
    retention: Retention | None = None
    """`prompt_cache_retention`, sent to models before gpt-5.6 that are known to take it; None sends nothing."""
    diagnostics: bool = False
    """Consent to send the provider's own diagnostics field, which asks it why a prefix was missed."""
    move_volatile: bool = False
    """Consent to move text that keeps changing (a clock, ids, a git status) from the beginning of the prompt to its
    end, where that is cheaper."""
    freeze_tools: bool = False
    """Consent to send tools in the order in which they first came: new ones at the end, removed ones kept, and
    refused where the model calls them."""
    pinned: tuple[str, ...] = ()
    """Places whose text is never moved or put in another order: "tools", "system", or one of them ("system[1]")."""
    keep_alive: bool = False
    """Consent to requests of our own that keep entries from expiring during a pause of an open session."""
    own_requests_budget: float = 1.0
    """The most that these requests, and those that pre-warm, may cost in one session, in USD; where prices are not
    known there are none. One that finds its entry evicted early costs more than was expected, and is the last of its
    pause."""
    prewarm: bool = False
    """Consent to requests of our own that write what the next request begins with, where the agent announces that one
    by `Session.prewarm` and the seconds won are worth what it costs; and to asking a server of your own to compute what
    is likely to come next, where it has a field for that (Dynamo)."""
    max_wait: float = 10.0
    """The most seconds for which a request waits for another one to write the prefix that both begin with; 0 for never.
    Taken only where what it saves is worth the wait."""
    cost_per_second: float = 0.01
    """What a second of waiting costs you, in USD: such waiting, and that for a prefix which is not cached."""

    def __post_init__(self) -> None:
        check_flags(self, "isolate_tenants", "diagnostics", "move_volatile", "freeze_tools", "keep_alive", "prewarm")
        if self.ttl != "auto" and self.ttl not in lifetimes():
            known = ", ".join(map(repr, ("auto", *lifetimes())))
            raise ConfigError(f"CachePolicy.ttl is {self.ttl!r}; give one of {known}")
        if self.retention not in (None, *get_args(Retention)):
            known = ", ".join(map(repr, (None, *get_args(Retention))))
            raise ConfigError(f"CachePolicy.retention is {self.retention!r}; give one of {known}")
        for name in ("own_requests_budget", "max_wait", "cost_per_second"):
            if not is_amount(getattr(self, name)):
                raise ConfigError(f"CachePolicy.{name} is {getattr(self, name)!r}; give a number of 0 or more")
        if not is_names(self.pinned) or not all(map(_is_place, self.pinned)):
            raise ConfigError(
                f"CachePolicy.pinned is {self.pinned!r}; give a tuple of places: 'tools', 'system' or 'system[1]'"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPolicy:
    """Consents to send an older part of a conversation shorter, where that pays. All of it is off until you say so.

        HistoryPolicy(clear_results=True)                       # a note in place of old results of tools
        HistoryPolicy(distil=extractive)                        # a shorter form of long ones, from a function
        HistoryPolicy(summarise=my_summary)                     # your summary in place of the oldest messages

    A function that you pass is the consent to use it. It is called in a thread of our own, never while a request waits.
    """

    clear_results: bool = False
    """Consent to send a note in place of old results of tools."""
    keep_results: int = 3
    """So many results at the end are never touched; nor, by a summary, are so many replies and what follows them."""
    pinned_tools: tuple[str, ...] = ()
    """Tools whose results are never touched."""
    distil: Callable[[str], str | Awaitable[str]] | None = None
    """Given the text of a long result, what is worth keeping of it."""
    distil_from: int = 1000
    """Tokens from which a result is long."""
    summarise: Callable[[Mapping[str, Any]], str | Awaitable[str]] | None = None
    """Given a request whose messages are those to be replaced, a summary of them."""
    summarise_from: int = 20_000
    """Tokens of history from which a summary is thought of."""

    def __post_init__(self) -> None:
        check_flags(self, "clear_results")
        for name, least in (("keep_results", 1), ("distil_from", 1), ("summarise_from", 1)):
            check_count(f"HistoryPolicy.{name}", getattr(self, name), least)
        if not is_names(self.pinned_tools):
            raise ConfigError(
                f"HistoryPolicy.pinned_tools is {self.pinned_tools!r}; give a tuple of names: ('read_file',)"
            )
        for name in ("distil", "summarise"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise ConfigError(f"HistoryPolicy.{name} is {function!r}; give a function, or None")

    @property
    def consents(self) -> bool:
        """Whether anything may be edited."""
        return self.clear_results or self.distil is not None or self.summarise is not None


@former_fields(
    memo="cache_results",
    memo_across="cache_results_across",
    egress="remote_guesses",
    fresh_for="max_age",
    slots="max_concurrent",
    per_minute="rate_limits",
    output_cap="max_result_bytes",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """Choices about running tools early: only what is proven to read, and declared safe to run beside anything, is.
    Raises `ConfigError` for what cannot be meant.

        ToolPolicy(speculate=False)                             # nothing before the model asks for it
        ToolPolicy(effects={"search": "read_remote"})           # what a tool of yours does, by its name
        ToolPolicy(remote_guesses=("search", "a.example"))      # remote reads that a guess may make
    """

    cache_results: bool = True
    """Answer a call that reads, made again in a session, by its earlier result while nothing that may write has run:
    for tools that are pure, or declare how long a result is fresh or how a change shows."""
    eager: bool = True
    """Begin a call that reads the moment the model has written it, before its message ends."""
    speculate: bool = True
    """Begin calls that read before the model asks, where they are likely enough; local reads only, but for
    `remote_guesses`."""
    prewarm: bool = True
    """Call the `prewarm` and `prefetch` functions that tools declare, where their tool is likely to be called."""
    effects: Mapping[str, EffectSaid] = field(default_factory=dict)
    """What tools do, by name: an effect, its value, or a function of the arguments. It outweighs what they declare."""
    remote_guesses: tuple[str, ...] = ()
    """Consent to predicted remote reads: names of tools, or hosts of the addresses that they are given."""
    cache_results_across: float | None = None
    """Consent to answer a call by a result of another session of the same tenant, and the most seconds of its age."""
    max_age: float = 300.0
    """Seconds for which a result that was begun early may wait for its call, where the tool declares none."""
    timeout: float = 30.0
    """Seconds after which an early run that nobody waits for is given up."""
    concurrency: int = 8
    """Early runs under way at once, in all sessions."""
    max_concurrent: Mapping[str, int] = field(default_factory=dict)
    """By name of a tool, how many of its runs there can be at once, such as connections of a pool: the last one that is
    free is never taken early."""
    rate_limits: Mapping[str, int] = field(default_factory=dict)
    """By name of a tool, how many runs of it a minute its provider allows; a guess never takes the last fifth."""
    max_result_bytes: int = 4 * 1024 * 1024
    """Bytes of a result that is kept for its call; a larger one is dropped."""
    depth: int = 3
    """Steps ahead that a finished guess may lead to."""

    def __post_init__(self) -> None:
        check_flags(self, "cache_results", "eager", "speculate", "prewarm")
        for name, least in (("concurrency", 0), ("max_result_bytes", 0), ("depth", 1)):
            check_count(f"ToolPolicy.{name}", getattr(self, name), least)
        for what in ("max_concurrent", "rate_limits"):
            check_mapping(self, what, "{'search': 4}")
            for name, most in getattr(self, what).items():
                check_count(f"ToolPolicy.{what}[{name!r}]", most, 1)
        for name in ("max_age", "timeout", "cache_results_across"):
            value = getattr(self, name)
            if not (is_amount(value) and value > 0) and not (name == "cache_results_across" and value is None):
                raise ConfigError(f"ToolPolicy.{name} is {value!r}; give a number of seconds above 0")
        check_mapping(self, "effects", "{'search': 'read_remote'}")
        if not is_names(self.remote_guesses) or "/" in "".join(self.remote_guesses):
            given = self.remote_guesses
            raise ConfigError(f"ToolPolicy.remote_guesses is {given!r}; give a tuple of names: ('search', 'a.org')")
        for name, said in self.effects.items():
            if not callable(said) and said not in list(Effect):
                known = ", ".join(repr(one.value) for one in Effect)
                raise ConfigError(f"ToolPolicy.effects[{name!r}] is {said!r}; give one of {known}, or a function")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePolicy:
    """Choices about the trace store."""

    path: Path | str | None = None
    """The SQLite file; None for `trace.db` in the user's data folder, or `AGENTACCEL_STORE` where that is set."""
    enabled: bool = True
    """False keeps everything in memory: nothing is written to disk and nothing is learned across processes."""
    content: bool = False
    """Consent to keep message content in the store, and values of arguments that calls have in common. Without it, only
    keyed hashes, sizes, names and usage are kept."""
    max_bytes: int = 256 * 1024 * 1024
    """Size at which the oldest turns are dropped; at least 1 MiB."""
    sensitive: tuple[str, ...] = ()
    """Arguments of tools, as TOOL.ARGUMENT, whose values are neither learned nor written into patterns; `*` stands for
    any characters, and "*.*" for every argument."""

    def __post_init__(self) -> None:
        check_flags(self, "enabled", "content")
        if self.path is not None and not (isinstance(self.path, str | os.PathLike) and str(self.path)):
            raise ConfigError(f"StorePolicy.path is {self.path!r}; give the path of a file, or None for the default")
        if not is_amount(self.max_bytes) or self.max_bytes < 1024 * 1024:
            raise ConfigError(f"StorePolicy.max_bytes is {self.max_bytes!r}; give at least 1048576 (1 MiB)")
        if not is_names(self.sensitive) or not all("." in one for one in self.sensitive):
            raise ConfigError(
                f"StorePolicy.sensitive is {self.sensitive!r}; give a tuple of names: ('login.password',)"
            )

    def is_sensitive(self, tool: str, argument: str) -> bool:
        """Whether values of an argument of a tool are never written."""
        return any(fnmatchcase(f"{tool}.{argument}", one) for one in self.sensitive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What agentaccel may do. Raises `ConfigError` for what cannot be meant, and `UnknownModel` for an alias of a model
    that is not known.

        Policy()                                    # markers where they pay
        Policy(mode="observe")                      # watch, predict, record; change nothing
        Policy(holdout=0.05)                        # leave 5 % of sessions as written, as a control group
        Policy(cache=CachePolicy(ttl="1h"))         # one lifetime for every marker of ours
        Policy(aliases={"prod": "claude-opus-5"})   # names that your gateway or deployment uses
        Policy(stream_inside=True)                  # tools begin early in calls that are not streamed, too
    """

    mode: Mode = "on"
    """"on": act; "observe": record and predict, change neither request nor response; "off": do not take part."""
    holdout: float = 0.0
    """Share of sessions left as written for comparison, 0 ≤ share < 1; chosen by a keyed hash of the session's id."""
    cache: CachePolicy = field(default_factory=CachePolicy)
    history: HistoryPolicy = field(default_factory=HistoryPolicy)
    tools: ToolPolicy = field(default_factory=ToolPolicy)
    store: StorePolicy = field(default_factory=StorePolicy)
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Your names for models, mapped to names that agentaccel knows."""
    prices: Mapping[str, Mapping[str, float | Mapping[str, float]]] = field(default_factory=dict)
    """Your own prices in USD per million tokens, by model: "input", "output", "read", and "write" by lifetime; what is
    left out follows the model's cache facts."""
    stream_inside: bool = False
    """Consent to send a call that asks for a whole reply as a streamed one, where it has tools that may begin early:
    the provider sees a streamed request, and the caller gets the whole reply, put together from the stream. Where that
    could not be told apart from the reply of a call that is not streamed, the call goes out as written."""
    strict: bool = False
    """Raise our own failures in place of logging them; for tests."""

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ConfigError(f"Policy.mode is {self.mode!r}; give one of {', '.join(map(repr, get_args(Mode)))}")
        check_flags(self, "stream_inside", "strict")
        for part, kind in _PARTS.items():
            check_part(self, part, kind)
        if not is_amount(self.holdout) or self.holdout >= 1:
            raise ConfigError(f"Policy.holdout is {self.holdout!r}; give a share from 0 up to but not including 1")
        check_mapping(self, "prices", "{'prod': {'input': 3.0, 'output': 15.0}}")
        check_mapping(self, "aliases", "{'prod': 'claude-opus-5'}")
        for model, prices in self.prices.items():
            check_prices(model, prices, lifetimes())
        for name, model in self.aliases.items():
            if not isinstance(model, str) or not known_model(model):
                raise UnknownModel(model, f"the alias {name!r} must name a model that is known")


_PARTS = {"cache": CachePolicy, "history": HistoryPolicy, "tools": ToolPolicy, "store": StorePolicy}
"""Fields of `Policy` that hold settings of their own."""


def policy_of(policy: object) -> Policy:
    """`policy`, or the default one for None. Raises `ConfigError` for anything else; the message for a part of a policy
    says where the part goes."""
    if policy is None:
        return Policy()
    if isinstance(policy, Policy):
        return policy
    for part, kind in _PARTS.items():
        if isinstance(policy, kind):
            raise ConfigError(f"Accel takes a Policy, and this is a {kind.__name__}: wrap it in Policy({part}=…)")
    raise ConfigError(f"Accel takes a Policy, such as Accel(Policy(mode='observe')); got {policy!r}")


def _is_place(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"(tools|system)(\[\d+\])?", name) is not None


# --- What the environment says: it has the last word on the policy, and asks for log lines ----------------------------

ENV_DISABLE = "AGENTACCEL_DISABLE"
"""Set to 1 to remove agentaccel: `Accel` then hands back clients and tools as they were given."""
ENV_MODE = "AGENTACCEL_MODE"
"""Overrides `Policy.mode`."""
ENV_LOG = "AGENTACCEL_LOG"
"""Set to debug, info or warning to see agentaccel's log lines on standard error."""
ENV_STORE = "AGENTACCEL_STORE"
"""Overrides the path of the trace store."""
ENV_PLATFORM = "AGENTACCEL_PLATFORM"
"""Who answers `openai` clients at hosts that no data file lists; `wrap(client, platform=…)` says so of one client."""

log = logging.getLogger("agentaccel")


def from_environment(policy: Policy, environ: Mapping[str, str]) -> Policy:
    """`policy` with what the environment says in its place. Raises `ConfigError` for what cannot be meant."""
    disable = environ.get(ENV_DISABLE, "").strip().lower()
    if disable in {"1", "true", "yes", "on"}:
        return replace(policy, mode="off")
    if disable not in {"", "0", "false", "no", "off"}:
        raise ConfigError(f"{ENV_DISABLE} is {disable!r}; set it to 1 to remove agentaccel, or to 0, or unset it")
    mode = environ.get(ENV_MODE, "").strip().lower()
    if mode:
        if mode not in get_args(Mode):
            raise ConfigError(f"{ENV_MODE} is {mode!r}; set it to one of {', '.join(get_args(Mode))}, or unset it")
        policy = replace(policy, mode=mode)  # type: ignore[arg-type]  # checked on the line above
    path = environ.get(ENV_STORE, "").strip()
    if path:
        policy = replace(policy, store=replace(policy.store, path=path))
    return policy


def log_as_asked(environ: Mapping[str, str], *, strict: bool) -> None:
    """Follow `AGENTACCEL_LOG`, once: libraries leave logging to the application unless the user asks for it.

    Where `strict`, raises `ConfigError` for what is no level; else that is left.
    """
    wanted = environ.get(ENV_LOG, "").strip()
    level = logging.getLevelNamesMapping().get(wanted.upper())
    if wanted and level is None and strict:
        raise ConfigError(f"{ENV_LOG} is {wanted!r}; set it to debug, info or warning, or unset it")
    if level is None or any(isinstance(handler, logging.StreamHandler) for handler in log.handlers):
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(level)
