"""What was chosen for an engine, in sentences, as options of `render`, and as JSON. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentaccel.facts import table
from agentaccel.selfhost.advising import EngineAdvice, Wanted
from agentaccel.selfhost.choosing import MOST_REQUESTS, Choice, Option, margin_of
from agentaccel.selfhost.plan import Setting
from agentaccel.selfhost.sheet import Sheet
from agentaccel.selfhost.tables import name_of


def sentences(advice: EngineAdvice, wanted: Wanted, alone: float | None = None) -> tuple[str, ...]:
    """Why it was chosen, how sure that is, and what to know. `alone` are the tokens a step of the chosen method if
    each conversation were by itself; None for a method that remembers none."""
    choice = advice.choice
    chosen = choice.chosen
    few = advice.tokens < table("drafting")["assumed"]["tokens"]
    said = f"only {advice.tokens:,} token{'s were' if advice.tokens != 1 else ' was'} said: too few to go by"
    found = [*[said] * few, *_why(choice), *_at_peak(choice), *_how_sure(choice)]
    if alone is not None:
        found.append(
            f"{alone:.2f} tokens a step come from each conversation by itself, the rest from replies to others. So the "
            "time that a reply takes can tell one user what another was told: run one engine for each tenant if that "
            "must not be"
        )
    if chosen.candidate.note is not None:
        found.append(chosen.candidate.note)
    if (wanted.temperature or 0) > 0:
        found.append(
            f"at temperature {wanted.temperature:g} a draft is right as often as the model samples it: these figures "
            "hold if the recorded replies were sampled at it"
        )
    if advice.differ:
        found.append(_pools(advice))
    if advice.unsure and not few:
        found.append(f"too few tokens to go by were said in {_listed(advice.unsure)}")
    found += Sheet(advice.engine, wanted.version).reasons  # of a version, or an engine, that nobody here has run
    return (*found, *(f"not considered: {why}" for why in advice.refused))


def _why(choice: Choice) -> Iterator[str]:
    under, best = choice.circumstances, choice.best
    if choice.chosen.candidate.method != "none":
        yield _earns(choice.chosen, under.concurrency)
        if choice.chosen.schedule:
            yield f"it drafts by load: {_schedule(choice.chosen)}"
        yield f"it pays with up to {_requests(choice.chosen.pays_up_to)}"
        return
    if best is None or best.candidate.rates.tokens_per_step <= 1:
        yield "nothing pays: " + ("there is no method to choose from" if best is None else "no draft was ever right")
        return
    if best.rates.tokens_per_step > 1:
        yield f"nothing pays enough: the best is {best.candidate.label}. {_earns(best, under.concurrency)}"
    else:
        yield f"nothing pays: with {_requests(under.concurrency)}, {best.candidate.label} had better draft nothing"
    if best.pays_up_to:
        yield f"{best.candidate.label} is faster than none with up to {_requests(best.pays_up_to)}"


def _earns(option: Option, requests: int) -> str:
    rates = option.rates
    known = {"measured": "as measured", "replayed": "as replayed", "stated": "as you say", "assumed": "a guess"}
    return (
        f"{rates.tokens_per_step:.2f} tokens a step ({known[rates.known]}); with {_requests(requests)} a step takes "
        f"{option.cost:.2f} times as long: decoding is {option.speed:.2f} times as fast"
    )


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count:,} requests at once"


def _at_peak(choice: Choice) -> Iterator[str]:
    """Where the choice is a compromise between two loads."""
    chosen, under = choice.chosen, choice.circumstances
    if chosen.speed < 1:
        yield f"with {_requests(under.concurrency)} it costs more than it earns; it is chosen for {under.peak:,}"
    if chosen.at_peak < 1:
        bound = f"allow no more than {chosen.pays_up_to:,} (--concurrency of render), or add a replica"
        yield (
            f"with {_requests(under.peak)} it costs more than it earns ({chosen.at_peak:.2f} times as fast)"
            + (f": {bound}" if under.concurrency <= chosen.pays_up_to < under.peak else "")
        )


def _how_sure(choice: Choice) -> Iterator[str]:
    option = choice.chosen if choice.chosen.candidate.method != "none" else choice.best
    if option is None or option.candidate.rates.tokens_per_step <= 1:
        return
    if option.sure == "measured":
        yield "how sure: what its steps cost was measured"
        return
    overhead, step = table("drafting")["assumed"]["overhead"], choice.circumstances.step
    yield (
        f"how sure: what a step takes is {step.sure}, from {step.source}; that drafting makes it {overhead} times as "
        f"long is a guess. So nothing is chosen that is less than {margin_of(option):.0%} faster"
    )


def advised_to(wanted: Wanted) -> Iterator[str]:
    """What would make the advice surer."""
    step = wanted.step_time
    if step.sure == "assumed" and wanted.device == "gpu":
        yield "give --model and --gpu, so that what a step takes is estimated from the model and the GPU's data sheet"
    if wanted.measured is None:
        yield "measure what steps take, without a method and with it (--measured): nothing else settles it"


def _schedule(option: Option) -> str:
    loads = [f"{tokens} token{'s' * (tokens != 1)} up to {load:,}" for load, tokens in option.schedule[:-1]]
    last = option.schedule[-1][1]
    return f"{', '.join(loads)}, {last or 'none'} beyond"


def _pools(advice: EngineAdvice) -> str:
    kinds: dict[str, list[str]] = {}
    for site, choice in advice.sites.items():
        kinds.setdefault(choice.chosen.candidate.method, []).append(site)
    said = "; ".join(f"{method} for {_listed(sites)}" for method, sites in kinds.items())
    return f"{said}: if you run more than one engine, run one kind for each, and route by place"


def _listed(names: Sequence[str]) -> str:
    """Some of many names."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


