"""What the tiers share: which runs may be begun now, and what is noted before they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from agentaccel.background import in_a_loop
from agentaccel.clock import Clock
from agentaccel.effects.launch import Permission
from agentaccel.policy import ToolPolicy
from agentaccel.session.conversation import Conversation
from agentaccel.session.following import Following
from agentaccel.session.running import Runner
from agentaccel.session.serving import Serving
from agentaccel.session.tools import Tool, copied
from agentaccel.speculate.buffer import Entry, Tier
from agentaccel.speculate.keys import Key, Principal
from agentaccel.speculate.witness import witnessed
from agentaccel.types import ToolCall


class Step(NamedTuple):
    """A request under way, as far as it matters here."""

    conversation: Conversation
    following: Following
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

    def runnable(self, conversation: Conversation, call: ToolCall) -> Tool | None:
        """The tool that could run `call` here; None where there is none, or it is another's to run it."""
        tool = self.serving.tools.named(call.name, conversation.id)
        if tool is None or not tool.takes(call.arguments) or (tool.is_async and not in_a_loop()):
            return None
        return tool

    def key(self, conversation: Conversation, tool: Tool, call: ToolCall) -> Key | None:
        """Under which the result of `call` would wait."""
        return self.serving.tools.key(tool, call.arguments, Principal(conversation.tenant, conversation.id))

    def remembered(self, tool: Tool, key: Key) -> bool:
        """Whether the call would be answered by an earlier result anyway."""
        return self.serving.remembers(tool) and self.serving.recalled(tool, key) is not None

    def may(
        self, step: Step, tool: Tool, call: ToolCall, familiar: Callable[[ToolCall], bool] | None = None
    ) -> Permission:
        """When `call` may be launched, by its effect; what may not is counted."""
        permission = self.serving.tools.may(tool, call, familiar)
        if permission.launch == "never":
            step.conversation.ledger.refused[permission.verdict.effect.value] += 1
        return permission

    def launch(
        self,
        step: Step,
        tool: Tool,
        call: ToolCall,
        tier: Tier,
        *,
        then: Callable[[Entry], None] | None = None,
        told: Callable[[Entry], None],
    ) -> Entry | None:
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
            or world.closed(spec.domain)
            or conversation.session.left
        ):
            return None
        own = copied(call)  # as it is now: the loop may go on to change what it was given
        key = self.key(conversation, tool, own) if own is not None else None
        if own is None or key is None:
            return None
        entry = Entry(
            key=key,
            call=own,
            tier=tier,
            domain=spec.domain,
            version=world.version(spec.domain),
            born=self.clock.monotonic(),
            fresh_for=self.policy.fresh_for if spec.fresh_for is None else spec.fresh_for,
            ledger=conversation.ledger,
            witness=spec.witness,
            seen=witnessed(spec.witness, own.arguments),
        )
        self.serving.rates.ran(tool.name, entry.born)
        self.runner.start(tool, entry, conversation, then=then, told=told)
        return entry
