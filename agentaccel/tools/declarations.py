"""What is declared of tools where they are handed over: of one by the fields of `ToolSpec`, of an agent's by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, cast

from agentaccel.beside import Stopped
from agentaccel.effects.spec import Kind, ToolSpec
from agentaccel.errors import ConfigError
from agentaccel.types import Effect, EffectSaid


class Declared(TypedDict, total=False):
    """What the owner of a tool may declare where it is written: fields of `ToolSpec`, which says what they mean."""

    effect: EffectSaid
    concurrent: bool
    in_thread: bool
    sequential: bool
    needs_approval: bool
    stateful: bool
    injected: bool
    scope: str
    max_age: float
    validator: Callable[[Mapping[str, Any]], Hashable]
    prefetch_key: str
    prefetch: Callable[[str], Awaitable[None]]
    prewarm: Callable[[], Awaitable[None]]
    kind: Kind
    server: Mapping[str, Any]
    listing: Mapping[str, Any]
    earlier_listing: Mapping[str, Any]


def declared_spec(declared: Declared) -> ToolSpec | None:
    """What is declared of a tool; None for nothing. Raises `ConfigError` for an effect or a field that there is not."""
    effect = declared.get("effect")
    if effect is not None and not callable(effect):
        try:
            declared["effect"] = Effect(effect)
        except ValueError:
            known = ", ".join(repr(one.value) for one in Effect)
            raise ConfigError(f"effect is {effect!r}; declare one of {known}") from None
    try:
        return ToolSpec(**declared) if declared else None
    except TypeError as wrong:
        raise ConfigError(f"a tool declares the fields of ToolSpec: {wrong}") from None


@dataclass(frozen=True, slots=True, init=False)
class DeclaredTools:
    """What a user declares of an agent's tools by name: the settings `reads` and `needs_approval` of every adapter.

        declared = DeclaredTools(["find_order"], needs_approval=["cancel_order"])
        accel.tool(name="find_order", **declared.of("find_order", in_thread=True))(find_order)

    Raises `ConfigError` for what is no collection of names, and for fields that `ToolSpec` has not.
    """

    reads: Mapping[str, Mapping[str, Any]]
    """The tools that change nothing and may run beside anything, each with more fields of `ToolSpec`:
    `{"find_order": {"max_age": 60}}`. A list of names declares no more of them."""
    needs_approval: frozenset[str] | None
    """The tools that somebody or something may stop; None where nothing is said of it."""

    def __init__(
        self,
        reads: Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
        needs_approval: Iterable[str] | None = None,
    ) -> None:
        more = reads if isinstance(reads, Mapping) else {}
        fields = {name: more.get(name, {}) for name in _names("reads", reads, " or a dict from names to fields")}
        for name, said in fields.items():
            if not isinstance(said, Mapping):
                raise ConfigError(f"reads of {name!r} is {said!r}; give fields of ToolSpec, such as {{'max_age': 60}}")
            try:
                declared_spec(_reading(said))
            except ConfigError as wrong:
                raise ConfigError(f"reads of {name!r}: {wrong}") from None
        gated = None if needs_approval is None else frozenset(_names("needs_approval", needs_approval))
        object.__setattr__(self, "reads", {name: dict(said) for name, said in fields.items()})
        object.__setattr__(self, "needs_approval", gated)

    def of(self, name: str, stopped: Stopped = frozenset(), **known: Unpack[Declared]) -> Declared:
        """All that is declared of one tool: what is `known` of it, and what the user says, who has the last word.
        `stopped` names further tools that may be stopped (`agentaccel.beside.stopped`).

        >>> DeclaredTools(["look"]).of("look", injected=False)
        {'injected': False, 'needs_approval': False, 'effect': 'read_remote', 'concurrent': True}
        >>> DeclaredTools(needs_approval=["pay"]).of("pay")
        {'needs_approval': True}
        """
        gated = known.get("needs_approval", False) or stopped is None or name in stopped
        known["needs_approval"] = gated or name in (self.needs_approval or ())
        return cast(Declared, {**known, **_reading(self.reads[name])}) if name in self.reads else known


def _reading(more: Mapping[str, Any]) -> Declared:
    return cast(Declared, {"effect": "read_remote", "concurrent": True, **more})


def _names(setting: str, value: object, others: str = "") -> tuple[str, ...]:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        names = tuple(value)  # a generator is read once
        if all(isinstance(name, str) and name for name in names):
            return names
    raise ConfigError(f"{setting} is {value!r}; give a list of names of tools{others}")
