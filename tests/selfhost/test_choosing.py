"""Which method is chosen: against what was measured of real engines, and against columns drawn from the formula.

The tables are throughput against no speculation, of a vLLM on a CPU and of a llama.cpp on an H200, as measured for this
project. `choose` is given what such an engine reports: what was accepted and drafted, and what a step took.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.selfhost.candidates import Head, of_head, of_hybrid, of_replay
from agentaccel.selfhost.choosing import MOST_REQUESTS, Choice, Circumstances, DraftMethod, DraftRates, choose, speed
from agentaccel.selfhost.draft_replay import Drafted, Passage, Talk, replayed
from agentaccel.selfhost.drafters import PromptLookup
from agentaccel.selfhost.measured_steps import read_measurements
from agentaccel.selfhost.step_time import StepTime, assumed


class Cell(NamedTuple):
    """What was measured of a method: throughput against none, accepted of drafted, drafted for each token."""

    throughput: float
    acceptance: float
    drafted: float


ON_A_CPU = """
replay  suffix 4.9 1.2 0.83 1.1   likelier 3.5 1.5 0.92 1.0   shorter 4.4 1.5 0.99 0.9
replay  eagle3 1.2 0.7 0.61 1.1   draft    1.0 0.8 0.94 0.8   ngram   0.6 0.6 0.53 1.1
fresh   suffix 2.1 0.9 0.37 1.8   likelier 1.9 0.8 0.45 1.5   shorter 1.9 0.9 0.72 0.9
fresh   eagle3 1.1 0.5 0.62 1.0   draft    1.0 0.7 0.92 0.9   ngram   0.5 0.4 0.51 1.2
sample  suffix 0.9 0.9 0.37 1.7   likelier 1.7 1.1 0.46 1.4   shorter 1.6 0.9 0.76 0.8
sample  eagle3 1.1 0.7 0.54 1.1   draft    1.1 0.6 0.75 1.0   ngram   0.3 0.5 0.48 1.1
noise   suffix 0.7 0.7 0.00 0.1   likelier 0.7 0.6 0.00 0.1
noise   draft  0.3 0.2 0.00 4.0   ngram    0.2 0.1 0.00 0.1
"""
"""By column and method: throughput with 1 and with 16 requests at once, accepted of drafted, drafted for each token. Of
*noise* neither was written down, and nearly nothing was accepted."""
ON_AN_H200 = """
copy   1  1152  1.67 924/1416    1.60 838/1067   1.38 906/1409   1.48 943/1187
copy   4  1536  0.80 1264/1897   0.80 1213/1596  0.76 1245/1507  0.93 1277/1558
copy  16  6144  0.90 4945/7285   0.78 4196/6278  0.78 2577/3487  0.63 3598/8562
calls  1  1152  1.27 930/2254    1.12 744/1982   1.05 739/1422   1.13 829/1699
calls  4  1536  0.79 1210/2904   0.48 898/3174   0.47 927/1286   0.73 1104/2148
calls 16  6144  0.93 4838/11138  0.65 1434/8575  0.77 3280/4564  0.77 4161/8689
fresh  1  1152  1.11 373/411     1.47 740/740    1.48 595/720    0.80 9/1042
fresh 16  6144  0.85 3374/3504   0.90 3686/3800  0.89 2802/3424  0.61 18/4950
"""
"""By prompts, requests at once and all tokens: throughput and accepted of drafted of ngram-simple, -mod, -map-k and
-cache. Without *fresh, 4*, whose plain decoding is an outlier. How many tokens were made in all was not written down:
these are the least that fit the accepted ones, at 192 a reply."""


def _on_a_cpu() -> dict[str, dict[int, dict[str, Cell]]]:
    found: dict[str, dict[int, dict[str, Cell]]] = {}
    for line in ON_A_CPU.strip().splitlines():
        column, *words = line.split()
        loads = found.setdefault(column, {1: {}, 16: {}})
        for method, alone, many, share, drafted in zip(*[iter(words)] * 5, strict=True):
            loads[1][method] = Cell(float(alone), float(share), float(drafted))
            loads[16][method] = Cell(float(many), float(share), float(drafted))
    return found


def _on_an_h200() -> dict[tuple[str, int], dict[str, Cell]]:
    found: dict[tuple[str, int], dict[str, Cell]] = {}
    for line in ON_AN_H200.strip().splitlines():
        prompts, requests, tokens, *words = line.split()
        cells = found[prompts, int(requests)] = {}
        for method, fast, of in zip(("simple", "mod", "map", "cache"), words[::2], words[1::2], strict=True):
            accepted, drafted = map(int, of.split("/"))
            cells[method] = Cell(float(fast), accepted / drafted, drafted / int(tokens))
    return found


CPU = _on_a_cpu()
COLUMNS = {
    **{f"CPU, {name}, {load}": (cells, load) for name, loads in CPU.items() for load, cells in loads.items()},
    **{f"H200, {name}, {load}": (cells, load) for (name, load), cells in _on_an_h200().items()},
}


def rows_of(cells: Mapping[str, Cell], requests: int) -> list[dict[str, object]]:
    """What an engine reports, with steps of any unit: a step without speculation takes 20 and a little for each."""
    base = 20.0 + 0.3 * requests
    rows: list[dict[str, object]] = [{"method": "none", "requests": requests, "step": base}]
    for name, cell in cells.items():
        tokens = 1 / (1 - cell.acceptance * cell.drafted)
        reported = {"acceptance": cell.acceptance, "drafted_per_token": cell.drafted}
        step = base * tokens / cell.throughput
        rows.append({"method": name, "requests": requests, "step": step, **reported})
    return rows


def chosen_from(rows: list[dict[str, object]], requests: int, peak: int | None = None) -> Choice:
    measured = read_measurements(rows)
    step = measured.step_time() or assumed("gpu", 8)
    return choose(measured.candidates, under(requests, peak, step))


def under(requests: int, peak: int | None = None, step: StepTime | None = None, engine: str = "vllm") -> Circumstances:
    return Circumstances(
        engine=engine,
        version="0.33.0",
        concurrency=requests,
        peak=peak or requests,
        step=step or assumed("gpu", 8),
    )


def reached(choice: Choice, cells: Mapping[str, Cell]) -> float:
    """The throughput of what was chosen, against the best there is."""
    throughput = {"none": 1.0, **{name: cell.throughput for name, cell in cells.items()}}
    return throughput[choice.chosen.candidate.method] / max(throughput.values())


@pytest.mark.parametrize("name", COLUMNS)
def test_what_is_chosen_of_a_measured_engine_is_nearly_the_best_of_it(name: str) -> None:
    """Alone at most 10 % below the best method, from 4 requests at once on at most 25 %, none included."""
    cells, requests = COLUMNS[name]
    choice = chosen_from(rows_of(cells, requests), requests)
    assert reached(choice, cells) >= (0.9 if requests == 1 else 0.75)


def test_no_choice_that_looks_at_less_does_as_well() -> None:
    """The twin: whoever always speculates, never does, or looks at acceptance alone fails some of them."""

    def fails(choose_of: Mapping[str, str]) -> bool:
        within = [
            {"none": 1.0, **{m: c.throughput for m, c in cells.items()}}[choose_of[name]]
            >= (0.9 if load == 1 else 0.75) * max(1.0, *(c.throughput for c in cells.values()))
            for name, (cells, load) in COLUMNS.items()
        ]
        return not all(within)

    assert fails(dict.fromkeys(COLUMNS, "none"))
    assert fails({name: max(cells, key=lambda m: cells[m].acceptance) for name, (cells, _) in COLUMNS.items()})
    assert fails(
        {name: max(cells, key=lambda m: cells[m].acceptance * cells[m].drafted) for name, (cells, _) in COLUMNS.items()}
    )
    assert fails({name: next(iter(cells)) for name, (cells, _) in COLUMNS.items()})


@pytest.mark.parametrize("name", CPU)
def test_a_choice_for_few_and_for_many_does_for_both(name: str) -> None:
    """One engine at 1 and at 16 requests at once: nearly the best mean of the two, in the logarithm."""
    rows = [row for load in (1, 16) for row in rows_of(CPU[name][load], load)]
    choice = chosen_from(rows, 1, peak=16)
    alone, many = CPU[name][1], CPU[name][16]
    worth = {"none": 1.0, **{m: (alone[m].throughput * many[m].throughput) ** 0.5 for m in alone}}
    assert worth[choice.chosen.candidate.method] >= 0.9 * max(worth.values())


# --- columns drawn from the formula -----------------------------------------------------------------------------------


def drawn(seed: int) -> tuple[list[dict[str, object]], int, dict[str, float]]:
    """An engine's reports, requests at once, and how fast each method is there, by the formula itself: step times and
    rates are those of an engine that there might be, each moved by a factor of up to two either way.

    Steps without speculation are told at several loads, those with a method at one request only: what it costs with
    many follows from the line.
    """
    rng = random.Random(seed)

    def moved(value: float) -> float:
        return value * 2 ** rng.uniform(-1, 1)

    fixed, each = moved(20.0), moved(0.4)
    requests = rng.choice([1, 4, 8, 16, 32])
    rows: list[dict[str, object]] = [
        {"method": "none", "requests": load, "step": fixed + each * load} for load in (1, 4, 16, 64)
    ]
    truth = {"none": 1.0}
    for method, acceptance, ahead, overhead in (
        ("suffix", 0.4, 1.2, 1.2), ("ngram", 0.3, 0.8, 1.1), ("eagle3", 0.5, 1.0, 1.15), ("draft", 0.6, 0.9, 1.6),
    ):  # fmt: skip
        share, drafted = min(moved(acceptance), 0.9), min(moved(ahead), 1.05)
        extra = 1 + moved(overhead - 1)
        tokens = 1 / (1 - share * drafted)
        verified = 1 + drafted * tokens
        row = {"method": method, "requests": 1, "acceptance": share, "drafted_per_token": drafted}
        rows.append({**row, "step": (fixed + each * verified) * extra})
        plain, with_it = fixed + each * requests, (fixed + each * requests * verified) * extra
        truth[method] = tokens * plain / with_it
    return rows, requests, truth


@pytest.mark.parametrize("seed", range(5))
def test_the_best_of_a_drawn_engine_is_chosen(seed: int) -> None:
    rows, requests, truth = drawn(seed)
    choice = chosen_from(rows, requests)
    assert truth[choice.chosen.candidate.method] >= (0.9 if requests == 1 else 0.75) * max(truth.values())
    for option in choice.options:
        assert option.speed == pytest.approx(truth[option.candidate.method])


def test_drawn_engines_have_different_best_methods() -> None:
    best = {max(truth, key=lambda method: truth[method]) for _, _, truth in map(drawn, range(40))}
    assert {"none", "suffix", "eagle3"} <= best


@pytest.mark.slow
@given(seed=st.integers(0, 10**6))
def test_the_best_of_any_engine_is_chosen(seed: int) -> None:
    test_the_best_of_a_drawn_engine_is_chosen(seed)


# --- margins, loads and schedules -------------------------------------------------------------------------------------

SUFFIX = DraftMethod(
    method="suffix", rates=DraftRates(tokens_per_step=2.0, drafted_per_token=1.0, known="replayed"), tokens=16
)


def step(fixed: float, *, sure: str = "estimated") -> StepTime:
    return StepTime(fixed=fixed, per_token=1.0, sure=sure, source="a test")  # type: ignore[arg-type]


def test_what_earns_less_than_its_margin_is_not_chosen() -> None:
    """A figure that is measured is trusted with less than one that is a guess."""
    almost = DraftMethod(method="ngram", rates=DraftRates(tokens_per_step=1.3, drafted_per_token=0.3, known="replayed"))
    assert choose([almost], under(1, step=step(1000))).chosen.candidate.method == "none"
    told = DraftMethod(method="ngram", rates=almost.rates, costs=((1, 1.2),))
    assert choose([told], under(1, step=step(1000))).chosen.candidate.method == "ngram"


def test_break_even_is_the_last_load_at_which_a_method_pays() -> None:
    choice = choose([SUFFIX], under(1, step=step(300)))
    [option] = [one for one in choice.options if one.candidate is SUFFIX]
    last = option.pays_up_to
    for load, pays in ((last, True), (last + 1, False)):
        [there] = [one for one in choose([SUFFIX], under(load, step=step(300))).options if one.candidate is SUFFIX]
        assert (there.speed > 1) is pays
    dear = choose([SUFFIX], under(1, step=step(0.1))).best
    cheap = choose([SUFFIX], under(1, step=step(10**7))).best
    assert dear is not None
    assert cheap is not None
    assert (dear.pays_up_to, cheap.pays_up_to) == (0, MOST_REQUESTS)


def test_a_peak_that_a_method_cannot_bear_speaks_against_it() -> None:
    assert choose([SUFFIX], under(1, step=step(100))).chosen.candidate is SUFFIX
    assert choose([SUFFIX], under(1, peak=1000, step=step(100))).chosen.candidate.method == "none"


def test_a_head_drafts_less_under_load_where_its_engine_can_be_told_so() -> None:
    head = of_head(Head(method="eagle3", model="h", acceptance=0.8), 1, step(200))
    gated = choose([head], under(1, peak=2000, step=step(200)))
    assert gated.chosen.candidate is head
    loads, tokens = zip(*gated.plan.schedule, strict=True)
    assert list(loads) == sorted(loads)
    assert list(tokens) == sorted(tokens, reverse=True)
    assert tokens[0] == head.tokens
    assert tokens[-1] < tokens[0]
    assert gated.chosen.at_peak >= 1
    bare = choose([head], under(1, peak=2000, step=step(200), engine="llamacpp"))
    assert bare.chosen.candidate.method == "none"


def test_what_is_a_guess_has_to_earn_more() -> None:
    """A head whose acceptance nobody knows, though what its steps cost was measured; and a peak beyond the measured."""
    rates = DraftRates(tokens_per_step=1.3, drafted_per_token=0.3, known="assumed")
    guessed = DraftMethod(method="eagle3", rates=rates, costs=((1, 1.2), (4, 1.2)))
    told = replace(guessed, rates=replace(rates, known="stated"))
    assert choose([guessed], under(1)).chosen.candidate.method == "none"
    assert choose([told], under(1, peak=4)).chosen.candidate is told
    assert [one.sure for one in choose([told], under(1, peak=4)).options] == ["measured", "measured"]
    assert "assumed" in [one.sure for one in choose([told], under(1, peak=5)).options]


def test_a_measured_method_is_gated_too_and_costs_nothing_where_it_drafts_nothing() -> None:
    rates = DraftRates(tokens_per_step=2.0, drafted_per_token=1.0, known="measured")
    measured = DraftMethod(method="eagle3", model="h", rates=rates, tokens=3, costs=((1, 1.3),))
    choice = choose([measured], under(1, peak=4000, step=step(100)))
    assert choice.chosen.candidate is measured
    assert {tokens for _, tokens in choice.plan.schedule} == {3, 0}
    assert choice.chosen.at_peak == 1.0
    last = choice.chosen.pays_up_to
    assert (last, 3) in choice.plan.schedule
    always = choose([replace(measured, tokens=None)], under(1, peak=4000, step=step(100)))
    assert always.chosen.candidate.method == "none"


def test_a_schedule_may_rise_where_experts_are_read_anyway() -> None:
    """One request wakes few experts, and each token that is verified some more; with many requests, all are awake."""
    moe = StepTime(fixed=20, experts=1000, active=0.05, per_token=0.3, sure="estimated", source="a test")
    head = of_head(Head(method="eagle3", model="h", acceptance=0.8, cost=0.01), 64, moe)
    option = choose([head], under(64, step=moe)).chosen
    assert option.candidate is head
    tokens = [drafted for _, drafted in option.schedule]
    assert tokens[0] < max(tokens) == head.tokens
    assert option.speed == pytest.approx(max(speed(head, one, 64, moe) for _, one in (*head.fewer, (0, head.rates))))


def test_a_schedule_covers_every_load_and_is_left_out_where_it_says_nothing() -> None:
    head = of_head(Head(method="eagle3", model="h", acceptance=0.8), 1, step(200))
    [*_, (last, drafted)] = choose([head], under(1, step=step(200))).plan.schedule
    assert (last, drafted) == (MOST_REQUESTS, 0)
    assert choose([head], under(1, step=step(10**9))).plan.schedule == ()


@given(
    acceptance=st.floats(0, 0.99),
    fixed=st.floats(0.1, 10**4),
    requests=st.integers(1, 512),
    more=st.integers(0, 2000),
    engine=st.sampled_from(["vllm", "sglang", "llamacpp"]),
)
def test_nothing_is_chosen_that_is_slower_than_none(
    acceptance: float, fixed: float, requests: int, more: int, engine: str
) -> None:
    """By its own figures; and what is chosen is the fastest of all."""
    head = of_head(Head(method="eagle3", model="h", acceptance=acceptance), requests, step(fixed))
    choice = choose([head, SUFFIX], under(requests, requests + more, step(fixed), engine))
    chosen = choice.chosen
    assert chosen.speed * chosen.at_peak >= 1
    assert all(one.speed * one.at_peak <= max(chosen.speed * chosen.at_peak, 1.33) + 1e-9 for one in choice.options)


# --- candidates -------------------------------------------------------------------------------------------------------


def test_a_head_gives_what_the_formula_says() -> None:
    head = of_head(Head(method="eagle3", acceptance=0.5, cost=0.0), 1, step(10**6))
    assert head.tokens == 8
    assert head.rates.tokens_per_step == pytest.approx((1 - 0.5**9) / (1 - 0.5))
    assert head.rates.drafted_per_token * head.rates.tokens_per_step == pytest.approx(8)
    dear = of_head(Head(method="draft", acceptance=0.5, cost=0.5), 1, step(10**6))
    assert dear.tokens == 1


def test_shorter_drafts_go_on_where_a_longer_one_was_right() -> None:
    """By hand, of 2: drafts of which 1, 2, 3, 4 tokens were right give 2, 3, 4, 5 tokens in 1, 1, 2, 2 passes, and one
    that was right to its end 6 in 2."""
    drafted = Drafted(replies=1, tokens=100, steps=10, drafted=50, accepted=30, positions=[10, 8, 6, 4, 2])
    candidate = of_replay({"method": "ngram", "tokens": 5}, drafted)
    fewer = dict(candidate.fewer)
    assert candidate.rates.tokens_per_step == pytest.approx(100 / 70)
    assert fewer[2].tokens_per_step == pytest.approx(100 / (70 + 2 * (0 + 0 + 1 + 1 + 1)))
    assert fewer[2].drafted_per_token == pytest.approx(2 * 16 / 100)
    assert list(fewer) == [1, 2, 3, 4]


@pytest.mark.parametrize("copied", [0.8, 0.95, 0.99])
def test_shorter_drafts_are_as_if_they_had_been_replayed(copied: float) -> None:
    rng, talks = random.Random(1), []
    for _ in range(10):
        prompt, reply, at = [rng.randrange(500) for _ in range(200)], list[int](), 0
        while len(reply) < 200:
            at = at + 1 if rng.random() < copied else rng.randrange(200)
            reply.append(prompt[at % 200])
        talks.append(Talk(site="", passages=(Passage(prompt), Passage(reply, said=True))))
    for tokens, cut in of_replay({"method": "ngram", "tokens": 5}, replayed(PromptLookup(5), talks)[""]).fewer:
        real = replayed(PromptLookup(tokens), talks)[""]
        assert cut.tokens_per_step == pytest.approx(real.tokens_per_step, rel=0.05)
        assert cut.drafted_per_token == pytest.approx(real.drafted / real.tokens, rel=0.1)


def test_text_that_matches_lifts_a_head_and_text_that_does_not_leaves_it() -> None:
    head = of_head(Head(method="eagle3", acceptance=0.5), 1, step(500))
    copied = Drafted(tokens=1000, steps=50, drafted=800, accepted=700)
    assert of_hybrid(head, copied, {}).rates.tokens_per_step > head.rates.tokens_per_step
    assert of_hybrid(head, Drafted(tokens=1000), {}).rates.tokens_per_step == pytest.approx(head.rates.tokens_per_step)
