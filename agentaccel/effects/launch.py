"""When one call of a tool may be run before its time: on a prediction, once the model has asked for it, or never.

The effect is one half (`agentaccel.effects.verdict`). The other is whether running it early can be told from running it
on time: the executor must be known, safe beside anything else, and free of people, order, state and context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from agentaccel.effects.http import judge_http
from agentaccel.effects.mcp import judge_mcp, metadata_says
from agentaccel.effects.places import Surroundings
from agentaccel.effects.spec import ToolSpec
from agentaccel.effects.verdict import Evidence, Source, Verdict, failed, weigh
from agentaccel.former import former_fields
from agentaccel.types import Effect, EffectSaid, Launchable, ToolCall

# --- What users say of their own tools, in policy and in code, beside what the analysers and annotations say of a call


def judge_tool(
    name: str,
    arguments: Mapping[str, Any],
    *,
    policy: Mapping[str, EffectSaid] | None = None,
    declaration: EffectSaid | None = None,
    heard: Iterable[Evidence] = (),
    writes_seen: bool = False,
) -> Verdict:
    """The verdict about one call of a tool: what was seen, then policy, then declaration, then the worst of `heard`.

    `policy` is by exact name; the name itself proves nothing.

    >>> judge_tool("ask", {"verb": "get"}, declaration=lambda arguments: "read_local").launchable
    'predicted'
    >>> judge_tool("get_ticket", {}).launchable
    'never'
    """
    evidence = list(heard)
    if policy is not None and name in policy:
        evidence.append(_said("policy", policy[name], arguments))
    if declaration is not None:
        evidence.append(_said("declaration", declaration, arguments))
    if writes_seen:
        evidence.append(Evidence(source="observed", effect=Effect.UNKNOWN, why=f"{name} was seen to write"))
    return weigh(evidence)


def _said(source: Source, declared: EffectSaid, arguments: Mapping[str, Any]) -> Evidence:
    if not callable(declared):
        return _spoken(source, declared, "it is declared so")
    try:
        said = declared(arguments)
    except Exception as failure:  # noqa: BLE001 - the user's own function; what it cannot tell is not run early
        return Evidence(source=source, effect=Effect.UNKNOWN, why=f"its predicate raised {type(failure).__name__}")
    return _spoken(source, said, "its predicate says so of these arguments")


def _spoken(source: Source, said: object, why: str) -> Evidence:
    known = {effect.value: effect for effect in Effect}
    if isinstance(said, str) and said in known:
        return Evidence(source=source, effect=known[said], why=why)
    return Evidence(source=source, effect=Effect.UNKNOWN, why=f"{said!r} is no effect")


def _nobody(call: ToolCall) -> bool:
    return False


@former_fields(egress="remote_guesses")
@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What the user allows and what is known of the past, as far as it decides about a launch."""

    effects: Mapping[str, EffectSaid] = field(default_factory=dict)
    """The user's word by exact name of a tool; it decides in either direction."""
    remote_guesses: frozenset[str] = frozenset()
    """Tools, and hosts of addresses, of which a remote read may be run on a prediction."""
    wrote: frozenset[str] = frozenset()
    """Tools that were seen to write although they were said to read."""
    familiar: Callable[[ToolCall], bool] = _nobody
    """Whether every argument was seen before by the provider of this tool, or came from the user or a trusted result:
    only then a predicted remote read tells nobody anything new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """When a call may be launched, and why not sooner."""

    launch: Launchable
    why: str
    """In words, for people."""
    verdict: Verdict
    """What the call does, with the evidence; it stands whatever keeps the call from being launched."""


def permission(
    call: ToolCall,
    spec: ToolSpec,
    allowance: Allowance | None = None,
    *,
    sync: bool = False,
    verdict: Verdict | None = None,
) -> Permission:
    """When this call of a tool that is declared as `spec` may be launched. Pure but for what analysers look at.

    `sync`: the tool is an ordinary function, which would run in a thread. `verdict`: what `judge_call` said of the call
    a moment ago, where it was asked.

    >>> look = ToolSpec(effect="read_local", concurrent=True)
    >>> permission(ToolCall(name="look", arguments={}), look).launch
    'predicted'
    >>> permission(ToolCall(name="look", arguments={}), ToolSpec(effect="read_local")).why
    'it is not declared safe to run beside anything else'
    """
    allowance = allowance or Allowance()
    verdict = verdict or judge_call(call, spec, allowance)
    kept = _kept_from(spec, sync)
    if kept is not None:
        return Permission(launch="never", why=kept, verdict=verdict)
    launch = verdict.launchable
    if launch == "asked" and _may_leave(call, allowance):
        if allowance.familiar(call):
            return Permission(
                launch="predicted", why="you allow it, and its arguments are known there", verdict=verdict
            )
        return Permission(launch="asked", why="a prediction would send out arguments that are new", verdict=verdict)
    return Permission(launch=launch, why=verdict.evidence[0].why, verdict=verdict)


def judge_call(call: ToolCall, spec: ToolSpec, allowance: Allowance) -> Verdict:
    """What a call does to the world, by all that is said and known of it. Raises nothing."""
    return judge_tool(
        call.name,
        call.arguments,
        policy=allowance.effects,
        declaration=spec.effect,
        heard=_heard(call, spec),
        writes_seen=call.name in allowance.wrote,
    )


def _kept_from(spec: ToolSpec, sync: bool) -> str | None:
    """What keeps any call of the tool from being launched, whatever it reads."""
    reasons = (
        (spec.needs_approval, "a person is asked before it runs"),
        (spec.sequential, "its runs have an order"),
        (spec.stateful, "it keeps state between its runs"),
        (spec.injected, "a framework gives it more than the arguments of the model"),
        (not (spec.concurrent or spec.judge), "it is not declared safe to run beside anything else"),
        (sync and not spec.in_thread, "it is a sync function that is not declared to run in a thread"),
    )
    return next((why for stands, why in reasons if stands), None)


def _heard(call: ToolCall, spec: ToolSpec) -> Iterator[Evidence]:
    """What analysers, annotations and metadata say; a declaration that nobody can read says nothing."""
    try:
        if spec.judge is not None:
            yield from spec.judge(call.arguments).evidence
        elif spec.kind == "http":
            yield from judge_http({"method": "GET", **call.arguments}).evidence
        elif spec.kind == "mcp":
            yield from judge_mcp(_listed(call, spec), Surroundings()).evidence
        elif spec.kind is not None:
            why = f"{spec.kind}: its executor is not one that we provide, so nothing is known of how it would run"
            yield Evidence(source="analyser", effect=Effect.UNKNOWN, why=why)
        if spec.kind != "mcp" and spec.listing is not None:
            trusted = (spec.server or {}).get("trusted") is True
            yield from metadata_says(call.name, spec.listing, trusted=trusted)
    except Exception as failure:  # noqa: BLE001 - whatever an analyser stumbles over, the call is not run early
        yield Evidence(
            source="analyser", effect=Effect.UNKNOWN, why=failed(spec.kind or "tool", type(failure).__name__)
        )


def _listed(call: ToolCall, spec: ToolSpec) -> Mapping[str, Any]:
    given = {"server": spec.server, "tool": spec.listing, "arguments": call.arguments}
    return given if spec.earlier_listing is None else {**given, "earlier_listing": spec.earlier_listing}


def _may_leave(call: ToolCall, allowance: Allowance) -> bool:
    """Whether the user allows predicted remote reads of this tool, or of the host that the call names."""
    return call.name in allowance.remote_guesses or _host(call.arguments.get("url")) in allowance.remote_guesses


def _host(url: object) -> str | None:
    try:
        return urlsplit(url).hostname if isinstance(url, str) else None
    except ValueError:
        return None
