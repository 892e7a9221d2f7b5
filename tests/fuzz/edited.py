"""Random loops whose history may be edited, at every place, and counts.

Knows what an edited request looks like from outside: notes and texts of the user's own function in the place of
results, and behind the first words a summary in the place of messages. From these, and from what the user's functions
were given, it puts the history together again.

Run as a program it is what the mutant tests run in a mutated copy of the package: `python -m tests.fuzz.edited PLACE N
SEED` exits with 1 where anything was amiss, or nothing was edited.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from agentaccel.clock import ManualClock
from agentaccel.engine.engine import Engine
from agentaccel.engine.lineage import Registry
from agentaccel.engine.scope import Scope, Session, Stay, current
from agentaccel.facts import cache_facts
from agentaccel.policy import CachePolicy, HistoryPolicy, Policy, StorePolicy
from agentaccel.store.recorder import Recorder
from agentaccel.turn import Abandoned, Failed, Finished, FirstByte, Reported, Send, Started
from agentaccel.wire import dialect
from agentaccel_emulator import Emulator
from tests.fuzz.arranged import HERE, restored, spaced
from tests.fuzz.asked import Asked, Thread, consent, functions
from tests.fuzz.conversations import Json
from tests.fuzz.loops import EDITED_THERE, loops
from tests.fuzz.pieces import Edit, Written, amiss, pairs
from tests.fuzz.wires import AT_OPENAI, AT_THE_GATEWAY, ON_BEDROCK, ON_VERTEX, Place

MODELS = {
    "api": ("claude-sonnet-5", "claude-fable-5-2", "claude-haiku-4-5"),
    "bedrock": ON_BEDROCK,
    "vertex": ON_VERTEX,
    "foundry": ("claude-sonnet-5", "claude-opus-5"),
    "chat": AT_OPENAI,
    "responses": AT_OPENAI,
    "azure chat": AT_OPENAI,
    "azure responses": AT_OPENAI,
    "openrouter": (*AT_THE_GATEWAY, "deepseek/deepseek-v4"),
}
"""Names of models by place; one that is not known elsewhere."""


@dataclass(slots=True)
class Tally:
    """What came of the loops."""

    requests: int = 0
    legal: int = 0
    edited: Counter[str] = field(default_factory=Counter)
    """Requests in which a consent was used."""
    amiss: list[str] = field(default_factory=list)
    kept: int = 0
    """Edits that a later request had to have as they were."""


class Lines(logging.Handler):
    """Counts what is logged as a warning or worse."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += not any(one in record.getMessage() for one in ("no cache facts", "nothing is known"))


def run(name: str, loops: int, seed: int) -> Tally:
    tally, lines, log = Tally(), Lines(logging.WARNING), logging.getLogger("agentaccel")
    before = log.propagate
    log.addHandler(lines)
    log.propagate = False
    try:
        for number in range(loops):
            lines.count = 0
            one = One(name, tally, random.Random(f"{name}/{seed}/{number}"))
            one.run()
            if lines.count != one.asked.failed:
                tally.amiss.append(f"{lines.count} log lines of {one.asked.failed} failures")
    finally:
        log.removeHandler(lines)
        log.propagate = before
    return tally


