"""Whether a predicted call is run early."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.effects.spec import ToolSpec
from agentaccel.policy import ToolPolicy
from agentaccel.predict.breaker import stated
from agentaccel.predict.experience import Experience
from agentaccel.predict.launch import Decision, Host, LaunchCandidate, Load, decide
from agentaccel.tools.catalog import FADES, KnownTool, Tools
from agentaccel.types import Launchable, Prediction, ToolCall

EFFECTS: tuple[Launchable, ...] = ("predicted", "asked", "never")


def experience(seconds: float = 2.0) -> Experience:
    """Every tool takes so long, and replies three seconds."""
    learned = Experience()
    for _ in range(50):
        learned.latencies.saw("search", seconds)
        learned.replied(3.0)
    return learned


def guess(probability: float, name: str = "a", **more: object) -> LaunchCandidate:
    call = ToolCall(name="search", arguments={"query": name})
    prediction = Prediction(call=call, probability=probability, soon=probability, rule=str(more.pop("rule", "rule")))
    return replace(LaunchCandidate(prediction=prediction, launchable="predicted"), **more)  # type: ignore[arg-type]


def decided(
    *candidates: LaunchCandidate, learned: Experience | None = None, budget: int | None = None, **load: object
) -> Decision:
    learned = learned or experience()
    given_load = Load(**load)  # type: ignore[arg-type]
    return decide(candidates, experience=learned, runway=learned.runway(), load=given_load, now=0.0, budget=budget)


candidates = st.builds(
    guess,
    st.floats(0, 1),
    name=st.text("abc", max_size=2),
    launchable=st.sampled_from(EFFECTS),
    egress=st.booleans(),
    gives_back=st.sampled_from([None, 0.0, 0.02, 5.0]),
    host=st.sampled_from(["", "one"]),
    rule=st.sampled_from("pqr"),
)
hosts = st.builds(
    Host,
    free=st.none() | st.integers(0, 5),
    slots=st.just(5),
    needed=st.integers(0, 3),
    headroom=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    rate=st.none() | st.integers(1, 10),
)


def test_a_sure_slow_call_is_launched() -> None:
    """The floor of usefulness: what abstains from this is of no use."""
    assert decided(guess(0.95)).launch


def test_a_call_that_is_over_at_once_is_not_worth_starting() -> None:
    """Most calls of a coding agent take milliseconds: nothing is hidden, and starting costs."""
    assert decided(guess(0.95), learned=experience(0.0003)).refused[0][1] == "not worth it"


def test_an_unlikely_call_is_not_worth_its_waste() -> None:
    """One in a thousand."""
    assert decided(guess(0.001)).refused[0][1] == "not worth it"


@given(st.lists(candidates, max_size=20), hosts)
@settings(max_examples=100)
def test_what_its_effect_forbids_is_never_launched(given_: list[LaunchCandidate], host: Host) -> None:
    """However likely it is, and whatever else is launched."""
    done = decided(*given_, hosts={"one": host})
    allowed = [c.prediction for c in given_ if c.launchable == "predicted" or (c.launchable == "asked" and c.egress)]
    assert all(any(one is other for other in allowed) for one in done.launch)
    assert len(done.launch) + len(done.refused) == len(given_)


@pytest.mark.slow
@given(st.lists(candidates, max_size=20), hosts)
@settings(max_examples=100)
def test_the_last_free_slot_stays_with_real_calls(given_: list[LaunchCandidate], host: Host) -> None:
    """And as many as they need; only a run that gives its slot back at once may stand in one until they come."""
    done = decided(*given_, hosts={"one": host})
    launched = [c for c in given_ if c.host == "one" and any(c.prediction is one for one in done.launch)]
    if host.free is not None:
        at_once = stated().gives_back
        slow = [c for c in launched if c.gives_back is None or c.gives_back > at_once]
        assert len(launched) <= host.free
        assert not slow or len(slow) <= host.free - max(host.needed, 1)


def test_a_thread_does_not_take_the_last_slot_and_a_task_may() -> None:
    """The twin of the rule above: it is not kept by launching nothing."""
    one, two = Host(free=1, slots=1), Host(free=2, slots=2)
    assert decided(guess(0.9, host="one"), hosts={"one": one}).refused[0][1] == "no slot to spare"
    assert decided(guess(0.9, host="one", gives_back=0.02), hosts={"one": one}).launch
    assert decided(guess(0.9, host="one"), hosts={"one": two}).launch


def fanned_out(tool: KnownTool, calls: int) -> None:
    for _ in range(calls):
        tool.begins()
    tool.running -= calls


def test_one_large_turn_does_not_keep_threads_from_slots_for_ever() -> None:
    """What comes again keeps them, and the last free slot stays with real calls in any case."""
    tools = Tools(ToolPolicy())
    tool = tools.add("look", len, ToolSpec())
    for turn in range(200):
        fanned_out(tool, 4 if turn % 10 == 0 else 1)
        assert tools.running("look") == (0, 4)
    launched = 0
    for _ in range(int(4 / FADES)):
        fanned_out(tool, 1)
        host = Host(free=4, slots=4, needed=tools.running("look")[1])
        before, guesses = launched, [guess(0.9, name=one, host="one") for one in "abcd"]
        launched = len(decided(*guesses, hosts={"one": host}).launch)
        assert launched >= before
    assert launched == 3


def test_the_delay_of_giving_a_slot_back_that_real_calls_need_is_charged() -> None:
    """The same guess is worth it where another slot is free, and where the slot is back at once."""
    slow = guess(0.06, host="one", gives_back=0.09)
    scarce, plenty, learned = Host(free=1, slots=100), Host(free=100, slots=100), experience(8.0)
    assert decided(slow, learned=learned, hosts={"one": plenty}).launch
    dear = decided(slow, learned=learned, hosts={"one": replace(scarce, slots=1)})
    cheap = decided(replace(slow, gives_back=0.0), learned=learned, hosts={"one": replace(scarce, slots=1)})
    assert dear.refused
    assert cheap.launch


@given(st.floats(0, 1), st.floats(0, 1), st.lists(candidates, max_size=6), hosts)
@settings(max_examples=100)
def test_more_probability_never_turns_a_launch_into_a_refusal(
    low: float, high: float, others: list[LaunchCandidate], host: Host
) -> None:
    """Other things equal."""
    low, high = sorted((low, high))
    one = guess(low, host="one", gives_back=0.02, rule="own")
    other = replace(one, prediction=replace(one.prediction, probability=high, soon=high))
    if any(launched is one.prediction for launched in decided(one, *others, hosts={"one": host}).launch):
        assert any(launched is other.prediction for launched in decided(other, *others, hosts={"one": host}).launch)


@given(st.lists(candidates, max_size=20))
@settings(max_examples=30)
def test_without_budget_nothing_is_launched(given_: list[LaunchCandidate]) -> None:
    """Of the moment, of the session, or altogether."""
    assert not decided(*given_, budget=0).launch
    assert not decided(*given_, kept=stated().per_session).launch
    assert not decided(*given_, running=stated().altogether).launch


def test_budgets_leave_the_best() -> None:
    """At one moment."""
    many = [guess(0.3 + i / 100, name=str(i)) for i in range(30)]
    done = decided(*many)
    assert len(done.launch) == stated().per_trigger
    assert {why for _, why in done.refused} == {"enough at one moment"}
    assert min(one.probability for one in done.launch) > max(one.probability for one, _ in done.refused)


def test_a_guess_leaves_the_machine_only_where_its_owner_allows_it_and_at_a_price() -> None:
    """A remote read tells its host what the model was thought to want."""
    remote = guess(0.9, launchable="asked")
    assert decided(remote).refused[0][1] == "guesses may not leave the machine"
    assert decided(replace(remote, egress=True)).launch
    small = guess(0.04, launchable="asked", egress=True)
    assert decided(small).refused
    assert decided(replace(small, launchable="predicted")).launch


def test_what_is_left_of_a_rate_limit_belongs_to_real_calls() -> None:
    """Below a fifth."""
    host = Host(headroom=0.19)
    assert decided(guess(0.9, host="one"), hosts={"one": host}).refused[0][1] == "the rate limit is nearly used up"
    assert decided(guess(0.9, host="one"), hosts={"one": Host(headroom=0.9)}).launch


def test_guesses_of_one_moment_do_not_reach_into_it_together() -> None:
    """Of ten runs a minute three are used: five more may be begun, and two stay."""
    guesses = [guess(0.9, name=name, host="one") for name in "abcdefgh"]
    assert len(decided(*guesses, hosts={"one": Host(headroom=0.7, rate=10)}).launch) == 5
    assert len(decided(*guesses, hosts={"one": Host(headroom=0.7)}).launch) == 8


def test_load_makes_waste_dearer() -> None:
    """The same guess is worth it on an idle host and not on a busy one."""
    one = guess(0.08, host="one", gives_back=0.0)
    assert decided(one, hosts={"one": Host(free=8, slots=8)}).launch
    assert decided(one, hosts={"one": Host(free=2, slots=8, headroom=0.21)}).refused


def test_a_call_of_a_later_reply_has_a_longer_runway() -> None:
    """A run of ten seconds hides three of them before the next reply, and more before the one after."""
    slow = experience(10.0)
    runway = slow.runway()
    assert slow.latencies.overlap("search", runway.later) > slow.latencies.overlap("search", runway.next) + 1.0


@pytest.mark.parametrize("budget", [1, 3])
def test_a_budget_of_the_caller_holds(budget: int) -> None:
    """Less than what is stated."""
    assert len(decided(*(guess(0.9, name=str(i)) for i in range(5)), budget=budget).launch) == budget
