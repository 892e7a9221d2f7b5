"""What is said of an engine that runs: the right thing at the right time, and nothing while all is well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel import ConfigError
from agentaccel.selfhost.metrics import ServerFigures, observed, read
from agentaccel.selfhost.watching import Proposal, Watcher, WatchPolicy

LOADS = WatchPolicy(break_even=((1, 1.2), (8, 2.0)))


def window(
    tokens_per_step: float = 2.5,
    *,
    hit_rate: float = 0.9,
    running: float = 1,
    waiting: float = 0,
    kv_use: float = 0.5,
    output: float = 1000,
    prompt: float = 10_000,
    restarted: tuple[str, ...] = (),
) -> ServerFigures:
    """A window in which the engine speculated, 4 drafted tokens a step."""
    steps = output / tokens_per_step
    return ServerFigures(
        prompt=prompt,
        cached=prompt * hit_rate,
        output=output,
        steps=steps,
        drafted=4 * steps,
        accepted=output - steps,
        running=running,
        waiting=waiting,
        kv_use=kv_use,
        restarted=restarted,
    )


def said(policy: WatchPolicy, *series: ServerFigures) -> list[tuple[int, str, bool]]:
    """At which window which finding began, or was over."""
    watcher = Watcher(policy)
    return [(n, one.kind, one.over) for n, figures in enumerate(series) for one in watcher.see(figures)]


def test_nothing_is_said_while_all_is_well() -> None:
    assert said(LOADS, *[window(2.5 + 0.2 * (n % 3), hit_rate=0.88 + 0.02 * (n % 2)) for n in range(40)]) == []


def test_drafts_that_no_longer_pay_are_told_once_after_three_windows_and_when_they_pay_again() -> None:
    """From repetitive to diverse: the workload is another one, and below break-even; then it is as it was."""
    series = [window()] * 5 + [window(1.05)] * 6 + [window()] * 5
    assert said(LOADS, *series) == [
        (7, "break-even", False),
        (7, "workload", False),
        (13, "break-even", True),
        (13, "workload", False),
    ]


def test_a_load_that_rises_past_break_even_is_told_as_that_and_not_as_another_workload() -> None:
    """1.6 tokens a step pay alone, and not with sixteen at once."""
    series = [window(1.6)] * 4 + [window(1.6, running=16)] * 4 + [window(1.6, running=2)] * 4
    assert said(LOADS, *series) == [(6, "load", False), (10, "load", True)]


def test_what_holds_in_one_window_only_is_not_said() -> None:
    """Hysteresis: nor is it over for one window."""
    assert said(LOADS, *[window(), window(1.0), window(1.0)] * 8) == []
    watcher = Watcher(LOADS)
    for figures in [window()] * 3 + [window(1.0)] * 3:
        watcher.see(figures)
    assert watcher.open == ("break-even",)
    for _ in range(5):
        assert all(one.kind == "workload" for one in watcher.see(window(1.25)))  # above 1.2, and not by a tenth
        watcher.see(window(1.0))
    assert watcher.open == ("break-even",)


def test_prefixes_that_full_memory_gives_up_are_no_other_workload() -> None:
    series = [window()] * 3 + [window(hit_rate=0.4, kv_use=0.97)] * 3
    assert said(LOADS, *series) == [(5, "prefixes", False)]
    series = [window()] * 3 + [window(hit_rate=0.4, kv_use=0.5)] * 3
    assert said(LOADS, *series) == [(5, "workload", False)]


def test_a_queue_is_told_and_is_over() -> None:
    series = [window(waiting=9, running=4)] * 3 + [window(waiting=0, running=4)] * 3
    assert said(LOADS, *series) == [(2, "queue", False), (5, "queue", True)]


def test_an_engine_that_is_started_anew_has_no_past() -> None:
    """What was usual of the old one is not held against it; a counter that fell tells of it."""
    series = [window()] * 4 + [window(1.0)] * 2 + [window(1.3, restarted=("127.0.0.1:8000",))] + [window(1.3)] * 6
    assert said(LOADS, *series) == [(6, "restarted", False)]


@pytest.mark.parametrize(
    "figures",
    [
        ServerFigures(),
        ServerFigures(missing=("127.0.0.1:8000",)),
        ServerFigures(prompt=9000, cached=100, output=900),
        ServerFigures(prompt=9000, output=900, steps=0, drafted=0, accepted=0, running=1, waiting=0),
    ],
)
def test_what_is_not_reported_is_nothing_to_say(figures: ServerFigures) -> None:
    """An engine without speculation, without counters, or that does not answer."""
    assert said(LOADS, *[figures] * 9) == []


def test_drafts_pay_again_only_by_a_margin() -> None:
    """A tenth above break-even, and not a hair."""
    bad = [window()] * 3 + [window(1.0)] * 3
    assert ("break-even", True) not in [(kind, over) for _, kind, over in said(LOADS, *bad, *[window(1.3)] * 9)]
    assert (8, "break-even", True) in said(LOADS, *bad, *[window(1.33)] * 9)


def test_a_load_is_told_only_where_it_is_the_load() -> None:
    """Drafts that did not pay before, or are guessed worse now, do not pay for another reason; and a load is not over
    for such a reason."""
    never = [window(1.1)] * 3 + [window(1.1, running=16)] * 6
    assert said(LOADS, *never) == [(2, "break-even", False)]
    worse = [window(2.5)] * 3 + [window(1.3, running=16)] * 3
    assert said(LOADS, *worse) == [(5, "break-even", False), (5, "workload", False)]
    then = [window(1.6)] * 3 + [window(1.6, running=16)] * 3 + [window(1.0, running=16)] * 3
    assert said(LOADS, *then) == [(5, "load", False), (8, "break-even", False), (8, "workload", False)]


def test_requests_that_come_before_anything_is_generated_are_no_usual_load() -> None:
    first = [window(1.6, running=16, output=10)] * 3
    risen = [window(1.6)] * 3 + [window(1.6, running=16)] * 3
    assert said(LOADS, *first, *risen) == [(8, "load", False)]


def test_what_is_usual_is_known_after_three_windows() -> None:
    """Until then each is the first of its kind."""
    rising = [window(2.0), window(3.0), window(4.5), window(7.0)]
    assert said(LOADS, *rising) == []
    assert said(LOADS, *rising, *[window(7.0)] * 2) == [(5, "workload", False)]


def test_a_window_that_tells_nothing_does_not_break_a_row() -> None:
    """Two windows of another workload, one without an answer, and the third."""
    others = [window(5.0), window(5.0), ServerFigures(missing=("one",)), window(5.0)]
    assert said(LOADS, *[window()] * 3, *others) == [(6, "workload", False)]


def test_a_queue_before_drafts_is_told_what_drafts_take() -> None:
    """An engine that has none is not."""
    waits = window(waiting=9, running=4)
    one = WatchPolicy(holds=1)
    assert "--draft-schedule" in Watcher(one).see(waits)[0].propose
    assert Watcher(one).see(replace(waits, drafted=0.0))[0].propose == "Add a replica, or have fewer agents at once."


def test_a_load_that_was_there_from_the_first_has_not_risen() -> None:
    """Sixteen at once, and too few tokens a step for them: break-even, and that alone."""
    assert said(LOADS, *[window(1.6, running=16)] * 12) == [(2, "break-even", False)]


def test_a_load_that_has_risen_is_told_once_though_the_workload_becomes_another_one() -> None:
    """What the load was is not forgotten with what was usual of the workload."""
    risen = [window(1.6)] * 3 + [window(1.6, running=16)] * 3 + [window(1.6, running=16, hit_rate=0.3)] * 12
    assert said(LOADS, *risen) == [(5, "load", False), (8, "workload", False)]


def test_fewer_requests_than_break_even_was_measured_for_are_not_judged() -> None:
    policy = WatchPolicy(break_even=((8, 2.0),))
    assert said(policy, *[window(1.1, running=7)] * 9) == []
    assert said(policy, *[window(1.1, running=8)] * 9) == [(2, "break-even", False)]
    assert (policy.least(7), policy.least(8), policy.least(None)) == (0.0, 2.0, 0.0)
    assert (LOADS.least(0), LOADS.least(7.9), LOADS.least(8), LOADS.least(None)) == (1.2, 1.2, 2.0, 1.2)


def test_a_share_of_prompts_that_is_near_nothing_is_no_other_workload_when_it_doubles() -> None:
    """Nor is one of 10 points; the twin is."""
    assert said(LOADS, *[window(hit_rate=0.01)] * 4, *[window(hit_rate=0.03)] * 4) == []
    assert said(LOADS, *[window(hit_rate=0.01)] * 4, *[window(hit_rate=0.12)] * 4) == [(6, "workload", False)]
    assert said(LOADS, *[window(hit_rate=0.3)] * 4, *[window(hit_rate=0.21)] * 4) == []
    assert said(LOADS, *[window(hit_rate=0.3)] * 4, *[window(hit_rate=0.19)] * 4) == [(6, "workload", False)]


def test_a_quarter_outside_of_the_usual_range_is_another_workload_and_less_is_none() -> None:
    """The first windows had 2.0 to 2.4, so it is below 1.5, and above 3.0."""
    first = [window(2.0), window(2.4), window(2.2)]
    for value in (1.51, 2.99):
        assert said(LOADS, *first, *[window(value)] * 4) == []
    for value in (1.49, 3.01):
        assert said(LOADS, *first, *[window(value)] * 4) == [(5, "workload", False)]


def test_prefixes_are_read_again_only_once_they_are() -> None:
    """Memory that is no longer full does not bring them back."""
    lost = [window()] * 3 + [window(hit_rate=0.7, kv_use=0.97)] * 3
    assert said(LOADS, *lost, *[window(hit_rate=0.74, kv_use=0.5)] * 9) == [(5, "prefixes", False)]
    assert said(LOADS, *lost, *[window(hit_rate=0.76, kv_use=0.5)] * 9) == [
        (5, "prefixes", False),
        (8, "prefixes", True),
    ]
    assert said(LOADS, *lost[:3], *[window(hit_rate=0.76, kv_use=1.0)] * 9) == []
    assert said(LOADS, *lost[:3], *[window(hit_rate=0.7, kv_use=0.89)] * 9) == []


def test_what_is_said_names_the_figures_as_people_write_them() -> None:
    def first(*series: ServerFigures, policy: WatchPolicy = LOADS) -> str:
        watcher = Watcher(policy)
        return next(one.seen for figures in series for one in watcher.see(figures))

    assert first(*[window(waiting=12_345, running=1_234)] * 3) == "12,345 requests wait, and 1,234 are computed."
    assert first(*[window(waiting=2, running=1)] * 3) == "2 requests wait, and 1 is computed."
    assert first(*[window(waiting=1, running=0)] * 3) == "1 request waits, and 0 are computed."
    assert first(*[window(1.0, running=0)] * 3) == "1.00 tokens a step: below 1.2 drafts cost more than they earn."
    assert first(*[window(1.6)] * 3, *[window(1.6, running=1024)] * 3) == (
        "1,024 requests at once, where drafts must give 2 tokens a step and give 1.60, as ever: the load has risen "
        "past break-even."
    )
    assert first(window(2.0), window(2.4), window(2.0), *[window(4.0, hit_rate=0.5)] * 3) == (
        "The workload is another one: tokens a step was 2.00 to 2.40 and is 4.00; the share of prompts that is read "
        "was 0.90 and is 0.50."
    )


def test_windows_with_too_few_tokens_tell_nothing() -> None:
    few = window(1.0, output=100, prompt=500)
    assert said(LOADS, *[few] * 9) == []
    assert said(WatchPolicy(least_output=100), *[few] * 3) == [(2, "break-even", False)]


def test_the_text_of_an_engine_is_read_into_it() -> None:
    """vLLM's counters, before and after a window in which drafts were guessed badly."""

    def text(drafts: int, drafted: int, accepted: int, output: int) -> str:
        return (
            f"vllm:spec_decode_num_drafts_total {drafts}\nvllm:spec_decode_num_draft_tokens_total {drafted}\n"
            f"vllm:spec_decode_num_accepted_tokens_total {accepted}\nvllm:generation_tokens_total {output}\n"
            "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n"
        )

    first, last = read(text(0, 0, 0, 0), "vllm"), read(text(980, 3000, 20, 1000), "vllm")
    [proposal] = Watcher(WatchPolicy(holds=1)).see(observed({"one": (first, last)}))
    assert str(proposal).startswith(
        "1.02 tokens a step with 1 request at once: below 1.2 drafts cost more than they earn. "
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"break_even": ()},
        {"break_even": ((0, 1.2),)},
        {"break_even": ((8, 2.0), (1, 1.2))},
        {"break_even": ((1, -1.0),)},
        {"holds": 0},
        {"change": float("nan")},
        {"least_output": -1.0},
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="WatchPolicy"):
        WatchPolicy(**wrong)  # type: ignore[arg-type]


