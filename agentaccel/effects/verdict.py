"""The verdict about one call, and how evidence from several sources becomes one verdict."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar, get_args

from agentaccel.errors import MissingExtraError
from agentaccel.once import Once
from agentaccel.types import Effect, Launchable

log = logging.getLogger("agentaccel")

P = ParamSpec("P")
T = TypeVar("T")

Source = Literal["observed", "policy", "declaration", "analyser", "annotation", "metadata"]
"""Who says so, strongest first. Names of tools are no source: they never grant permission."""

LATTICE = tuple(Effect)
"""From harmless to unknown; the worse of two is the one that stands later."""

_LAUNCH: dict[Effect, Launchable] = {
    Effect.PURE: "predicted",
    Effect.READ_LOCAL: "predicted",
    Effect.READ_REMOTE: "asked",
}


def worse(one: Effect, other: Effect) -> Effect:
    """The one of two effects that stands higher in the lattice.

    >>> worse(Effect.READ_LOCAL, Effect.PURE).value
    'read_local'
    """
    return max(one, other, key=LATTICE.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one source says of a call."""

    source: Source
    effect: Effect
    why: str
    """In words, for people."""

    def as_json(self) -> dict[str, Any]:
        return {"source": self.source, "effect": self.effect.value, "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a call does, whether it may be run early, and who says so."""

    effect: Effect
    evidence: tuple[Evidence, ...]
    """What decided first, then the rest that was heard."""

    @property
    def launchable(self) -> Launchable:
        """By the effect alone, under the default policy: a remote read waits until the model has asked."""
        return _LAUNCH.get(self.effect, "never")

    def as_json(self) -> dict[str, Any]:
        return {
            "effect": self.effect.value,
            "launchable": self.launchable,
            "evidence": [one.as_json() for one in self.evidence],
        }


class Refused(Exception):
    """Why an analyser does not vouch for a call; the message is the evidence. It never leaves this package."""


def weigh(evidence: Iterable[Evidence]) -> Verdict:
    """One verdict from everything that was heard.

    What was observed to write stays demoted. Else the user's policy decides in either direction, then the declaration
    in code; of the other sources the worst one counts. A source that is silent has no vote, silence of all is UNKNOWN.

    >>> read = Evidence(source="annotation", effect=Effect.READ_REMOTE, why="readOnlyHint")
    >>> weigh([read]).launchable, weigh([]).launchable
    ('asked', 'never')
    """
    heard = tuple(sorted(evidence, key=lambda one: get_args(Source).index(one.source)))
    for source in ("observed", "policy", "declaration"):
        said = [one for one in heard if one.source == source]
        if said:
            return _worst(said, heard)
    return _worst(heard, heard) if heard else Verdict(effect=Effect.UNKNOWN, evidence=(_SILENCE,))


_SILENCE = Evidence(source="analyser", effect=Effect.UNKNOWN, why="nothing is known of this call")


def _worst(deciding: Iterable[Evidence], heard: tuple[Evidence, ...]) -> Verdict:
    worst = max(deciding, key=lambda one: LATTICE.index(one.effect))
    return Verdict(effect=worst.effect, evidence=(worst, *(one for one in heard if one is not worst)))


def analysed(effect: Effect, why: str) -> Verdict:
    """The verdict of an argument-level analyser alone."""
    return weigh([Evidence(source="analyser", effect=effect, why=why)])


def unanalysed(what: str, missing: MissingExtraError) -> Verdict:
    """The verdict where the analyser is not installed; said once, for nothing of such tools ever runs early."""
    _once.say(f"no {what} line is run early: {missing}", about=what)
    return analysed(Effect.UNKNOWN, f"{what}: nothing was analysed: {missing}")


def judged(what: str) -> Callable[[Callable[P, Verdict]], Callable[P, Verdict]]:
    """Makes an analyser of a function that raises `Refused` for a call that it does not vouch for.

    The analyser raises nothing. What fails in it makes the call unknown, with one log line: a text that is nested too
    deep for the interpreter, a fault of ours, a library that is not installed.
    """

    def decorate(analyse: Callable[P, Verdict]) -> Callable[P, Verdict]:
        @functools.wraps(analyse)
        def judge(*args: P.args, **kwargs: P.kwargs) -> Verdict:
            try:
                return analyse(*args, **kwargs)
            except Refused as refusal:
                return analysed(Effect.UNKNOWN, f"{what}: {refusal}")
            except MissingExtraError as missing:
                return unanalysed(what, missing)
            except Exception as failure:  # noqa: BLE001 - whatever it stumbles over, the call is not run early
                return analysed(Effect.UNKNOWN, f"{what}: {failed(what, type(failure).__name__)}")

        return judge

    return decorate


def failed(what: str, failure: str) -> str:
    """The evidence where an analyser of ours failed. It is logged without the text of the failure, which may hold what
    the call said."""
    with suppress(Exception):  # the caller may have used up the stack that a log line takes
        log.warning("agentaccel: a %s call is not run early: its analyser failed with %s", what, failure)
    return f"the analyser failed with {failure}"


def worked_out_once(what: str, most: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Makes a function of a text keep its last `most` results and refusals.

    The function must depend on nothing but its arguments. A failure becomes a refusal, with one log line for each
    text, and is not kept: it may have been the stack, or the memory, that the caller had left.
    """

    def decorate(read: Callable[..., T]) -> Callable[..., T]:
        @functools.lru_cache(most)
        def outcome(*args: Any) -> tuple[T | None, str]:
            try:
                return read(*args), ""
            except Refused as refusal:
                return None, str(refusal)

        @functools.lru_cache(most)
        def said(failure: str, *_: Any) -> str:
            return failed(what, failure)

        @functools.wraps(read)
        def once(*args: Any) -> T:
            try:
                found, why = outcome(*args)
            except MissingExtraError:
                raise
            except Exception as failure:  # noqa: BLE001 - as in `judged`
                raise Refused(said(type(failure).__name__, *args)) from None
            if found is None:
                raise Refused(why)
            return found

        return once

    return decorate


_once = Once()
