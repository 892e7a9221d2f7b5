"""The legality fuzz bites: without any single legality check it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, survives

LEGALITY = (
    Mutant(
        guard="more markers than allowed",
        at="agentaccel.cache.planner:plan",
        old="room = facts.max_markers - len(prompt.markers)",
        new="room = facts.max_markers",
    ),
    Mutant(
        guard="a top-level marker that is not counted",
        at="agentaccel.cache.planner:plan",
        old="room = facts.max_markers - len(prompt.markers)",
        new="room = facts.max_markers - sum(marker.path != () for marker in prompt.markers)",
    ),
    Mutant(
        guard="a nested marker that is not counted",
        at="agentaccel.wire.anthropic.request:MessagesReader._bare",
        old="self._inner(value, (*path, name)) if name in _HOLDS_BLOCKS else value",
        new="value",
    ),
    Mutant(
        guard="a longer lifetime after a shorter one",
        at="agentaccel.cache.planner:_ttl_at",
        old=" if floor <= ttl.seconds <= ceiling]",
        new="]",
    ),
    Mutant(
        guard="a marker on thinking",
        at="agentaccel.wire.anthropic.request:MessagesReader._markable",
        old="return kind in facts.markable_blocks",
        new="return True",
    ),
    Mutant(
        guard="a marker on empty text",
        at="agentaccel.wire.anthropic.request:MessagesReader._markable",
        old="""return isinstance(text, str) and text != "" and not text.isspace()""",
        new="return True",
    ),
    Mutant(
        guard="a marker on a deferred tool",
        at="agentaccel.wire.anthropic.request:MessagesReader.tools",
        old="""            if tool.get("defer_loading") is True:\n""",
        new="            if False:\n",
    ),
    Mutant(
        guard="a marker in a message thread",
        at="agentaccel.wire.anthropic.request:decode",
        old="held=held,",
        new="""held="",""",
    ),
    Mutant(
        guard="no keep-alive beside budgeted thinking",
        at="agentaccel.wire.anthropic.edit:warmed",
        old="""_kind(request.get("thinking")) == "enabled"
        or """,
        new="",
    ),
    Mutant(
        guard="no call without its result in what is written ahead",
        at="agentaccel.wire.anthropic.edit:with_stub",
        old="""and not _is_said(messages[-1]["content"])""",
        new="""and not messages""",
    ),
    Mutant(
        guard="doing nothing",
        at="agentaccel.cache.planner:_choice",
        old="chosen, cost = _choose(scene, candidates, room, expected_cost(scene, ()) if bare is None else bare)",
        new="chosen, cost = (), expected_cost(scene, ())",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", LEGALITY, ids=lambda mutant: mutant.guard)
def test_the_fuzz_fails_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    """Each guard deleted in a copy of the package: 1,500 conversations must notice."""
    output = survives(mutant, tmp_path, ["-m", "tests.fuzz.legality", "1500", "3"])
    assert output is None, f"nothing noticed {mutant.guard}: {output}"


@pytest.mark.soak
def test_with_every_guard_nothing_is_noticed(tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    assert survives(None, tmp_path, ["-m", "tests.fuzz.legality", "1500", "3"]) is not None