windows = st.builds(
    window,
    st.floats(1.0, 8.0),
    hit_rate=st.floats(0.0, 1.0),
    running=st.floats(0, 64),
    waiting=st.floats(0, 64),
    kv_use=st.floats(0.0, 1.0),
    output=st.floats(0.0, 5000.0),
    prompt=st.floats(0.0, 50_000.0),
)
holding = st.integers(1, 4)
FIGURES = ("prompt", "cached", "output", "steps", "drafted", "accepted", "running", "waiting", "kv_use")


def runs(of: st.SearchStrategy[ServerFigures]) -> st.SearchStrategy[list[ServerFigures]]:
    """Windows that stay alike for a while, as those of an engine do: of windows that are all different little holds."""
    some = st.tuples(of, st.integers(1, 6)).map(lambda one: [one[0]] * one[1])
    return st.lists(some, max_size=8).map(lambda parts: [figures for part in parts for figures in part])


@given(runs(windows), holding)
def test_whatever_comes_a_finding_begins_before_it_is_over_and_never_sooner_than_it_may(
    series: list[ServerFigures], holds: int
) -> None:
    """It is said once until it is over; a workload is said anew when it is another one than the last that was said."""
    watcher, began, workload = Watcher(WatchPolicy(holds=holds)), dict[str, int](), -holds
    for number, figures in enumerate(series):
        for proposal in watcher.see(figures):
            assert isinstance(proposal, Proposal)
            assert number + 1 >= holds
            assert bool(proposal.propose) is not proposal.over
            if proposal.kind == "workload":
                assert not proposal.over
                assert number - workload >= 2 * holds - 1
                workload = number
            elif proposal.over:
                assert number - began.pop(proposal.kind) >= holds
            else:
                assert proposal.kind not in began
                began[proposal.kind] = number
    assert set(began) == set(watcher.open)


