"""Tier 1: a call that reads is begun the moment the model has written it, before its message ends.

It needs no prediction, and a remote read is allowed, because the model did ask. Each call is begun once: a stream that
was dropped and is retried finds the runs of the first attempt waiting. A tool whose early results are never asked for,
because the loop gives it other arguments than the model wrote, is left alone after a while.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from agentaccel.session.conversation import Conversation
from agentaccel.session.launching import Launcher, Step
from agentaccel.session.tools import Tool
from agentaccel.speculate.buffer import Entry, State
from agentaccel.speculate.order import Order, Placed
from agentaccel.types import ToolCall


@dataclass(frozen=True, slots=True)
class Eager:
    """Begins what the model has asked for. Thread-safe, but for one message, which comes in on one thread."""

    launcher: Launcher

    def asked(self, step: Step, call: ToolCall) -> None:
        """The arguments of `call` are complete; its message may still go on."""
        order, tools = step.following.order, self.launcher.serving.tools
        if not self.launcher.policy.eager or order is None or step.following.step != step.number:
            return
        tool, judging = tools.of(call.name, step.conversation.id), self.launcher.serving.judging
        placed = Placed(call, tool.identity(call.arguments), False)
        if tool.function is not None and judging.look(tool, call, partial(self._looked, step, order, tool, placed)):
            placed = placed._replace(reads=judging.reads(tool, call))
        for one in order.closed(placed):
            self._launch(step, order, one)

    def _looked(self, step: Step, order: Order, tool: Tool, placed: Placed) -> None:
        """It is known by now what a call does, which stood in its place as one that may write until then."""
        serving = self.launcher.serving
        if step.following.order is not order or not serving.judging.reads(tool, placed.call):
            return
        for one in order.reads(placed):
            self._launch(step, order, one)

    def wrote(self, call: ToolCall, tool: Tool, conversation: Conversation) -> None:
        """A call that may write has ended: what waited for it in its message may be begun."""
        following = conversation.following
        order = following.order
        if order is None:
            return
        step = Step(conversation, following, True, following.step)
        for one in order.done(call.name, tool.identity(call.arguments)):
            self._launch(step, order, one)

    def _launch(self, step: Step, order: Order, placed: Placed) -> None:
        launcher, call = self.launcher, placed.call
        tool = launcher.runnable(step.conversation, call)
        key = launcher.key(step.conversation, tool, call) if tool is not None else None
        if tool is None or key is None or launcher.remembered(tool, key) or step.following.order is not order:
            return
        serving = launcher.serving
        if not serving.judging.look(tool, call, partial(self._launch, step, order, placed)):
            return  # it is begun once that is known
        if (
            serving.buffer.waits(key) >= order.copies(placed)
            or serving.writes.is_looked_at(tool, call)  # its own run was not long in coming
            or launcher.may(step, tool, call).launch == "never"
        ):
            return
        rule = f"asked {tool.name}"
        now, track = launcher.clock.wall(), launcher.serving.track
        with track.lock:
            if track.experience.breakers.room(rule, now) < 1:
                return
        if launcher.launch(step, tool, call, "asked", told=self._settles(rule)) is not None:
            track.learn(lambda experience: experience.breakers.launched(rule, now))

    def _settles(self, rule: str) -> Callable[[Entry], None]:
        track, clock = self.launcher.serving.track, self.launcher.clock

        def settled(entry: Entry) -> None:
            used, now = entry.state is State.SERVED, clock.wall()
            track.learn(lambda experience: experience.breakers.settled(rule, 1.0, used=used, now=now))

        return settled
