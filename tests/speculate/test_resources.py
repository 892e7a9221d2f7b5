"""Files and pages that are likely to be touched next."""

from __future__ import annotations

from agentaccel.speculate.events import Event, Said
from agentaccel.speculate.predict import Predictor
from tests.speculate.loops import call, learn, play, step


def editing(number: int) -> list[Event]:
    """A search names three files; the one named last is read, in pieces that nobody can guess, and edited."""
    files = [f"src/part{number}/{name}.py" for name in ("a", "b", "c")]
    events: list[Event] = [Said("Fix it."), *step((call("grep", pattern=f"x{number}"), "\n".join(files)))]
    for at in range(3):
        read = call("read", file=files[2], offset=number * 17 + at * 31)
        events += step((read, "some code"))
    return events


def test_a_file_that_was_read_is_likely_to_be_read_again() -> None:
    predictor = learn(Predictor(), map(editing, range(20)))
    found = play(predictor, editing(50)[:5]).resources(2)
    assert (found[0].kind, found[0].value) == ("path", "src/part50/c.py")
    assert found[0].probability > 0.5 > found[1].probability
    assert "called last" in found[0].evidence


def test_a_file_that_a_result_names_is_likely_to_be_read() -> None:
    predictor = learn(Predictor(), map(editing, range(20)))
    assert play(predictor, editing(50)[:3]).resources(1)[0].value == "src/part50/c.py"


def test_a_supposition_does_not_change_what_was_touched() -> None:
    predictor = learn(Predictor(), map(editing, range(20)))
    history = play(predictor, editing(50)[:3])
    before = history.resources()
    deeper = history.supposing(call("read", file="other/place.py"), "see also www.example.com/page")
    assert deeper.resources() != before == history.resources()
