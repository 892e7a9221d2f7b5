"""What is advised for each engine, from what replays have found."""

from __future__ import annotations

from typing import Any

import pytest

from agentaccel.errors import ConfigError
from agentaccel.selfhost.advising import EngineAdvice, Wanted, advise, heads_of
from agentaccel.selfhost.candidates import alone_of, drafter_of, key_of, replay_all, rows_of, ways_of
from agentaccel.selfhost.chosen import as_options, as_value, as_words, know, sentences
from agentaccel.selfhost.draft_replay import Passage, Talk
from agentaccel.selfhost.drafters import SuffixLookup
from agentaccel.selfhost.render import LaunchPlan, engines
from agentaccel.selfhost.step_time import StepTime

CHEAP = StepTime(fixed=10**6, per_token=1.0, sure="estimated", source="a test")
"""Verifying costs nearly nothing."""
DEAR = StepTime(fixed=1.0, per_token=1.0, sure="estimated", source="a test")


def copied(site: str, number: int) -> Talk:
    """One that says again what stands in its prompt."""
    text = [number * 1000 + token for token in range(200)]
    return Talk(site=site, passages=(Passage(text), Passage(text[:120], said=True)))


def new(site: str, number: int) -> Talk:
    """One that says what was never there."""
    text = [10**6 + number * 1000 + token for token in range(120)]
    return Talk(site=site, passages=(Passage([1, 2, 3]), Passage(text, said=True)))


TALKS = [*(copied("edits", n) for n in range(3)), *(new("plans", n) for n in range(3))]


def advised(talks: list[Talk], **given: Any) -> list[EngineAdvice]:
    wanted = Wanted(**{"concurrency": 1, "step": CHEAP, **given})
    return list(advise(wanted, replay_all(wanted.engines, talks)))


@pytest.mark.parametrize("engine", engines())
def test_what_copies_is_drafted_and_what_is_new_is_not(engine: str) -> None:
    [advice] = advised(TALKS, engines=(engine,))
    assert advice.sites["edits"].chosen.speed > 2
    assert advice.sites["plans"].chosen.candidate.method == "none"
    assert advice.differ
    assert any("a pool for each" in line for line in sentences(advice, Wanted(concurrency=1, step=CHEAP)))


@pytest.mark.parametrize("engine", engines())
def test_where_verifying_is_dear_nothing_is_chosen_and_the_best_is_named(engine: str) -> None:
    [advice] = advised([new("plans", 1), copied("edits", 2)], engines=(engine,), concurrency=64, step=DEAR)
    assert advice.choice.chosen.candidate.method == "none"
    assert any(line.startswith("nothing pays: the best is") for line in sentences(advice, Wanted(concurrency=64)))
    assert as_options(advice, Wanted(concurrency=64)) == {"engine": engine}


@pytest.mark.parametrize("engine", engines())
def test_every_row_of_the_facts_can_be_rendered_and_replayed(engine: str) -> None:
    """A method, a setting or a drafter that is not known would only show at the user's."""
    for row in rows_of(engine):
        [advice] = advised([copied("edits", 1)], engines=(engine,))
        candidates = {option.candidate.method for option in advice.choice.options}
        assert row["method"] in candidates, advice.refused
        drafter_of(row).begin()


def test_a_plan_is_what_render_takes() -> None:
    [advice] = advised([copied("edits", 1)], engines=("vllm",), heads=heads_of(["eagle3=my/head:0.9"]))
    plan = advice.choice.plan
    assert LaunchPlan(engine="vllm", model="m", speculation=plan).speculation is plan
    options = as_options(advice, Wanted(concurrency=1))
    assert options["speculate"] == plan.method
    assert as_words(options).startswith("agentaccel selfhost render vllm --model MODEL --speculate ")


def test_a_head_that_is_good_enough_is_chosen_for_what_is_new() -> None:
    [advice] = advised([new("plans", 1)], engines=("vllm",), heads=heads_of(["eagle3=my/head:0.8"]))
    assert (advice.choice.plan.method, advice.choice.plan.model) == ("eagle3", "my/head")
    [guessed] = advised([new("plans", 1)], engines=("vllm",), heads=heads_of(["eagle3=my/head"]))
    assert any("is a guess: measure it" in line for line in sentences(guessed, Wanted(concurrency=1)))


def test_both_in_one_engine_is_for_the_engine_and_the_version_that_has_it() -> None:
    heads = heads_of(["eagle3=my/head:0.6"])
    [advice] = advised(TALKS, engines=("trtllm",), heads=heads)
    assert advice.choice.plan.settings == {"sa_config.threshold": 4}
    [older] = advised(TALKS, engines=("trtllm",), heads=heads, version="1.3.0")
    assert older.choice.plan.settings == {}
    [vllm] = advised(TALKS, engines=("vllm",), heads=heads)
    assert not any("sa_config" in option.candidate.label for option in vllm.choice.options)


