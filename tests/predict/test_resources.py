"""Files and pages that are likely to be read next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentaccel.predict.events import Event, Said
from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.predictor import Predictor
from agentaccel.predict.resources import MOST, Resources, beginning
from agentaccel.types import ToolCall
from tests.predict.loops import call, learn, play, step


def editing(number: int) -> list[Event]:
    """A search names three files; the one named last is read, in pieces that nobody can guess, and edited."""
    files = [f"src/part{number}/{name}.py" for name in ("a", "b", "c")]
    events: list[Event] = [Said("Fix it."), *step((call("grep", pattern=f"x{number}"), "\n".join(files)))]
    for at in range(3):
        read = call("read", file=files[2], offset=number * 17 + at * 31)
        events += step((read, "some code"))
    return events


def everything(_: ToolCall) -> bool:
    return True


def values(seen: Resources, most: int = 10) -> list[str]:
    return [one.value for one in seen.ranked(beginning(), most)]


def touched(seen: Resources, *files: str) -> None:
    seen.learn(None, [call("read", file=file) for file in files], everything)


def test_a_file_that_was_read_is_likely_to_be_read_again() -> None:
    predictor = learn(Predictor(), map(editing, range(20)))
    found = play(predictor, editing(50)[:5]).resources(2)
    assert (found[0].kind, found[0].value) == ("path", "src/part50/c.py")
    assert found[0].probability > 0.5 > found[1].probability
    assert found[0].evidence == "called once, named twice, last by a call in or since the last reply"


def the_last_of_a_list(sessions: int) -> list[str]:
    """The order in which the files of a list stand, after `sessions` in which the last one was read."""
    model = beginning()
    for number in range(sessions):
        seen = Resources()
        seen.named(f"src{number}/a.py src{number}/b.py src{number}/c.py", "result")
        seen.learn(model, [call("read", file=f"src{number}/c.py")], everything)
    seen = Resources()
    seen.named("a.d/a.py a.d/b.py a.d/c.py", "result")
    return [one.value[-4] for one in seen.ranked(model, 3)]


def test_which_file_of_a_list_is_read_is_learned() -> None:
    assert the_last_of_a_list(0) == ["a", "b", "c"]
    assert the_last_of_a_list(160) == ["c", "b", "a"]


def test_before_anything_was_learned_what_was_named_last_comes_first() -> None:
    seen = Resources()
    seen.named("a/one.py b/two.py", "user")
    seen.named("c/three.py d/four.py", "result")
    assert values(seen) == ["c/three.py", "d/four.py", "a/one.py", "b/two.py"]


def returning(number: int) -> list[list[ToolCall]]:
    """The replies of a session that looks into its notes after every other file."""
    notes = call("read", file=f"home{number}/notes.md")
    return [[one] for at in range(6) for one in (call("read", file=f"src{number}/file{at}.py"), notes)]


def rank_of_the_notes(sessions: Sequence[int], *, learns: bool = True) -> int:
    """Where the notes stand when they are read next, after `sessions` were learned from."""
    model = beginning()
    for number in sessions:
        seen = Resources()
        for calls in returning(number):
            seen.learn(model if learns else None, calls, everything)
    seen = Resources()
    for calls in returning(99)[:-1]:
        seen.learn(None, calls, everything)
    return [one.value for one in seen.ranked(model, 20)].index("home99/notes.md")


def test_what_is_read_again_and_again_comes_before_what_was_read_last() -> None:
    assert rank_of_the_notes(range(40)) == 0
    assert rank_of_the_notes(range(40), learns=False) > 0  # recency alone


def test_what_was_written_does_not_count_as_read() -> None:
    def after(reads: bool) -> float:
        model = beginning()
        for number in range(40):
            seen = Resources()
            for _ in range(4):
                seen.learn(model, [call("edit", file=f"src/{number}.py")], lambda _: reads)
        return seen.ranked(model, 1)[0].probability

    assert after(reads=True) > 0.5
    assert after(reads=False) < 0.1


def test_a_short_name_stands_for_the_file_that_is_known_by_it() -> None:
    seen = Resources()
    touched(seen, "/work/src/deep/main.py", "/work/src/other.py")
    seen.named("a failure in deep/main.py", "result")
    assert values(seen)[0] == "/work/src/deep/main.py"
    assert "deep/main.py" not in values(seen)
    seen.named("a failure in steep/main.py", "result")  # another file of that name
    assert values(seen)[0] == "steep/main.py"


def test_a_file_named_in_short_is_known_in_full_once_a_call_has_named_it() -> None:
    seen = Resources()
    seen.named("look at deep/main.py", "user")
    touched(seen, "/work/src/deep/main.py")
    assert "/work/src/deep/main.py" in values(seen)
    assert "deep/main.py" not in values(seen)


def test_the_folder_of_a_file_that_was_touched_is_one_to_look_into() -> None:
    seen = Resources()
    touched(seen, "/work/src/deep/main.py")
    assert set(values(seen)) == {"/work/src/deep/main.py", "/work/src/deep"}


def test_what_came_up_long_ago_is_forgotten() -> None:
    seen = Resources()
    for number in range(3 * MOST):
        seen.named(f"notes{number}/a.py b{number}.py", "result")
        touched(seen, f"/src{number}/c.py")
    assert all(0 < len(table) <= MOST for table in seen._known.values())
    assert len(seen._whole) == len(seen._followed) == MOST


def test_what_was_learned_of_resources_outlasts_the_process() -> None:
    predictor = learn(Predictor(), map(editing, range(20)))
    again = Predictor(Knowledge.load(predictor.knowledge.dump()))
    found = play(again, editing(50)[:5]).resources(2)
    same = play(predictor, editing(50)[:5]).resources(2)
    assert [one.value for one in found] == [one.value for one in same]
    assert found[0].probability == pytest.approx(same[0].probability, abs=0.05)
    assert found[0].probability > 0.5 > play(Predictor(), editing(50)[:5]).resources(1)[0].probability


def test_a_supposition_does_not_change_what_was_touched() -> None:
    predictor = learn(Predictor(), map(editing, range(20)))
    history = play(predictor, editing(50)[:3])
    before = history.resources()
    deeper = history.supposing(call("read", file="other/place.py"), "see also www.example.com/page")
    assert deeper.resources() != before == history.resources()
