"""What is advised for each engine, from what replays have found."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from agentaccel.cli.options import pairs, value_of
from agentaccel.errors import ConfigError
from agentaccel.selfhost.advising import EngineAdvice, Wanted, advise, heads_of
from agentaccel.selfhost.candidates import alone_of, drafter_of, key_of, replay_all, rows_of, ways_of
from agentaccel.selfhost.choosing import Circumstances, DraftMethod, DraftRates, choose
from agentaccel.selfhost.chosen import advised_to, as_lines, as_options, as_value, know, sentences
from agentaccel.selfhost.draft_replay import Passage, Talk
from agentaccel.selfhost.drafters import SuffixLookup
from agentaccel.selfhost.measured_steps import read_measurements
from agentaccel.selfhost.render import LaunchPlan, engines
from agentaccel.selfhost.step_time import StepTime

CHEAP = StepTime(fixed=10**6, per_token=1.0, sure="estimated", source="a test")
"""Verifying costs nearly nothing."""
STEEP = StepTime(fixed=200, per_token=1.0, sure="estimated", source="a test")
DEAR = StepTime(fixed=1.0, per_token=1.0, sure="estimated", source="a test")


ONE = Wanted(concurrency=1)


def copied(site: str, number: int) -> Talk:
    """One that says again what stands in its prompt."""
    text = [number * 1000 + token for token in range(200)]
    return Talk(site=site, passages=(Passage(text), Passage(text[:120], said=True)))


def new(site: str, number: int) -> Talk:
    """One that says what was never there."""
    text = [10**6 + number * 1000 + token for token in range(120)]
    return Talk(site=site, passages=(Passage([1, 2, 3]), Passage(text, said=True)))


TALKS = [*(copied("edits", n) for n in range(5)), *(new("plans", n) for n in range(5))]


def advised(talks: list[Talk], **given: Any) -> list[EngineAdvice]:
    wanted = Wanted(**{"concurrency": 1, "step": CHEAP, **given})
    return list(advise(wanted, replay_all(wanted.engines, talks)))


@pytest.mark.parametrize("engine", engines())
def test_what_copies_is_drafted_and_what_is_new_is_not(engine: str) -> None:
    [advice] = advised(TALKS, engines=(engine,))
    assert advice.sites["edits"].chosen.speed > 2
    assert advice.sites["plans"].chosen.candidate.method == "none"
    assert advice.differ
    assert any("run one kind for each" in line for line in sentences(advice, Wanted(concurrency=1, step=CHEAP)))


@pytest.mark.parametrize("engine", engines())
def test_where_verifying_is_dear_nothing_is_chosen_and_the_best_is_named(engine: str) -> None:
    [advice] = advised([new("plans", 1), copied("edits", 2)], engines=(engine,), concurrency=64, step=DEAR)
    assert advice.choice.chosen.candidate.method == "none"
    assert any(line.startswith("nothing pays") for line in sentences(advice, Wanted(concurrency=64)))
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
    assert as_lines(options, 10_000).startswith("agentaccel selfhost render vllm --model MODEL --speculate ")


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
    assert older.refused == ()  # nobody has asked for it
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


def test_a_version_or_an_engine_that_nobody_here_has_run_is_named() -> None:
    for engine, version, says in (("vllm", "0.99.0", "not of 0.99.0"), ("trtllm", None, "no TensorRT-LLM was run")):
        [advice] = advised([copied("edits", 1)], engines=(engine,), version=version)
        said = sentences(advice, Wanted(concurrency=1, engines=(engine,), version=version))
        assert any(says in line for line in said)
    [known] = advised([copied("edits", 1)], engines=("vllm",), version="0.32.0")
    said = sentences(known, Wanted(concurrency=1, engines=("vllm",), version="0.32.0"))
    assert not any("the options known are" in line for line in said)


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
    assert any(
        "can tell one user what another was told" in line for line in sentences(advice, Wanted(concurrency=1), alone)
    )
    assert alone_of("trtllm", chosen, talks) is None
    assert alone_of("vllm", replace(chosen, rates=replace(chosen.rates, known="measured")), talks) is None


def test_one_table_for_all_slots_is_one_that_remembers() -> None:
    """llama.cpp's ngram-mod: text crosses requests there, too."""
    text = Passage(list(range(200)), said=True)
    talks = [Talk(site="edits", passages=(Passage([500 + n]), text)) for n in range(3)]
    [advice] = advised(talks, engines=("llamacpp",))
    assert advice.choice.plan.method == "ngram-mod"
    assert alone_of("llamacpp", advice.choice.chosen.candidate, talks) == 1.0


