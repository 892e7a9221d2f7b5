"""What is said of an engine that runs: the right thing at the right time, and nothing while all is well."""

from __future__ import annotations

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
        "1.02 tokens a step with 1 requests at once: below 1.2 drafts cost more than they earn. "
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


@given(
    st.lists(
        st.builds(
            window,
            st.floats(1.0, 8.0),
            hit_rate=st.floats(0.0, 1.0),
            running=st.floats(0, 64),
            waiting=st.floats(0, 64),
            kv_use=st.floats(0.0, 1.0),
            output=st.floats(0.0, 5000.0),
            prompt=st.floats(0.0, 50_000.0),
        ),
        max_size=30,
    ),
    st.integers(1, 4),
)
def test_whatever_comes_a_finding_begins_before_it_is_over_and_never_sooner_than_it_may(
    series: list[ServerFigures], holds: int
) -> None:
    watcher, began = Watcher(WatchPolicy(holds=holds)), dict[str, int]()
    for number, figures in enumerate(series):
        for proposal in watcher.see(figures):
            assert isinstance(proposal, Proposal)
            assert number + 1 >= holds
            if proposal.over:
                assert number - began.pop(proposal.kind) >= holds
            elif proposal.kind != "workload":
                assert proposal.kind not in began
                began[proposal.kind] = number
    assert set(began) == set(watcher.open)
