"""The fuzz of edited histories bites: without any single guard it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, survives

GUARDS: tuple[tuple[str, Mutant], ...] = (
    (
        "api",
        Mutant(
            guard="an edit of the last results",
            at="agentaccel.rewrite.results:of_age",
            old="zip(results, results[keep:], strict=False)",
            new="zip(results, results, strict=True)",
        ),
    ),
    (
        "chat",
        Mutant(
            guard="an edit of what the model has not seen",
            at="agentaccel.rewrite.results:of_age",
            old="since = max(later.turn, result.turn + 1)",
            new="since = later.turn",
        ),
    ),
    (
        "responses",
        Mutant(
            guard="an edit of a pinned tool's results",
            at="agentaccel.rewrite.results:able_of",
            old="or result.identity in known or result.tool in policy.pinned_tools:",
            new="or result.identity in known:",
        ),
    ),
    (
        "vertex",
        Mutant(
            guard="a summary of a pinned tool's results",
            at="agentaccel.rewrite.summary:_cuts",
            old="[cut for cut in cuts if cut <= pinned]",
            new="cuts",
        ),
    ),
    (
        "responses",
        Mutant(
            guard="a call that is parted from its result",
            at="agentaccel.wire.editing:cuts_of",
            old="for i in range(start + 1, end) if answered[i]]",
            new="for i in range(start + 1, end)]",
        ),
    ),
    (
        "foundry",
        Mutant(
            guard="an edit of an error",
            at="agentaccel.wire.editing:_in_messages",
            old="""plain = MARKS.isdisjoint(block) and not block.get("is_error")""",
            new="plain = MARKS.isdisjoint(block)",
        ),
    ),
    (
        "api",
        Mutant(
            guard="an edit of what the user has marked",
            at="agentaccel.wire.editing:_in_messages",
            old="""plain = MARKS.isdisjoint(block) and not block.get("is_error")""",
            new="""plain = not block.get("is_error")""",
        ),
    ),
    (
        "azure chat",
        Mutant(
            guard="a summary of the last replies",
            at="agentaccel.rewrite.summary:_kept",
            old="if turns[-1] - turns[first_of(prompt, cut)] >= policy.keep_results]",
            new="if turns]",
        ),
    ),
    (
        "bedrock",
        Mutant(
            guard="an edit of results that are young again",
            at="agentaccel.rewrite.results:edit",
            old="before = _as_before(old, knowing)",
            new="before = _as_before(results, knowing)",
        ),
    ),
    (
        "chat",
        Mutant(
            guard="a summary of other messages than there are",
            at="agentaccel.rewrite.summary:still_there",
            old="return there and summary is not None and identity_of(prompt, summary.cut) == summary.identity",
            new="return there",
        ),
    ),
    (
        "responses",
        Mutant(
            guard="an edit beside the provider's",
            at="agentaccel.rewrite.edits:left_alone",
            old="""the request has the provider edit it ({own})" if own else None""",
            new="""the request has the provider edit it ({own})" if False else None""",
        ),
    ),
    (
        "openrouter",
        Mutant(
            guard="an edit where nothing is known",
            at="agentaccel.rewrite.edits:left_alone",
            old="if not facts.assured:",
            new="if False:",
        ),
    ),
    (
        "xai",
        Mutant(
            guard="a cancellation that nobody is told of",
            at="agentaccel.rewrite.jobs:_called",
            old="except BaseException:",
            new="except Exception:",
        ),
    ),
    (
        "api",
        Mutant(
            guard="a text that cannot be sent",
            at="agentaccel.rewrite.jobs:_called",
            old="if isinstance(made, str) and made.strip() and _encodes(made):",
            new="if isinstance(made, str):",
        ),
    ),
    (
        "vllm",
        Mutant(
            guard="doing nothing",
            at="agentaccel.rewrite.edits:Weighed.pays",
            old="return self.worth > 0.0 and self.paid >= self.again",
            new="return False",
        ),
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize(("place", "mutant"), GUARDS, ids=lambda one: getattr(one, "guard", one))
def test_the_fuzz_fails_without_the_guard(place: str, mutant: Mutant, tmp_path: Path) -> None:
    """Each guard deleted in a copy of the package: 300 loops must notice."""
    output = survives(mutant, tmp_path, ["-m", "tests.fuzz.edited", place, "300", "3"])
    assert output is None, f"nothing noticed {mutant.guard}: {output}"


@pytest.mark.soak
def test_with_every_guard_nothing_is_noticed(tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    place = GUARDS[0][0]
    assert survives(None, tmp_path, ["-m", "tests.fuzz.edited", place, "300", "3"]) is not None