def test_what_an_engine_or_its_version_cannot_do_is_said() -> None:
    [advice] = advised([new("plans", 1)], engines=("vllm",), heads=heads_of(["medusa=m:0.9"]))
    assert any("has no medusa" in why and "choose eagle3" in why for why in advice.refused)
    [older] = advised([new("plans", 1)], engines=("vllm",), version="0.32.0", heads=heads_of(["medusa=m:0.9"]))
    assert older.choice.plan.method == "medusa"
    [cpu] = advised([copied("edits", 1)], engines=("sglang",), device="cpu")
    assert cpu.choice.plan.method == "none"
    assert any("does not speculate on a CPU" in why for why in cpu.refused)


def test_a_bug_of_an_engine_at_a_temperature_rules_its_methods_out() -> None:
    for temperature, chosen in ((0.0, "suffix"), (0.7, "none")):
        [advice] = advised([copied("edits", 1)], engines=("vllm",), device="cpu", temperature=temperature)
        assert advice.choice.plan.method == chosen
    [gpu] = advised([copied("edits", 1)], engines=("vllm",), temperature=0.7)
    assert gpu.choice.plan.method == "suffix"
    assert any("at temperature 0.7" in line for line in sentences(gpu, Wanted(concurrency=1, temperature=0.7)))


def test_what_changes_replies_is_refused_unless_it_is_insisted_on() -> None:
    fly = {"rejection_sample_method": "fly"}
    with pytest.raises(ConfigError, match="changes what the model says"):
        advised([copied("edits", 1)], engines=("vllm",), settings=fly)
    [advice] = advised([copied("edits", 1)], engines=("vllm",), settings=fly, lossy=True)
    assert advice.choice.plan.settings["rejection_sample_method"] == "fly"
    assert as_options(advice, Wanted(concurrency=1, engines=("vllm",), lossy=True))["lossy"] is True


def test_a_tree_that_remembers_says_what_comes_from_the_conversation_itself() -> None:
    """For tenants that must not meet."""
    again = Passage(copied("edits", 1).passages[1].tokens, said=True)
    talks = [copied("edits", 1), Talk(site="edits", passages=(Passage([5]), again))]
    [advice] = advised(talks, engines=("vllm",))
    chosen = advice.choice.chosen.candidate
    alone = alone_of("vllm", chosen, talks)
    assert alone is not None
    assert 1 < alone < chosen.rates.tokens_per_step
    assert alone_of("trtllm", chosen, talks) is None
    assert any("Text crosses requests" in line for line in sentences(advice, Wanted(concurrency=1), alone))


def test_ways_that_are_alike_are_replayed_once() -> None:
    keys = {key_of(row) for engine in ("vllm", "trtllm") for row in rows_of(engine)}
    assert ways_of(("vllm", "vllm")) == ways_of(("vllm",))
    assert len(keys) < sum(len(rows_of(engine)) for engine in ("vllm", "trtllm"))
    assert set(replay_all(("vllm",), TALKS)) == {key_of(row) for row in rows_of("vllm")}


def test_without_the_library_of_vllm_its_tree_is_ours() -> None:
    assert isinstance(drafter_of(rows_of("trtllm")[0]), SuffixLookup)


def test_json_says_all_that_is_said() -> None:
    [advice] = advised(TALKS, engines=("vllm",))
    value = as_value(advice, Wanted(concurrency=1), ("why",))
    assert value["method"] == advice.choice.plan.method
    assert set(value["sites"]) == {"edits", "plans"}
    assert {option["method"] for option in value["options"]} >= {"none", "suffix", "ngram"}
    assert value["reasons"] == ["why"]


def test_what_nobody_offers_is_said_plainly() -> None:
    said = " ".join(know())
    for word in ("Medusa", "PEARL", "use_heterogeneous_vocab", "SageMaker", "Vertex", "quantisation", "same bytes"):
        assert word in said


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"concurrency": 0}, "--concurrency"),
        ({"concurrency": 8, "peak": 4}, "--peak"),
        ({"concurrency": 1, "temperature": -1}, "--temperature"),
        ({"concurrency": 1, "version": "0.33.0"}, "say with --engine which"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Wanted(**given)


@pytest.mark.parametrize("given", ["", "eagle", "suffix=m", "eagle3=m:1.5", "eagle3=m:-1"])
def test_a_head_that_cannot_be_meant_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="--heads is"):
        heads_of([given])


def test_a_colon_of_a_models_own_name_is_its_own() -> None:
    [head] = heads_of(["eagle3=hub:8000/my/head"])
    assert (head.model, head.acceptance) == ("hub:8000/my/head", None)