def test_a_replay_goes_by_the_settings_that_are_given() -> None:
    """An engine that is told to remember nothing earns what each conversation earns by itself."""
    again = Passage(copied("edits", 1).passages[1].tokens, said=True)
    talks = [copied("edits", 1), Talk(site="edits", passages=(Passage([5]), again))]
    settings = {"suffix_decoding_max_cached_requests": 0, "suffix_decoding_min_token_prob": 0.5}
    wanted = Wanted(engines=("vllm",), concurrency=1, step=CHEAP, settings=settings)
    found = replay_all(("vllm",), talks, settings=settings)
    assert len(found) == ways_of(("vllm",), settings)
    [advice] = advise(wanted, found)
    chosen = advice.choice.chosen.candidate
    assert chosen.settings == settings
    [usual] = advised(talks, engines=("vllm",))
    alone = alone_of("vllm", usual.choice.chosen.candidate, talks)
    assert alone is not None
    assert chosen.rates.tokens_per_step == pytest.approx(alone)
    assert alone_of("vllm", chosen, talks, settings) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("suffix_decoding_max_tree_depth", 0),
        ("suffix_decoding_max_tree_depth", "deep"),
        ("suffix_decoding_min_token_prob", "high"),
        ("suffix_decoding_max_cached_requests", -1),
    ],
)
def test_a_setting_that_no_replay_can_have_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name} is {value!r}"):
        replay_all(("vllm",), TALKS, settings={name: value})


def test_settings_that_make_two_ways_alike_leave_one() -> None:
    both = {"suffix_decoding_min_token_prob": 0.5, "suffix_decoding_max_spec_factor": 0.5}
    assert [row["method"] for row in rows_of("vllm", both)] == ["suffix", "ngram"]
    assert [row["method"] for row in rows_of("vllm")] == ["suffix", "suffix", "ngram"]


def test_what_a_replay_knows_nothing_of_is_said() -> None:
    [advice] = advised(TALKS, engines=("sglang",), settings={"speculative-ngram-capacity": 5})
    assert any("replayed without speculative-ngram-capacity" in line for line in sentences(advice, ONE))
    [deep] = advised(TALKS, engines=("sglang",), settings={"speculative-ngram-max-trie-depth": 18})
    assert not any("replayed without" in line for line in sentences(deep, ONE))


def test_places_of_which_little_was_said_are_named_and_not_judged() -> None:
    talks = [*(copied("edits", n) for n in range(20)), new("plans", 1)]
    [advice] = advised(talks, engines=("vllm",))
    assert (list(advice.sites), advice.unsure, advice.differ) == (["edits"], ("plans",), False)
    assert "too few tokens to go by were said in plans" in sentences(advice, ONE)
    [few] = advised(TALKS[:1], engines=("vllm",))
    assert sentences(few, ONE)[0] == "only 120 tokens were said: too few to go by"


def test_what_is_measured_of_one_engine_says_nothing_of_others() -> None:
    measured = read_measurements([{"method": "none", "requests": 1, "step": 1.0}])
    with pytest.raises(ConfigError, match="--measured is of one engine"):
        Wanted(concurrency=1, measured=measured)
    wanted = Wanted(engines=("vllm",), concurrency=1, measured=measured)
    [advice] = advise(wanted, {})
    assert any("your steps without speculation" in why for why in advice.refused)


def test_sentences_do_not_contradict_the_table() -> None:
    """Where the schedule drafts nothing at the usual load, and where nothing was ever right."""
    head = heads_of(["eagle3=my/head:0.5"])
    [advice] = advised([new("plans", 1)], engines=("vllm",), heads=head, concurrency=2000, step=STEEP)
    said = sentences(advice, Wanted(concurrency=2000))
    best = advice.choice.best
    assert best is not None
    assert (best.speed, best.rates.tokens_per_step) == (1.0, 1.0)
    assert any("had better draft nothing" in line for line in said)
    assert any(f"is faster than none with up to {best.pays_up_to:,} requests at once" in line for line in said)
    [nothing] = advised([new("plans", 1)], engines=("vllm",))
    assert "nothing pays: no draft was ever right" in sentences(nothing, ONE)
    [gated] = advised([new("plans", 1)], engines=("vllm",), heads=heads_of(["eagle3=h:0.7"]), step=STEEP)
    schedule = gated.choice.plan.schedule
    assert schedule[-1][1] == 0
    assert as_options(gated, ONE)["draft_schedule"] == ",".join(f"{load}:{tokens}" for load, tokens in schedule)
    assert gated.choice.chosen.pays_up_to == schedule[-2][0]
    assert any(f"up to {schedule[-2][0]}, none beyond" in line for line in sentences(gated, ONE))


