"""Logs say of a bill what live records do: all that was sampled, terms, lifetimes that other lines tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentaccel.records import TurnRecord
from agentaccel.report.aggregate import report
from agentaccel.sources.logs import ImportTally, read_logs
from agentaccel.types import Usage

SONNET = "claude-sonnet-4-6"
"""3 USD a million tokens of input; twice as much to write for an hour."""


def counters(fresh: int, output: int = 5, *, read: int = 0, written: int = 0, **more: Any) -> dict[str, Any]:
    cache = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    return {"input_tokens": fresh, "output_tokens": output, **cache, **more}


def split(label: str, tokens: int) -> dict[str, Any]:
    return counters(10, written=tokens, cache_creation={f"ephemeral_{label}_input_tokens": tokens})


def turns(folder: Path, *usages: dict[str, Any], model: str = SONNET, **beside: str) -> list[TurnRecord]:
    """A log of Claude Code whose replies have these usages, and `beside` them."""
    lines = []
    for number, usage in enumerate(usages):
        at = f"2026-08-01T10:{number:02d}"
        asked = {"role": "user", "content": "hi"}
        said = {
            "id": f"msg_{number}", "role": "assistant", "model": model, "stop_reason": "end_turn", "usage": usage,
            "content": [{"type": "text", "text": "x"}], **beside,
        }  # fmt: skip
        of = {"sessionId": "s"}
        lines += [
            {"type": "user", "uuid": f"p{number}", "timestamp": f"{at}:00.000Z", "message": asked, **of},
            {"type": "assistant", "uuid": f"u{number}", "requestId": f"r{number}", "timestamp": f"{at}:05.000Z",
             "message": said, **of},
        ]  # fmt: skip
    (folder / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [one for one in read_logs([folder / "s.jsonl"]) if isinstance(one, TurnRecord)]


def test_a_compaction_in_a_log_is_paid_and_no_part_of_the_prompt(tmp_path: Path) -> None:
    """Mandated by the provider: (180,000 + 23,000) x 3 USD are 0.609."""
    rounds = [counters(180_000, 3_500, type="compaction"), counters(23_000, 1_000, type="message")]
    found = turns(tmp_path, counters(23_000, 1_000, iterations=rounds))
    assert found[0].usage.input == 23_000
    assert report(found).total.costs.paid == pytest.approx(0.609)


@pytest.mark.parametrize(
    ("terms", "usd"), [({"inference_geo": "us"}, 0.33), ({"service_tier": "batch"}, 0.15), ({"speed": "odd"}, None)]
)
def test_a_term_in_a_log_is_applied_or_said(terms: dict[str, str], usd: float | None, tmp_path: Path) -> None:
    """As live: 100,000 x 3 USD, a tenth more or half of it; what nobody knows is not priced."""
    total = report(turns(tmp_path, counters(100_000, **terms))).total
    assert total.costs.paid == (None if usd is None else pytest.approx(usd))
    assert dict(total.unclear) == ({} if usd is not None else {"speed odd": 1})


def test_a_term_beside_the_usage_is_applied_as_well(tmp_path: Path) -> None:
    """Mandated by the provider, where newer replies have it: 0.3 USD and a tenth more."""
    assert report(turns(tmp_path, counters(100_000), inference_geo="us")).total.costs.paid == pytest.approx(0.33)


@pytest.mark.parametrize("model", ["us.anthropic.claude-sonnet-4-6", "anthropic.claude-sonnet-4-6"])
def test_a_name_of_bedrocks_says_who_sold_it(tmp_path: Path, model: str) -> None:
    """Mandated by the price list: a tenth more from one region than from anywhere."""
    (found,) = turns(tmp_path, counters(100_000), model=model)
    assert found.platform == "bedrock"
    assert report([found]).total.costs.paid == pytest.approx(0.33)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (counters(0, 0), Usage(input=100, read=60, write={"1h": 30}, output=500)),
        ({"output_tokens": 700}, Usage(input=100, read=60, write={"1h": 30}, output=700)),
        ({**counters(10, 1, read=60, written=30)}, Usage(input=100, read=60, write={"1h": 30}, output=500)),
        (counters(20, 600, read=60, written=30), Usage(input=110, read=60, write={"1h": 30}, output=600)),
    ],
)
def test_what_lines_of_a_reply_tell_of_usage_is_taken_together(
    second: dict[str, Any], expected: Usage, tmp_path: Path
) -> None:
    """Chosen by us: 10 fresh, 60 read and 30 written for an hour; a line that lacks a counter, or fills it with zeros,
    takes none away, and no line says how much the output is at most."""
    first = {**split("1h", 30), "cache_read_input_tokens": 60, "output_tokens": 500}
    of = {"sessionId": "s", "type": "assistant", "requestId": "r", "timestamp": "2026-08-01T10:00:00.000Z"}
    lines = [
        {
            **of,
            "uuid": str(n),
            "message": {"id": "m", "role": "assistant", "model": SONNET, "content": [], "usage": one},
        }
        for n, one in enumerate((first, second))
    ]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = [one for one in read_logs([tmp_path / "s.jsonl"]) if isinstance(one, TurnRecord)]
    assert found.usage == expected


@pytest.mark.parametrize(
    ("others", "written"),
    [
        ([split("1h", 500)], {"1h": 7_345}),
        ([split("5m", 500)], {"5m": 7_345}),
        ([split("1h", 500), split("5m", 500)], {"unsplit": 7_345}),
        ([], {"5m": 7_345}),
    ],
)
def test_other_lines_of_a_log_tell_for_how_long_was_written(
    others: list[dict[str, Any]], written: dict[str, int], tmp_path: Path
) -> None:
    """Chosen by us: before and behind; where they tell of several lifetimes, nobody knows; else the default's."""
    unsplit = counters(10, written=7_345)
    assert turns(tmp_path, unsplit, *others)[0].usage.write == written
    assert turns(tmp_path, *others, unsplit)[-1].usage.write == written


