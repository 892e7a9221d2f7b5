"""The tools of one `Accel` by name: how each is run, what its owner declares, and whether a call of it reads."""

from __future__ import annotations

import copy
import inspect
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentaccel.effects.launch import Allowance, judge_call
from agentaccel.effects.spec import ToolSpec
from agentaccel.locks import Lock
from agentaccel.policy import ToolPolicy
from agentaccel.predict.identity import Key, Principal, arguments_key, is_plain
from agentaccel.types import Effect, ToolCall
from agentaccel.values import kept_name

# --- How many slots of a host real calls need at once -----------------------------------------------------------------
# The most that were seen, which fades: one large turn does not keep early runs from the slots that it took for ever.

FADES = 1 / 16
"""Of a slot, for each real call that begins and needs fewer: what is needed once in so many calls is kept free."""


def still_needed(needed: float, running: int) -> float:
    """What is needed, once a real call has begun with which so many are under way.

    >>> still_needed(1.0, 4), still_needed(4.0, 1)
    (4.0, 3.9375)
    """
    return max(float(running), needed - FADES)


log = logging.getLogger("agentaccel")

READS = (Effect.PURE, Effect.READ_LOCAL, Effect.READ_REMOTE)
"""Effects of calls that change nothing."""


_NOT_BY_NAME = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


