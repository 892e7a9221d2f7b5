"""The causes of misses that a log shows, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from session_lines import MODEL, Line, causes, line, prompt, reply, turns, usage, write

from agentaccel.types import Cause


def big(at: float, id_: str, read: int, write: int, ttl: str = "1h", model: str = MODEL) -> list[Line]:
    return [prompt(at), reply(at + 1, id_, usage(0, read, write, ttl), model=model)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([*big(0, "1", 0, 50_000), *big(9, "2", 50_000, 500)], [], id="all read"),
        pytest.param([*big(0, "1", 0, 50_000), *big(9, "2", 46_000, 5_000)], [], id="small loss"),
        pytest.param([*big(0, "1", 0, 50_000, "5m"), *big(310, "2", 9_000, 42_000, "5m")], [Cause.EXPIRED], id="5 min"),
        pytest.param([*big(0, "1", 0, 50_000), *big(310, "2", 9_000, 42_000)], [Cause.UNKNOWN], id="1h lives"),
        pytest.param([*big(0, "1", 0, 50_000), *big(3700, "2", 9_000, 42_000)], [Cause.EXPIRED], id="1 hour"),
        pytest.param(
            [*big(0, "1", 0, 50_000), line("system", 5, subtype="compact_boundary"), *big(9, "2", 9_000, 9_000)],
            [Cause.COMPACTED],
            id="compacted",
        ),
        pytest.param(
            [*big(0, "1", 0, 50_000), prompt(5, isCompactSummary=True), *big(9000, "2", 0, 18_000)],
            [Cause.COMPACTED],
            id="compacted after a pause",
        ),
        pytest.param(
            [*big(0, "1", 0, 50_000), *big(9, "2", 0, 51_000, model="claude-sonnet-4-5")],
            [Cause.MODEL],
            id="model switch",
        ),
        pytest.param([*big(0, "1", 0, 50_000), *big(9, "2", 9_000, 20_000)], [Cause.CHANGED], id="rewound or edited"),
        pytest.param(
            [reply(0, "1", usage(50_000)), reply(5, "2", usage(51_000))], [Cause.NOT_MARKED], id="never marked"
        ),
        pytest.param([reply(0, "1", usage(3_000)), reply(5, "2", usage(3_900))], [Cause.BELOW_MINIMUM], id="too short"),
    ],
)
def test_a_miss_gets_the_cause_that_the_log_shows_and_no_other(
    tmp_path: Path, lines: list[Line], expected: list[Cause]
) -> None:
    """Chosen by us: precision before recall; what shows no reason is unexplained."""
    log = write(tmp_path / "a.jsonl", lines)
    assert causes(log)[0] == [Cause.FIRST]
    assert causes(log)[1] == expected
    assert all(miss.inferred for turn in turns(log) for miss in turn.misses)


def test_the_tokens_of_a_miss_are_those_that_could_have_been_read_and_were_not(tmp_path: Path) -> None:
    """The prompt before, as far as this one is as long, less what was read."""
    log = write(tmp_path / "a.jsonl", [*big(0, "1", 0, 50_000, "5m"), *big(310, "2", 9_000, 42_000, "5m")])
    first, second = turns(log)
    assert (first.reusable, [miss.tokens for miss in first.misses]) == (0, [50_000])
    assert (second.reusable, [miss.tokens for miss in second.misses]) == (50_000, [41_000])


def test_a_pause_counts_from_request_to_request_and_every_read_renews(tmp_path: Path) -> None:
    """Mandated by the provider: a lifetime begins anew with every use."""
    steps = [big(200 * n, str(n), 50_000 * (n > 0), 50_000 * (n == 0), "5m") for n in range(5)]
    log = write(tmp_path / "a.jsonl", [entry for step in steps for entry in step])
    assert causes(log)[1:] == [[], [], [], []]
