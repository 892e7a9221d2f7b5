"""What users say of their own tools, in policy and in code, beside what the analysers and annotations say of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentaccel.effects.verdict import Evidence, Source, Verdict, weigh
from agentaccel.types import Effect, EffectSaid


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
