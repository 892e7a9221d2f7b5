"""Copies of what a session log tells: each reply counts once, for the session that made it, whatever a copy lacks."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from session_lines import NOON, Line, line, prompt, reply, turns, usage, write

from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.sources import fields as identities
from agentaccel.sources import order
from agentaccel.sources.logs import ImportTally, read_logs
from tests.store.span_lines import batch, chat, span


def by_session(*paths: Path) -> dict[str, list[int | None]]:
    found: dict[str, list[int | None]] = {}
    for turn in turns(*paths):
        found.setdefault(turn.session, []).append(turn.usage.input)
    return found


def moved(lines: list[Line], session: str, *, says_so: bool) -> list[Line]:
    """A copy of `lines` at the beginning of another session."""
    marks = [{"forkedFrom": {"sessionId": one["sessionId"], "messageUuid": "m"}} if says_so else {} for one in lines]
    return [{**one, "sessionId": session, **mark} for one, mark in zip(lines, marks, strict=True)]


def said(at: float, id_: str, use: Line, session: str) -> list[Line]:
    return [prompt(at, sessionId=session), {**reply(at + 1, id_, use), "sessionId": session}]


@pytest.mark.parametrize("says_so", [True, False])
@pytest.mark.parametrize("names", list(itertools.permutations("abc")))
def test_a_copy_is_charged_to_its_origin_whichever_file_is_read_first(
    tmp_path: Path, names: tuple[str, ...], says_so: bool
) -> None:
    """A fork of a fork: the first session made three replies, the second two more, the last one; by hand 3, 2 and 1."""
    first = [*said(0, "1", usage(write=9000), "A"), *said(10, "2", usage(read=9000, write=10), "A")]
    second = [*moved(first, "B", says_so=says_so), *said(30, "4", usage(read=9010, write=2), "B")]
    third = [*moved(second, "C", says_so=says_so), *said(50, "6", usage(read=9012, write=1), "C")]
    first += said(20, "3", usage(read=9010, write=1), "A")
    second += said(40, "5", usage(read=9012, write=5), "B")
    paths = [tmp_path / f"{name}.jsonl" for name in names]
    for path, lines in zip(paths, (first, second, third), strict=True):
        write(path, lines)
    for given in itertools.permutations(paths):
        assert by_session(*given) == {"A": [9003, 9013, 9014], "B": [9015, 9020], "C": [9016]}


def test_what_a_fork_goes_on_from_is_its_own_past(tmp_path: Path) -> None:
    """Its first own request could read all that was copied."""
    first = said(0, "1", usage(write=9000), "A")
    write(tmp_path / "a.jsonl", [*moved(first, "B", says_so=True), *said(10, "2", usage(read=9000, write=9), "B")])
    write(tmp_path / "z.jsonl", first)
    assert [(turn.session, turn.reusable, turn.misses == ()) for turn in turns(tmp_path)] == [
        ("A", 0, False),
        ("B", 9003, True),
    ]


def test_a_copy_whose_origin_is_gone_is_still_charged_to_it(tmp_path: Path) -> None:
    """The reply was paid for, and not by the session that copied it."""
    first = said(0, "1", usage(write=9000), "A")
    log = write(tmp_path / "b.jsonl", [*moved(first, "B", says_so=True), *said(10, "2", usage(read=9000), "B")])
    assert by_session(log) == {"A": [9003], "B": [9003]}


def test_read_in_any_other_order_the_fork_would_pay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the order is what tells whose a reply is where no line does."""
    first = said(0, "1", usage(write=9000), "A")
    write(tmp_path / "a.jsonl", [*moved(first, "B", says_so=False), *said(10, "2", usage(read=9000), "B")])
    write(tmp_path / "z.jsonl", first)
    assert by_session(tmp_path) == {"A": [9003], "B": [9003]}
    monkeypatch.setattr("agentaccel.sources.logs.in_order", lambda paths: sorted(paths))
    assert by_session(tmp_path) == {"B": [9003, 9003]}
    assert order.in_order([tmp_path / "a.jsonl", tmp_path / "z.jsonl"])[0].name == "z.jsonl"


