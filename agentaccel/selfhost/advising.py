"""Which method fits recorded replies, engine by engine, and for each place in the user's program: pure.

    found = replay_all(("vllm",), talks)
    for advice in advise(Wanted(engines=("vllm",), concurrency=8), found):
        advice.choice.chosen.candidate.label, advice.refused

Nothing is asked of an engine: what is advised follows from what was found, and from what is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agentaccel.checks import check_count, is_amount
from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost.candidates import Head, hybrid_of, key_of, of_head, of_hybrid, of_replay, rows_of, together
from agentaccel.selfhost.choosing import Choice, Circumstances, DraftMethod, choose
from agentaccel.selfhost.draft_replay import Drafted
from agentaccel.selfhost.measured_steps import Measurements
from agentaccel.selfhost.plan import Setting, Speculation
from agentaccel.selfhost.render import LaunchPlan, engines
from agentaccel.selfhost.step_time import StepTime, assumed
from agentaccel.selfhost.tables import has_by

Found = Mapping[str, Mapping[str, Drafted]]
"""What replays have found: by the key of a way of drafting, and by site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to run, and under which load. Raises `ConfigError` for what cannot be."""

    engines: tuple[str, ...] = field(default_factory=engines)
    version: str | None = None
    """Of the engine; None for the newest that is known."""
    device: str = "gpu"
    concurrency: int
    """Requests at once, as usual."""
    peak: int | None = None
    """The same at most; None for as usual."""
    temperature: float | None = None
    """At which replies are sampled; None for the one of the recorded replies."""
    heads: tuple[Head, ...] = ()
    step: StepTime | None = None
    """What a step takes, from a model and its GPU; None where they are not known."""
    measured: Measurements | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Of the engine's own, for every method."""
    lossy: bool = False
    """True if ways of guessing are allowed that change what the model says."""

    def __post_init__(self) -> None:
        for one in self.engines:
            if one not in engines():
                raise ConfigError(f"--engine is {one!r}; give one of {', '.join(engines())}")
        check_count("--concurrency", self.concurrency, 1)
        if self.peak is not None:
            check_count("--peak", self.peak, self.concurrency)
        if self.temperature is not None and not is_amount(self.temperature):
            raise ConfigError(f"--temperature is {self.temperature!r}; give a number of 0 or more")
        if self.version is not None and len(self.engines) > 1:
            raise ConfigError("--engine-version is one engine's: say with --engine which")
        if self.measured is not None and len(self.engines) > 1:
            raise ConfigError("--measured is of one engine: say with --engine which")

    @property
    def step_time(self) -> StepTime:
        """What is known best of steps: fitted to measured ones, from a data sheet, or a guess."""
        fitted = None if self.measured is None else self.measured.step_time()
        guess = table("drafting")["assumed"]["cpu_tokens"]
        return fitted or self.step or assumed(self.device, guess)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAdvice:
    """What to do with one engine."""

    engine: str
    choice: Choice
    """For everything that is said to it."""
    sites: Mapping[str, Choice]
    """For each place in the user's program of which enough was said, were it served by itself."""
    unsure: tuple[str, ...]
    """The other places: too little was said there to go by."""
    refused: tuple[str, ...]
    """What was not considered, and why."""
    tokens: int
    """Said in all, in the replies that were replayed."""

    @property
    def differ(self) -> bool:
        """True if places in the program would be served better by different methods."""
        return len({choice.chosen.candidate.method for choice in self.sites.values()}) > 1


def advise(wanted: Wanted, found: Found) -> Iterator[EngineAdvice]:
    """What fits best, for each engine that is wanted. Raises `ConfigError` for settings that no method of it takes."""
    for engine in wanted.engines:
        known = table("launch")["engines"][engine]["known"]
        circumstances = Circumstances(
            engine=engine,
            version=wanted.version or known[-1],
            concurrency=wanted.concurrency,
            peak=wanted.peak or wanted.concurrency,
            step=wanted.step_time,
        )
        refused: dict[str, None] = {}
        sites = {site: None for by_site in found.values() for site in by_site}
        of_all = {key: together(by_site.values()) for key, by_site in found.items()}
        said = max((drafted.tokens for drafted in of_all.values()), default=0)
        choice = choose(_candidates(wanted, circumstances, of_all, refused), circumstances)
        each = {site: {key: of[site] for key, of in found.items()} for site in sites}
        few = [
            site
            for site, of in each.items()
            if max(one.tokens for one in of.values()) < table("drafting")["assumed"]["of_a_place"]
        ]
        by_site = {
            site: choose(_candidates(wanted, circumstances, of, refused), circumstances)
            for site, of in each.items()
            if site not in few
        }
        yield EngineAdvice(
            engine=engine, choice=choice, sites=by_site, unsure=tuple(few), refused=tuple(refused), tokens=said
        )