class One:
    """One loop: what is sent as written, and with our plan, each to a provider of its own."""

    def __init__(self, name: str, tally: Tally, rng: random.Random) -> None:
        self.place: Place = HERE[name]
        self.models = MODELS.get(name, ("some/model",))
        self.tally, self.rng, self.clock = tally, rng, ManualClock()
        self.asked: Asked = functions(rng)
        self.policy: HistoryPolicy = consent(rng, self.asked)
        self.moves = rng.random() < 0.2
        cache = CachePolicy(move_volatile=self.moves, freeze_tools=self.moves)
        policy = Policy(strict=True, cache=cache, history=self.policy, store=StorePolicy(enabled=False))
        recorder = Recorder(policy.store, strict=True)
        self.thread = Thread(rng)
        self.engine = Engine(policy, self.clock, recorder, Registry(recorder), runs=self.thread)
        platform = self.place.endpoint.platform
        self.bare, self.ours, self.aside = (Emulator(clock=self.clock, platform=platform) for _ in range(3))
        self.heard = 0
        self.before: tuple[Json, Edit] | None = None
        """The last request that was answered, plainly as written, and how it was edited."""

    def run(self) -> None:
        talk = self.engine.registry.named("loop")
        session = Session(talk, lambda call: nullcontext(), owner=self.engine.registry.owner)
        token = current.set(Scope(stays=(Stay(session),)))
        for gap, body in loops(self.rng, self.place.endpoint.wire, self.models):
            self.clock.advance(gap)
            self.thread.until(self.clock.now)
            self.listen()
            self.turn(body)
        current.reset(token)

    def turn(self, body: Json) -> None:
        place, tally, clock = self.place, self.tally, self.clock
        tally.requests += 1
        written = place.request(body)
        legal = self.bare.handle(written, clock.now).status == 200
        turn = self.engine.begin(body, place.endpoint)
        send = turn.handle(Started(clock.monotonic()))[-1]
        assert isinstance(send, Send)
        sent: Any = send.request
        if self.rng.random() < 0.2:
            again = self.engine.begin(body, place.endpoint, attempt=1).handle(Started(clock.monotonic()))[-1]
            self.says(isinstance(again, Send) and again.request == sent, "planned again, it is planned otherwise")
            self.says(place.request(body) == written, "the user's own request was changed")
        now = self.check(body, sent, turn.plan.consents)
        if not legal:
            return
        tally.legal += 1
        tally.edited.update(turn.plan.consents)
        reply = self.ours.handle(place.request(sent), clock.now)
        self.says(reply.status == 200, reply.body.decode()[:300])
        fate = self.rng.random()
        if reply.status == 200 and fate < 0.9:
            tap = dialect(place.endpoint.wire).reply_tap(reply.streamed)
            list(tap.feed(reply.body))
            list(tap.finish())
            turn.handle(FirstByte(clock.monotonic()))
            turn.handle(Reported(usage=tap.usage, message_id=tap.message_id))
            clock.advance(1.0)
            turn.handle(Finished(clock.monotonic()) if fate < 0.85 else Abandoned(clock.monotonic()))
            if now is not None and fate < 0.85:
                self.before = now
        else:
            turn.handle(Failed(at=clock.monotonic(), status=529, error="overloaded_error"))

    def listen(self) -> None:
        """What a function is given to be summed up can be sent, as the docs have it, with an instruction behind it."""
        for given in [*self.asked.summed.values()][self.heard :]:
            name = "input" if "input" in given else "messages"
            asked = {**given, name: [*given[name], {"role": "user", "content": "Sum this up."}]}
            reply = self.aside.handle(self.place.request(asked), self.clock.now)
            self.says(reply.status == 200, f"to be summed up: {reply.body.decode()[:300]}")
        self.heard = len(self.asked.summed)

    def check(self, body: Json, sent: Json, consents: tuple[str, ...]) -> tuple[Json, Edit] | None:
        """What was written, and how it was edited; None where the history is not here."""
        name = "input" if "input" in body else "messages"
        whole, plain = spaced(restored(sent, body) if self.moves else sent), spaced(body)
        left_alone = not self.policy.consents or any(
            one in body for there in EDITED_THERE.values() for one in flat(there)
        )
        if left_alone or "previous_response_id" in body or unknown(self.place, body["model"]):
            self.says(whole == plain, "a history was edited that is to be left alone")
            return None if "previous_response_id" in body else (plain, Edit({}, None, 0))
        self.says({**whole, name: 0} == {**plain, name: 0}, "more than the history was changed")
        edit, found = amiss(Written(plain[name], body[name], self.policy, self.asked), whole[name])
        self.tally.amiss += found
        used = {name for name in consents if name in ("clear_results", "distil", "summarise")}
        self.says(used == edit.used, f"{sorted(used)} said, {sorted(edit.used)} done")
        self.says(pairs(plain[name]) or not pairs(whole[name]), "a call was parted from its result")
        if self.before is not None and goes_on(self.before[0], plain, name):
            self.tally.kept += len(self.before[1].texts)
            self.tally.amiss += edit.lost(self.before[1])
        return plain, edit

    def says(self, fine: bool, what: str) -> None:
        if not fine:
            self.tally.amiss.append(what)


def unknown(place: Place, model: str) -> bool:
    """Where nothing is known of what is cached."""
    provider, platform, wire = place.endpoint[:3]
    facts = cache_facts(model, provider=provider, platform=platform, wire=wire)
    return facts is None or not facts.assured


def flat(there: tuple[Json, ...]) -> list[str]:
    return [name for one in there for name in one]


def goes_on(before: Json, now: Json, name: str) -> bool:
    """Whether a request has all that the one before it had, and more."""
    same = now[name][: len(before[name])] == before[name]
    return bool(same and {**before, name: 0} == {**now, name: 0})


def main() -> int:
    tally = run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(
        f"{tally.requests} requests, {tally.legal} legal as written, {json.dumps(tally.edited)} edited, "
        f"{tally.kept} kept, {len(tally.amiss)} amiss\n"
    )
    for message, count in Counter(tally.amiss).most_common(8):
        sys.stdout.write(f"  {count} x {message}\n")
    return int(bool(tally.amiss) or not tally.edited or not tally.kept)


if __name__ == "__main__":
    sys.exit(main())