REPLY = {**reply(1, "1", usage(write=900)), "uuid": "u1", "version": "2", "cwd": "/", "parentUuid": "u0"}
FAILED = line("system", 2, subtype="api_error", uuid="u2", retryAttempt=1, error={"status": 529})
RUN = {
    "id": "r1",
    "run_id": "e1",
    "source": "x",
    "model": "gpt-4o",
    "domain": "office",
    "meta": {"t0": NOON},
    "messages": [{"role": "assistant", "content": "a", "ts": NOON + 1, "usage": {"prompt_tokens": 5}}],
}
SPAN = json.loads(batch(span("one", chat(9, 3, 3))))
WHERE: dict[str, tuple[Any, tuple[Any, ...], set[str]]] = {
    "reply": (REPLY, (), {"type", "message"}),
    "message": (REPLY, ("message",), set()),
    "failure": (FAILED, (), {"type", "subtype"}),
    "run": (RUN, (), {"messages"}),
    "span": (SPAN, ("resourceSpans", 0, "scopeSpans", 0, "spans", 0), {"traceId", "spanId"}),
}
"""Of each reader: a line, where its optional fields stand, and which are none, because they say what it is."""


def _at(whole: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        whole = whole[key]
    return whole


FIELDS = [
    (what, name) for what, (whole, path, needed) in WHERE.items() for name in _at(whole, path) if name not in needed
]


NAMES = [
    ("reply", "requestId", ("message", "id")),
    ("reply", "requestId", "uuid"),
    ("reply", "uuid", ("message", "id")),
]
NAMES += [("run", "source", "id"), ("run", "source", "run_id")]
LACKING = [(what, (name,)) for what, name in FIELDS] + [(what, tuple(names)) for what, *names in NAMES]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("what", "names"), LACKING)
def test_a_copy_that_lacks_fields_is_still_a_copy(
    tmp_path: Path, what: str, names: tuple[Any, ...], first: bool
) -> None:
    """Of every reader, each optional field and each two that name the thing, whichever of the two copies is read first;
    by hand: one."""
    whole, path, _ = WHERE[what]
    lacking = copy.deepcopy(whole)
    for name in names:
        *inner, last = name if isinstance(name, tuple) else (*path, name)
        del _at(lacking, tuple(inner))[last]
    lines = [lacking, whole] if first else [whole, lacking]
    for file, one in zip("ab", lines, strict=True):
        write(tmp_path / f"{file}.jsonl", [one])
    assert len([one for one in read_logs([tmp_path]) if isinstance(one, TurnRecord)]) == 1