def test_a_split_alone_says_what_was_written(tmp_path: Path) -> None:
    """100 fresh and 5,000 written for an hour are 5,100."""
    split_alone = {"input_tokens": 100, "output_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": 5000}}
    (found,) = turns(tmp_path, split_alone)
    assert (found.usage.input, found.usage.write) == (5100, {"1h": 5000})


def test_a_run_tells_for_how_long_was_written_as_well(tmp_path: Path) -> None:
    """Chosen by us, as above."""
    said = [{"role": "assistant", "content": "x", "usage": usage} for usage in (counters(1, written=9), split("1h", 5))]
    run = {"id": "r", "model": SONNET, "messages": [{"role": "user", "content": "hi"}, *said]}
    (tmp_path / "runs.jsonl").write_text(json.dumps(run) + "\n")
    found = [one for one in read_logs([tmp_path / "runs.jsonl"]) if isinstance(one, TurnRecord)]
    assert [dict(one.usage.write or {}) for one in found] == [{"1h": 9}, {"1h": 5}]


def run(folder: Path, *usages: dict[str, Any], **beside: Any) -> tuple[list[TurnRecord], ImportTally]:
    """A run in the normalised format whose replies have these fields, and `beside` it."""
    said = [{"role": "assistant", "content": "x", **usage} for usage in usages]
    one = {"id": "r", "model": SONNET, "messages": [{"role": "user", "content": "hi"}, *said], **beside}
    (folder / "runs.jsonl").write_text(json.dumps(one) + "\n")
    tally = ImportTally()
    found = read_logs([folder / "runs.jsonl"], tally=tally)
    return [one for one in found if isinstance(one, TurnRecord)], tally


@pytest.mark.parametrize(
    ("reported", "usage", "doubts"),
    [
        ({"usage": {"inputTokens": 90, "outputTokens": 5}}, Usage(), ("inputTokens", "outputTokens")),
        # As OpenAI's agents SDK keeps it.
        ({"usage": {"requests": 1, "input_tokens": 90, "input_tokens_details": {"cached_tokens": 60},
                    "output_tokens": 5, "total_tokens": 95}}, Usage(input=90, read=60, output=5), ()),
        # As Pydantic AI keeps it, whose name for what was read is not known here.
        ({"usage": {"requests": 1, "input_tokens": 90, "cache_read_tokens": 60, "output_tokens": 5}},
         Usage(input=90, output=5), ("cache_read_tokens",)),
        # As LangChain keeps it, under its own name.
        ({"usage_metadata": {"input_tokens": 90, "output_tokens": 5, "total_tokens": 95,
                             "input_token_details": {"cache_read": 60}}},
         Usage(input=90, output=5), ("input_token_details.cache_read",)),
        ({"usage": {"input_tokens": 90, "output_tokens": 5, "total_tokens": 60}}, Usage(),
         ("input_tokens", "output_tokens", "total_tokens")),
        ({}, Usage(), ()),
    ],
)  # fmt: skip
def test_what_a_run_counts_in_another_form_is_not_known_and_said(
    reported: dict[str, Any], usage: Usage, doubts: tuple[str, ...], tmp_path: Path
) -> None:
    """Chosen by us: 90 tokens of which 60 were read are priced where both are understood, and else are in no cost."""
    ((found,), tally) = run(tmp_path, reported)
    assert (found.usage, found.doubts, tally.sums) == (usage, doubts, 0)


def test_a_run_that_tells_its_sum_alone_is_named(tmp_path: Path) -> None:
    """Chosen by us, as an agent's span: which request used what is not known; with usage of one it is no sum."""
    whole = {"prompt_tokens": 5000, "completion_tokens": 9, "total_tokens": 5009}
    found, tally = run(tmp_path, {}, {}, usage=whole)
    assert ([one.usage for one in found], tally.sums) == ([Usage(), Usage()], 1)
    assert any("only the sum" in note for note in tally.notes(""))
    assert run(tmp_path, {"usage": counters(10)}, {}, usage=whole)[1].sums == 0
    assert run(tmp_path, {}, {})[1].sums == 0


def test_a_log_of_a_session_says_which_counters_nobody_understood(tmp_path: Path) -> None:
    """Chosen by us; and 20 tokens in all are less than 10 + 15."""
    assert [one.doubts for one in turns(tmp_path, {"inputTokens": 5}, counters(10, 15, total_tokens=20))] == [
        ("inputTokens",),
        ("input_tokens", "output_tokens", "total_tokens"),
    ]


def test_without_looking_at_other_lines_the_default_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    place = "agentaccel.sources.claude_code.lifetime_among"
    monkeypatch.setattr(place, lambda *told, default: default)
    assert turns(tmp_path, counters(10, written=7_345), split("1h", 500))[0].usage.write == {"5m": 7_345}
