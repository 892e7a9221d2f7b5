"""The sets of markers that are weighed hold the best of all, and what the ledger holds stays in bounds."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

import pytest

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.expectation import View, expected_cost, reaches_minimum, scene_of
from agentaccel.cache.ledger import Breakpoint, Entry, Ledger
from agentaccel.cache.planner import _candidates, plan
from agentaccel.cache.prefix import prefixes
from agentaccel.cache.state import SessionState
from agentaccel.facts import cache_facts
from agentaccel.wire.anthropic import decode
from tests.driver import Driver, Json, assistant, body, prose, user

FACTS = cache_facts("claude-sonnet-5")
SIZES = (10, 500, 8_000, 40_000, 200_000)


def request_of(chance: random.Random) -> Json:
    def text() -> Json:
        return {"type": "text", "text": "x" * chance.choice(SIZES)}

    made: Json = {"model": "claude-sonnet-5", "system": [text() for _ in range(chance.randint(0, 3))]}
    made["tools"] = [{"name": f"t{i}", "description": "d" * chance.choice(SIZES)} for i in range(chance.randint(0, 3))]
    roles = ("user", "assistant")
    made["messages"] = [
        {"role": roles[i % 2], "content": [text() for _ in range(chance.choice([1, 2, 30]))]}
        for i in range(chance.choice([1, 3, 5, 9]))
    ]
    return made


def beliefs_of(chance: random.Random) -> Beliefs:
    counts: dict[str, tuple[float, float]] = {}
    for topic in ("goes_on/0", "goes_on/1", "goes_on/2", "pause/any/300", "shared", "repeated"):
        n = chance.randint(0, 40)
        counts[topic] = (float(chance.randint(0, n)), float(n))
    for place in chance.sample(["tools", "system[0]", "system[1]", "messages[0].content[0]", "any"], 2):
        n = chance.randint(1, 6)
        counts[f"stable/{place}"] = (float(chance.randint(0, n)), float(n))
    return Beliefs(counts)


@pytest.mark.slow
@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.soak) for block in range(1, 8))])
def test_no_set_of_candidates_is_cheaper_than_the_one_that_is_chosen(block: int) -> None:
    """All sets are looked at here; a hundredth is what the short cut may cost where reading something hides it."""
    assert FACTS is not None
    for seed in range(block * 30, block * 30 + 30):
        chance = random.Random(seed)
        prefix = prefixes(decode(request_of(chance), FACTS), FACTS)
        held = chance.sample(range(len(prefix.hashes)), min(len(prefix.hashes), chance.randint(0, 3)))
        ledger = Ledger({prefix.hashes[i]: Entry("5m", 300.0, 0.0, at=i) for i in held})
        view = View(state=SessionState(ledger=ledger, turns=1), beliefs=beliefs_of(chance), now=100.0)
        chosen, scene = plan(prefix, view).plan, scene_of(prefix, view)
        candidates = [one for one in _candidates(scene, scene.ttl) if reaches_minimum(scene.scale, FACTS, one.at)]
        bare = expected_cost(scene, ())
        costs = (expected_cost(scene, some) for n in range(5) for some in combinations(candidates, n))
        least = min(costs, default=bare)
        assert chosen.saving is not None
        assert bare - chosen.saving <= least + 0.01 * abs(least) + 1e-6, f"seed {seed}"


@pytest.mark.slow
def test_a_longer_life_that_reaches_no_farther_than_what_is_read_is_never_cheaper() -> None:
    """So it need not be weighed."""
    assert FACTS is not None
    tried = 0
    for seed in range(60):
        chance = random.Random(seed)
        prefix = prefixes(decode(request_of(chance), FACTS), FACTS)
        held = chance.sample(range(len(prefix.hashes)), min(len(prefix.hashes), chance.randint(1, 3)))
        ledger = Ledger({prefix.hashes[i]: Entry("5m", 300.0, 0.0, at=i) for i in held})
        slow = Beliefs({f"pause/any/{edge}": (float(edge == 3600), 1.0) for edge in (60, 300, 600, 1200, 1800, 3600)})
        view = View(state=SessionState(ledger=ledger, turns=1), beliefs=beliefs_of(chance).joined(slow), now=100.0)
        scene = scene_of(prefix, view)
        short = sorted(_candidates(scene, scene.ttl), key=lambda one: one.at)[:4]
        read = scene.found(short[-1].at) if short else -1
        for count in range(1, len(short) + 1):
            if short[count - 1].at <= read:
                some = (*(one._replace(mark=Breakpoint(one.at, "1h")) for one in short[:count]), *short[count:])
                assert expected_cost(scene, some) >= expected_cost(scene, short) - 1e-6, f"seed {seed}"
                tried += 1
    assert tried > 20


def test_a_server_tool_that_goes_leaves_the_tools_behind_it_held() -> None:
    assert FACTS is not None
    plain, search = {"name": "a", "description": prose(900)}, {"type": "web_search_20250305", "name": "web_search"}
    both = prefixes(decode({"tools": [search, plain], "messages": []}, FACTS), FACTS)
    alone = prefixes(decode({"tools": [plain], "messages": []}, FACTS), FACTS)
    ledger = Ledger({both.hashes[1]: Entry("5m", 300.0, 0.0, at=1)})
    assert set(ledger.on(alone)) == {0}


@pytest.mark.slow
def test_marked_instructions_that_keep_changing_do_not_crowd_out_the_tail(tmp_path: Path) -> None:
    """Forty variants of a system prompt that the user marks, and then it stays as it is."""
    driver, mark = Driver(tmp_path), {"type": "ephemeral"}
    messages: list[Json] = [user(prose(900))]
    for turn in range(46):
        system = [{"type": "text", "text": f"{min(turn, 40)} {prose(900)}", "cache_control": mark}]
        usage = driver.ask(body(*messages, system=system), gap=2.0)
        messages += [assistant(prose(40, turn)), user(prose(40, turn + 1))]
    last = driver.records[-1]
    assert last.expected is not None
    assert last.expected.read == usage.read
    assert usage.read is not None
    assert usage.read > 0