_NAMED = 5


def know() -> tuple[str, ...]:
    """What is worth knowing before anything is chosen."""
    return tuple(row["what"] for row in table("drafting")["know"])


def pays_up_to(option: Option) -> str:
    """Its break-even in requests at once, for a table."""
    if option.pays_up_to >= MOST_REQUESTS:
        return f"{MOST_REQUESTS:,} or more"
    return str(option.pays_up_to) if option.pays_up_to else "never"


# --- as options of `render` -------------------------------------------------------------------------------------------


def as_options(advice: EngineAdvice, wanted: Wanted) -> dict[str, Any]:
    """The choice as options of `agentaccel selfhost render`, by their names with underscores; what `--plan` reads."""
    plan = advice.choice.plan
    found: dict[str, Any] = {"engine": advice.engine}
    if wanted.version is not None:
        found["engine_version"] = wanted.version
    if wanted.device != "gpu":
        found["device"] = wanted.device
    if plan.method == "none":
        return found
    found["speculate"] = plan.method
    if plan.model is not None:
        found["draft_model"] = plan.model
    if plan.tokens is not None:
        found["draft_tokens"] = plan.tokens
    if plan.schedule:
        found["draft_schedule"] = ",".join(f"{load}:{tokens}" for load, tokens in plan.schedule)
    if plan.settings:
        found["draft_set"] = [f"{name}={_word(value)}" for name, value in plan.settings.items()]
    if wanted.lossy:
        found["lossy"] = True
    return found


def _word(value: Setting) -> str:
    """A setting as `--draft-set` reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def as_lines(options: Mapping[str, Any], width: int) -> str:
    """The same as a command, on lines of at most `width` columns where that can be, as a shell takes them.

    >>> as_lines({"engine": "vllm", "speculate": "suffix", "draft_tokens": 16}, 100)
    'agentaccel selfhost render vllm --model MODEL --speculate suffix --draft-tokens 16'
    """
    first, *others = _words(options)
    lines = [first]
    for word in others:
        if len(f"{lines[-1]} {word}{_GOES_ON}") > width:
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}"
    return f"{_GOES_ON}\n".join(lines)


_GOES_ON = " \\"


def _words(options: Mapping[str, Any]) -> list[str]:
    """The command and its options, each with its value."""
    words = ["agentaccel selfhost render", shlex.quote(str(options["engine"])), "--model MODEL"]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if name == "engine":
            continue
        if value is True:
            words.append(option)
        else:
            several = value if isinstance(value, list) else [value]
            words += [f"{option} {shlex.quote(str(one))}" for one in several]
    return words


def as_value(advice: EngineAdvice, wanted: Wanted, reasons: tuple[str, ...]) -> dict[str, Any]:
    """One engine's advice as JSON has it."""
    return {
        "engine": advice.engine,
        "method": advice.choice.chosen.candidate.method,
        "options": [_option(option) for option in advice.choice.options],
        "sites": {
            site: {"method": choice.chosen.candidate.method, "options": [_option(option) for option in choice.options]}
            for site, choice in advice.sites.items()
        },
        "too_few_tokens": list(advice.unsure),
        "reasons": list(reasons),
        "render": as_options(advice, wanted),
    }


def _option(option: Option) -> dict[str, Any]:
    candidate = option.candidate
    return {
        "method": candidate.method,
        "tokens": candidate.tokens,
        "settings": dict(candidate.settings),
        "model": candidate.model,
        **asdict(option.rates),
        "step_cost": option.cost,
        "speed": option.speed,
        "speed_at_peak": option.at_peak,
        "pays_up_to": option.pays_up_to,
        "cost_is": option.sure,
        "schedule": [list(pair) for pair in option.schedule],
    }


def engine_name(advice: EngineAdvice) -> str:
    """The engine and its version, for people."""
    return f"{name_of(advice.engine)} {advice.choice.circumstances.version}"
