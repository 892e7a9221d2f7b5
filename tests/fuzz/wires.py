"""Drives random conversations through the planner and the emulator at every place but the Claude API, and counts.

Run as a program it is what the mutant tests run in a mutated copy of the package: `python -m tests.fuzz.wires PLACE N
SEED` exits with 1 if a request that is legal as written was rejected with our plan, if something was changed that is
the sender's, or if the plan was useless too often.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agentaccel.clock import ManualClock
from agentaccel.engine.engine import Engine
from agentaccel.engine.lineage import Registry
from agentaccel.engine.scope import Scope, Session, Stay, current
from agentaccel.facts import Wire, cache_facts
from agentaccel.policy import CachePolicy, Policy, StorePolicy
from agentaccel.store.recorder import Recorder
from agentaccel.turn import Finished, Reported, Send, Started
from agentaccel.types import Endpoint
from agentaccel.wire import dialect
from agentaccel_emulator import Emulator, HttpRequest
from agentaccel_emulator.gateway_translation import messages_request
from tests.fuzz.added import added, static_end
from tests.fuzz.chats import Form, chat
from tests.fuzz.conversations import Json, conversation
from tests.fuzz.useful import Reach, reach_of

HEADERS = {"authorization": "Bearer k", "anthropic-version": "2023-06-01"}
MOST_MARKERS = 4
"""Markers that a request may have at the Messages API, automatic ones included."""
NO_TOP = "cache_control: Extra inputs are not permitted"
"""What Bedrock says of a marker of the request itself, to older models."""
Talks = Callable[[random.Random], Iterator[tuple[float, Json]]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where conversations are had."""

    endpoint: Endpoint
    path: str
    talks: Talks
    may_add: frozenset[str]
    """Fields that a plan may add here, and no others."""
    useful: str
    """What usefulness is measured by: "repeats" (a marker on what the next request repeats), "static" (a breakpoint at
    the end of the static part), or "" where there is nothing to do."""

    def request(self, body: Json) -> HttpRequest:
        """`body` as it goes out: some platforms have the model in the path."""
        path = self.path.replace("{model}", str(body["model"]))
        if self.endpoint.platform in ("bedrock", "vertex"):
            version = {"bedrock": "bedrock-2023-05-31", "vertex": "vertex-2023-10-16"}[self.endpoint.platform]
            body = {"anthropic_version": version, **{name: body[name] for name in body if name != "model"}}
        return HttpRequest(method="POST", path=path, headers=HEADERS, body=json.dumps(body).encode())


def claude(rng: random.Random, models: tuple[str, ...]) -> Iterator[tuple[float, Json]]:
    """A conversation of the Messages API, at a platform's names for the models."""
    model = rng.choice(models)
    for gap, body in conversation(rng):
        if "thread" not in body:
            yield gap, {**body, "model": model}


ON_BEDROCK = (
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",  # these two refuse a marker of the request itself
    "anthropic.claude-opus-4-6-v1",
    "anthropic.claude-opus-5",
    "global.anthropic.claude-sonnet-5",
)
ON_VERTEX = ("claude-sonnet-4-5@20250929", "claude-opus-5", "claude-haiku-4-5@20251001")
AT_OPENAI = ("gpt-6-sol", "gpt-6.1-terra", "gpt-5.6-luna", "gpt-6-astra", "gpt-4o", "gpt-5.5", "gpt-4.1")
AT_THE_GATEWAY = ("anthropic/claude-sonnet-5", "anthropic/claude-haiku-4-5", "openai/gpt-6-sol", "openai/gpt-4o")
OPENAI = frozenset(
    {"prompt_cache_breakpoint", "prompt_cache_options", "mode", "ttl", "prompt_cache_key", "prompt_cache_retention"}
)
CLAUDE = frozenset({"cache_control"})
USAGE = frozenset({"stream_options", "include_usage"})


def _claude(platform: str, path: str, models: tuple[str, ...]) -> Place:
    return Place(Endpoint("anthropic", platform), path, partial(claude, models=models), CLAUDE, "repeats")


def _openai(provider: str, platform: str, path: str, form: Form, may: frozenset[str], useful: str) -> Place:
    wire: Wire = "chat" if form.wire == "chat" else "responses"
    return Place(Endpoint(provider, platform, wire), path, partial(chat, form=form), may, useful)


