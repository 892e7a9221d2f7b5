"""`agentaccel selfhost watch`: what is shown of a server's counters, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from itertools import pairwise

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from agentaccel.cli import main
from agentaccel.cli.watch import _Window, drawn, screen
from agentaccel.selfhost.metrics import ServerFigures
from agentaccel.selfhost.watching import Proposal
from tests.selfhost.serving import Answer, Asked, Loopback, engine, serving


def counters(drafts: int, accepted: int, output: int, running: int = 1) -> bytes:
    return (
        f"vllm:prefix_cache_queries_total {10 * output}\nvllm:prefix_cache_hits_total {9 * output}\n"
        f"vllm:spec_decode_num_drafts_total {drafts}\nvllm:spec_decode_num_draft_tokens_total {4 * drafts}\n"
        f"vllm:spec_decode_num_accepted_tokens_total {accepted}\nvllm:generation_tokens_total {output}\n"
        f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.5\n"
    ).encode()


def counting(*windows: tuple[float, int]) -> Loopback:
    """A vLLM that gives so many tokens a step in each window, with so many requests at once. It is asked what it
    is, then looked at twice in each, and counts in between."""
    looks, drafts, accepted, output = [counters(0, 0, 0)], 0, 0, 0
    for tokens_per_step, running in windows:
        looks.append(counters(drafts, accepted, output, running))
        steps = round(1000 / tokens_per_step)
        drafts, accepted, output = drafts + steps, accepted + 1000 - steps, output + 1000
        looks.append(counters(drafts, accepted, output, running))

    def says(asked: Asked) -> Answer:
        return Answer(looks.pop(0) if looks else counters(drafts, accepted, output))

    return engine("vllm-0.32.0-cpu", **{"/metrics": says})


def watched(server: Loopback, *words: str) -> Result:
    with serving(server):
        return CliRunner().invoke(main, ["selfhost", "watch", server.url, "--every", "0", *words])


def test_each_window_is_a_line_and_what_is_to_change_one_below_it() -> None:
    done = watched(counting(*[(2.5, 1)] * 3, *[(1.1, 1)] * 3), "--count", "6")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert sum("tokens a step 2.50, accepted" in one for one in lines) == 3
    told = [one for one in lines if one.startswith("  ")]
    assert [one.split(".")[0].strip() for one in told] == ["1", "The workload is another one: tokens a step was 2"]
    assert "below 1.2 drafts cost more than they earn" in told[0]


def test_an_engine_that_is_started_anew_over_several_windows_is_told_once_it_is_back() -> None:
    """As most are, which load their weights for minutes. What was usual of the old one is not held against it."""
    gone = b""
    old = [counters(400 * number, 600 * number, 1000 * number) for number in range(4)]  # 2.5 tokens a step
    new = [counters(250 * number, 750 * number, 1000 * number) for number in range(5)]  # 4, which is another workload
    looks = [old[0], *(look for window in pairwise([*old, gone, gone, *new]) for look in window)]

    def says(asked: Asked) -> Answer:
        look = looks.pop(0)
        return Answer(look, 503 if look == gone else 200)

    server = engine("vllm-0.32.0-cpu", **{"/metrics": says})
    done = watched(server, "--count", "10")
    assert done.exit_code == 0, done.output
    told = [one for one in done.stdout.splitlines() if one.startswith("  ")]
    assert told == [f"  {server.url.removeprefix('http://')} was started anew."]


def test_as_json_each_window_is_one_object() -> None:
    """What is not reported is null; a cron job reads what is new of `proposals`."""
    done = watched(counting((2.5, 1), (2.5, 1)), "--count", "2", "--format", "json")
    first, _ = map(json.loads, done.stdout.splitlines())
    assert first["figures"]["tokens_per_step"] == 2.5
    assert first["figures"]["hit_rate"] == 0.9
    assert first["figures"]["output"] == 1000
    assert first["proposals"] == []


@pytest.mark.parametrize(
    ("tokens_per_step", "words", "status"),
    [(2.5, (), 0), (1.1, (), 1), (2.5, ("--break-even", "1:1.2,8:3"), 0), (2.5, ("--break-even", "1:3"), 1)],
)
def test_once_is_judged_by_itself_and_tells_by_its_status(
    tokens_per_step: float, words: Sequence[str], status: int
) -> None:
    done = watched(counting((tokens_per_step, 1)), "--once", *words)
    assert done.exit_code == status, done.output
    assert f"tokens a step        {tokens_per_step:.2f}" in done.stdout
    assert ("drafts cost more" in done.stdout) is bool(status)


def test_a_server_without_counters_is_an_error_that_names_it() -> None:
    server = engine("vllm-0.32.0-cpu", **{"/metrics": Answer(b"<h1>another product's page</h1>", 200)})
    done = watched(server, "--once")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("agentaccel selfhost watch: no counters from 127.0.0.1:")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("ftp://here",), "http"),
        (("http://127.0.0.1:9", "--break-even", "1.2"), "--break-even is '1.2'; give LOAD:TOKENS"),
        (("http://127.0.0.1:9", "--break-even", "8:2,1:1.2"), "WatchPolicy.break_even"),
        (("http://127.0.0.1:9", "--header", "authorization"), "--header is 'authorization'; give NAME=VALUE"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: Sequence[str], why: str) -> None:
    done = CliRunner().invoke(main, ["selfhost", "watch", *words, "--once"])
    assert done.exit_code == 2
    assert why in done.stderr


BUSY = ServerFigures(
    prompt=1e12, cached=9e11, output=1e9, steps=4e8, drafted=16e8, accepted=6e8,
    running=12_345, waiting=54_321, kv_use=1.0,
)  # fmt: skip
AT = datetime(2026, 11, 28, tzinfo=UTC)


def rows_of(width: int, *windows: ServerFigures, said: Sequence[str] = ()) -> list[str]:
    console = Console(width=width)
    with console.capture() as shown:
        console.print(drawn([_Window(AT, figures, ()) for figures in windows], said))
    return shown.get().splitlines()


def test_it_fits_a_terminal_of_80_columns() -> None:
    rows = rows_of(80, *[BUSY] * 3, ServerFigures(), said=["something is to change"])
    assert max(map(len, rows)) <= 80
    assert rows[0].split() == ["tokens", "a", "step", "accepted", "read", "running", "waiting", "memory"]
    assert rows[1].split() == ["00:00:00", "2.50", "37.5%", "90.0%", "12,345", "54,321", "100.0%"]
    assert rows[4].split() == ["00:00:00", *["n/a"] * 6]
    assert rows[-1].rstrip() == "something is to change"
    assert max(map(len, str(BUSY).splitlines())) <= 80  # with --once


@pytest.mark.parametrize("width", [60, 40])
def test_no_digit_is_cut_off_where_the_terminal_is_narrow(width: int) -> None:
    """A number that does not fit goes on below itself."""
    rows = rows_of(width, replace(BUSY, waiting=1_234_567))
    assert max(map(len, rows)) <= width
    assert "…" not in "".join(rows)
    digits = "".join(one for row in rows for one in row if one.isdigit())
    assert sorted(digits) == sorted("000000 250 375 900 12345 1234567 1000".replace(" ", ""))


@pytest.mark.parametrize("height", [24, 12])
def test_what_is_new_is_seen_in_a_low_terminal(height: int) -> None:
    """The newest stands first: older sentences, and then older windows, are what has no room."""
    shown = StringIO()
    with screen(Console(file=shown, width=80, height=height, force_terminal=True)) as draw:
        for number in range(20):
            proposal = Proposal(kind="queue", seen=f"Seen {number}: {'word ' * 30}", propose=f"Propose {number}.")
            draw(_Window(AT, replace(BUSY, running=number), (proposal,)))
        rows = shown.getvalue().rpartition("\x1b[2K")[2].splitlines()
    assert len(rows) <= height
    text = "\n".join(rows)
    assert "00:00:00 Seen 19: word" in text
    assert "Propose 19." in text
    windows = [row.split()[4] for row in rows if row.startswith("00:00:00  ")]
    assert windows == [str(number) for number in range(20)][-min(12, height - 8) :]


def test_a_screen_without_anything_to_change_says_so() -> None:
    assert rows_of(80, BUSY)[-1].rstrip() == "nothing to change so far"
