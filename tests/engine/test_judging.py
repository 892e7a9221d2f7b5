"""What a call does is worked out once for its text, beside the event loop, and nobody waits long for it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlglot

from agentaccel import Accel, Policy, StorePolicy, ToolCall, ToolPolicy, ToolSpec
from agentaccel.concurrency import WORKER, Worker, beside, in_time
from agentaccel.effects.spec import SPEC_ATTRIBUTE
from agentaccel.effects.verdict import Verdict, analysed
from agentaccel.executors import Shell, Sql
from agentaccel.tools import permission as judging
from agentaccel.turn import CallClosed, Started
from agentaccel.types import Effect

ASK = {"model": "claude-sonnet-5", "max_tokens": 1, "messages": [{"role": "user", "content": "Go"}]}


def an_accel() -> Accel:
    return Accel(Policy(strict=True, store=StorePolicy(enabled=False), tools=ToolPolicy(concurrency=20)))


async def known() -> None:
    """All that was to be worked out so far is, and this loop has heard of it: the worker takes one after the other."""
    await beside(lambda: None)
    await asyncio.sleep(0)


def asked(accel: Accel, *texts: str, tool: str = "look") -> None:
    """The model asks for these, in one message."""
    turn = accel.turn(ASK)
    turn.handle(Started(0.0))
    for number, text in enumerate(texts):
        turn.handle(CallClosed(ToolCall(name=tool, arguments={"text": text}, id=str(number)), 0.0))


class Judge:
    """An analyser that notes how often and on which threads it was asked, and waits where it is told to."""

    def __init__(self, writes: str = "") -> None:
        self.asked, self.threads, self._writes = Counter[str](), set[int](), writes
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, arguments: Any) -> Verdict:
        self.asked[arguments["text"]] += 1
        self.threads.add(threading.get_ident())
        self.may_go_on.wait(30)
        return analysed(Effect.UNKNOWN if arguments["text"] == self._writes else Effect.READ_LOCAL, "said by a test")

    def tool(self, accel: Accel, ran: list[str] | None = None) -> Callable[[str], Any]:
        async def look(text: str) -> str:
            (ran if ran is not None else []).append(text)
            await asyncio.sleep(0)  # as all that waits for something
            return f"seen {text}"

        spec = ToolSpec(kind="sql", concurrent=True, judge=self)
        setattr(look, SPEC_ATTRIBUTE, spec)
        return accel.tools({"look": look})["look"]


async def test_a_call_is_judged_once_and_beside_the_event_loop() -> None:
    """Asked for by the model, begun early, and made: its analyser is asked once, as of one that nobody foresaw."""
    judge = Judge()
    with an_accel() as accel:
        look = judge.tool(accel)
        async with accel.session("s") as session:
            asked(accel, "a")
            assert session.speculation.asked.launched == 0  # nobody waits for it here
            await known()
            assert session.speculation.asked.launched == 1
            assert await look("a") == "seen a"
            assert await look("b") == "seen b"
            await known()
            assert session.speculation.asked.served == 1
    assert judge.asked == {"a": 1, "b": 1}
    assert threading.get_ident() not in judge.threads


async def test_without_the_worker_the_event_loop_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: where everything counts as told at once, it is told here."""
    monkeypatch.setattr(judging, "in_a_loop", lambda: False)
    judge = Judge()
    with an_accel() as accel:
        look = judge.tool(accel)
        async with accel.session("s"):
            asked(accel, "a")
            await look("a")
    assert threading.get_ident() in judge.threads


async def test_what_stands_behind_a_write_waits_for_it_whatever_is_known_first() -> None:
    """`a` reads, `w` writes, `b` reads: `a` is begun early; `b` only once `w` has run."""
    judge, ran = Judge(writes="w"), list[str]()
    with an_accel() as accel:
        look = judge.tool(accel, ran)
        async with accel.session("s"):
            asked(accel, "a", "w", "b")
            await known()
            assert ran == ["a"]
            assert await look("a") == "seen a"
            await look("w")
            await known()
            await known()
            assert ran == ["a", "w", "b"]
            await look("b")
            assert ran == ["a", "w", "b"]


async def test_a_call_that_is_made_before_it_is_judged_runs_once() -> None:
    """It does not wait for its verdict, and is not begun a second time once that is there."""
    judge, ran = Judge(), list[str]()
    judge.may_go_on.clear()
    with an_accel() as accel:
        look = judge.tool(accel, ran)
        async with accel.session("s"):
            asked(accel, "a")
            assert await look("a") == "seen a"
            judge.may_go_on.set()
            await known()
            await known()
    assert ran == ["a"]


async def test_a_verdict_is_not_kept_over_a_write() -> None:
    """What a line does may depend on what lies on the disk, which a write may have changed."""
    judge = Judge(writes="w")
    with an_accel() as accel:
        look = judge.tool(accel)
        async with accel.session("s"):
            for text in ("a", "w", "a"):
                await look(text)
                await known()
    assert judge.asked == {"a": 2, "w": 1}