def test_a_peak_that_is_too_much_is_bounded_and_never_by_more_than_itself() -> None:
    """Experts that are read anyway: such a model may pay at 64 requests and not at 8."""
    [advice] = advised([copied("edits", 1)], engines=("vllm",), step=STEEP, peak=4000)
    last = advice.choice.chosen.pays_up_to
    assert any(f"allow no more than {last} (--concurrency" in line for line in sentences(advice, ONE))
    awake = StepTime(fixed=10, experts=100, active=0.01, per_token=1e-4, sure="estimated", source="a test")
    rates = DraftRates(tokens_per_step=2.9, drafted_per_token=2.0, known="replayed")
    method = DraftMethod(method="ngram", rates=rates, tokens=8)
    under = Circumstances(engine="sglang", version="0.5.23", concurrency=1, peak=20, step=awake)
    choice = choose([method], under)
    assert choice.chosen.at_peak < 1 < choice.chosen.pays_up_to
    odd = EngineAdvice(engine="sglang", choice=choice, sites={}, unsure=(), refused=(), tokens=5000)
    said = " ".join(sentences(odd, ONE))
    assert "with 20 requests at once it costs more than it earns" in said
    assert "allow no more" not in said


def test_what_was_measured_of_a_method_stands_for_its_replay() -> None:
    row = {"method": "suffix", "requests": 1, "tokens_per_step": 1.2, "drafted_per_token": 1.0, "tokens": 16}
    [advice] = advised(TALKS, engines=("vllm",), measured=read_measurements([row]))
    weighed = [one.candidate.rates for one in advice.choice.options if one.candidate.method == "suffix"]
    assert [(rates.known, rates.tokens_per_step) for rates in weighed] == [("measured", 1.2)]


def test_a_command_can_be_pasted_into_a_shell() -> None:
    options = {"engine": "vllm", "speculate": "eagle3", "draft_model": "a b;rm", "draft_set": ["x=fly", "y=1 2"]}
    words = shlex.split(as_lines(options, 10_000))
    assert words[words.index("--draft-model") + 1] == "a b;rm"
    assert [words[i + 1] for i, word in enumerate(words) if word == "--draft-set"] == ["x=fly", "y=1 2"]
    lines = as_lines(options, 40).splitlines()
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert max(map(len, lines)) <= 46
    assert shlex.split("\n".join(lines).replace("\\\n", " ")) == words


def test_settings_come_back_from_a_plan_as_they_were() -> None:
    """Text without the quotes of JSON, numbers as numbers."""
    settings = {"rejection_sample_method": "fly", "suffix_decoding_min_token_prob": 0.5}
    [advice] = advised([copied("edits", 1)], engines=("vllm",), settings=settings, lossy=True)
    read = {n: value_of(v) for n, v in pairs("--draft-set", as_options(advice, ONE)["draft_set"]).items()}
    assert read == advice.choice.plan.settings
    assert read.items() >= settings.items()


def test_what_is_named_twice_counts_once() -> None:
    assert len(heads_of(["eagle3=h:0.6", "eagle3=h:0.6", "eagle3=other:0.6"])) == 2
    [advice] = advised([new("plans", 1)], engines=("vllm",), heads=heads_of(["eagle3=h:0.6", "eagle3=other:0.6"]))
    labels = [option.candidate.label for option in advice.choice.options]
    assert len(set(labels)) == len(labels)


def test_what_would_make_it_surer_is_said_until_it_is_given() -> None:
    assert len(list(advised_to(Wanted(concurrency=1)))) == 2
    assert len(list(advised_to(Wanted(concurrency=1, step=CHEAP)))) == 1
    assert len(list(advised_to(Wanted(concurrency=1, device="cpu")))) == 1
    measured = read_measurements([{"method": "none", "requests": n, "step": 9.0 + n} for n in (1, 8)])
    assert list(advised_to(Wanted(concurrency=1, engines=("vllm",), measured=measured))) == []


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
