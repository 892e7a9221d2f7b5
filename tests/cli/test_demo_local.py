"""The demo on a real engine, on an emulated one: the same agent in both columns, and never more to compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentaccel.demo.local import BARE, CONSENT, FORMS, OURS, TURNS, LocalForm, LocalResult, run_local
from agentaccel.demo.show_local import local_as_json, render_local
from agentaccel.policy import Policy
from agentaccel.selfhost.tiny import TinyOptions
from agentaccel.testing import ManualClock
from agentaccel_emulator import Emulator, RunningServer, Tokenizer, say, serve
from agentaccel_emulator.behaviour import Behaviour, Timing

RATE = 100.0
"""Tokens of a prompt that the emulated engine computes in a second."""


def ran(form: LocalForm, policy: Policy = CONSENT, runs: int = 1) -> LocalResult:
    clock = ManualClock(now=1_795_800_000.0)

    @contextmanager
    def start(options: TinyOptions) -> Iterator[RunningServer]:
        behaviour = Behaviour(
            tokenizer=Tokenizer(bytes_per_token=4.0),
            timing=Timing(base=0.0, prefill=RATE),
            slots=options.slots if not options.cache_ram else None,  # what leaves its slot comes back from there
        )
        with serve(
            Emulator(script=lambda turn: say("Yes."), platform="llamacpp", behaviour=behaviour, clock=clock)
        ) as server:
            yield server

    [result] = run_local(start, [form], runs=runs, policy=policy, clock=clock)
    return result


def named(name: str) -> LocalForm:
    return next(form for form in FORMS if form.name == name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [form.name for form in FORMS])
def test_in_no_form_the_engine_computes_more(name: str) -> None:
    """Of six turns a session; the prompts that are sent may be longer."""
    result = ran(named(name))
    bare, ours = (result.runs[column][0] for column in (BARE, OURS))
    assert len(bare.replies) == len(ours.replies) == TURNS * named(name).sessions
    assert ours.computed <= bare.computed
    assert result.complaints == []


@pytest.mark.parametrize(
    ("name", "consent"), [("clock in system", "move_volatile"), ("shuffled tools", "freeze_tools")]
)
def test_what_changes_in_front_is_computed_once(name: str, consent: str) -> None:
    """As written all of each prompt is computed, from its first line, or its first tool, on. With consent it is one
    prompt, and then what is new: at most a quarter, and the seconds are those of the tokens."""
    result = ran(named(name))
    bare, ours = (result.runs[column][0] for column in (BARE, OURS))
    assert bare.computed > 0.85 * bare.prompt
    assert ours.computed <= 0.25 * bare.computed
    assert ours.consents == (consent,)
    for column, run in ((BARE, bare), (OURS, ours)):
        assert result.first(column) == pytest.approx(run.computed / RATE, abs=0.15 * TURNS)  # and of the first word


def test_where_history_only_grows_nothing_is_changed() -> None:
    """What is computed is one prompt, and then what is new, in both columns: to the token."""
    result = ran(named("plain loop"))
    bare, ours = (result.runs[column][0] for column in (BARE, OURS))
    assert (ours.consents, ours.computed, ours.prompt) == ((), bare.computed, bare.prompt)
    assert bare.computed < 0.25 * bare.prompt


def test_without_consent_nothing_is_moved() -> None:
    result = ran(named("clock in system"), Policy(strict=True))
    bare, ours = (result.runs[column][0] for column in (BARE, OURS))
    assert (ours.consents, ours.computed, ours.prompt) == ((), bare.computed, bare.prompt)


def test_the_seconds_are_the_median_of_runs_in_turn() -> None:
    result = ran(named("clock in system"), runs=3)
    assert [len(result.runs[column]) for column in (BARE, OURS)] == [3, 3]
    firsts = sorted(run.first for run in result.runs[OURS])
    assert result.first(OURS) == firsts[1]
    assert "median of 3 runs" in render_local([result])


def test_the_table_has_both_columns_and_what_was_said_in_them() -> None:
    result = ran(named("clock in system"))
    text = render_local([result])
    bare, ours = (result.runs[column][0] for column in (BARE, OURS))
    for run in (bare, ours):
        assert f"{run.computed:,} of {run.prompt:,}" in text
    assert f"{ours.computed / bare.computed:.1%}".replace("%", " %") in text
    assert text.count("Yes.") == 2 * TURNS
    assert all(len(line) <= 80 for line in text.splitlines())
    figures = local_as_json([result])
    assert figures["ok"]
    assert figures["forms"][0]["columns"][OURS][0]["computed"] == ours.computed
    assert text.count("1.00 tokens a step") == 2


def test_a_form_in_which_more_is_computed_is_said_not_to_hold() -> None:
    """The two columns, exchanged."""
    result = ran(named("clock in system"))
    bare, ours = (result.runs[column] for column in (BARE, OURS))
    turned = LocalResult(form=result.form, runs={BARE: ours, OURS: bare})
    assert turned.complaints == ["clock in system: more tokens computed than as written"]
    assert not local_as_json([turned])["ok"]
