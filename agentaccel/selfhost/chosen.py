"""What was chosen for an engine, in sentences, as options of `render`, and as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from agentaccel.facts import table
from agentaccel.selfhost.advising import EngineAdvice, Wanted
from agentaccel.selfhost.choosing import MOST_REQUESTS, Choice, Option
from agentaccel.selfhost.tables import name_of


def sentences(advice: EngineAdvice, wanted: Wanted, alone: float | None = None) -> tuple[str, ...]:
    """Why it was chosen, how sure that is, and what to know. `alone` are the tokens a step of the chosen method if
    each conversation were by itself; None for a method that remembers none."""
    choice = advice.choice
    chosen = choice.chosen
    found = [*_why(choice), *_how_sure(choice, wanted)]
    if advice.tokens < table("drafting")["assumed"]["tokens"]:
        found.append(f"{advice.tokens:,} tokens were said in all: too few to go by")
    if chosen.schedule:
        found.append(f"it drafts less under load: {_schedule(chosen)}")
    if chosen.at_peak < 1:
        found.append(
            f"at {choice.circumstances.peak} requests at once it costs more than it earns ({chosen.at_peak:.2f} times "
            f"as fast): bound them to {chosen.pays_up_to} (--concurrency), or add a replica"
        )
    if alone is not None:
        found.append(
            f"{alone:.2f} tokens a step come from each conversation itself, the rest from what was said in earlier "
            "ones. Text crosses requests then, and time tells of it: for tenants that must not meet, one engine each"
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
    return (*found, *(f"not considered: {why}" for why in advice.refused))


def _why(choice: Choice) -> Iterator[str]:
    under, best = choice.circumstances, choice.best
    if choice.chosen.candidate.method != "none":
        yield _earns(choice.chosen, under.concurrency)
        most = pays_up_to(choice.chosen)
        yield f"it pays from {choice.chosen.cost:.2f} tokens a step on, and with up to {most} requests at once"
        return
    if best is None:
        yield "there is no method to choose from"
        return
    yield f"nothing pays: the best is {best.candidate.label}. {_earns(best, under.concurrency)}"
    if best.pays_up_to:
        yield f"it would pay with up to {best.pays_up_to} requests at once"


def _earns(option: Option, requests: int) -> str:
    rates, load = option.rates, f"{requests} request{'s' * (requests != 1)} at once"
    return (
        f"{rates.tokens_per_step:.2f} tokens a step ({rates.known}); with {load} a step takes {option.cost:.2f} "
        f"times as long: decoding is {option.speed:.2f} times as fast"
    )


def _how_sure(choice: Choice, wanted: Wanted) -> Iterator[str]:
    option = choice.chosen if choice.chosen.candidate.method != "none" else choice.best
    if option is None:
        return
    if option.sure == "measured":
        yield "how sure: what steps cost was measured with this method"
        return
    overhead = table("drafting")["assumed"]["overhead"]
    step = choice.circumstances.step
    margin = table("drafting")["margins"][option.sure]
    yield f"how sure: a step's time is {step.sure}, from {step.source}; {overhead} times that for drafting is a guess"
    yield f"below {margin:.0%} faster nothing is chosen; measured steps (--measured) settle it"
    if wanted.device == "gpu" and step.sure == "assumed":
        yield "with --model and --gpu, steps are estimated from the model and the GPU's data sheet"


def _schedule(option: Option) -> str:
    return ", ".join(f"{tokens} tokens up to {load} requests at once" for load, tokens in option.schedule)


def _pools(advice: EngineAdvice) -> str:
    kinds: dict[str, list[str]] = {}
    for site, choice in advice.sites.items():
        kinds.setdefault(choice.chosen.candidate.method, []).append(site)
    said = "; ".join(f"{method} for {', '.join(sites)}" for method, sites in kinds.items())
    return f"places in the program differ ({said}): where one engine is not enough, a pool for each, routed by place"


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
        found["draft_set"] = [f"{name}={json.dumps(value)}" for name, value in plan.settings.items()]
    if wanted.lossy:
        found["lossy"] = True
    return found


def as_words(options: Mapping[str, Any]) -> str:
    """The same as the words of a command.

    >>> as_words({"engine": "vllm", "speculate": "suffix", "draft_tokens": 16})
    'agentaccel selfhost render vllm --model MODEL --speculate suffix --draft-tokens 16'
    """
    words = ["agentaccel selfhost render", str(options["engine"]), "--model MODEL"]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if name == "engine":
            continue
        if value is True:
            words.append(option)
        else:
            words += [f"{option} {one}" for one in (value if isinstance(value, list) else [value])]
    return " ".join(words)


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
