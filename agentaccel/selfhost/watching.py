"""What to change of an engine that runs, from what it counts: pure.

    watcher = Watcher(WatchPolicy(break_even=((1, 1.2), (8, 2.0))))
    for figures in windows:         # `Window.figures`, one stretch of time after the other
        for proposal in watcher.see(figures):
            print(proposal)

It proposes and never acts. What holds in one window only is not said: a finding must hold in several windows in a row,
and is over when it has not held, by a margin, in as many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from agentaccel.checks import check_count, is_amount
from agentaccel.errors import ConfigError
from agentaccel.selfhost.metrics import ServerFigures

Kind = Literal["break-even", "load", "workload", "prefixes", "queue", "restarted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPolicy:
    """When something is worth saying. Raises `ConfigError` for what cannot be meant."""

    break_even: tuple[tuple[int, float], ...] = ((1, 1.2),)
    """From so many requests at once on: tokens a step below which guessing ahead costs more than it earns. A step takes
    longer with drafts than without; this is by how much, as you have measured it at that load. With fewer requests than
    the first pair names, nothing is asked of drafts. The default is a guess for one request at once: a drafting method
    has its own work even where it drafts nothing."""
    holds: int = 3
    """Windows in a row that a finding must hold before it is said, and before it is over."""
    least_output: float = 500.0
    """Tokens that a window must have generated to tell anything of what was guessed."""
    least_prompt: float = 2000.0
    """Prompt tokens that a window must have seen to tell anything of prefixes."""
    change: float = 0.25
    """How far a figure may be from its usual value, as a share of that, before it is another workload."""

    def __post_init__(self) -> None:
        loads = [load for load, _ in self.break_even]
        fits = all(isinstance(load, int) and load >= 1 and is_amount(least) for load, least in self.break_even)
        if not loads or not fits or loads != sorted(set(loads)):
            raise ConfigError(
                f"WatchPolicy.break_even is {self.break_even!r}; give pairs of requests at once, rising, and tokens a "
                "step, such as ((1, 1.2), (8, 2.0))"
            )
        check_count("WatchPolicy.holds", self.holds, 1)
        for name in ("least_output", "least_prompt", "change"):
            if not is_amount(getattr(self, name)):
                raise ConfigError(f"WatchPolicy.{name} is {getattr(self, name)!r}; give a number, 0 or more")

    def least(self, load: float | None) -> float:
        """Tokens a step that guessing ahead must give with so many requests at once; where their number is not
        reported, what it must give with any number."""
        if load is None:
            return min(self.least(at) for at in (1, *dict(self.break_even)))
        asked = [least for at, least in self.break_even if max(load, 1) >= at]  # what was generated was of one at least
        return asked[-1] if asked else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One thing that is worth saying, in two sentences."""

    kind: Kind
    seen: str
    """What was seen."""
    propose: str = ""
    """What to do about it; empty where it is over, or there is nothing to do."""
    over: bool = False
    """True if it was said before and holds no more."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.seen, self.propose)))


class _Range(NamedTuple):
    """The lowest and the highest value."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.2f}" if self.high - self.low < 0.01 else f"{self.low:.2f} to {self.high:.2f}"


class _Usual(NamedTuple):
    """What is usual for a workload: what its first windows had. None is not known yet."""

    tokens_per_step: _Range | None = None
    hit_rate: _Range | None = None
    load: _Range | None = None
    """Requests at once in the first windows that the engine generated in, whatever the workload has become since."""


class _Now(NamedTuple):
    """The same figures of one window; None where it has not enough behind them."""

    tokens_per_step: float | None = None
    hit_rate: float | None = None
    load: float | None = None


class _Finding(NamedTuple):
    """What a rule says of one window."""

    holds: bool
    seen: str = ""
    propose: str = ""


_Rule = Callable[[ServerFigures, _Usual, WatchPolicy], _Finding | None]
"""None where the window does not tell."""


@dataclass(slots=True)
class _Count:
    """How long a finding has held, or has not."""

    said: bool = False
    windows: int = 0
    """In a row, that speak for the other state than the one that was said."""

    def turns(self, holds: bool, after: int) -> bool:
        """Count one window; True if the finding begins, or ends, with it."""
        self.windows = 0 if holds is self.said else self.windows + 1
        if self.windows < after:
            return False
        self.said, self.windows = holds, 0
        return True


