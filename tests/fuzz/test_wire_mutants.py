"""The legality fuzz of the other places bites: without any single guard it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, survives

CONTROLS = 'if not facts.controls or facts.physics == "automatic":'
CHOICE = "agentaccel.cache.planner:_choice"
NEVER = "chosen, cost = _choose(scene, candidates, room, expected_cost(scene, ()) if bare is None else bare)"

GUARDS: tuple[tuple[str, Mutant], ...] = (
    (
        "responses",
        Mutant(
            guard="a marker on a kind of part that takes none",
            at="agentaccel.wire.openai.blocks:BlockReader.can_mark",
            old="kind in facts.markable_blocks and isinstance(text, str)",
            new="isinstance(text, str)",
        ),
    ),
    (
        "openrouter",
        Mutant(
            guard="a marker on empty text",
            at="agentaccel.wire.openai.blocks:BlockReader.can_mark",
            old="isinstance(text, str) and not _blank(text)",
            new="isinstance(text, str)",
        ),
    ),
    (
        "chat",
        Mutant(
            guard="a marker on what the model said",
            at="agentaccel.wire.openai.chat",
            old='_NO_PARTS = frozenset({"assistant", "function"})',
            new='_NO_PARTS = frozenset({"function"})',
        ),
    ),
    (
        "openrouter",
        Mutant(
            guard="a marker on a message that a gateway moves",
            at="agentaccel.wire.openai.chat:ChatReader._may_move",
            old='return level == "messages" and role in FIRST and',
            new="return False and",
        ),
    ),
    (
        "azure chat",
        Mutant(
            guard="fields where none may be added",
            at="agentaccel.cache.planner:plan",
            old=CONTROLS,
            new='if facts.physics == "automatic":',
        ),
    ),
    (
        "responses",
        Mutant(
            guard="a plan for half of a conversation",
            at="agentaccel.wire.openai.responses:decode",
            old='held = next((why for name, why in _HELD.items() if request.get(name) is not None), "")',
            new='held = ""',
        ),
    ),
    (
        "chat",
        Mutant(
            guard="usage that the sender declined",
            at="agentaccel.engine.fields:asking_usage",
            old="if said or not prompt.stream:",
            new="if not prompt.stream:",
        ),
    ),
    (
        "server",
        Mutant(
            guard="usage asked of a server that may refuse",
            at="agentaccel.engine.fields:asking_usage",
            old="if not usage_asked(prompt.provider, prompt.platform):",
            new="if False:",
        ),
    ),
    (
        "openrouter",
        Mutant(
            guard="another name for a session that the sender named",
            at="agentaccel.engine.routing:Routing.routed",
            old="for one in self._fields(prompt, request, facts, conversation) if one.name not in request]",
            new="for one in self._fields(prompt, request, facts, conversation)]",
        ),
    ),
    (
        "bedrock",
        Mutant(
            guard="a marker of the request where the platform takes none",
            at="agentaccel.cache.planner:plan",
            old="without=tuple(own) if off or (own and not facts.top_level_marker) else (),",
            new="without=tuple(own) if off else (),",
        ),
    ),
    (
        "responses",
        Mutant(
            guard="asking a model without cache fields why",
            at="agentaccel.engine.fields:can_ask_why",
            old='return facts.diagnostics and facts.controls and facts.physics != "automatic"',
            new="return facts.diagnostics and facts.controls",
        ),
    ),
    (
        "azure responses",
        Mutant(
            guard="asking why where no field may be added",
            at="agentaccel.engine.fields:can_ask_why",
            old='return facts.diagnostics and facts.controls and facts.physics != "automatic"',
            new='return facts.diagnostics and facts.physics != "automatic"',
        ),
    ),
    (
        "chat",
        Mutant(guard="doing nothing", at=CHOICE, old=NEVER, new="chosen, cost = (), bare or 0.0"),
    ),
    (
        "bedrock",
        Mutant(guard="doing nothing", at=CHOICE, old=NEVER, new="chosen, cost = (), bare or 0.0"),
    ),
    (
        "openrouter",
        Mutant(guard="doing nothing", at=CHOICE, old=NEVER, new="chosen, cost = (), bare or 0.0"),
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize(("place", "mutant"), GUARDS, ids=lambda one: getattr(one, "guard", one))
def test_the_fuzz_fails_without_the_guard(place: str, mutant: Mutant, tmp_path: Path) -> None:
    """Each guard deleted in a copy of the package: 1,500 conversations must notice."""
    output = survives(mutant, tmp_path, ["-m", "tests.fuzz.wires", place, "1500", "3"])
    assert output is None, f"nothing noticed {mutant.guard}: {output}"


LEARNED: tuple[Mutant, ...] = (
    Mutant(
        guard="the sender's own mode",
        at="agentaccel.wire.openai.blocks:may_switch",
        old='facts.physics == "breakpoints" and not told',
        new='facts.physics == "breakpoints"',
    ),
    Mutant(
        guard="doing nothing",
        at="agentaccel.cache.planner:plan",
        old="if prompt.implicit and own:",
        new="if False:",
    ),
    Mutant(
        guard="doing nothing for what is shared",
        at=CHOICE,
        old=NEVER,
        new="chosen, cost = (), bare or 0.0",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", LEARNED, ids=lambda mutant: f"{mutant.guard}-{mutant.file.stem}")
def test_what_was_learned_fails_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    """As above, of workloads whose single calls are known."""
    output = survives(mutant, tmp_path, ["-m", "tests.fuzz.learned", "2", "3"])
    assert output is None, f"nothing noticed {mutant.guard}: {output}"


@pytest.mark.soak
def test_with_every_guard_nothing_is_noticed(tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    place = GUARDS[0][0]
    assert survives(None, tmp_path, ["-m", "tests.fuzz.wires", place, "1500", "3"]) is not None


@pytest.mark.soak
def test_with_every_guard_nothing_is_noticed_of_what_was_learned(tmp_path: Path) -> None:
    """As above."""
    assert survives(None, tmp_path, ["-m", "tests.fuzz.learned", "2", "3"]) is not None
