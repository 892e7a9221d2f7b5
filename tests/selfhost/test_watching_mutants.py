"""The tests of watching bite: without any single guard they fail."""

from __future__ import annotations

from tests.mutants import Mutant, biting, running

GUARDS = (
    Mutant(
        guard="findings of a single window",
        at="agentaccel.selfhost.watching:_Count.turns",
        old="if self.windows < after:",
        new="if False:",
    ),
    Mutant(
        guard="windows that are not in a row",
        at="agentaccel.selfhost.watching:_Count.turns",
        old="0 if holds is self.said else self.windows + 1",
        new="self.windows + (holds is not self.said)",
    ),
    Mutant(
        guard="findings that are said again and again",
        at="agentaccel.selfhost.watching:_Count.turns",
        old="self.said, self.windows = holds, 0",
        new="self.windows = 0",
    ),
    Mutant(
        guard="findings that end as soon as one window is better",
        at="agentaccel.selfhost.watching:_Count.turns",
        old="self.said, self.windows = holds, 0",
        new="self.said, self.windows = holds, after - 1 if holds else 0",
    ),
    Mutant(
        guard="what was usual of an engine that was started anew",
        at="agentaccel.selfhost.watching:Watcher.see",
        old="self._counts, self._usual = {}, (_First(), _First(), _First())",
        new="self._counts = {}",
    ),
    Mutant(
        guard="what was open of an engine that was started anew",
        at="agentaccel.selfhost.watching:Watcher.see",
        old="self._counts, self._usual = {}, (_First(), _First(), _First())",
        new="self._usual = (_First(), _First(), _First())",
    ),
    Mutant(
        guard="a window in which an engine was started anew",
        at="agentaccel.selfhost.watching:Watcher.see",
        old='return (Proposal(kind="restarted", seen=f"{names} was started anew."),)',
        new='return (Proposal(kind="restarted", seen=f"{names} was started anew."), *self._told(figures))',
    ),
    Mutant(
        guard="a window that is itself the measure of what is usual",
        at="agentaccel.selfhost.watching:Watcher.see",
        old="told = tuple(self._told(figures))",
        new="told = self._told(figures)",
    ),
    Mutant(
        guard="what is usual that moves along",
        at="agentaccel.selfhost.watching:_First.add",
        old="and len(self.values) < most:",
        new=":\n            del self.values[: len(self.values) - most + 1]",
    ),
    Mutant(
        guard="what is usual of a single window",
        at="agentaccel.selfhost.watching:_First.known",
        old="if len(self.values) == most else None",
        new="if self.values else None",
    ),
    Mutant(
        guard="another workload that stays another one",
        at="agentaccel.selfhost.watching:Watcher._told",
        old="self._usual, count.said = (_First(), _First(), self._usual[-1]), False",
        new="count.said = False",
    ),
    Mutant(
        guard="a second workload that is another one",
        at="agentaccel.selfhost.watching:Watcher._told",
        old="self._usual, count.said = (_First(), _First(), self._usual[-1]), False",
        new="self._usual = (_First(), _First(), self._usual[-1])",
    ),
    Mutant(
        guard="loads that are forgotten with the workload",
        at="agentaccel.selfhost.watching:Watcher._told",
        old="(_First(), _First(), self._usual[-1])",
        new="(_First(), _First(), _First())",
    ),
    Mutant(
        guard="proposals for what is over",
        at="agentaccel.selfhost.watching:Watcher._told",
        old='found.propose if found.holds else ""',
        new='found.propose or "Change it."',
    ),
    Mutant(
        guard="windows with few tokens of output",
        at="agentaccel.selfhost.watching:_telling",
        old="and (figures.output or 0.0) >= policy.least_output",
        new="",
    ),
    Mutant(
        guard="engines that guess nothing ahead",
        at="agentaccel.selfhost.watching:_telling",
        old="(figures.drafted or 0.0) > 0.0 and",
        new="",
    ),
    Mutant(
        guard="windows with few prompt tokens",
        at="agentaccel.selfhost.watching:_telling",
        old="figures.hit_rate if prompts else None",
        new="figures.hit_rate",
    ),
    Mutant(
        guard="loads of windows that tell nothing of drafts",
        at="agentaccel.selfhost.watching:_telling",
        old="figures.running if drafts else None",
        new="figures.running",
    ),
    Mutant(
        guard="loads below those that break-even was measured for",
        at="agentaccel.selfhost.watching:WatchPolicy.least",
        old="asked[-1] if asked else 0.0",
        new="asked[-1] if asked else self.break_even[0][1]",
    ),
    Mutant(
        guard="an idle moment at the end of a window",
        at="agentaccel.selfhost.watching:WatchPolicy.least",
        old="max(load, 1) >= at",
        new="load >= at",
    ),
    Mutant(
        guard="loads that are not reported",
        at="agentaccel.selfhost.watching:WatchPolicy.least",
        old="return min(self.least(at) for at in (1, *dict(self.break_even)))",
        new="return max(self.least(at) for at in (1, *dict(self.break_even)))",
    ),
    Mutant(
        guard="a load that is not reported, and said",
        at="agentaccel.selfhost.watching:_break_even",
        old='"" if not figures.running else f" with {_requests(figures.running)} at once"',
        new='f" with {_requests(figures.running or 0.0)} at once"',
    ),
    Mutant(
        guard="break-even beside the load that explains it",
        at="agentaccel.selfhost.watching:_break_even",
        old=" or _is_the_load(usual, figures, policy)",
        new="",
    ),
    Mutant(
        guard="drafts that pay again by a hair",
        at="agentaccel.selfhost.watching:_break_even",
        old="if value >= least * _MARGIN else None",
        new="",
    ),
    Mutant(
        guard="a load that was there from the first",
        at="agentaccel.selfhost.watching:_is_the_load",
        old="policy.least(load) > least and",
        new="",
    ),
    Mutant(
        guard="drafts that would not have paid at the load of before",
        at="agentaccel.selfhost.watching:_is_the_load",
        old="and value >= least and",
        new="and",
    ),
    Mutant(
        guard="drafts that are guessed worse under load",
        at="agentaccel.selfhost.watching:_is_the_load",
        old="and not _differs(value, usual.tokens_per_step, policy.change)",
        new="",
    ),
    Mutant(
        guard="loads under which drafts have begun not to pay",
        at="agentaccel.selfhost.watching:_load",
        old="if value < least and _is_the_load(usual, figures, policy):",
        new="if value < least:",
    ),
    Mutant(
        guard="loads that are over while drafts do not pay",
        at="agentaccel.selfhost.watching:_load",
        old="    if value >= least:\n",
        new="    if True:\n",
    ),
    Mutant(
        guard="workloads that full memory explains",
        at="agentaccel.selfhost.watching:_workload",
        old="or (lost is not None and lost.holds)",
        new="",
    ),
    Mutant(
        guard="windows that tell nothing, taken for the workload of before",
        at="agentaccel.selfhost.watching:_workload",
        old="now == _Now() or",
        new="",
    ),
    Mutant(
        guard="shares of prompts near nothing that double",
        at="agentaccel.selfhost.watching:_workload",
        old="now.hit_rate, _READ)",
        new="now.hit_rate, 0.0)",
    ),
    Mutant(
        guard="values that a quarter is nothing to",
        at="agentaccel.selfhost.watching:_differs",
        old="min(low * (1 - change), low - least)",
        new="low - least",
    ),
    Mutant(
        guard="values that rise",
        at="agentaccel.selfhost.watching:_differs",
        old="or value > max(high * (1 + change), high + least)",
        new="",
    ),
    Mutant(
        guard="values that are as high as the highest of before",
        at="agentaccel.selfhost.watching:_differs",
        old="value > max(high * (1 + change), high + least)",
        new="value > max(low * (1 + change), low + least)",
    ),
    Mutant(
        guard="prefixes that are lost in memory that is not full",
        at="agentaccel.selfhost.watching:_prefixes",
        old="and figures.kv_use >= _FULL:",
        new=":",
    ),
    Mutant(
        guard="full memory in which prefixes are read as ever",
        at="agentaccel.selfhost.watching:_prefixes",
        old="usual.hit_rate.low - rate > _EVICTED and",
        new="",
    ),
    Mutant(
        guard="prefixes that are said to be read again, and are not",
        at="agentaccel.selfhost.watching:_prefixes",
        old="if over else None",
        new="",
    ),
    Mutant(
        guard="queues of what is computed",
        at="agentaccel.selfhost.watching:_queue",
        old="figures.waiting <= figures.running:",
        new="figures.waiting <= 0:",
    ),
    Mutant(
        guard="queues that are not reported",
        at="agentaccel.selfhost.watching:_queue",
        old="    if figures.waiting is None or figures.running is None:\n        return None\n",
        new="    if figures.waiting is None:\n        return None\n"
        "    figures = __import__('dataclasses').replace(figures, running=figures.running or 0.0)\n",
    ),
    Mutant(
        guard="drafts of an engine that has none, under a queue",
        at="agentaccel.selfhost.watching:_queue",
        old="if drafts else",
        new="if True else",
    ),
    Mutant(
        guard="pairs of break-even that do not rise",
        at="agentaccel.selfhost.watching:WatchPolicy.__post_init__",
        old="or loads != sorted(set(loads))",
        new="",
    ),
    Mutant(
        guard="loads of less than one request",
        at="agentaccel.selfhost.watching:WatchPolicy.__post_init__",
        old="and load >= 1",
        new="",
    ),
    Mutant(
        guard="engines that took longer than a window to start anew",
        at="agentaccel.cli.watch:_windows",
        old="backend.observe(since=seen)",
        new="backend.observe()",
    ),
    Mutant(
        guard="what is counted of the others while one is gone",
        at="agentaccel.selfhost.attach:Window._close",
        old="(after, self._before) if self.figures.missing else (self._before, after)",
        new="(self._before, after)",
    ),
    Mutant(
        guard="counters that are counted twice",
        at="agentaccel.selfhost.attach:Window._close",
        old="(after, self._before) if self.figures.missing else (self._before, after)",
        new="(after, self._before)",
    ),
    Mutant(
        guard="findings that a cron job does not hear of",
        at="agentaccel.cli.watch:watch_command",
        old="if once and last is not None and last.proposals:",
        new="if False:",
    ),
    Mutant(
        guard="findings of --once that wait for three windows",
        at="agentaccel.cli.watch:_policy",
        old='{"holds": 1} if once else {}',
        new="{}",
    ),
    Mutant(
        guard="servers without counters, taken for idle ones",
        at="agentaccel.cli.watch:watch_command",
        old="if last is not None and last.figures.prompt is None and last.figures.output is None:",
        new="if False:",
    ),
    Mutant(
        guard="digits that a narrow terminal cuts off",
        at="agentaccel.cli.watch:drawn",
        old=', overflow="fold"',
        new="",
    ),
    Mutant(
        guard="news below the end of the terminal",
        at="agentaccel.cli.watch:screen",
        old="said.extendleft(",
        new="said.extend(",
    ),
    Mutant(
        guard="a table that leaves no line for what is said",
        at="agentaccel.cli.watch:screen",
        old="list(rows)[-fit:]",
        new="rows",
    ),
)

COMMAND = [
    *running("tests/selfhost/test_watching.py", "tests/cli/test_watch.py", "tests/selfhost/test_attach.py"),
    *("-o", "timeout=30"),
]

test_they_fail_without_the_guard, test_with_every_guard_they_pass = biting(GUARDS, COMMAND)
