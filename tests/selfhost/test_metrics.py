"""What engines count, against what their replies said turn by turn; both were captured, neither is ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentaccel.selfhost import metrics
from agentaccel.selfhost.metrics import Scrape, ServerFigures, observed, read
from agentaccel.selfhost.tables import found, row
from tests.selfhost.captured import case
from tests.selfhost.captured import metrics as text_of

NOTHING = Scrape()


def seen(name: str) -> ServerFigures:
    """All that an engine counted since it was started."""
    return observed({"engine": (NOTHING, read(text_of(name), name.partition("-")[0]))})


def told(name: str, figure: str) -> float:
    """The same figure, added up over the replies of both passes."""
    of, place = case(name), ""
    place = row(of["engine"])["usage"][figure]
    return sum(found(turn, place) or 0 for run in of["runs"] for turn in run["turns"])


@pytest.mark.parametrize(
    "name",
    [
        *("vllm-0.32.0-cpu-plain", "vllm-0.32.0-cpu-suffix", "vllm-0.32.0-cpu-eagle3"),
        *("llamacpp-0c1e570-plain", "llamacpp-0c1e570-ngram-mod", "llamacpp-0c1e570-eagle3"),
    ],
)
def test_counters_equal_the_sum_of_the_turns(name: str) -> None:
    """An engine's own: 2 passes of 100 + 185 + 292 + 334 + 419 = 1330 prompt tokens and 256 of output."""
    counted = seen(name)
    assert counted.prompt == 2 * 1330 == told(name, "prompt")
    assert counted.output == 2 * 256 == told(name, "output")
    assert counted.cached == told(name, "cached")
    if counted.drafted:
        assert counted.drafted == told(name, "drafted")
        assert counted.accepted == told(name, "accepted")
        assert sum(counted.positions.values()) == counted.accepted


def test_sglang_counts_its_own_warming_request_too() -> None:
    """SGLang's: 23 tokens and 4 of output that no turn asked for, before the first pass; of the second pass none."""
    counted, of = seen("sglang-0.5.23-plain"), case("sglang-0.5.23-plain")
    assert (counted.prompt, counted.output) == (2 * 1330 + 23, 2 * 256 + 4)
    assert counted.cached == told("sglang-0.5.23-plain", "cached") == 1070 + 1325
    second = of["runs"][1]
    assert second["counters"]["prompt"] == sum(turn["usage"]["prompt_tokens"] for turn in second["turns"]) == 1330


@pytest.mark.parametrize(
    ("name", "acceptance", "length", "per_step", "hit_rate"),
    [
        ("vllm-0.32.0-cpu-suffix", 394 / 576, 1 + 394 / 105, 512 / (512 - 394), 2272 / 2660),
        ("vllm-0.32.0-cpu-eagle3", 332 / 522, 1 + 332 / 174, 512 / (512 - 332), 1984 / 2660),
        ("llamacpp-0c1e570-ngram-mod", 202 / 1463, 1 + 202 / 29, 512 / (512 - 202), 2233 / 2660),
        ("llamacpp-0c1e570-eagle3", 328 / 514, 1 + 328 / 174, 512 / (512 - 328), 2233 / 2660),
    ],
)
def test_the_figures_of_speculation_are_those_of_the_formulas(
    name: str, acceptance: float, length: float, per_step: float, hit_rate: float
) -> None:
    """Worked out by hand from the counters in the files: A / D, 1 + A / S, N / max(S, N - A), cached / prompt."""
    counted = seen(name)
    assert counted.acceptance == pytest.approx(acceptance)
    assert counted.mean_accepted_length == pytest.approx(length)
    assert counted.tokens_per_step == pytest.approx(per_step)
    assert counted.hit_rate == pytest.approx(hit_rate)


