"""The simulator of whole runs in virtual time, on cases that can be worked out by hand."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentaccel.predict.experience import Experience
from agentaccel.predict.identity import Key, Principal
from agentaccel.types import Prediction, ToolCall
from benchmarks.__main__ import main
from benchmarks.latency.draws import Draw, Times, scale
from benchmarks.latency.play import off, one_step, play
from benchmarks.latency.scenes import Call, Guess, Session, Turn, never_made, turns_of
from benchmarks.latency.setting import Arm, Outcome, Setting, needed_after
from benchmarks.latency.tallies import Resampling, slowdown
from benchmarks.speculation.read import run_of

OURS = Arm(name="ours", memo=True, foreseen="ours")


def call(name: str, *, reads: bool = True, closes: float = 1.0, again: bool = False) -> Call:
    return Call(key=Key("search", name.encode(), Principal(None, ""), 0), reads=reads, closes=closes, again=again)


def guess(of: Call, at: tuple[int, int], probability: float = 0.9, **more: Any) -> Guess:
    said = ToolCall(name="search", arguments={"query": of.key.arguments.decode()})
    prediction = Prediction(call=said, probability=probability, soon=probability, rule="rule")
    return replace(Guess(key=of.key, prediction=prediction, reads=True, seed=1, drawn_as=at), **more)


def session(*turns: tuple[Call, ...], foreseen: dict[int, tuple[Guess, ...]] | None = None) -> Session:
    given = foreseen or {}
    return Session(
        id="s",
        task="t",
        turns=tuple(Turn(calls=calls, foreseen={"ours": given.get(at, ())}) for at, calls in enumerate(turns)),
    )


def times(replies: tuple[float, ...], *calls: tuple[float, ...]) -> Times:
    return Times(replies=replies, calls=calls)


def setting(**more: Any) -> Setting:
    learned = Experience()
    for _ in range(60):
        learned.latencies.saw("search", 2.0)
        learned.replied(3.0)
    return Setting(draw=Draw("source", 0), scale=1.0, experience=learned, start=more.pop("start", 0.0), **more)


def played(one: Session, given: Times, arm: Arm, **more: Any) -> Outcome:
    return play(one, given, arm, setting(**more))


A, B, WRITE = call("a"), call("b"), call("w", reads=False)
ONE_CALL = times((3.0, 2.0), (2.0,), ())
"""A reply of three seconds that asks for one call of two, and an answer of two seconds."""


def test_without_acceleration_replies_and_tools_follow_one_another() -> None:
    """3 + 2 + 2."""
    one = session((A,), ())
    assert off(ONE_CALL, 1.0) == 7.0
    assert played(one, ONE_CALL, Arm(name="off")).seconds == pytest.approx(7.0)
    assert off(ONE_CALL, 3.0) == 11.0, "tool times are scaled"


def test_parallel_calls_run_side_by_side_as_far_as_there_are_slots() -> None:
    """The longest counts, or their sum."""
    both = times((3.0, 2.0), (2.0, 4.0), ())
    assert played(session((A, B), ()), both, Arm(name="off")).seconds == pytest.approx(9.0)
    assert played(session((A, B), ()), both, Arm(name="off"), slots=1).seconds == pytest.approx(11.0)


def test_the_oracle_begins_with_the_model_call_and_hides_what_fits() -> None:
    """Two seconds fit in a reply of three, and one of them in a reply of one."""
    one = session((A,), ())
    assert one_step(one, ONE_CALL, 1.0) == 5.0
    assert one_step(one, times((1.0, 2.0), (2.0,), ()), 1.0) == 4.0


def test_the_oracle_begins_no_write_and_nothing_behind_one() -> None:
    """In the same reply; the read before it is begun."""
    given = times((3.0, 2.0), (1.0, 1.0, 2.0), ())
    assert one_step(session((A, WRITE, B), ()), given, 1.0) == 7.0
    assert one_step(session((A, B), ()), times((3.0, 2.0), (1.0, 2.0), ()), 1.0) == 5.0


def test_the_memo_answers_the_same_call_until_something_writes() -> None:
    """The second time at once, the third time, after a write, by a run."""
    again = replace(A, again=True)
    given = times((1.0, 1.0, 1.0, 1.0), (2.0,), (2.0,), (2.0,), (2.0,))
    arm = Arm(name="memo", memo=True)
    assert played(session((again,), (again,), (again,), (A,)), given, arm).seconds == pytest.approx(6.0)
    assert played(session((again,), (again,), (WRITE,), (A,)), given, arm).seconds == pytest.approx(10.0)


def test_eager_dispatch_begins_where_the_arguments_close() -> None:
    """After half of the reply; what follows a write in the same message waits for the message."""
    arm = Arm(name="eager", eager=True)
    half = replace(A, closes=0.5)
    assert played(session((half,), ()), ONE_CALL, arm).seconds == pytest.approx(1.5 + 2.0 + 2.0)
    behind = times((3.0, 2.0), (0.5, 2.0), ())
    assert played(session((WRITE, half), ()), behind, arm).seconds == pytest.approx(7.0)


def test_a_right_guess_is_served_and_the_rest_of_its_run_is_waited_for() -> None:
    """Of two seconds one reply hides all, a short one only its own length."""
    foreseen = session((A,), (), foreseen={0: (guess(A, (0, 0)),)})
    done = played(foreseen, ONE_CALL, OURS)
    assert done.seconds == pytest.approx(5.0)
    assert (done.ledger.predicted.launched, done.ledger.predicted.served, done.ledger.predicted.joined) == (1, 1, 0)
    joined = played(foreseen, times((1.5, 2.0), (2.0,), ()), OURS)
    assert joined.seconds == pytest.approx(4.0)
    assert joined.ledger.predicted.joined == 1
    assert joined.ledger.predicted.hidden == pytest.approx(1.5)


def test_a_result_waits_for_a_later_reply_until_something_writes() -> None:
    """Guessed for the first reply, asked for by the second."""
    given = times((3.0, 3.0, 1.0), (1.0,), (2.0,), ())
    kept = session((B,), (A,), (), foreseen={0: (guess(A, (1, 0)),)})
    assert played(kept, given, OURS).seconds == pytest.approx(3 + 1 + 3 + 0 + 1)
    lost = session((WRITE,), (A,), (), foreseen={0: (guess(A, (1, 0)),)})
    done = played(lost, given, OURS)
    assert done.seconds == pytest.approx(3 + 1 + 3 + 2 + 1)
    assert done.ledger.predicted.stale == 1


def test_one_result_serves_one_call() -> None:
    """The same call twice in one reply: the second one runs."""
    twice = session((A, A), (), foreseen={0: (guess(A, (0, 0)),)})
    done = played(twice, times((3.0, 2.0), (2.0, 2.0), ()), OURS)
    assert done.ledger.predicted.served == 1
    assert done.seconds == pytest.approx(7.0)


def test_a_join_is_hedged_after_the_time_that_a_run_is_expected_to_take() -> None:
    """The early run takes 30 seconds; the call waits two for it, and then as long as a run of its own takes."""
    given = times((3.0, 2.0), (2.0, 30.0), ())
    stalled = session((A,), (), foreseen={0: (guess(A, (0, 1)),)})
    assert played(stalled, given, OURS).seconds == pytest.approx(3 + 2 + 2 + 2, rel=0.03)
    unhedged = played(stalled, given, replace(OURS, hedged=False))
    assert unhedged.seconds == pytest.approx(30 + 2)


def test_a_wrong_guess_costs_what_starting_it_takes() -> None:
    """Where slots are not limited."""
    wrong = session((B,), (), foreseen={0: (never_made(guess(A, (0, 0))),)})
    done = played(wrong, ONE_CALL, OURS, start=0.25)
    assert done.seconds == pytest.approx(7.25)
    assert done.ledger.predicted.unused == 1


def test_with_one_slot_a_real_call_takes_it_back_or_it_is_never_given() -> None:
    """Cancelling takes 20 ms; what cannot be cancelled is not begun."""
    given = times((1.0, 2.0), (2.0,), ())
    wrong = session((B,), (), foreseen={0: (guess(A, (0, 0)),)})
    quick = played(wrong, given, OURS, slots=1, gives_back=0.02)
    assert quick.seconds == pytest.approx(1 + 0.02 + 2 + 2)
    threads = played(wrong, given, OURS, slots=1, gives_back=None)
    assert threads.seconds == pytest.approx(5.0)
    assert threads.ledger.predicted.launched == 0


def test_a_thread_that_nobody_needs_keeps_its_slot_to_its_end() -> None:
    """With two slots a wrong guess leaves one to the real calls, which then run one after the other."""
    given = times((1.0, 2.0), (2.0, 2.0, 9.0), ())
    wrong = session((B, call("c")), (), foreseen={0: (guess(A, (0, 2)),)})
    assert played(wrong, given, OURS, slots=2, gives_back=None).seconds == pytest.approx(1 + 4 + 2)
    careful = played(wrong, given, OURS, slots=2, gives_back=None, needed=2)
    assert careful.ledger.predicted.launched == 0, "real calls were seen to need both"
    assert needed_after(1.0, 2) == 2.0 > needed_after(2.0, 1) > 1.0


def test_when_a_slot_is_free_again_the_next_guess_is_begun() -> None:
    """Two runs of one second fit in a reply of three, one after the other in one slot."""
    given = times((3.0, 2.0), (1.0, 1.0), ())
    both = session((A, B), (), foreseen={0: (guess(A, (0, 0)), guess(B, (0, 1)))})
    done = played(both, given, OURS, slots=1, gives_back=0.02)
    assert done.seconds == pytest.approx(5.0)
    assert done.ledger.predicted.served == 2


def test_an_early_result_foretells_the_next_call() -> None:
    """Two steps deep: both runs are over before the second reply asks."""
    later = guess(B, (1, 0), probability=0.0, depth=2)
    later = replace(later, prediction=replace(later.prediction, soon=0.8))
    chained = session((A,), (B,), (), foreseen={0: (guess(A, (0, 0), then=(later,)),)})
    given = times((3.0, 1.0, 1.0), (1.0,), (2.0,), ())
    done = played(chained, given, OURS)
    assert done.seconds == pytest.approx(5.0)
    assert done.deep == (1, 1)
    assert played(chained, given, replace(OURS, depth=1)).seconds == pytest.approx(7.0)


def test_random_guesses_are_launched_as_often_as_they_are_told() -> None:
    """The placebo."""
    one = session((B,), (), foreseen={0: (guess(A, (0, 0)), guess(call("c"), (0, 0)))})
    done = play(one, ONE_CALL, replace(OURS, decided=False), setting(), counts=[1, 0])
    assert done.ledger.predicted.launched == 1


def test_guesses_that_are_all_wrong_soon_end() -> None:
    """Over sessions of one setting, whose breakers stay as they are."""
    world, launched = setting(), 0
    wrong = session((B,), (), foreseen={0: (guess(A, (0, 0)),)})
    for _ in range(60):
        launched += play(wrong, ONE_CALL, OURS, world).ledger.predicted.launched
    assert 8 <= launched <= 16


def test_tools_take_the_wanted_share() -> None:
    """Of the time without acceleration."""
    given = [times((3.0, 2.0), (2.0, 4.0), ()), times((1.0,), (1.0,))]
    factor = scale(given, 0.4)
    whole = sum(off(one, factor) for one in given)
    assert (whole - 6.0) / whole == pytest.approx(0.4)


def test_a_draw_is_the_same_for_everybody() -> None:
    """By its number, the source and the run; another number gives another one."""
    one, same, other = Draw("s", 1), Draw("s", 1), Draw("s", 2)
    assert one.times("r", [(A, B), ()]) == same.times("r", [(A, B), ()]) != other.times("r", [(A, B), ()])
    unmade, given = guess(A, (0, 0), drawn_as=None), ONE_CALL
    assert one.early(unmade, given, own=False) == same.early(unmade, given, own=True)
    assert one.early(guess(A, (0, 0)), given, own=False) == 2.0


def test_intervals_are_by_task_and_the_same_each_time() -> None:
    """A task that is slower among many that are not."""
    own = {f"task {i}": 1.5 if not i else 1.0 for i in range(20)}
    without = {name: 1.0 for name in own}
    least, most = Resampling(own).interval(slowdown, own, without)
    assert (least, most) == Resampling(own).interval(slowdown, own, without)
    assert 0.0 <= least < 0.025 < most


def recorded(task: int, trial: int) -> dict[str, Any]:
    """A run in which the user names a customer, who is looked up, and then the customer's only order."""
    user, order = f"user_{task:03}", f"order_{task:03}"

    def asked(name: str, number: int, **arguments: str) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}

    def returned(number: int, result: object) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(result)}

    messages = [
        {"role": "user", "content": f"I am {user}, where is my order?"},
        asked("get_user", 1, user=user),
        returned(1, {"user": user, "orders": [order]}),
        asked("get_order", 2, order=order),
        returned(2, {"order": order, "state": "sent"}),
        {"role": "assistant", "content": "It was sent."},
    ]
    tools = [{"name": name, "input_schema": {}, "read_only": True} for name in ("get_user", "get_order")]
    return {
        "id": f"{task}-{trial}",
        "task_id": f"task-{task}",
        "domain": "office/orders",
        "tools": tools,
        "messages": messages,
    }


