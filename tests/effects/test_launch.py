"""When a call may be launched: the effect alone is not enough, and nothing but a person's word replaces proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentaccel.effects.launch import Allowance, Permission, permission
from agentaccel.effects.spec import SPEC_ATTRIBUTE, ToolSpec, is_early, running_early, spec_of
from agentaccel.effects.verdict import analysed
from agentaccel.types import Effect, ToolCall

READ = ToolSpec(effect="read_local", concurrent=True)
FETCH = ToolSpec(kind="http", concurrent=True)
PAGE = "https://docs.example.com/pages/42"
HINTS = {"readOnlyHint": True, "openWorldHint": False}
LISTING = {"name": "look", "inputSchema": {}, "annotations": HINTS}


def ask(
    spec: ToolSpec, allowance: Allowance | None = None, name: str = "tool", sync: bool = False, **arguments: Any
) -> Permission:
    return permission(ToolCall(name=name, arguments=arguments), spec, allowance, sync=sync)


def known(call: ToolCall) -> bool:
    return True


def test_a_declared_read_that_is_safe_beside_anything_is_run_on_a_prediction() -> None:
    assert ask(READ).launch == "predicted"
    assert ask(READ, sync=True).launch == "never"
    assert ask(ToolSpec(effect="read_local", concurrent=True, in_thread=True), sync=True).launch == "predicted"


def test_silence_and_names_permit_nothing() -> None:
    assert ask(ToolSpec(), name="get_ticket").launch == "never"
    assert ask(ToolSpec(concurrent=True), name="read_file").launch == "never"
    assert ask(ToolSpec(effect="read_local")).launch == "never"


@pytest.mark.parametrize("flag", ["sequential", "needs_approval", "stateful", "injected"])
@pytest.mark.parametrize("effect", ["pure", "read_local"])
def test_people_order_state_and_context_keep_a_call_whatever_the_user_allows(flag: str, effect: str) -> None:
    spec = ToolSpec(**{"effect": effect, "concurrent": True, "in_thread": True, flag: True})
    allowance = Allowance(effects={"tool": "pure"}, remote_guesses=frozenset({"tool"}), familiar=known)
    assert ask(spec, allowance).launch == "never"
    assert ask(spec, allowance).verdict.effect in (Effect.PURE, Effect.READ_LOCAL), "it is still known to read"


def test_the_users_word_decides_in_either_direction() -> None:
    assert ask(READ, Allowance(effects={"tool": "unknown"})).launch == "never"
    assert ask(ToolSpec(concurrent=True), Allowance(effects={"tool": "read_local"})).launch == "predicted"
    assert ask(READ, Allowance(effects={"other": "unknown"})).launch == "predicted"


def test_what_was_seen_to_write_is_never_launched() -> None:
    assert ask(READ, Allowance(effects={"tool": "pure"}, wrote=frozenset({"tool"}))).launch == "never"


@pytest.mark.parametrize(("kind", "name", "text"), [("shell", "command", "ls"), ("sql", "sql", "select 1 from t")])
def test_a_harmless_text_proves_nothing_of_an_executor_that_is_not_ours(kind: Any, name: str, text: str) -> None:
    verdict = ask(ToolSpec(kind=kind, concurrent=True), **{name: text})
    assert verdict.launch == "never"
    assert "not one that we provide" in verdict.why


def test_our_own_executor_brings_its_analyser_and_needs_no_declaration() -> None:
    spec = ToolSpec(judge=lambda given: analysed(Effect.READ_LOCAL if given["command"] == "ls" else Effect.UNKNOWN, ""))
    assert ask(spec, command="ls").launch == "predicted"
    assert ask(spec, command="rm x").launch == "never"
    assert ask(spec).launch == "never", "an analyser that stumbles proves nothing"


def test_a_predicted_remote_read_needs_the_users_consent_and_arguments_that_are_known_there() -> None:
    tool, host = (Allowance(remote_guesses=frozenset({name})) for name in ("tool", "docs.example.com"))
    assert ask(FETCH, url=PAGE).launch == "asked"
    for allowed in (tool, host):
        assert ask(FETCH, allowed, url=PAGE).launch == "asked"
        assert ask(FETCH, replace(allowed, familiar=known), url=PAGE).launch == "predicted"
    elsewhere = Allowance(remote_guesses=frozenset({"docs.example.com"}), familiar=known)
    assert ask(FETCH, elsewhere, url="https://docs.example.com.evil.org/").launch == "asked"
    assert ask(FETCH, elsewhere, url=PAGE + "?action=delete").launch == "never"


def test_an_mcp_tool_is_believed_where_the_user_trusts_the_server_and_it_says_the_same_as_before() -> None:
    def mcp(trusted: bool, **more: Any) -> ToolSpec:
        server = {"name": "desk", "trusted": trusted}
        return ToolSpec(kind="mcp", concurrent=True, server=server, listing=LISTING, **more)

    assert ask(mcp(True)).launch == "predicted"
    assert ask(mcp(False)).launch == "never"
    assert ask(mcp(True, earlier_listing=LISTING)).launch == "predicted"
    assert ask(mcp(True, earlier_listing={**LISTING, "annotations": {}})).launch == "never"
    assert ask(mcp(True), command="rm -r x").launch == "never"


@pytest.mark.parametrize(
    "metadata",
    [HINTS, {"annotations": HINTS}, {"metadata": HINTS}, {"type": "function", "function": {"annotations": HINTS}}],
)
def test_metadata_of_a_framework_makes_a_read_only_where_it_is_trusted(metadata: dict[str, Any]) -> None:
    assert ask(ToolSpec(concurrent=True, listing=metadata)).launch == "never"
    assert ask(ToolSpec(concurrent=True, listing=metadata, server={"trusted": False})).launch == "never"
    assert ask(ToolSpec(concurrent=True, listing=metadata, server={"trusted": True})).launch == "predicted"


def test_metadata_makes_a_call_worse_whoever_wrote_it() -> None:
    says = {"metadata": {"readOnlyHint": False}}
    assert ask(FETCH, url=PAGE).launch == "asked"
    assert ask(ToolSpec(kind="http", concurrent=True, listing=says), url=PAGE).launch == "never"
    assert ask(ToolSpec(kind="http", concurrent=True, listing={"tags": ["x"]}), url=PAGE).launch == "asked"
    idempotent = ToolSpec(concurrent=True, server={"trusted": True}, listing={"annotations": {"idempotentHint": True}})
    assert ask(idempotent).launch == "never"


def test_a_tool_carries_what_is_declared_of_it() -> None:
    def look() -> None: ...

    class Desk:
        specs = {"look": READ}  # noqa: RUF012

        def look(self) -> None: ...

        def write(self) -> None: ...

    assert spec_of(look) is None
    setattr(look, SPEC_ATTRIBUTE, READ)
    assert spec_of(look) is READ
    assert spec_of(Desk().look) is READ
    assert spec_of(Desk().write) is None
    Desk.specs = ["look"]  # type: ignore[assignment]  # an owner that means something else by it
    assert spec_of(Desk().look) is None


def test_a_run_knows_that_it_is_early_only_inside() -> None:
    assert not is_early()
    with running_early():
        assert is_early()
    assert not is_early()