def test_of_a_suffix_run_the_steps_are_what_bounds_tokens_per_step() -> None:
    """A may exceed what was emitted: 233 accepted of 256 in 30 steps leave 23, and 30 passes were made."""
    second = ServerFigures(output=256, steps=30, drafted=282, accepted=233)
    assert second.tokens_per_step == pytest.approx(256 / 30)
    assert second.mean_accepted_length == pytest.approx(1 + 233 / 30)


def test_the_share_accepted_at_a_position_is_of_the_passes_with_a_draft() -> None:
    """EAGLE-3 of llama.cpp: 162, 88 and 78 of 174."""
    counted = seen("llamacpp-0c1e570-eagle3")
    assert [counted.accepted_at(at) for at in range(4)] == [162 / 174, 88 / 174, 78 / 174, None]


# --- not reported is not zero -----------------------------------------------------------------------------------------


def test_an_engine_without_a_family_has_no_figure_and_one_with_zeros_has_zero() -> None:
    """vLLM without speculation has no such families at all; llama.cpp has them at 0, and nothing drafted is no rate."""
    vllm, llama = seen("vllm-0.32.0-cpu-plain"), seen("llamacpp-0c1e570-plain")
    assert (vllm.drafted, vllm.accepted, vllm.tokens_per_step) == (None, None, None)
    assert (llama.drafted, llama.accepted, llama.tokens_per_step) == (0, 0, 1.0)
    assert vllm.acceptance is llama.acceptance is None
    assert (vllm.kv_use, llama.kv_use) == (0.0, None)


def test_what_is_not_reported_is_printed_as_not_known() -> None:
    """As text for people."""
    dynamo = str(seen("dynamo-1.6.1-mocker"))
    assert "prompt tokens        5,688, from the cache 4,400 (77.4%)" in dynamo
    assert "drafted tokens       n/a, accepted n/a" in dynamo
    assert "tokens a step        n/a, with a draft n/a" in dynamo


def test_a_server_without_counters_has_no_figures() -> None:
    """transformers serve has no /metrics; an unknown dialect has no names."""
    assert read(text_of("vllm-0.32.0-cpu-plain"), "transformers") == NOTHING == read("", "unknown")
    assert observed({"one": (NOTHING, NOTHING)}).prompt is None


def test_dynamo_counts_what_its_users_asked_for_and_not_its_own_prefills() -> None:
    """6 prefills ahead are under another family; the 19 requests had 5688 prompt tokens."""
    assert seen("dynamo-1.6.1-mocker").prompt == 5688


# --- labels, replicas, restarts ---------------------------------------------------------------------------------------


def test_series_of_one_counter_are_added_up() -> None:
    """SGLang has one for each priority and kind: 5654 + 100 + 100 + 100, of which 4771 + 99 + 99 were cached."""
    counted = seen("sglang-0.5.23-priority-labels")
    assert (counted.prompt, counted.cached, counted.output) == (5954, 4969, 1027)


def test_a_gauge_of_sglang_is_its_total_and_not_the_sum_of_its_parts() -> None:
    """SGLang's source: the total is under priority="", beside one series for each priority."""
    text = 'sglang:num_running_reqs{priority=""} 3.0\nsglang:num_running_reqs{priority="0"} 2.0\n'
    text += 'sglang:num_running_reqs{priority="5"} 1.0\n'
    assert read("# TYPE sglang:num_running_reqs gauge\n" + text, "sglang").gauges == {"running": 3.0}


def vllm(prompt: float, cached: float = 0.0, *, engine: int = 0, running: float = 1.0, kv: float = 0.5) -> str:
    """Made up, in the form of vLLM's."""
    label = f'{{engine="{engine}"}}'
    return (
        "# TYPE vllm:prefix_cache_queries_total counter\n"
        f"vllm:prefix_cache_queries_total{label} {prompt}\n"
        "# TYPE vllm:prefix_cache_queries_created gauge\n"
        f"vllm:prefix_cache_queries_created{label} 1.7e9\n"
        "# TYPE vllm:prefix_cache_hits_total counter\n"
        f"vllm:prefix_cache_hits_total{label} {cached}\n"
        "# TYPE vllm:num_requests_running gauge\n"
        f"vllm:num_requests_running{label} {running}\n"
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        f"vllm:kv_cache_usage_perc{label} {kv}\n"
    )


