"""Composes what is launched early: what has happened ▶ predictions ▶ decision ▶ runs.

    request sent ──▶ learn, predict, decide, launch          (tier 2; once the request is on its way)
         a finished guess ──▶ suppose, predict, decide, launch            (the same, several steps deep)
    a call's arguments close ──▶ launch it, unless a write stands before it            (tier 1)

Nothing here is ever raised into the agent's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVar

from agentaccel.clock import Clock
from agentaccel.concurrency import Background, beside, in_a_loop
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.draft import Done, Planned, Settled, mode_of
from agentaccel.engine.scope import Within
from agentaccel.facts import Wire
from agentaccel.hooks import HookList
from agentaccel.once import Once
from agentaccel.policy import Policy
from agentaccel.predict.events import Predicts, SessionPredictor
from agentaccel.predict.launch import LaunchCandidate, decide
from agentaccel.predict.order import Order
from agentaccel.predict.predictor import SOON
from agentaccel.predict.resources import Resource
from agentaccel.store.recorder import Recorder
from agentaccel.tools.catalog import KnownTool, Tools
from agentaccel.tools.early import EarlyRun, EarlyRuns, EarlyRunState
from agentaccel.tools.epochs import WriteEpochs
from agentaccel.tools.launching import CurrentRequest, Eager, Launcher, chained
from agentaccel.tools.learning import Learning
from agentaccel.tools.permission import Judging
from agentaccel.tools.rates import Rates
from agentaccel.tools.results import ResultCache
from agentaccel.tools.running import Runner, shown
from agentaccel.tools.serving import Serving
from agentaccel.tools.transcript import PendingLaunch, SpeculationState
from agentaccel.tools.warming import ToolPrewarmer
from agentaccel.types import Effect, Prediction, Request, ToolCall

T = TypeVar("T")


class Hooks(NamedTuple):
    """What a turn tells of, as it goes."""

    on_send: Callable[[], None]
    on_call: Callable[[ToolCall], None]


@dataclass(slots=True, kw_only=True)
class Speculator:
    """Launches early runs for one `Accel`. Thread-safe."""

    policy: Policy
    launcher: Launcher
    learning: Learning
    predictor: Predicts
    """`learning`, unless a test tells what is to come."""
    warming: ToolPrewarmer
    shared_key: bytes
    _once: Once = field(default_factory=Once)

    @property
    def strict(self) -> bool:
        return self.policy.strict

    def prepare(self) -> None:
        """There is a tool."""
        if self.policy.tools.speculate or self.policy.tools.prewarm:
            self.learning.prepare()

    def acts(self, conversation: Conversation, within: Within) -> bool:
        """Whether calls of that session may be answered early."""
        if within.session is not None and within.session.closed:
            return False
        return mode_of(self.policy, self.shared_key, conversation.id, within) == "on"

    def may_begin(self, conversation: Conversation, names: Iterable[str], within: Within) -> bool:
        """True if a call of one of these tools may be begun while the reply that asks for it is on its way."""
        if not self.policy.tools.eager or within.early is not None or self.launcher.runner.background.closed:
            return False
        tools = self.launcher.serving.tools
        known = [tool for name in names if (tool := tools.named(name, conversation.id)) is not None]
        return self.acts(conversation, within) and any(one.effect is not Effect.UNKNOWN for one in known)

    # --- a model call -------------------------------------------------------------------------------------------------

    def begins(self, planned: Planned, request: Request, wire: Wire, within: Within) -> Hooks | None:
        """A request is about to be sent; None where nothing comes of it."""
        tools = self.policy.tools
        if (self.launcher.serving.tools.empty and not tools.effects) or within.early is not None:
            return None
        if (
            not (tools.cache_results or tools.eager or tools.speculate or tools.prewarm)
            or self.launcher.runner.background.closed
        ):
            return None
        following = planned.conversation.following
        if following.unseen:
            self._unseen(following, is_over=True)
        if planned.mode == "bypass":
            self._unseen(following)  # nobody looks at what it asks for
            return None
        following.step += 1
        following.order = Order()
        if planned.prompt.messages != following.messages:  # else it is retried, and its calls are still to be made
            following.messages = planned.prompt.messages
            self._cancel(self.launcher.serving.buffer.leave(planned.conversation.id, "asked"))
        step = CurrentRequest(planned.conversation, following, planned.mode == "on", following.step)
        names = [one.name for one in planned.as_written.segments if one.level == "tools"]
        sent = partial(self._sent, step, request, wire, bool(planned.prompt.held), names)
        asked = partial(self._guarded, partial(self._asked, step))
        return Hooks(partial(self._soon, step, partial(self._guarded, sent)), asked)

    def settled(self, done: Done, settled: Settled) -> None:
        """The reply has ended."""
        planned, ended = done.planned, done.reply
        serving, following = self.launcher.serving, planned.conversation.following
        if ended.outcome != "ok" or serving.tools.empty:
            return
        seconds = ended.finished - ended.started
        serving.track.learn(lambda experience: experience.replied(seconds))
        self.learning.turned()
        following.replied, following.sent = ended.calls, None
        if planned.prompt.held:
            self._beside(following.heard_all)

    def _soon(self, step: CurrentRequest, work: Callable[[], None]) -> None:
        """Do it once the request is on its way."""
        tools = self.policy.tools
        if self.learning.begun and not (tools.speculate or tools.prewarm):
            return
        if in_a_loop():
            asyncio.get_running_loop().call_soon(work)
        else:
            self.launcher.runner.background.submit(step.conversation.id, work)

    def _beside(self, work: Callable[[], T], then: Callable[[T], None] = lambda told: None) -> None:
        """Do `work`, and `then` give what it returns to `then`: on an event loop, the former beside it."""

        def told(done: asyncio.Future[T]) -> None:
            if not done.cancelled():
                self._guarded(lambda: then(done.result()))

        if in_a_loop():
            beside(work).add_done_callback(told)
        else:
            then(work())

    def _guarded(self, work: Callable[..., None], *given: object) -> None:
        try:
            work(*given)
        except Exception:
            if self.strict:
                raise
            self._once.failed("could not run a tool early; the agent goes on without")

    def _asked(self, step: CurrentRequest, call: ToolCall) -> None:
        tools, session = self.launcher.serving.tools, step.conversation.id
        if not tools.sees(call.name, session) and not self._reads(session, call):
            self._unseen(step.following)
        Eager(self.launcher).asked(step, call)

    def _unseen(self, following: SpeculationState, *, is_over: bool = False) -> None:
        """A run that does not go by here is about to begin, or, by the next request, is over; it may write."""
        following.unseen = not is_over
        world = self.launcher.serving.world
        world.ends(world.begins(None))

    # --- before the model asks ----------------------------------------------------------------------------------------

    def _sent(self, step: CurrentRequest, request: Request, wire: Wire, held: bool, names: list[str]) -> None:
        following, tools = step.following, self.policy.tools
        if not (tools.speculate or tools.prewarm):
            self._beside(self.learning.begin)
            return
        following.replied, following.sent = None, self.launcher.clock.monotonic()  # it stands in the request
        with following.choosing:
            following.waiting = [one for one in following.waiting if not self._given_up(one, step.number)]
        # The caller may add to its lists as soon as the reply is here.
        told = {name: list(value) if isinstance(value, list) else value for name, value in request.items()}
        self._expect(step, partial(self._heard, step, told, wire, held, names), None)

    def _heard(
        self, step: CurrentRequest, request: Request, wire: Wire, held: bool, names: list[str]
    ) -> SessionPredictor:
        """Learn what the request tells. The state is locked."""
        following = step.following
        if following.history is None:
            schemas = {name: dict[str, object]() for name in names}
            following.reads = reads = partial(self._reads, step.conversation.id)
            following.history = self.predictor.session(step.conversation.session.workload, schemas, reads)
        following.take(following.hearing.request(request, wire, held=held))
        return following.history

    def _reads(self, session: str, call: ToolCall) -> bool:
        serving = self.launcher.serving
        return serving.judging.did_read(serving.tools.of(call.name, session), call)

    def _expect(self, step: CurrentRequest, listen: Callable[[], SessionPredictor], after: EarlyRun | None) -> None:
        """Launch what pays of what is expected once `listen` has told, where `after` is the guess that it all depends
        on."""

        def predicted() -> NextCalls:
            self.learning.begin()
            with step.following.lock:
                history = listen()
                warms = after is None and self.policy.tools.prewarm and step.acts
                return NextCalls(history, history.predict(), history.resources() if warms else ())

        self._beside(predicted, partial(self._take, step, after))

    def _take(self, step: CurrentRequest, after: EarlyRun | None, expected: NextCalls) -> None:
        """Launch what pays of what is expected."""
        serving, calls = self.launcher.serving, expected.calls
        if step.following.unseen or not _is_current(step):
            return
        serving.writes.settle()
        self._cancel(serving.buffer.sweep(self.launcher.clock.monotonic()))
        if after is None and self.policy.tools.prewarm and step.acts:
            self.warming.warm(step.conversation.id, calls, expected.resources)
        if not self.policy.tools.speculate:
            return
        if after is not None:
            calls = tuple(chained(one, after) for one in calls)
        later = partial(self._choose_later, step, expected.history, after)
        self._choose(step, expected.history, self.launcher.looked_at(step, calls, later), after)

    def _choose_later(
        self, step: CurrentRequest, history: SessionPredictor, after: EarlyRun | None, expected: list[Prediction]
    ) -> None:
        """It is known by now what these calls do."""
        if _is_current(step):
            self._choose(step, history, expected, after)

    def _choose(
        self, step: CurrentRequest, history: SessionPredictor, expected: list[Prediction], after: EarlyRun | None
    ) -> None:
        with step.following.choosing:
            self._launch_best(step, history, expected, after)

    def _launch_best(
        self, step: CurrentRequest, history: SessionPredictor, expected: list[Prediction], after: EarlyRun | None
    ) -> None:
        serving, clock = self.launcher.serving, self.launcher.clock
        candidates = [one for one in map(partial(self._candidate, step), expected) if one is not None]
        if not candidates:
            return
        load, sent = self.launcher.load(step, candidates), step.following.sent
        elapsed = clock.monotonic() - sent if sent is not None else 0.0
        with serving.track.lock:
            known = serving.track.experience
            chosen = decide(candidates, experience=known, runway=known.runway(elapsed), load=load, now=clock.wall())
        for prediction in chosen.launch:
            self._launch(step, history, prediction, after)

    def _cancel(self, gone: list[EarlyRun]) -> None:
        for entry in gone:
            if not entry.over:
                entry.handle.cancel()

    def _candidate(self, step: CurrentRequest, prediction: Prediction) -> LaunchCandidate | None:
        """What is to be decided; None for a call that cannot be run, or whose result is here or on its way."""
        call, launcher = prediction.call, self.launcher
        tool = launcher.runnable(step.conversation, call)
        key = launcher.key(step.conversation, tool, call) if tool is not None else None
        if tool is None or key is None or launcher.serving.world.closed(tool.spec.scope):
            return None
        if launcher.serving.buffer.waits(key) or launcher.remembered(tool, key) or step.following.made(call):
            return None
        permission = launcher.may(step, tool, call, step.following.familiar)
        return LaunchCandidate(
            prediction=replace(prediction, rule=launcher.serving.track.named(prediction.rule)),
            launchable=permission.verdict.launchable if permission.launch != "never" else "never",
            egress=permission.launch == "predicted",
            host=tool.name if launcher.is_limited(tool.name) else "",
            gives_back=0.0 if tool.is_async else None,
        )

    def _launch(
        self, step: CurrentRequest, history: SessionPredictor, prediction: Prediction, after: EarlyRun | None
    ) -> None:
        launcher = self.launcher
        tool = launcher.runnable(step.conversation, prediction.call)
        if tool is None:
            return
        then = partial(self._guarded, partial(self._finished, step, history))
        waiting = PendingLaunch(prediction, step.number)
        told = partial(self._settled, waiting)
        entry = launcher.launch(step, tool, prediction.call, "predicted", then=then, told=told)
        if entry is not None:
            entry.probability, entry.rule = max(prediction.probability, prediction.soon), prediction.rule
            entry.depth = 1 if after is None else after.depth + 1
            now = launcher.clock.wall()
            launcher.serving.track.learn(lambda experience: experience.launched(prediction, now))
            step.following.waiting.append(waiting)

    def _settled(self, waiting: PendingLaunch, entry: EarlyRun | None = None) -> None:
        """It is known what came of a launch: what became of `entry`, or that nobody is expected to ask any more."""
        if waiting.settled:
            return
        waiting.settled = True
        prediction, now = waiting.prediction, self.launcher.clock.wall()
        used = entry is not None and entry.state is EarlyRunState.SERVED
        self.launcher.serving.track.learn(lambda experience: experience.settled(prediction, used=used, now=now))

    def _given_up(self, waiting: PendingLaunch, step: int) -> bool:
        """Whether nothing more is to be learned from a launch. Its result may be served all the same."""
        if step - waiting.step >= SOON:
            self._settled(waiting)
        return waiting.settled

    def _finished(self, step: CurrentRequest, history: SessionPredictor, entry: EarlyRun) -> None:
        """A guess has its result: what would the model ask for once it had seen that? And its slot is free again."""
        policy, own = self.policy.tools, step.following.history
        if not _is_current(step) or entry.state is not EarlyRunState.FINISHED:
            return
        if entry.depth < policy.depth:
            self._expect(step, lambda: history.supposing(entry.call, shown(entry.result)), entry)
        if entry.call.name in policy.max_concurrent and own is not None:
            self._expect(step, lambda: own, None)

    # --- what real calls tell -----------------------------------------------------------------------------------------

    def wrote(self, call: ToolCall, tool: KnownTool, conversation: Conversation | None, within: Within) -> None:
        """A call that may write has ended."""
        if conversation is not None and self.policy.tools.eager and self.acts(conversation, within):
            self._guarded(partial(Eager(self.launcher).wrote, call, tool, conversation))

    def left(self, conversation: Conversation) -> None:
        """The session was left: nothing of it waits any more, and no request will repeat its last reply."""
        serving = self.launcher.serving
        for part in (serving.buffer, serving.memo, serving.tools):
            part.leave(conversation.id)
        self._guarded(partial(self._beside, conversation.following.ends))


class NextCalls(NamedTuple):
    """What is expected next."""

    history: SessionPredictor
    calls: tuple[Prediction, ...]
    resources: tuple[Resource, ...]


def _is_current(step: CurrentRequest) -> bool:
    """True if the reply to a request is still to come."""
    return step.following.step == step.number and step.following.sent is not None


# --- Puts together what runs the tools of one `Accel` early -----------------------------------------------------------


def speculation(
    policy: Policy,
    clock: Clock,
    recorder: Recorder,
    listeners: HookList,
    background: Background,
) -> Speculator:
    """All of it, around one world."""
    tools, world = Tools(policy.tools), WriteEpochs()
    learning = Learning(policy, clock, recorder, background)
    buffer, judging = EarlyRuns(world), Judging(tools=tools, world=world, clock=clock)
    serving = Serving(
        policy=policy.tools,
        clock=clock,
        background=background,
        tools=tools,
        judging=judging,
        world=world,
        buffer=buffer,
        memo=ResultCache(world, across=policy.tools.cache_results_across),
        rates=Rates(policy.tools.rate_limits),
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
    return Speculator(
        policy=policy,
        launcher=Launcher(policy=policy.tools, clock=clock, serving=serving, runner=runner),
        learning=learning,
        predictor=learning,
        warming=ToolPrewarmer(judging, clock, background),
        shared_key=recorder.shared_key,
    )
