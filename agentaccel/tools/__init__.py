"""One tool call: answered by an early run or executed, and what is run early, when, and for whom."""

from agentaccel.former import former

__getattr__ = former(
    __name__, {name: f"agentaccel.executors.{name}" for name in ("Folder", "Http", "Ran", "Shell", "Sql")}
)
