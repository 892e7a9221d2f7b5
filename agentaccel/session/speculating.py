"""Puts together what runs the tools of one `Accel` early."""

from __future__ import annotations

from agentaccel.background import Background
from agentaccel.clock import Clock
from agentaccel.listening import Listeners
from agentaccel.policy import Policy
from agentaccel.session.foresight import Foresight
from agentaccel.session.judging import Judging
from agentaccel.session.launching import Launcher
from agentaccel.session.learning import Learning
from agentaccel.session.running import Runner
from agentaccel.session.serving import Serving
from agentaccel.session.tools import Tools
from agentaccel.session.warming import Warming
from agentaccel.speculate.buffer import Buffer
from agentaccel.speculate.memo import Memo
from agentaccel.speculate.rates import Rates
from agentaccel.speculate.world import World
from agentaccel.trace.recorder import Recorder


def speculation(
    policy: Policy,
    clock: Clock,
    recorder: Recorder,
    listeners: Listeners,
    background: Background,
) -> Foresight:
    """All of it, around one world."""
    tools, world = Tools(policy.tools), World()
    learning = Learning(policy, clock, recorder, background)
    buffer, judging = Buffer(world), Judging(tools=tools, world=world, clock=clock)
    serving = Serving(
        policy=policy.tools,
        clock=clock,
        background=background,
        tools=tools,
        judging=judging,
        world=world,
        buffer=buffer,
        memo=Memo(world, across=policy.tools.memo_across),
        rates=Rates(policy.tools.per_minute),
        track=learning.track,
    )
    runner = Runner(
        policy=policy.tools,
        clock=clock,
        recorder=recorder,
        listeners=listeners,
        background=background,
        buffer=buffer,
        tools=tools,
        rates=serving.rates,
    )
    return Foresight(
        policy=policy,
        launcher=Launcher(policy=policy.tools, clock=clock, serving=serving, runner=runner),
        learning=learning,
        predictor=learning,
        warming=Warming(judging, clock, background),
        shared_key=recorder.shared_key,
    )