_CHAT, _RESPONSES = Form("chat", AT_OPENAI), Form("responses", AT_OPENAI)
_GATEWAY = Form("chat", AT_THE_GATEWAY, mark="cache_control", kinds=("image",), options=False)
_LOCAL = Form("chat", ("some/model",), options=False)
PLACES: dict[str, Place] = {
    "bedrock": _claude("bedrock", "/model/{model}/invoke", ON_BEDROCK),
    "vertex": _claude("vertex", "/v1/projects/p/locations/l/publishers/anthropic/models/{model}:rawPredict", ON_VERTEX),
    "foundry": _claude("foundry", "/anthropic/v1/messages", ("claude-sonnet-5", "claude-opus-4-6", "claude-opus-5")),
    "chat": _openai("openai", "api", "/v1/chat/completions", _CHAT, OPENAI | USAGE, "static"),
    "responses": _openai("openai", "api", "/v1/responses", _RESPONSES, OPENAI | {"comparison_response_id"}, "static"),
    "azure chat": _openai(
        "openai", "azure", "/openai/deployments/{model}/chat/completions?api-version=1", _CHAT, frozenset(), ""
    ),
    "azure responses": _openai("openai", "azure", "/openai/v1/responses", _RESPONSES, frozenset(), ""),
    "openrouter": _openai(
        "compatible", "openrouter", "/api/v1/chat/completions", _GATEWAY, CLAUDE | {"session_id"}, "repeats"
    ),
    "vllm": _openai("compatible", "vllm", "/v1/chat/completions", _LOCAL, USAGE | {"cache_salt"}, ""),
    "mistral": _openai("compatible", "mistral", "/v1/chat/completions", _LOCAL, frozenset({"prompt_cache_key"}), ""),
    "xai": _openai("compatible", "xai", "/v1/chat/completions", _LOCAL, USAGE | {"prompt_cache_key"}, ""),
    "server": _openai("compatible", "server", "/v1/chat/completions", _LOCAL, frozenset(), ""),
}


@dataclass(slots=True)
class Tally:
    """What came of the conversations."""

    requests: int = 0
    illegal_as_written: int = 0
    rejected_by_us: list[str] = field(default_factory=list)
    overstepped: list[str] = field(default_factory=list)
    """What was done to a request beyond adding what may be added."""
    worthwhile: int = 0
    """Requests in which there was something to gain."""
    gained: int = 0
    """Those of them that carry what gains it."""
    limits: Counter[str] = field(default_factory=Counter)

    @property
    def coverage(self) -> float:
        return self.gained / self.worthwhile if self.worthwhile else 1.0


def run(name: str, conversations: int, seed: int) -> Tally:
    """`conversations` random ones at the place called so, each in a session of its own, with nothing learned before."""
    tally = Tally()
    for number in range(conversations):
        rng = random.Random(f"{name}/{seed}/{number}")
        asked = CachePolicy(
            ttl=rng.choice(("auto",) * 8 + ("5m", "1h", "12h")),
            diagnostics=rng.random() < 0.2,
            retention=rng.choice((None, None, "24h", "in_memory")),
        )
        One(PLACES[name], tally, asked).run(rng)
    return tally