@dataclass(slots=True)
class _First:
    """The values of the first windows."""

    values: list[float] = field(default_factory=list)

    def add(self, value: float | None, most: int) -> None:
        if value is not None and len(self.values) < most:
            self.values.append(value)

    def known(self, most: int) -> _Range | None:
        return _Range(min(self.values), max(self.values)) if len(self.values) == most else None


class Watcher:
    """Takes windows in, one after the other, and says what is worth saying. It does no I/O; not thread-safe."""

    def __init__(self, policy: WatchPolicy | None = None) -> None:
        self.policy = policy or WatchPolicy()
        self._counts: dict[Kind, _Count] = {}
        self._usual = (_First(), _First(), _First())

    @property
    def open(self) -> tuple[Kind, ...]:
        """What was said, and is not over."""
        return tuple(kind for kind, count in self._counts.items() if count.said)

    def see(self, figures: ServerFigures) -> tuple[Proposal, ...]:
        """What is new with this window: findings that begin, and those that are over."""
        if figures.restarted:
            self._counts, self._usual = {}, (_First(), _First(), _First())
            names = ", ".join(figures.restarted)
            return (Proposal(kind="restarted", seen=f"{names} was started anew."),)
        told = tuple(self._told(figures))
        most = self.policy.holds
        for first, value in zip(self._usual, _telling(figures, self.policy), strict=True):
            first.add(value, most)
        return told

    def _told(self, figures: ServerFigures) -> Iterator[Proposal]:
        usual = _Usual(*(first.known(self.policy.holds) for first in self._usual))
        for kind, rule in _RULES.items():
            found = rule(figures, usual, self.policy)
            count = self._counts.setdefault(kind, _Count())
            if found is None or not count.turns(found.holds, self.policy.holds):
                continue
            propose = found.propose if found.holds else ""
            yield Proposal(kind=kind, seen=found.seen, propose=propose, over=not found.holds)
            if kind == "workload" and found.holds:  # from here on this is what is usual
                self._usual, count.said = (_First(), _First(), self._usual[-1]), False


# --- the rules --------------------------------------------------------------------------------------------------------

_MARGIN = 1.1
"""By how much more than break-even drafts must earn before they are said to pay again."""
_EVICTED = 0.15
"""By how much the share of prompts that is read must fall, in full memory, before prefixes are said to be lost."""
_FULL = 0.9
"""Share of the memory for keys and values from which it is full."""
_READ = 0.1
"""How far the share of prompts that is read must be from what is usual, at least: a quarter of 0.02 is chance."""


def _telling(figures: ServerFigures, policy: WatchPolicy) -> _Now:
    """Those figures of a window that have enough behind them."""
    drafts = (figures.drafted or 0.0) > 0.0 and (figures.output or 0.0) >= policy.least_output
    prompts = (figures.prompt or 0.0) >= policy.least_prompt
    return _Now(
        figures.tokens_per_step if drafts else None,
        figures.hit_rate if prompts else None,
        figures.running if drafts else None,
    )


def _break_even(figures: ServerFigures, usual: _Usual, policy: WatchPolicy) -> _Finding | None:
    """Drafts cost more than they earn, at a load at which they used to pay."""
    value = _telling(figures, policy).tokens_per_step
    if value is None or _is_the_load(usual, figures, policy):
        return None
    least = policy.least(figures.running)
    if value < least:
        load = "" if not figures.running else f" with {_requests(figures.running)} at once"
        return _Finding(
            True,
            f"{value:.2f} tokens a step{load}: below {least:g} drafts cost more than they earn.",
            "Start it without speculation, or choose its method again from what is said now: agentaccel selfhost "
            "choose works it out.",
        )
    return _Finding(False, f"Drafts pay again: {value:.2f} tokens a step.") if value >= least * _MARGIN else None