def _candidates(
    wanted: Wanted, under: Circumstances, drafted: Mapping[str, Drafted], refused: dict[str, None]
) -> list[DraftMethod]:
    """What may be chosen; why others may not is added to `refused`."""
    for row in table("drafting")["refused"]:
        hot = wanted.temperature is not None and wanted.temperature > row["temperature_above"]
        if (row["engine"], row["device"]) == (under.engine, wanted.device) and hot:
            refused[row["why"]] = None
            return []
    measured = wanted.measured.candidates if wanted.measured is not None else ()
    told = {candidate.method for candidate in measured}
    others = [one for one in _known(wanted, under, drafted) if one.method not in told]
    if wanted.measured is not None:
        refused.update(dict.fromkeys(wanted.measured.unused(others)))
    fitting: list[DraftMethod] = []
    for one in (*measured, *others):
        applied = one if wanted.measured is None or one in measured else wanted.measured.applied(one)
        applied = replace(applied, settings={**applied.settings, **wanted.settings})
        why = _why_not(applied, wanted, under)
        if why is None:
            fitting.append(applied)
        else:
            refused[why] = None
    if wanted.settings and not fitting:
        raise ConfigError(next(iter(refused), f"no method of {under.engine} takes {', '.join(wanted.settings)}"))
    return fitting


def _known(wanted: Wanted, under: Circumstances, drafted: Mapping[str, Drafted]) -> Iterator[DraftMethod]:
    for row in rows_of(under.engine, wanted.settings):
        if key_of(row) in drafted:
            ours = of_replay(row, drafted[key_of(row)])
            without = [name for name in wanted.settings if name not in row.get("follows", {})]
            said = f"its tokens a step are replayed without {', '.join(without)}"
            yield replace(ours, note="; ".join(filter(None, (ours.note, said)))) if without else ours
    heads = [of_head(head, under.concurrency, under.step) for head in wanted.heads]
    yield from heads
    hybrid = hybrid_of(under.engine)
    if hybrid is not None and has_by(under.version, hybrid["since"], None) is not False:
        matched = drafted.get(key_of(hybrid), Drafted())
        yield from (of_hybrid(head, matched, hybrid["settings"]) for head in heads if head.method in hybrid["heads"])


def _why_not(candidate: DraftMethod, wanted: Wanted, under: Circumstances) -> str | None:
    """Why the engine, in its version, cannot do it; None if it can."""
    speculation = Speculation(
        method=candidate.method, model=candidate.model, tokens=candidate.tokens, settings=dict(candidate.settings)
    )
    try:
        LaunchPlan(
            engine=under.engine,
            model="MODEL",
            version=under.version,
            device=wanted.device,  # type: ignore[arg-type]  # which it checks
            speculation=speculation,
            lossy=wanted.lossy,
        )
    except ConfigError as error:
        return str(error)
    return None


def heads_of(given: Iterable[str]) -> tuple[Head, ...]:
    """Heads as options name them: METHOD, METHOD=MODEL or METHOD=MODEL:ACCEPTANCE. Raises `ConfigError` for others.

    >>> heads_of(["mtp", "eagle3=my/head:0.62"])[1]
    Head(method='eagle3', model='my/head', acceptance=0.62, cost=None)
    """
    return tuple(dict.fromkeys(map(_head, given)))


_HEADS = ("draft", "eagle3", "mtp", "medusa")


def _head(given: str) -> Head:
    method, _, rest = given.partition("=")
    model, colon, said = rest.rpartition(":")
    if not colon or "/" in said:  # a colon of the model's own name
        model, said = rest, ""
    try:
        acceptance = float(said) if said else None
    except ValueError:
        model, acceptance = rest, None
    if method not in _HEADS or (acceptance is not None and not 0 <= acceptance < 1):
        raise ConfigError(
            f"--heads is {given!r}; give METHOD=MODEL, or METHOD=MODEL:ACCEPTANCE with a share below 1, of the methods "
            f"{', '.join(_HEADS)}"
        )
    return Head(method=method, model=model or None, acceptance=acceptance)
