"""Claude Code's logs: what is counted, once, for whom, and what bad input does."""

from __future__ import annotations

import gzip
import json
import os
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_lines import NOON, Line, call, line, prompt, reply, result, tools, turns, usage, write

from agentaccel.errors import TraceError
from agentaccel.sources import lines
from agentaccel.sources.logs import ImportTally, read_logs
from agentaccel.types import Usage


def test_a_reply_of_several_lines_counts_once_with_its_last_usage(tmp_path: Path) -> None:
    """Mandated by the format: every line of a reply repeats the usage, and other lines stand in between."""
    log = write(
        tmp_path / "a.jsonl",
        [
            prompt(0),
            reply(2, "1", usage(write=100)),
            line("progress", 2.5, data={"type": "hook_progress"}),
            reply(3, "1", usage(write=900)),
            prompt(4),
        ],
    )
    (turn,) = turns(log)
    assert turn.usage == Usage(input=903, read=0, write={"1h": 900}, output=1)
    assert (turn.session, turn.parent, turn.mode, turn.outcome) == ("s1", None, "log", "ok")
    assert (turn.started, turn.finished) == (NOON, NOON + 3)


@given(data=st.data())
def test_any_interleaving_repetition_and_cut_counts_each_reply_once(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the order of lines: the sum equals that of the last usage of each reply; zeros are another test's."""
    order = data.draw(st.lists(st.integers(0, 5), max_size=30))
    figures = st.tuples(*[st.integers(1, 10_000)] * 3)
    expected: dict[int, tuple[int, int, int]] = {}
    lines = []
    for at, id_ in enumerate(order):
        expected[id_] = data.draw(figures)
        lines.append(reply(at, str(id_), usage(*expected[id_])))
        if data.draw(st.booleans()):
            lines.append(data.draw(st.sampled_from([lines[-1], prompt(at), line("summary", at)])))
    last = json.dumps(reply(99, "cut", usage(7, 7, 7))).encode()
    cut = data.draw(st.integers(0, len(last) - 1))
    log = write(tmp_path_factory.mktemp("logs") / "a.jsonl", lines, last[:cut])
    tally = ImportTally()
    found = turns(log, tally=tally)
    assert len(found) == len(expected)
    assert sum(turn.usage.read or 0 for turn in found) == sum(read for _, read, _ in expected.values())
    assert sum(turn.usage.input or 0 for turn in found) == sum(map(sum, expected.values()))
    assert tally.skipped == 0
    assert tally.cut == (cut > 0)


def test_garbage_in_the_middle_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    """What the user sees: a number of skipped lines, never an error."""
    good = [json.dumps(reply(at, str(at), usage(write=5000))).encode() for at in range(3)]
    bad = [b"\x00\xff not json", b'{"type": "user", "mess', b"[1, 2]", b"", b'"text"', good[0][: len(good[0]) // 2]]
    log = tmp_path / "a.jsonl"
    log.write_bytes(b"\n".join([bad[0], good[0], *bad[1:], good[1], good[2]]) + b"\n")
    tally = ImportTally()
    assert len(turns(log, tally=tally)) == 3
    assert tally.skipped == 5


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_may_come_through_a_pipe(tmp_path: Path, packed: bool) -> None:
    """As `agentaccel report <(ssh host cat log)` has it."""
    text = write(tmp_path / "a.jsonl", [prompt(0), reply(2, "1", usage(write=100))]).read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(text) if packed else text))
    writer.start()
    (turn,) = turns(pipe)
    writer.join()
    assert turn.usage.written == 100


def test_a_device_is_no_log() -> None:
    """Some never end."""
    with pytest.raises(TraceError, match="device"):
        list(read_logs(["/dev/zero"]))


def test_a_line_beyond_all_measure_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither kept in memory nor the end of the import."""
    monkeypatch.setattr(lines, "MAX_LINE", 1 << 20)
    log = write(tmp_path / "a.jsonl", [reply(0, "1", usage(write=10))], b"x" * (lines.MAX_LINE + 5) + b"\n")
    with log.open("ab") as file:
        file.write(json.dumps(reply(1, "2", usage(write=10))).encode() + b"\n")
    tally = ImportTally()
    assert len(turns(log, tally=tally)) == 2
    assert (tally.lines, tally.skipped) == (3, 1)


def test_a_reply_without_a_logged_prompt_begins_with_its_first_line(tmp_path: Path) -> None:
    """An older prompt would make it seem to have taken hours."""
    log = write(tmp_path / "a.jsonl", [prompt(0), reply(2, "1", usage(write=10)), reply(9000, "2", usage(read=10))])
    assert [turn.started - NOON for turn in turns(log)] == [0, 9000]


def test_a_line_with_half_a_character_is_still_read(tmp_path: Path) -> None:
    """Clients write lone surrogates, which strict parsers refuse."""
    text = {"type": "text", "text": "\ud83d"}
    log = write(tmp_path / "a.jsonl", [reply(0, "1", usage(write=10), text)])
    assert len(turns(log)) == 1


def test_a_file_that_is_being_appended_gives_what_is_there(tmp_path: Path) -> None:
    """The last line is half written: it is noted as cut, and read when it is whole."""
    second = json.dumps(reply(1, "2", usage(write=20))).encode()
    log = write(tmp_path / "a.jsonl", [reply(0, "1", usage(write=10))], second[:50])
    tally = ImportTally()
    assert len(turns(log, tally=tally)) == 1
    assert (tally.cut, tally.skipped) == (1, 0)
    with log.open("ab") as file:
        file.write(second[50:])
    assert len(turns(log)) == 2


def test_compressed_logs_and_folders_are_read(tmp_path: Path) -> None:
    """Folders are searched all the way down; compression is known by content."""
    deep = tmp_path / "x" / "y"
    deep.mkdir(parents=True)
    body = json.dumps(reply(0, "1", usage(write=10))).encode() + b"\n"
    (deep / "a.jsonl.gz").write_bytes(gzip.compress(body))
    (tmp_path / "notes.txt").write_text("not a log")
    assert len(turns(tmp_path)) == 1
    assert len(turns(deep / "a.jsonl.gz", tmp_path)) == 1


@pytest.mark.parametrize(("replies", "least"), [(500, 350), (12, 3)])
def test_a_cut_compressed_file_gives_what_can_be_unpacked(replies: int, least: int, tmp_path: Path) -> None:
    """The file is noted as not readable to its end, however little it holds."""
    body = b"".join(
        json.dumps(reply(n, str(n), usage(write=n), {"type": "text", "text": os.urandom(200).hex()})).encode() + b"\n"
        for n in range(replies)
    )
    log = tmp_path / "a.jsonl.gz"
    log.write_bytes(gzip.compress(body)[:-2000])
    tally = ImportTally()
    assert least < len(turns(log, tally=tally)) < replies
    assert tally.unreadable == [f"{log}: Compressed file ended before the end-of-stream marker was reached"]


def test_unknown_and_empty_files_do_not_stop_the_others(tmp_path: Path) -> None:
    """They are listed; the rest is read."""
    write(tmp_path / "a.jsonl", [reply(0, "1", usage(write=10))])
    write(tmp_path / "b.jsonl", [{"event": "unrelated"}])
    (tmp_path / "c.jsonl").write_bytes(b"")
    tally = ImportTally()
    assert len(turns(tmp_path, tally=tally)) == 1
    assert tally.unrecognised == [str(tmp_path / "b.jsonl")]
    assert (tally.files, tally.empty) == (1, 1)


def test_a_path_that_does_not_exist_is_an_error_at_once(tmp_path: Path) -> None:
    """Before anything is read."""
    with pytest.raises(TraceError):
        read_logs([tmp_path / "nowhere"])


def test_history_copied_into_a_resumed_session_counts_once(tmp_path: Path) -> None:
    """Replies with the same ids in two files are one; the resumed session goes on from them."""
    old = [prompt(0), reply(1, "1", usage(write=9000), call("t1")), result(2, "t1")]
    old.append(reply(3, "2", usage(read=9000, write=500)))
    new = [{**entry, "sessionId": "s2"} for entry in old]
    new += [
        {**prompt(10), "sessionId": "s2"},
        {**reply(11, "3", usage(read=9503, write=100)), "sessionId": "s2"},
    ]
    write(tmp_path / "a.jsonl", old)
    write(tmp_path / "b.jsonl", new)
    tally = ImportTally()
    found = turns(tmp_path, tally=tally)
    assert [(turn.session, turn.usage.input) for turn in found] == [("s1", 9003), ("s1", 9503), ("s2", 9606)]
    assert found[-1].reusable == 9503
    assert found[-1].misses == ()
    assert tally.duplicates == 2
    assert len(tools(tmp_path)) == 1


def test_subagents_are_sessions_of_their_own_wherever_they_stand(tmp_path: Path) -> None:
    """In progress lines, in side-chain lines with and without a name, and in files of their own; each once."""
    inner = reply(1, "a1", usage(read=50, write=5000))
    nested = {key: inner[key] for key in ("type", "message", "requestId", "timestamp")}
    main = [
        prompt(0),
        reply(0.5, "m", usage(write=9000)),
        line("progress", 1, data={"type": "agent_progress", "agentId": "abc", "message": nested}),
        {**prompt(2), "isSidechain": True, "uuid": "root0001x", "parentUuid": None},
        reply(3, "b1", usage(write=7000), isSidechain=True, uuid="u2", parentUuid="root0001x"),
        reply(4, "b2", usage(read=7000, write=1), isSidechain=True, uuid="u3", parentUuid="u2"),
    ]
    write(tmp_path / "s1.jsonl", main)
    own = [inner | {"isSidechain": True, "agentId": "abc"}]
    own.append(reply(2, "a2", usage(read=5050, write=10), isSidechain=True, agentId="abc"))
    (tmp_path / "s1" / "subagents").mkdir(parents=True)
    write(tmp_path / "s1" / "subagents" / "agent-abc.jsonl", own)
    found = [(turn.session, turn.parent, turn.usage.input) for turn in turns(tmp_path)]
    assert found == [
        ("s1/abc", "s1", 5053),
        ("s1/abc", "s1", 5063),
        ("s1", None, 9003),
        ("s1/sidechain-root0001", "s1", 7003),
        ("s1/sidechain-root0001", "s1", 7004),
    ]


def test_a_tool_runs_from_its_call_to_its_result(tmp_path: Path) -> None:
    """Failed where the result says so; without a result it has no end."""
    log = write(
        tmp_path / "a.jsonl",
        [
            reply(0, "1", usage(write=10), call("t1")),
            reply(1, "1", usage(write=10), call("t2", "Bash")),
            reply(1, "1", usage(write=10), call("t3", "Grep")),
            result(5, "t2", is_error=True),
            result(7, "t1"),
        ],
    )
    found = [(t.name, t.started - NOON, t.finished and t.finished - NOON, t.outcome) for t in tools(log)]
    assert found == [("Read", 0, 7, "ok"), ("Bash", 1, 5, "failed"), ("Grep", 1, None, "abandoned")]


def test_errors_of_the_api_are_failed_attempts_and_the_clients_own_words_are_nothing(tmp_path: Path) -> None:
    """Neither is a reply with zero tokens."""
    zero = usage(0)
    log = write(
        tmp_path / "a.jsonl",
        [
            reply(0, "1", usage(write=10)),
            line("system", 1, subtype="api_error", retryAttempt=2, error={"status": 529}),
            reply(2, "x", zero, model="<synthetic>", isApiErrorMessage=True),
            reply(3, "y", zero, model="<synthetic>"),
        ],
    )
    found = [(turn.outcome, turn.status, turn.attempt, turn.usage.input) for turn in turns(log)]
    assert found == [("ok", None, 0, 13), ("failed", 529, 1, None), ("failed", None, 0, None)]


def test_a_reply_without_usage_is_not_known_rather_than_zero(tmp_path: Path) -> None:
    """Telemetry that is missing stays missing."""
    entry = reply(0, "1", usage())
    del entry["message"]["usage"]
    (turn,) = turns(write(tmp_path / "a.jsonl", [entry]))
    assert turn.usage == Usage()
    assert turn.misses == ()


def test_progress_is_told_to_the_end(tmp_path: Path) -> None:
    """The last call says that everything was read."""
    log = write(tmp_path / "a.jsonl", [reply(0, "1", usage(write=10))])
    told: list[tuple[int, int]] = []
    list(read_logs([log], progress=lambda done, total: told.append((done, total))))
    assert told[-1] == (log.stat().st_size, log.stat().st_size)


def plain_count(path: Path) -> tuple[int, int, int, int]:
    """Replies, input, read and written of the main conversation, by the shortest code that can be right."""
    last: dict[tuple[str, str], Line] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for entry in map(json.loads, file):
            if entry["type"] == "assistant" and not entry["isSidechain"]:
                last[entry["message"]["id"], entry["requestId"]] = entry["message"]["usage"]
    keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    plain, read, written = (sum(use[key] for use in last.values()) for key in keys)
    return len(last), plain, read, written


@pytest.mark.traces
def test_real_logs_reconcile_to_the_token() -> None:
    """Against an independent count of the raw files."""
    paths = sorted((Path(os.environ["AGENTACCEL_TRACES"]) / "claude_code").glob("*.jsonl.gz"))
    assert paths
    for path in paths:
        main = [turn for turn in turns(path) if turn.parent is None]
        sums = [sum(getattr(turn.usage, key) for turn in main) for key in ("uncached", "read", "written")]
        assert (len(main), *sums) == plain_count(path)


@pytest.mark.slow
def test_a_large_log_is_streamed(tmp_path: Path) -> None:
    """Memory follows the line and the replies that may still grow, not the file."""
    text = {"type": "text", "text": "x" * 20_000}
    log = write(tmp_path / "a.jsonl", (reply(n, str(n), usage(read=n), text) for n in range(800)))
    assert log.stat().st_size > 16e6
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_logs([log])) == 800
        assert tracemalloc.get_traced_memory()[1] < log.stat().st_size / 4
    finally:
        tracemalloc.stop()


def test_a_sum_without_its_requests_is_said(tmp_path: Path) -> None:
    """What `claude -p --output-format json` prints is the sum alone; behind the requests it is no news."""
    told = {"type": "result", "subtype": "success", "session_id": "s1", "usage": usage(write=9700), "uuid": "4"}
    for entries, sums in (([told], 1), ([reply(1, "1", usage(write=9700)), told], 0)):
        tally = ImportTally()
        turns(write(tmp_path / "a.jsonl", entries), tally=tally)
        assert (tally.sums, any("only the sum" in note for note in tally.notes(""))) == (sums, bool(sums))
