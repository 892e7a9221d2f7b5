"""What was learned over all sessions, and can outlast the process."""

from __future__ import annotations

from agentaccel.locks import Lock
from agentaccel.speculate.calibrate import Calibration
from agentaccel.speculate.ctw import Tree
from agentaccel.speculate.rank import beginning
from agentaccel.speculate.tables import Sensitive, Tables

MOST_WORKLOADS = 32
MOST_RULES = 4096


class Rule:
    """How a pattern fared."""

    __slots__ = ("met", "right", "soon")

    def __init__(self, met: float = 0.0, right: float = 0.0, soon: float = 0.0) -> None:
        self.met, self.right, self.soon = met, right, soon


class Knowledge:
    """What sessions have learned; shared by all of one `Predictor`."""

    def __init__(self, *, sensitive: Sensitive | None = None) -> None:
        self.lock = Lock()
        self.sensitive = sensitive
        self.fleet = Tree()
        self.workloads: dict[str, Tree] = {}
        self.tables = Tables()
        self.rules: dict[str, Rule] = {}
        self.next, self.soon = beginning(), beginning()
        self.next_said, self.soon_said = Calibration(), Calibration()

    def tree_of(self, workload: str) -> Tree:
        tree = self.workloads.pop(workload, None) or Tree()
        self.workloads[workload] = tree
        if len(self.workloads) > MOST_WORKLOADS:
            del self.workloads[next(iter(self.workloads))]
        return tree

    def rule(self, name: str) -> Rule:
        rule = self.rules.get(name)
        if rule is None:
            if len(self.rules) >= MOST_RULES:
                by_use = sorted(self.rules, key=lambda one: self.rules[one].met)
                for one in by_use[: MOST_RULES // 4]:
                    del self.rules[one]
            rule = self.rules[name] = Rule()
        return rule