def test_arguments_close_in_proportion_to_the_text() -> None:
    """And calls that come again are known."""
    run = run_of(recorded(1, 0))
    turns = turns_of(run)
    assert [len(calls) for calls in turns] == [1, 1, 0]
    assert turns[0][0].closes == 1.0
    assert not turns[0][0].again


@pytest.mark.slow
def test_the_benchmark_runs_on_any_folder_in_the_format(tmp_path: Path) -> None:
    """Made-up runs whose calls follow from what was said: most of what the oracle saves is saved."""
    with gzip.open(tmp_path / "made_up.jsonl.gz", "wt") as file:
        for task in range(6):
            file.write(json.dumps(recorded(task, 0)) + "\n")
    command = ["latency", "--traces", str(tmp_path), "--draws", "1", "--folds", "2", "--json"]
    result = CliRunner().invoke(main, command)
    told = json.loads(result.stdout)
    assert told["inputs"]["that count"] == "made_up"
    rows = {row[0]: row[1:] for row in told["tables"][0]["rows"]}
    assert min(rows["agentaccel"]) > 0.5
    assert max(rows["all wrong"]) <= 0.0
    assert not [sentence for sentence in told["broken"] if "slower" in sentence]


def test_a_source_without_calls_says_nothing(tmp_path: Path) -> None:
    """And is no error."""
    run = {
        **recorded(0, 0),
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}],
    }
    lines = [json.dumps({**run, "id": str(i), "task_id": str(i)}) for i in range(4)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    result = CliRunner().invoke(main, ["latency", "--traces", str(tmp_path), "--draws", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["inputs"]["that count"] == "none"


def test_a_source_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """By its name."""
    (tmp_path / "a.jsonl").write_text(json.dumps(recorded(0, 0)) + "\n")
    result = CliRunner().invoke(main, ["latency", "--traces", str(tmp_path), "--only", "b"])
    assert result.exit_code == 2
    assert "no source called b" in result.output
