"""`DeclaredTools`: what a user says of an agent's tools by name, the same in every adapter."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agentaccel import Accel, ConfigError, DeclaredTools, Policy, StorePolicy
from agentaccel.beside import ALL
from tests.frameworks.early import NO_DECLARATIONS


def test_a_tool_that_reads_is_a_remote_read_and_runs_beside_others() -> None:
    declared = DeclaredTools(["look"])
    assert declared.of("look") == {"effect": "read_remote", "concurrent": True, "needs_approval": False}
    assert declared.of("book") == {"needs_approval": False}


def test_a_mapping_declares_more_of_each_and_the_user_has_the_last_word() -> None:
    declared = DeclaredTools({"look": {"max_age": 60, "effect": "read_local", "injected": False}})
    said = declared.of("look", injected=True, in_thread=True)
    assert said["max_age"] == 60
    assert said["effect"] == "read_local"
    assert not said["injected"]
    assert said["in_thread"]


@pytest.mark.parametrize("stopped", [ALL, frozenset({"look"})], ids=["all", "named"])
def test_what_may_be_stopped_needs_approval_whoever_says_so(stopped: frozenset[str] | None) -> None:
    assert DeclaredTools(["look"]).of("look", stopped)["needs_approval"]
    assert DeclaredTools(["look"]).of("look", needs_approval=True)["needs_approval"]
    assert DeclaredTools(["look"], needs_approval=["look"]).of("look")["needs_approval"]
    assert DeclaredTools({"look": {"needs_approval": True}}).of("look")["needs_approval"]


def test_what_is_stopped_by_others_is_not_taken_for_what_is_not() -> None:
    """The twin."""
    assert not DeclaredTools(["look"], needs_approval=["book"]).of("look", frozenset({"pay"}))["needs_approval"]


def test_names_may_come_from_anything_that_gives_them_and_are_kept_as_they_were() -> None:
    fields = {"max_age": 60}
    declared = DeclaredTools({"look": fields}, needs_approval=(name for name in ["book"]))
    fields["max_age"] = 1
    assert declared.reads == {"look": {"max_age": 60}}
    assert declared.needs_approval == frozenset({"book"})
    assert DeclaredTools(name for name in ["look"]).reads == {"look": {}}
    assert DeclaredTools().needs_approval is None


def test_it_is_what_a_tool_takes() -> None:
    with Accel(Policy(store=StorePolicy(enabled=False))) as accel:

        @accel.tool(name="look", **DeclaredTools(["look"]).of("look"))
        def look() -> str:
            return "seen"

        assert look() == "seen"


@pytest.mark.parametrize(("said", "why"), NO_DECLARATIONS.values(), ids=NO_DECLARATIONS)
def test_what_cannot_be_declared_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        DeclaredTools(**said)


@pytest.mark.parametrize("said", [{"reads": 7}, {"reads": b"look"}, {"reads": [""]}, {"reads": {7: {}}}], ids=str)
def test_what_names_no_tools_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"reads is .*; give a list of names of tools or a dict"):
        DeclaredTools(**said)