async def test_one_statement_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one dialect, by the library itself: for the message, the early run, the real one, and its record."""
    monkeypatch.setattr("agentaccel.tools.permission.IN_TIME", 30.0)  # a machine that is busy takes longer to parse it
    parsed, real = Counter[str](), sqlglot.parse
    monkeypatch.setattr(sqlglot, "parse", lambda text, **more: parsed.update([text]) or real(text, **more))
    file = tmp_path / "a.db"
    with sqlite3.connect(file) as database:
        database.execute("create table t (id)")
    database.close()
    text = f"select count(*) as n from t where id in ({', '.join(map(str, range(900)))})"
    assert 4_000 < len(text) < 5_000
    with an_accel() as accel:
        query = accel.tools({"query": Sql.sqlite(file).query})["query"]
        async with accel.session("s") as session:
            turn = accel.turn(ASK)
            turn.handle(Started(0.0))
            turn.handle(CallClosed(ToolCall(name="query", arguments={"sql": text}, id="1"), 0.0))
            await known()
            assert session.speculation.asked.launched == 1
            assert await query(text) == '{"columns": ["n"], "rows": [[0]]}'
            assert session.speculation.asked.served == 1
            await query(text)
            await known()
    assert parsed == {text: 1}


@pytest.mark.slow
@pytest.mark.timeout(30)
async def test_nobody_waits_for_a_disk_that_does_not_answer(tmp_path: Path) -> None:
    """The look of the owner hangs: the query runs all the same, on an ordinary connection, and so does the next one."""
    file, answers = tmp_path / "a.db", threading.Event()
    sqlite3.connect(file).close()

    def hangs() -> None:
        answers.wait(30)

    opened = list[str]()

    def connect(name: str) -> sqlite3.Connection:
        opened.append(name)
        return sqlite3.connect(file)

    tool = Sql(connect=lambda: connect("ordinary"), read_only=lambda: connect("guarded"), dialect="sqlite",
               obstacle=hangs)  # fmt: skip
    assert await tool.query("select 1 as one") == '{"columns": ["one"], "rows": [[1]]}'
    assert await tool.query("select 2 as one") == '{"columns": ["one"], "rows": [[2]]}'
    assert opened == ["ordinary", "ordinary"]
    assert WORKER.hangs(0.0)
    answers.set()
    await known()
    await tool.query("select 1 as one")
    assert opened[2:] == ["guarded"]


async def test_a_worker_does_one_thing_after_the_other_and_hands_on_what_fails() -> None:
    """And has no thread where there is nothing to do."""
    worker, done = Worker(), list[int]()
    threads = set[int]()

    def work(number: int) -> int:
        threads.add(threading.get_ident())
        done.append(number)
        return 10 // number

    futures = [worker.submit(work, number) for number in (2, 0, 5)]
    assert futures[0].result(10) == 5
    with pytest.raises(ZeroDivisionError):
        futures[1].result(10)
    assert futures[2].result(10) == 2
    assert done == [2, 0, 5]
    assert await in_time(lambda: 7, 10.0) == 7


async def test_a_shell_line_is_looked_at_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the system's own calls: what is looked up on the disk for its verdict is not looked up on this thread."""
    (tmp_path / "a.txt").write_text("x\n")
    here, real, seen = threading.get_ident(), Path.stat, set[bool]()

    def stat(path: Path, **more: Any) -> Any:
        if path.name == "a.txt":
            seen.add(threading.get_ident() == here)
        return real(path, **more)

    monkeypatch.setattr(Path, "stat", stat)
    assert await Shell(cwd=tmp_path).run("cat a.txt") == "x"
    assert seen == {False}


async def test_a_shell_line_looks_names_up_beside_the_loop(tmp_path: Path) -> None:
    """A folder may hold a million names, or lie on a disk that is slow: the detector of these tests would tell."""
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.txt", "sub/c.txt"):
        (tmp_path / name).write_text(f"{name}\n")
    line = 'for f in *.txt; do cat "$f"; done; sort < a.txt; cd sub && cat *.txt; command -v missing'
    assert await Shell(cwd=tmp_path).run(line) == "a.txt\nb.txt\na.txt\nsub/c.txt\n[exit status 1]"


async def test_a_call_inside_an_early_run_that_nobody_has_looked_at_is_not_judged_on_the_loop() -> None:
    """The early run comes to nothing; the real one runs as it always would."""
    judge, ran = Judge(), list[str]()
    with an_accel() as accel:
        look = judge.tool(accel, ran)

        @accel.tool(effect="read_local", concurrent=True)
        async def report(text: str) -> str:
            return f"report: {await look(text)}"

        async with accel.session("s") as session:
            asked(accel, "a", tool="report")
            await asyncio.sleep(0)
            assert (session.speculation.asked.launched, ran) == (1, [])
            assert await report("a") == "report: seen a"
            await known()
    assert ran == ["a"]
    assert threading.get_ident() not in judge.threads
