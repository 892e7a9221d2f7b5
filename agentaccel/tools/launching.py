"""What the tiers share: which runs may be begun now, and what is noted before they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from agentaccel.clock import Clock
from agentaccel.concurrency import in_a_loop
from agentaccel.effects.launch import Permission
from agentaccel.engine.conversation import Conversation
from agentaccel.policy import ToolPolicy
from agentaccel.predict.breaker import CHAINED
from agentaccel.predict.identity import Key, Principal
from agentaccel.predict.launch import Host, LaunchCandidate, Load
from agentaccel.predict.order import Order, OrderedCall
from agentaccel.tools.catalog import KnownTool, copied
from agentaccel.tools.early import EarlyRun, EarlyRunState, Tier
from agentaccel.tools.running import Runner
from agentaccel.tools.serving import Serving
from agentaccel.tools.transcript import SpeculationState
from agentaccel.types import Prediction, ToolCall
from agentaccel.validators import version_of


class CurrentRequest(NamedTuple):
    """A request under way, as far as it matters here."""

    conversation: Conversation
    following: SpeculationState
    acts: bool
    """Whether runs may be begun; else it is only counted what would have been."""
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Begins early runs for one `Accel`. Thread-safe."""

    policy: ToolPolicy
    clock: Clock
    serving: Serving
    runner: Runner

    def runnable(self, conversation: Conversation, call: ToolCall) -> KnownTool | None:
        """The tool that could run `call` here; None where there is none, or it is another's to run it."""
        tool = self.serving.tools.named(call.name, conversation.id)
        if tool is None or not tool.takes(call.arguments) or (tool.is_async and not in_a_loop()):
            return None
        return tool

    def key(self, conversation: Conversation, tool: KnownTool, call: ToolCall) -> Key | None:
        """Under which the result of `call` would wait."""
        return self.serving.tools.key(tool, call.arguments, Principal(conversation.tenant, conversation.id))

    def remembered(self, tool: KnownTool, key: Key) -> bool:
        """Whether the call would be answered by an earlier result anyway."""
        return self.serving.remembers(tool) and self.serving.recalled(tool, key) is not None

    def may(
        self, step: CurrentRequest, tool: KnownTool, call: ToolCall, familiar: Callable[[ToolCall], bool] | None = None
    ) -> Permission:
        """When `call` may be launched, by its effect; what may not is counted."""
        permission = self.serving.judging.may(tool, call, familiar)
        if permission.launch == "never":
            step.conversation.ledger.refused[permission.verdict.effect.value] += 1
        return permission

    def looked_at(
        self, step: CurrentRequest, expected: Iterable[Prediction], later: Callable[[list[Prediction]], None]
    ) -> list[Prediction]:
        """Those of which it can be told at once what their calls do; `later` is given the others once it can of all."""
        found, waiting, left = list[Prediction](), list[Prediction](), 0

        def is_known() -> None:
            nonlocal left
            left -= 1
            if not left:
                later(waiting)

        for one in expected:
            tool = self.runnable(step.conversation, one.call)
            if tool is None or self.serving.judging.look(tool, one.call, is_known):
                found.append(one)
            else:
                waiting.append(one)
                left += 1
        return found

    def is_limited(self, name: str) -> bool:
        """True if no more than so many runs of a tool may be under way, or begun in a minute."""
        return name in self.policy.max_concurrent or self.serving.rates.limited(name, self.clock.monotonic())

    def load(self, step: CurrentRequest, candidates: Iterable[LaunchCandidate]) -> Load:
        """What is under way, and what the tools of `candidates` have left."""
        hosts = {one.host: self._host(one.host) for one in candidates if one.host}
        kept = self.serving.buffer.of(step.conversation.id)
        return Load(hosts=hosts, kept=kept, running=self.runner.under_way())

    def _host(self, name: str) -> Host:
        serving, slots = self.serving, self.policy.max_concurrent.get(name)
        running, needed = serving.tools.running(name)
        taken = running + self.runner.under_way(name)
        return Host(
            free=None if slots is None else max(slots - taken, 0),
            slots=slots,
            needed=needed,
            headroom=serving.rates.headroom(name, self.clock.monotonic()),
            rate=serving.rates.limit(name),
        )

    def launch(
        self,
        step: CurrentRequest,
        tool: KnownTool,
        call: ToolCall,
        tier: Tier,
        *,
        then: Callable[[EarlyRun], None] | None = None,
        told: Callable[[EarlyRun], None],
    ) -> EarlyRun | None:
        """Begin it, unless something keeps it from that now; what it depends on is noted before it runs.

        `then`: told when its result is there. `told`: told when it is known what came of it.
        """
        conversation, spec, world = step.conversation, tool.spec, self.serving.world
        if not step.acts:
            conversation.ledger.withheld += 1
            return None
        if (
            self.runner.background.closed
            or self.runner.free < 1
            or world.closed(spec.scope)
            or conversation.session.left
        ):
            return None
        own = copied(call)  # as it is now: the loop may go on to change what it was given
        key = self.key(conversation, tool, own) if own is not None else None
        if own is None or key is None:
            return None
        entry = EarlyRun(
            key=key,
            call=own,
            tier=tier,
            scope=spec.scope,
            version=world.version(spec.scope),
            born=self.clock.monotonic(),
            max_age=self.policy.max_age if spec.max_age is None else spec.max_age,
            ledger=conversation.ledger,
            validator=spec.validator,
            seen=version_of(spec.validator, own.arguments),
        )
        self.serving.rates.ran(tool.name, entry.born)
        self.runner.start(tool, entry, conversation, then=then, told=told)
        return entry