@given(st.data(), st.floats(2.3, 6.0), st.floats(0.05, 0.95), holding)
def test_on_what_stays_usual_and_above_break_even_nothing_is_ever_said(
    data: st.DataObject, tokens: float, rate: float, holds: int
) -> None:
    """A tenth around one value, at any load; windows that tell little, or nothing, in between."""
    well = st.builds(
        window,
        st.floats(0.9 * tokens, 1.1 * tokens),
        hit_rate=st.floats(rate - 0.05, rate + 0.05),
        running=st.integers(8, 64),
        waiting=st.integers(0, 8),
        kv_use=st.floats(0.0, 1.0),
        output=st.floats(0.0, 1e9),
        prompt=st.floats(0.0, 1e9),
    )
    less = st.tuples(well, st.sets(st.sampled_from(FIGURES))).map(lambda one: without(*one))
    series = data.draw(st.lists(st.one_of(well, less, st.just(ServerFigures(missing=("one",)))), max_size=25))
    assert said(WatchPolicy(break_even=LOADS.break_even, holds=holds), *series) == []


def without(figures: ServerFigures, names: Iterable[str]) -> ServerFigures:
    return replace(figures, **dict.fromkeys(names, None))


RESTS_ON = {
    "break-even": {"output", "steps", "drafted", "accepted"},
    "load": {"output", "steps", "drafted", "accepted", "running"},
    "prefixes": {"prompt", "cached", "kv_use"},
    "queue": {"waiting", "running"},
}
"""Each finding, and the figures without any of which it cannot be told."""


