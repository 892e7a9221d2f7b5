"""The model that ranks candidates, and what it is told of rules."""

from __future__ import annotations

import math
import random
from statistics import pstdev

from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.predictor import Predictor
from agentaccel.predict.rank import Logistic
from tests.predict.loops import learn
from tests.predict.test_resources import editing


def test_what_is_stated_swings_less_than_the_weights_that_learn() -> None:
    model, chance = Logistic([0.0]), random.Random(5)
    stated, moving = [], []
    for _ in range(3000):
        model.learn([1.0], chance.random() < 0.3)
        stated.append(model.of([1.0]))
        moving.append(1.0 / (1.0 + math.exp(-model._moving[0])))
    assert abs(stated[-1] - 0.3) < 0.03
    assert 3 * pstdev(stated[-1000:]) < pstdev(moving[-1000:])


def test_a_model_that_is_read_from_a_file_learns_on_from_there() -> None:
    model = Logistic([0.0])
    model.weights = [2.0]
    model.resume()
    model.seen = 100.0
    model.learn([1.0], True)
    assert 0.85 < model.of([1.0]) < 0.9


def test_what_was_expected_of_rules_is_counted_and_outlasts_the_process() -> None:
    knowledge = learn(Predictor(), map(editing, range(10))).knowledge
    again = Knowledge.load(knowledge.dump())
    assert again.rules.keys() == knowledge.rules.keys()
    for name, rule in knowledge.rules.items():
        assert 0.0 < rule.expected <= rule.met
        assert math.isclose(again.rules[name].expected, rule.expected)


def test_a_dump_without_expectations_holds_nothing_against_a_rule() -> None:
    knowledge = learn(Predictor(), map(editing, range(10))).knowledge
    dump = knowledge.dump()
    for rule in dump["rules"].values():
        del rule["expected"]
    assert all(rule.expected == rule.right for rule in Knowledge.load(dump).rules.values())