def test_with_the_request_in_the_name_a_copy_without_it_counts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the test above."""

    def met(self: identities.Identities, *names: object) -> bool:
        known = hash(names) in self._seen
        self._seen.add(hash(names))
        return known

    write(tmp_path / "a.jsonl", [REPLY])
    write(tmp_path / "b.jsonl", [{name: value for name, value in REPLY.items() if name != "requestId"}])
    assert len(turns(tmp_path)) == 1
    monkeypatch.setattr(identities.Identities, "met", met)
    assert len(turns(tmp_path)) == 2


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
FIRST, LAST = (
    {
        **REPLY,
        "uuid": uuid,
        "message": {**REPLY["message"], "content": content, "usage": {**usage(write=900), "output_tokens": output}},
    }
    for uuid, content, output in (("u1", [], 10), ("u2", [CALL], 500))
)
"""A reply in two lines, whose last one has the call and all of its output."""


@pytest.mark.parametrize("without", [("message", "id"), ("requestId",), ("uuid",)])
@pytest.mark.parametrize("lacking", [0, 1])
def test_a_line_that_lacks_a_name_is_still_a_line_of_its_reply(
    tmp_path: Path, without: tuple[str, ...], lacking: int
) -> None:
    """Which says 500 tokens and asks for Bash, in any of its lines; a third one, with the other name, is of it, too."""
    lines = copy.deepcopy([FIRST, LAST])
    del _at(lines[lacking], without[:-1])[without[-1]]
    third = copy.deepcopy(LAST)
    del _at(third, ("message",) if without[0] == "requestId" else ())[
        "id" if without[0] == "requestId" else "requestId"
    ]
    for some in (lines, [*lines, third]):
        log = write(tmp_path / "a.jsonl", some)
        tally = ImportTally()
        (turn, call) = read_logs([log], tally=tally)
        assert isinstance(turn, TurnRecord)
        assert isinstance(call, ToolRecord)
        assert (turn.usage.output, call.name, tally.duplicates) == (500, "Bash", 0)


def test_two_replies_to_one_request_are_two(tmp_path: Path) -> None:
    """The twin of the test above: the id of the message comes first, where both have one."""
    other = {**LAST, "message": {**LAST["message"], "id": "msg_2"}}
    assert [turn.usage.output for turn in turns(write(tmp_path / "a.jsonl", [FIRST, other]))] == [10, 500]


def test_every_line_of_a_reply_is_told_by_its_copy(tmp_path: Path) -> None:
    """Also where the copy has nothing but the ids of the lines."""
    copies = copy.deepcopy([FIRST, LAST])
    for one in copies:
        del one["requestId"], one["message"]["id"]
    write(tmp_path / "a.jsonl", [FIRST, LAST])
    write(tmp_path / "b.jsonl", copies)
    assert by_session(tmp_path) == {"s1": [903]}


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ({"run_id": "e"}, {"run_id": "e"}, 1),
        ({"id": "1", "run_id": "e"}, {"id": "2", "run_id": "e"}, 2),
        ({"source": "x", "id": "1"}, {"source": "y", "id": "1"}, 2),
        ({"source": "x", "run_id": "e"}, {"source": "y", "run_id": "e"}, 2),
        ({"session_id": "s"}, {"session_id": "s"}, 2),
    ],
)
def test_a_run_is_told_by_its_own_names(tmp_path: Path, one: Line, other: Line, found: int) -> None:
    """Within a source, and by its id first; a session may have several runs."""
    nameless = {name: value for name, value in RUN.items() if name not in ("id", "run_id", "source")}
    write(tmp_path / "a.jsonl", [{**nameless, **one}])
    write(tmp_path / "b.jsonl", [{**nameless, **other}])
    assert len(turns(tmp_path)) == found


def streamed(session: str, id_: str, use: Line, call: str | None = None) -> Line:
    """A line of `claude -p --output-format stream-json`."""
    message = {"id": f"msg_{id_}", "role": "assistant", "model": "claude-opus-4-6", "content": [], "usage": use}
    return {"type": "assistant", "message": message, "parent_tool_use_id": call, "session_id": session, "uuid": id_}


def test_what_claude_streams_has_its_sessions_and_sub_agents(tmp_path: Path) -> None:
    """In snake_case, without times; a sub-agent is told by the call that started it; the result is a sum."""
    log = write(
        tmp_path / "stream.jsonl",
        [
            {"type": "system", "subtype": "init", "session_id": "s1", "uuid": "0"},
            streamed("s1", "1", usage(write=9000)),
            streamed("s1", "2", usage(write=700), "toolu_1"),
            streamed("s2", "3", usage(write=5)),
            {"type": "result", "subtype": "success", "session_id": "s1", "usage": usage(write=9700), "uuid": "4"},
        ],
    )
    assert [(one.session, one.parent, one.usage.input) for one in turns(log)] == [
        ("s1", None, 9003),
        ("s1/toolu_1", "s1", 703),
        ("s2", None, 8),
    ]


def test_a_log_and_its_stream_count_once(tmp_path: Path) -> None:
    """One session, in both forms."""
    write(tmp_path / "log.jsonl", [reply(1, "1", usage(write=900))])
    write(tmp_path / "stream.jsonl", [streamed("s1", "1", usage(write=900))])
    assert by_session(tmp_path) == {"s1": [903]}


def test_an_export_in_snake_case_keeps_agents_and_times(tmp_path: Path) -> None:
    """As the log itself has them."""
    one = reply(1, "1", usage(write=900), isSidechain=True, agentId="abc")
    names = {"sessionId": "session_id", "isSidechain": "is_sidechain", "agentId": "agent_id", "requestId": "request_id"}
    log = write(tmp_path / "a.jsonl", [{names.get(name, name): value for name, value in one.items()}])
    (turn,) = turns(log)
    assert (turn.session, turn.parent, turn.started) == ("s1/abc", "s1", NOON + 1)


def test_a_line_in_no_known_form_is_named_and_not_half_read(tmp_path: Path) -> None:
    """Its session stands where nobody knows it: to call it by the file's name would be wrong."""
    one = reply(1, "1", usage(write=900))
    odd = {"type": "assistant", "conversation_id": "c1", "uuid": "u", "message": one["message"]}
    tally = ImportTally()
    assert turns(write(tmp_path / "a.jsonl", [prompt(0), odd]), tally=tally) == []
    assert tally.notes("") == [
        "lines in no known form, which were not read: 1 (with conversation_id, message, type, uuid)"
    ]
    tally = ImportTally()
    assert turns(write(tmp_path / "b.jsonl", [odd]), tally=tally) == []
    assert tally.unrecognised == [str(tmp_path / "b.jsonl")]


def test_the_providers_own_reason_is_kept(tmp_path: Path) -> None:
    """From any line of the reply; null says nothing."""
    one, two = reply(1, "1", usage(write=900)), reply(2, "1", usage(write=900))
    one["message"]["diagnostics"] = {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 9}}
    two["message"]["diagnostics"] = None
    assert [turn.diagnosis for turn in turns(write(tmp_path / "a.jsonl", [one, two]))] == ["system_changed"]