def _load(figures: ServerFigures, usual: _Usual, policy: WatchPolicy) -> _Finding | None:
    """As many tokens a step as ever, and too few for as many requests as there are."""
    value = _telling(figures, policy).tokens_per_step
    if value is None or usual.tokens_per_step is None or figures.running is None:
        return None
    load, least = _requests(figures.running), policy.least(figures.running)
    if value < least and _is_the_load(usual, figures, policy):
        return _Finding(
            True,
            f"{load} at once, where drafts must give {least:g} tokens a step and give {value:.2f}, as ever: the load "
            "has risen past break-even.",
            "Draft less under load (--draft-schedule), bound the requests at once (--concurrency), or add a replica.",
        )
    if value >= least:
        return _Finding(False, f"{load} at once: drafts pay again.")
    return None


def _is_the_load(usual: _Usual, figures: ServerFigures, policy: WatchPolicy) -> bool:
    """True if what is said is guessed as well as ever, and would pay with as many requests at once as there were."""
    value, load = figures.tokens_per_step, figures.running
    if value is None or usual.tokens_per_step is None or usual.load is None or load is None:
        return False
    least = policy.least(usual.load.high)
    return policy.least(load) > least and value >= least and not _differs(value, usual.tokens_per_step, policy.change)


def _workload(figures: ServerFigures, usual: _Usual, policy: WatchPolicy) -> _Finding | None:
    """What is said, or what is asked, is of another kind than it was."""
    now = _telling(figures, policy)
    said = [
        f"{name} was {was} and is {value:.2f}"
        for name, was, value, least in (
            ("tokens a step", usual.tokens_per_step, now.tokens_per_step, 0.0),
            ("the share of prompts that is read", usual.hit_rate, now.hit_rate, _READ),
        )
        if was is not None and value is not None and _differs(value, was, policy.change, least)
    ]
    lost = _prefixes(figures, usual, policy)
    if now == _Now() or (lost is not None and lost.holds):  # memory that is full explains it
        return None
    if not said:
        return _Finding(False)
    return _Finding(
        True,
        f"The workload is another one: {'; '.join(said)}.",
        "What was chosen for the old one may not fit: look at its method and its size again.",
    )


def _prefixes(figures: ServerFigures, usual: _Usual, policy: WatchPolicy) -> _Finding | None:
    """Prefixes are given up before they are used again, because memory is full."""
    rate = _telling(figures, policy).hit_rate
    if rate is None or usual.hit_rate is None or figures.kv_use is None:
        return None
    if usual.hit_rate.low - rate > _EVICTED and figures.kv_use >= _FULL:
        return _Finding(
            True,
            f"{rate:.2f} of prompts is read, and used to be {usual.hit_rate}; the memory for keys and values is "
            f"{figures.kv_use:.0%} in use: prefixes are given up before they are used again.",
            "Fewer sessions at once, more memory for keys and values, or a tier below it (--offload).",
        )
    over = usual.hit_rate.low - rate <= _EVICTED
    return _Finding(False, f"{rate:.2f} of prompts is read, as is usual.") if over else None


def _queue(figures: ServerFigures, usual: _Usual, policy: WatchPolicy) -> _Finding | None:
    """More requests wait than are computed."""
    if figures.waiting is None or figures.running is None:
        return None
    if figures.waiting <= figures.running:
        return _Finding(False, "No more requests wait than are computed.")
    drafts = (figures.drafted or 0.0) > 0.0
    more = " Drafts take of the time of those that wait: fewer of them under load (--draft-schedule)." if drafts else ""
    return _Finding(
        True,
        f"{_requests(figures.waiting)} wait{'s' * (round(figures.waiting) == 1)}, and {figures.running:,.0f} "
        f"{'is' if round(figures.running) == 1 else 'are'} computed.",
        f"Add a replica, or have fewer agents at once.{more}",
    )


def _requests(count: float) -> str:
    return f"{count:,.0f} request{'s' * (round(count) != 1)}"


def _differs(value: float, usual: _Range, change: float, least: float = 0.0) -> bool:
    """True if a value is outside of what is usual, by the share `change` of it and by `least`."""
    low, high = usual
    return value < min(low * (1 - change), low - least) or value > max(high * (1 + change), high + least)


_RULES: dict[Kind, _Rule] = {
    "break-even": _break_even,
    "load": _load,
    "prefixes": _prefixes,
    "workload": _workload,
    "queue": _queue,
}