def unmarked(value: Any) -> Any:
    """The same without any marker."""
    if isinstance(value, list):
        return [unmarked(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: unmarked(one) for name, one in value.items() if name != "cache_control"}


class One:
    """One conversation: what is sent as written, and with our plan, each to a provider of its own."""

    def __init__(self, place: Place, tally: Tally, asked: CachePolicy) -> None:
        self.place, self.tally, self.clock = place, tally, ManualClock()
        policy = Policy(strict=True, cache=asked, store=StorePolicy(enabled=False))
        recorder = Recorder(policy.store, strict=True)
        self.engine = Engine(policy, self.clock, recorder, Registry(recorder))
        platform = place.endpoint.platform
        self.bare, self.ours = (Emulator(clock=self.clock, platform=platform) for _ in range(2))
        self.before: Reach | None = None

    def run(self, rng: random.Random) -> None:
        tenant, crowd = rng.choice((None, None, "acme")), rng.choice((0, 0, 0, 16))
        talk = self.engine.registry.named("talk")
        talk.tenant = tenant
        for gap, body in self.place.talks(rng):
            self.clock.advance(gap)
            while crowd:  # others that begin so, and fill what the provider would choose
                self.engine.begin(body, self.place.endpoint)
                crowd -= 1
            session = Session(talk, lambda call: nullcontext(), owner=self.engine.registry.owner)
            token = current.set(Scope(stays=(Stay(session),)) if tenant else Scope())
            self.turn(body)
            current.reset(token)

    def turn(self, body: Json) -> None:
        place, tally, clock = self.place, self.tally, self.clock
        tally.requests += 1
        self.count(body)
        legal = self.bare.handle(place.request(body), clock.now).status == 200
        turn = self.engine.begin(body, place.endpoint)
        send = turn.handle(Started(clock.monotonic()))[-1]
        assert isinstance(send, Send)
        sent: Any = send.request
        reply = self.ours.handle(place.request(sent), clock.now)
        tally.overstepped += self.overstepped(body, sent, legal=legal)
        for name in ("prompt_cache_key", "prompt_cache_retention", "cache_salt"):
            tally.limits[f"a {name} of ours"] += name in sent and name not in body
        if not legal:
            tally.illegal_as_written += 1
            if self.bare.log[-1].error == NO_TOP:  # which a plan can mend
                tally.worthwhile += 1
                tally.gained += self.ours.log[-1].error != self.bare.log[-1].error
            self.before = None
            return
        if reply.status != 200:
            tally.rejected_by_us.append(reply.body.decode())
            self.before = None
            return
        tap = dialect(place.endpoint.wire).reply_tap(reply.streamed)
        list(tap.feed(reply.body))
        list(tap.finish())
        turn.handle(Reported(usage=tap.usage, message_id=tap.message_id))
        clock.advance(2.0)
        turn.handle(Finished(clock.monotonic()))
        self.weigh(body, sent)

    def overstepped(self, body: Json, sent: Any, *, legal: bool) -> Iterator[str]:
        held = any(body.get(name) is not None for name in ("previous_response_id", "conversation"))
        if held and not added(body, sent) <= {"prompt_cache_key"}:
            yield "a request whose history is held was changed"
        if "prompt_cache_key" in body and sent["prompt_cache_key"] != body["prompt_cache_key"]:
            yield "the sender's own key was changed"
        moved = self.place.endpoint.platform == "bedrock" and "cache_control" not in sent
        written = {name: body[name] for name in body if not (moved and name == "cache_control")}
        if not legal and json.dumps(body).count('"cache_control": {') > MOST_MARKERS:  # the first of them may go
            written, sent = unmarked(written), unmarked(sent)
        for name in added(written, sent):
            if name not in self.place.may_add:
                yield name
        said = (body.get("prompt_cache_options") or {}).get("mode")
        if said is not None and sent["prompt_cache_options"]["mode"] != said:
            yield "the sender's own mode was changed"

    def weigh(self, body: Json, sent: Json) -> None:
        """Whether there was something to gain, and whether it was."""
        tally, place = self.tally, self.place
        if place.useful == "static":
            found = static_end(body, place.endpoint.wire)
            if found is not None:
                tally.worthwhile += 1
                tally.gained += static_end(sent, place.endpoint.wire, marked=True) == found
        elif place.useful == "repeats" and not str(body["model"]).startswith("openai/"):
            gateway = place.endpoint.platform == "openrouter"
            now = reach_of(messages_request(sent) if gateway else sent, self.clock.now, place.endpoint.platform)
            if self.before is not None and now.at - self.before.at < 300:
                shared = now.shares(self.before)
                if shared is not None:
                    tally.worthwhile += 1
                    tally.gained += self.before.marked_within(shared)
            self.before = now

    def count(self, body: Json) -> None:
        """Which limits the request, as written, comes up against."""
        limits, text = self.tally.limits, json.dumps(body)
        facts = cache_facts(
            body["model"],
            provider=self.place.endpoint.provider,
            platform=self.place.endpoint.platform,
            wire=self.place.endpoint.wire,
        )
        limits["the sender's markers"] += '"prompt_cache_breakpoint"' in text or '"cache_control"' in text
        limits["a marker of the request"] += "cache_control" in body
        limits["the sender's options"] += "prompt_cache_options" in body
        limits["history held"] += "previous_response_id" in body
        limits["an automatic model"] += facts is not None and facts.physics == "automatic"
        limits["empty text"] += '"text": ""' in text
        limits["audio"] += '"input_audio"' in text
        limits["refusals"] += '"refusal"' in text


def main() -> int:
    tally = run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(
        f"{tally.requests} requests, {tally.illegal_as_written} illegal as written, "
        f"{len(tally.rejected_by_us)} rejected by us, {len(tally.overstepped)} overstepped, "
        f"coverage {tally.gained}/{tally.worthwhile}, {dict(tally.limits)}\n"
    )
    for message, count in Counter(tally.rejected_by_us + tally.overstepped).most_common(5):
        sys.stdout.write(f"  {count} x {message}\n")
    return int(bool(tally.rejected_by_us or tally.overstepped) or tally.coverage < 0.9)


if __name__ == "__main__":
    sys.exit(main())