def ranks(*texts: str) -> Scrape:
    """One process with several engines: its families have their series together."""
    lines = sorted(
        {line for text in texts for line in text.splitlines()}, key=lambda line: (line.split("{")[0].split()[-1], line)
    )
    names = sorted({line.split()[2] for line in lines if line.startswith("#")})
    kinds = {line.split()[2]: line for line in lines if line.startswith("#")}
    return read(
        "\n".join(one for name in names for one in (kinds[name], *(li for li in lines if li.startswith(name + "{"))))
        + "\n",
        "vllm",
    )


def test_ranks_of_one_process_and_replicas_are_added_up() -> None:
    """By hand: (150 - 100) + (40 - 40) of two ranks, and 10 of another replica; the fullest rank is at 90 %."""
    two = (ranks(vllm(100), vllm(40, engine=1)), ranks(vllm(150, 30), vllm(40, engine=1, kv=0.9)))
    other = (read(vllm(1), "vllm"), read(vllm(11, 5, running=4.0), "vllm"))
    counted = observed({"a": two, "b": other})
    assert (counted.prompt, counted.cached) == (60, 35)
    assert (counted.running, counted.kv_use) == (1 + 1 + 4, 0.9)


def test_a_counter_that_fell_says_that_its_engine_was_started_anew() -> None:
    """Then what it counts now is the difference, of all its counters: 60 of 80, though hits grew from 50 to 60."""
    counted = observed({"a": (read(vllm(100, 50), "vllm"), read(vllm(80, 60), "vllm"))})
    assert (counted.prompt, counted.cached, counted.restarted) == (80, 60, ("a",))
    assert counted.hit_rate == pytest.approx(0.75)
    assert "started anew         a" in str(counted)


@pytest.mark.parametrize(
    ("guard", "broken", "wrong"),
    [("_fell", lambda first, last: False, -20), ("_added", lambda values: None, None)],
)
def test_without_the_guard_a_restart_is_counted_wrong(
    monkeypatch: pytest.MonkeyPatch, guard: str, broken: Callable[..., Any], wrong: float | None
) -> None:
    """The twin of the test above."""
    monkeypatch.setattr(metrics, guard, broken)
    assert observed({"a": (read(vllm(100), "vllm"), read(vllm(80), "vllm"))}).prompt == wrong


def test_totals_are_not_known_where_a_replica_did_not_answer() -> None:
    """A sum without it would be taken for all; it is named."""
    one = (read(vllm(1), "vllm"), read(vllm(2), "vllm"))
    counted = observed({"a": one, "b": (one[0], None), "c": (None, one[1])})
    assert (counted.prompt, counted.running, counted.missing) == (None, None, ("b", "c"))
    assert "no counters from     b" in str(counted)
    assert observed({}).prompt is None


def test_a_replica_that_does_not_report_a_figure_makes_it_not_known() -> None:
    """Two engines, of which one has no speculation: drafts of the other are not those of both."""
    drafts = vllm(5) + "# TYPE vllm:spec_decode_num_draft_tokens_total counter\n"
    drafts += "vllm:spec_decode_num_draft_tokens_total 7\n"
    counted = observed({"a": (NOTHING, read(drafts, "vllm")), "b": (NOTHING, read(vllm(5), "vllm"))})
    assert (counted.prompt, counted.drafted) == (10, None)


def test_what_is_no_number_is_not_counted() -> None:
    """NaN is how a gauge says that it has nothing to say."""
    assert "running" not in read(vllm(1, running=float("nan")), "vllm").gauges
    with pytest.raises(ValueError, match=r".*"):
        read("<html><body>Welcome</body></html>", "vllm")