def chained(prediction: Prediction, after: EarlyRun) -> Prediction:
    """As likely as that both are right; its call is not the very next one."""
    joint = max(prediction.soon, prediction.probability) * after.probability
    return replace(prediction, probability=0.0, soon=joint, rule=f"{after.rule}{CHAINED}{prediction.rule}")


# --- Tier 1: a call that reads is begun the moment the model has written it, before its message ends ------------------
# It needs no prediction, and a remote read is allowed, because the model did ask. Each call is begun once: a stream
# that was dropped and is retried finds the runs of the first attempt waiting. A tool whose early results are never
# asked for, because the loop gives it other arguments than the model wrote, is left alone after a while.


@dataclass(frozen=True, slots=True)
class Eager:
    """Begins what the model has asked for. Thread-safe, but for one message, which comes in on one thread."""

    launcher: Launcher

    def asked(self, step: CurrentRequest, call: ToolCall) -> None:
        """The arguments of `call` are complete; its message may still go on."""
        order, tools = step.following.order, self.launcher.serving.tools
        if not self.launcher.policy.eager or order is None or step.following.step != step.number:
            return
        tool, judging = tools.of(call.name, step.conversation.id), self.launcher.serving.judging
        placed = OrderedCall(call, tool.identity(call.arguments), False)
        if tool.function is not None and judging.look(tool, call, partial(self._looked, step, order, tool, placed)):
            placed = placed._replace(reads=judging.reads(tool, call))
        for one in order.closed(placed):
            self._launch(step, order, one)

    def _looked(self, step: CurrentRequest, order: Order, tool: KnownTool, placed: OrderedCall) -> None:
        """It is known by now what a call does, which stood in its place as one that may write until then."""
        serving = self.launcher.serving
        if step.following.order is not order or not serving.judging.reads(tool, placed.call):
            return
        for one in order.reads(placed):
            self._launch(step, order, one)

    def wrote(self, call: ToolCall, tool: KnownTool, conversation: Conversation) -> None:
        """A call that may write has ended: what waited for it in its message may be begun."""
        following = conversation.following
        order = following.order
        if order is None:
            return
        step = CurrentRequest(conversation, following, True, following.step)
        for one in order.done(call.name, tool.identity(call.arguments)):
            self._launch(step, order, one)

    def _launch(self, step: CurrentRequest, order: Order, placed: OrderedCall) -> None:
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

    def _settles(self, rule: str) -> Callable[[EarlyRun], None]:
        track, clock = self.launcher.serving.track, self.launcher.clock

        def settled(entry: EarlyRun) -> None:
            used, now = entry.state is EarlyRunState.SERVED, clock.wall()
            track.learn(lambda experience: experience.breakers.settled(rule, 1.0, used=used, now=now))

        return settled