@dataclass(slots=True, eq=False, kw_only=True)
class KnownTool:
    """One tool: the user's function, and what is known of it."""

    name: str
    function: Callable[..., Any] | None
    """The very executor of real calls; None where only the loop knows how to run it."""
    spec: ToolSpec
    is_async: bool = True
    signature: inspect.Signature | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Of arguments that a call need not name, where they are plain JSON; the function's own, not those of one that it
    wraps, before which it may put others."""
    ordered: bool = False
    """Whether the function sees in which order arguments are named."""
    others: str | None = None
    """The parameter that takes arguments of any other name."""
    nameless: bool = False
    """It takes an argument by position alone, so the names of arguments do not tell what it is given."""
    effect: Effect | None = None
    """What every call of it does, where that does not depend on the arguments."""
    running: int = 0
    """Real calls under way."""
    needed: float = 1.0
    """Real calls that were under way at once, of late."""
    calls: int = 0
    """Real calls that were run here."""

    def begins(self) -> None:
        """A real call begins."""
        self.calls += 1
        self.running += 1
        self.needed = still_needed(self.needed, self.running)

    def by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        """Arguments by name, as the model gives them; by position where the signature does not say."""
        if args and self.signature is not None:
            try:
                given = dict(self.signature.bind(*args, **kwargs).arguments)
            except TypeError:  # the tool itself is the one to complain
                pass
            else:
                more = given.pop(self.others, {}) if self.others is not None else {}
                return {**given, **more}
        return {**{str(i): value for i, value in enumerate(args)}, **kwargs} if args else kwargs

    def identity(self, arguments: Mapping[str, Any]) -> bytes | None:
        """What makes a call with `arguments` the same as another; None where they are not plain JSON."""
        return arguments_key(arguments, self.defaults, ordered=self.ordered)

    def takes(self, arguments: Mapping[str, Any]) -> bool:
        """Whether the function can be called with `arguments`, and with nothing but them."""
        if self.signature is None or self.function is None:
            return False
        if any(one.kind in _NOT_BY_NAME for one in self.signature.parameters.values()):
            return False
        try:
            self.signature.bind(**arguments)
        except TypeError:
            return False
        return True


def made(name: str, function: Callable[..., Any] | None, spec: ToolSpec, policy: ToolPolicy) -> KnownTool:
    """The tool that runs `function`; what its effect is, where one look is enough, is told here."""
    signature, own = _signature(function), _signature(function, own=True)
    parameters = signature.parameters.values() if signature is not None else ()
    its_own = own.parameters.values() if own is not None else ()
    return KnownTool(
        name=name,
        function=function,
        spec=spec,
        is_async=inspect.iscoroutinefunction(function),
        signature=signature,
        defaults={one.name: one.default for one in its_own if one.default is not one.empty and is_plain(one.default)},
        ordered=own is None or any(one.kind is one.VAR_KEYWORD for one in its_own),
        others=next((one.name for one in parameters if one.kind is one.VAR_KEYWORD), None),
        nameless=any(one.kind is one.POSITIONAL_ONLY for one in parameters),
        effect=_steady(name, spec, policy),
    )


def _signature(function: Callable[..., Any] | None, *, own: bool = False) -> inspect.Signature | None:
    """What a function takes, or says that it does, as where it wraps another one; its `own` is what its code takes."""
    try:
        if function is None or (own and getattr(function, "__signature__", None) is not None):
            return None
        return inspect.signature(function, follow_wrapped=not own)
    except (TypeError, ValueError):  # some builtins have none
        return None


def _steady(name: str, spec: ToolSpec, policy: ToolPolicy) -> Effect | None:
    """The effect of every call; None where it takes a look at the arguments, which may be a long one."""
    looks = callable(policy.effects.get(name)) or (
        name not in policy.effects and (callable(spec.effect) or spec.judge is not None or spec.kind is not None)
    )
    if looks:
        return None
    return judge_call(ToolCall(name=name, arguments={}), spec, Allowance(effects=policy.effects)).effect


@dataclass(slots=True)
class Tools:
    """Thread-safe. A name that stands for two functions stands for none, as far as early runs go."""

    policy: ToolPolicy
    epoch: int = 0
    """Changes whenever something that was allowed is not any more."""
    empty: bool = True
    """Whether it is known of none how to run it."""
    _known: dict[tuple[str, str], KnownTool | None] = field(default_factory=dict)
    """By the session that it was wrapped in, empty for none, and its name."""
    _unnamed: dict[str, KnownTool] = field(default_factory=dict)
    _wrote: frozenset[str] = frozenset()
    """Tools that were seen to write although they were said to read."""
    _lock: Lock = field(default_factory=Lock)

    def add(self, name: str, function: Callable[..., Any], spec: ToolSpec, session: str = "") -> KnownTool:
        """`function` is the tool called `name`: of all sessions, or of the one that it was wrapped in."""
        tool = made(name, function, spec, self.policy)
        with self._lock:
            known = self._known.get((session, name), tool)
            same = known is not None and known.function == function and known.spec == spec
            self._known[session, name] = tool if same else None
            self.empty = not any(self._known.values())
            self.epoch += not same
        return tool

    def named(self, name: str, session: str) -> KnownTool | None:
        """The one tool of this name that `session` has and that it is known how to run."""
        own = (session, name)
        return self._known[own] if own in self._known else self._known.get(("", name))

    def stands(self, tool: KnownTool, session: str) -> bool:
        """Whether `tool` is what its name stands for in `session`, so that results under that name are its own."""
        if tool.function is None:
            return True
        named = self.named(tool.name, session)
        return named is tool or (named is not None and named.function == tool.function and named.spec == tool.spec)

    def is_everybodys(self, tool: KnownTool) -> bool:
        """Whether `tool` is what its name stands for where a session has none of its own."""
        return self.stands(tool, "")

    def leave(self, session: str) -> None:
        """Forget what is `session`'s own."""
        with self._lock:
            for own in [own for own in self._known if session and own[0] == session]:
                del self._known[own]
            self.empty = not any(self._known.values())

    def running(self, name: str) -> tuple[int, int]:
        """Real calls of a tool under way in all sessions, and the most that were in one of late."""
        known = [tool for tool in self.all() if tool.name == name]
        return sum(tool.running for tool in known), math.ceil(max((tool.needed for tool in known), default=1))

    def all(self) -> list[KnownTool]:
        """All of them that it is known how to run."""
        return [tool for tool in tuple(self._known.values()) if tool is not None]

    def had_by(self, session: str) -> list[KnownTool]:
        """Those that `session` can call: its own, and of all sessions what its own do not stand before."""
        names = {name for owner, name in tuple(self._known) if owner in ("", session)}
        return [tool for name in sorted(names) if (tool := self.named(name, session)) is not None]

    def sees(self, name: str, session: str) -> bool:
        """Whether a run of the tool that `session` calls `name` goes by here, by what is known."""
        one = self._unnamed.get(name)
        return (session, name) in self._known or ("", name) in self._known or (one is not None and one.calls > 0)

    def of(self, name: str, session: str) -> KnownTool:
        """What is known of a tool that may be run by the loop alone."""
        tool = self.named(name, session) or self._unnamed.get(name)
        if tool is None:
            tool = made(name, None, ToolSpec(), self.policy)
            with self._lock:
                if len(self._unnamed) < _MOST_NAMES:
                    self._unnamed[name] = tool
        return tool

    def key(self, tool: KnownTool, arguments: Mapping[str, Any], principal: Principal) -> Key | None:
        """The identity of a call; None for one that no early result can be served to."""
        data = None if tool.nameless else tool.identity(arguments)
        return None if data is None else Key(tool.name, data, principal, self.epoch)

    def at_once(self, tool: KnownTool) -> bool | None:
        """Whether its calls are proven to change nothing; None where that takes a look at the arguments (`Judging`)."""
        if tool.name in self._wrote:
            return False
        return None if tool.effect is None else tool.effect in READS

    def allowance(self, familiar: Callable[[ToolCall], bool] | None = None) -> Allowance:
        """What the user allows, and what is known of the past."""
        remote = frozenset(self.policy.remote_guesses)
        given = Allowance(effects=self.policy.effects, remote_guesses=remote, wrote=self._wrote)
        return given if familiar is None else replace(given, familiar=familiar)

    def wrote(self, name: str) -> None:
        """That tool was seen to write: from here on it counts as one that does."""
        with self._lock:
            if name in self._wrote:
                return
            self._wrote |= {name}
            self.epoch += 1
        log.warning("agentaccel: %s wrote although it is said to read; it is not run early again", kept_name(name))


_MOST_NAMES = 1024
"""Tools that are only known by name and kept; loops that make up names do not fill the memory."""


def copied(call: ToolCall) -> ToolCall | None:
    """`call` as it is now, whatever its run does to the arguments; None where they cannot be copied."""
    try:
        return replace(call, arguments=copy.deepcopy(dict(call.arguments)))
    except Exception:  # noqa: BLE001 - objects of the user's; a call that nobody can look at later counts as a write
        return None
