"""The bar: nothing of the adversarial corpus is ever run early, and ordinary reads mostly could be."""

from __future__ import annotations

import os
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from agentaccel.effects.cases import judge
from agentaccel.effects.places import Surroundings
from agentaccel.effects.verdict import Verdict
from tests.effects.corpora import KINDS, READ_LIKE, Case, adversarial, commands_of, reads

HERE = Surroundings(cwd=Path("/nowhere/at/all"), home=Path("/nowhere/home"), root=Path("/nowhere"))


@cache
def judged(part: str) -> list[tuple[Case, Verdict]]:
    """The cases of one corpus with what is said of them."""
    cases = adversarial() if part == "adversarial" else reads()
    return [(one, judge(one.case, HERE)) for one in cases]


def test_nothing_adversarial_is_ever_run_early() -> None:
    """Must show 5, first half."""
    leaks = [one for one, verdict in judged("adversarial") if verdict.launchable != "never"]
    assert not leaks, [(one.trick, one.text) for one in leaks]


@pytest.mark.slow
def test_the_analysers_understand_why_and_do_not_stumble() -> None:
    """A refusal is a decision: no case is refused only because an analyser broke."""
    for one, verdict in [*judged("adversarial"), *judged("reads")]:
        assert verdict.evidence
        assert not any("failed with" in said.why for said in verdict.evidence), one.text


def test_the_corpora_are_large_and_varied() -> None:
    """Chosen by us: at least 500 each, over all kinds, no two alike, at most ten of one head word and trick."""
    for cases in (adversarial(), reads()):
        assert len(cases) >= 500
        assert {one.case["kind"] for one in cases} == set(KINDS)
        assert len({one.text for one in cases}) == len(cases)
    tricks = Counter((one.case["kind"], one.trick) for one in adversarial())
    assert max(tricks.values()) <= 10


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_reads_could_be_run_early(kind: str) -> None:
    """Must show 5, second half: 85 % of each kind."""
    verdicts = [verdict.launchable for one, verdict in judged("reads") if one.case["kind"] == kind]
    useful = sum(verdict != "never" for verdict in verdicts)
    sys.stdout.write(f"{kind}: {useful} of {len(verdicts)} ordinary reads\n")
    assert useful >= 0.85 * len(verdicts)


def test_only_what_is_near_is_run_on_a_prediction() -> None:
    """A remote read waits until the model has asked."""
    for one, verdict in judged("reads"):
        if one.case["kind"] == "http":
            assert verdict.launchable in ("asked", "never")
        assert (verdict.launchable == "predicted") == (verdict.effect.value in ("pure", "read_local"))


@pytest.mark.traces
def test_the_share_of_reads_in_real_sessions() -> None:
    """Printed beside the corpus: over the shell calls of real sessions that look like reads."""
    texts = commands_of(Path(os.environ["AGENTACCEL_TRACES"]) / "entire_cli_claude.jsonl.gz")
    like = [text for text in texts if READ_LIKE.match(text)]
    useful = sum(judge({"kind": "shell", "input": {"command": text}}, HERE).launchable != "never" for text in like)
    share = f"{useful} of {len(like)} ({useful / len(like):.1%})"
    sys.stdout.write(f"\nread-like shell calls of real sessions: {share}; {len(texts)} calls in all\n")
    assert useful >= 0.5 * len(like)
