"""The tests of the decision bite: without any single guard they fail."""

from __future__ import annotations

from tests.mutants import Mutant, biting, running

GUARDS = (
    Mutant(
        guard="launching what its effect forbids",
        at="agentaccel.predict.launch:_forbidden",
        old='    if candidate.launchable not in ("predicted", "asked"):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="guesses that leave the machine without consent",
        at="agentaccel.predict.launch:_forbidden",
        old='    if candidate.launchable == "asked" and not candidate.egress:\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="privacy for nothing",
        at="agentaccel.predict.launch:_Scale.weigh",
        old="            net -= self._prices.privacy\n",
        new="            pass\n",
    ),
    Mutant(
        guard="taking the last slot of real calls",
        at="agentaccel.predict.launch:_Room.slots",
        old="host.free if at_once else host.free - max(host.needed, 1))",
        new="host.free)",
    ),
    Mutant(
        guard="more runs than there are slots",
        at="agentaccel.predict.launch:_Room.take",
        old="        if self._by_host.get(host, 0) >= self.slots(candidate):\n",
        new="        if self.slots(candidate) <= 0:\n",
    ),
    Mutant(
        guard="delays of real calls that nobody charges",
        at="agentaccel.predict.launch:_Scale.weigh",
        old="            net -= (1.0 - next_) * run.pressed * candidate.gives_back\n",
        new="            pass\n",
    ),
    Mutant(
        guard="using up the rate limit of real calls",
        at="agentaccel.predict.launch:_forbidden",
        old="    if host is not None and host.headroom < prices.headroom:\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="waste for nothing",
        at="agentaccel.predict.launch:_Scale.weigh",
        old=" - (1.0 - ever) * run.price * cost",
        new="",
    ),
    Mutant(
        guard="starting for nothing what is over at once",
        at="agentaccel.predict.launch:_Scale.weigh",
        old=" - (1.0 - ever) * run.price * cost - self._start",
        new=" - (1.0 - ever) * run.price * cost",
    ),
    Mutant(
        guard="guesses of one moment that use a rate limit up together",
        at="agentaccel.predict.launch:_Room.slots",
        old="        if host is not None and host.rate is not None:",
        new="        if False:",
    ),
    Mutant(
        guard="launches without budget",
        at="agentaccel.predict.launch:_Room.__init__",
        old='            (budget, "enough at one moment"),\n',
        new="",
    ),
    Mutant(
        guard="more waiting results than a session may have",
        at="agentaccel.predict.launch:_Room.__init__",
        old='            (prices.per_session - load.kept, "enough for one session"),\n',
        new="",
    ),
    Mutant(
        guard="more runs under way than there may be",
        at="agentaccel.predict.launch:_Room.__init__",
        old='            (prices.altogether - load.running, "enough altogether"),\n',
        new="",
    ),
    Mutant(
        guard="going on with a pattern that is never right",
        at="agentaccel.predict.launch:_Room.take",
        old="        if self._by_rule.get(rule, 0) >= self._breakers.room(rule, self._now):\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="going on where guesses are all wrong",
        at="agentaccel.predict.launch:_Room.__init__",
        old='            (self._breakers.room(ALL, now), "speculation does not pay here"),\n',
        new="",
    ),
    Mutant(
        guard="trying again and again after a failed trial",
        at="agentaccel.predict.breaker:Record._judge",
        old="min(2 * self.rest, stated().most_rest)",
        new="self.rest",
    ),
    Mutant(
        guard="never trying again",
        at="agentaccel.predict.breaker:Record.room",
        old="return 1 if rested else 0",
        new="return 0",
    ),
    Mutant(
        guard="several trials at once",
        at="agentaccel.predict.breaker:Breakers.launched",
        old="                record.tried = now\n",
        new="                pass\n",
    ),
    Mutant(
        guard="believing what does not come true",
        at="agentaccel.predict.breaker:Record.trust",
        old="return min((self.used + prior * like) / (self.expected + prior), 1.0)",
        new="return 1.0",
    ),
    Mutant(
        guard="believing more than was stated",
        at="agentaccel.predict.breaker:Record.trust",
        old="return min((self.used + prior * like) / (self.expected + prior), 1.0)",
        new="return (self.used + prior * like) / (self.expected + prior)",
    ),
    Mutant(
        guard="waste at the price of no waste",
        at="agentaccel.predict.experience:Experience.settled",
        old="prices.price_step * ((not used) - prices.wasted_share)",
        new="0.0",
    ),
)

COMMAND = running("tests/predict/test_decide.py", "tests/predict/test_breaker.py")

test_the_tests_fail_without_the_guard, test_with_every_guard_they_pass = biting(GUARDS, COMMAND)