@given(runs(windows), st.sets(st.sampled_from(FIGURES), min_size=1), holding)
def test_nothing_is_said_that_rests_on_a_figure_that_is_not_reported(
    series: list[ServerFigures], lacking: set[str], holds: int
) -> None:
    watcher = Watcher(WatchPolicy(break_even=LOADS.break_even, holds=holds))
    for figures in series:
        for one in watcher.see(without(figures, lacking)):
            assert not RESTS_ON.get(one.kind, set()) & lacking
            assert "running" not in lacking or "at once" not in one.seen
            assert not lacking & {"prompt", "cached"} or "prompts" not in one.seen
            assert not lacking & RESTS_ON["break-even"] or "tokens a step" not in one.seen


@given(runs(windows), st.sets(st.integers(0, 47)), holding)
def test_windows_without_answers_change_nothing_of_what_is_said_of_the_others(
    series: list[ServerFigures], gaps: set[int], holds: int
) -> None:
    """Wherever they are, and whatever is open."""
    policy = WatchPolicy(break_even=LOADS.break_even, holds=holds)
    with_gaps, at = list[ServerFigures](), list[int]()
    for number, figures in enumerate(series):
        with_gaps += [ServerFigures(missing=("one",))] * (number in gaps)
        at.append(len(with_gaps))
        with_gaps.append(figures)
    assert said(policy, *with_gaps) == [(at[number], kind, over) for number, kind, over in said(policy, *series)]


@given(runs(windows), runs(windows), holding)
def test_after_a_restart_all_is_as_with_an_engine_that_is_seen_for_the_first_time(
    before: list[ServerFigures], after: list[ServerFigures], holds: int
) -> None:
    """Whatever was open, counted or usual; the window of the restart itself tells of nothing else."""
    policy = WatchPolicy(break_even=LOADS.break_even, holds=holds)
    restart = window(1.0, waiting=9, restarted=("one",))
    told = said(policy, *before, restart, *after)
    first = len(before)
    assert [one for one in told if one[0] == first] == [(first, "restarted", False)]
    later = [(number - first - 1, kind, over) for number, kind, over in told if number > first]
    assert later == said(policy, *after)
