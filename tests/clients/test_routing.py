"""Keys, salts and retention: who lands on which machine, who shares with whom, and what is left alone.

The real SDK in front of the emulator, whose machines stand fifteen requests a minute of one beginning and key.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from agentaccel import Accel, CachePolicy, ConfigError, Policy, StorePolicy
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.turn import Send, Started
from agentaccel_emulator import Emulator, HttpRequest
from agentaccel_emulator.script import say
from tests.driver import Json, assistant, prose, user

OLD, NEW = "gpt-4.1", "gpt-6-sol"
HOST = "http://provider.example/v1"
RULES = {"role": "developer", "content": prose(2600)}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
KEY = "prompt_cache_key"
REPLIES = [say("ok " * 60)] * 2000


@dataclass
class Provider:
    """An emulated provider, the requests that it got and what each of them read."""

    platform: str = "api"
    clock: ManualClock = field(default_factory=lambda: ManualClock(now=1e9))
    bodies: list[Json] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.emulator = Emulator(clock=self.clock, platform=self.platform, script=REPLIES)

    def client(self) -> openai.OpenAI:
        """A client that nobody has wrapped."""
        http = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        return self.stack.enter_context(openai.OpenAI(base_url=HOST, api_key="k", max_retries=0, http_client=http))

    def wrapped(self, folder: Path, **policy: Any) -> tuple[Accel, openai.OpenAI]:
        """One process's view: an `Accel` over a store, and a client wrapped by it."""
        given = Policy(strict=True, store=StorePolicy(path=folder / "trace.db"), **policy)
        accel = self.stack.enter_context(Accel(given, clock=self.clock, environ={}))
        return accel, accel.wrap(self.client(), platform=self.platform)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(json.loads(request.content))
        self.times.append(self.clock.now)
        wire = HttpRequest(
            method=request.method, path=request.url.path, headers=dict(request.headers), body=request.content
        )
        reply = self.emulator.handle(wire, self.clock.now)
        return httpx2.Response(reply.status, headers=dict(reply.headers), content=reply.body)

    @property
    def hit_rate(self) -> float:
        usages = [entry.usage for entry in self.emulator.log if entry.usage is not None]
        return sum(usage.read for usage in usages) / sum(usage.read + usage.uncached for usage in usages)

    @property
    def reads(self) -> list[int]:
        return [entry.usage.read if entry.usage is not None else 0 for entry in self.emulator.log]

    def fullest(self) -> int:
        """The most requests that one key got in a minute."""
        by_key = defaultdict[str, list[float]](list)
        for body, at in zip(self.bodies, self.times, strict=True):
            by_key[body.get(KEY, "")].append(at)
        return max(sum(at - 60 < one <= at for one in times) for times in by_key.values() for at in times)


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    with made.stack:
        yield made


def crowd(
    provider: Provider, clients: list[tuple[Accel | None, Any]], *, count: int = 10, turns: int = 8, **more: Any
) -> None:
    """So many conversations with one beginning at once, a turn of each every ten seconds, from the clients in turn."""
    rng = random.Random(count)
    talks: list[list[Json]] = [[RULES, user(f"task {n} {prose(150, n)}")] for n in range(count)]
    first = provider.clock.now
    due = sorted((rng.random() * 10 + turn * rng.uniform(9, 11), n) for n in range(count) for turn in range(turns))
    for turn, (at, n) in enumerate(due):
        provider.clock.advance(max(0.0, first + at - provider.clock.now))
        accel, client = clients[turn % len(clients)]
        with ExitStack() as stack:
            if accel is not None:
                stack.enter_context(accel.session(f"talk {n}"))
            client.chat.completions.create(model=OLD, messages=talks[n], tools=TOOLS, **more)
        talks[n] += [assistant("ok " * 60), user(prose(120, turn))]


def keys(provider: Provider) -> dict[str, set[str | None]]:
    """The keys that went out, by conversation."""
    found = defaultdict[str, set[str | None]](set)
    for body in provider.bodies:
        found[body["messages"][1]["content"]].add(body.get(KEY))
    return found


# --- where a key routes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("turns", [5, pytest.param(8, marks=pytest.mark.soak)])
def test_many_that_begin_alike_are_spread_and_each_stays_where_it_is(tmp_path: Path, turns: int) -> None:
    """Documented: beyond fifteen a minute some go to machines that have nothing. Each conversation has one key."""
    rates = {}
    for how in ("bare", "one key", "ours"):
        provider = Provider()
        with provider.stack:
            if how == "ours":
                crowd(provider, [provider.wrapped(tmp_path)], turns=turns)
                assert {len(found) for found in keys(provider).values()} == {1}
                assert provider.fullest() <= 15
            else:
                crowd(provider, [(None, provider.client())], turns=turns, **({KEY: "mine"} if how == "one key" else {}))
                assert provider.fullest() > 15
            rates[how] = provider.hit_rate
    assert rates["one key"] == rates["bare"]
    assert rates["ours"] > rates["bare"] + 0.05


def test_a_few_get_no_key_at_all(provider: Provider, tmp_path: Path) -> None:
    """Chosen by us: below the rate the provider keeps them together as it is; the twin of the test above."""
    crowd(provider, [provider.wrapped(tmp_path)], count=2)
    assert set.union(*keys(provider).values()) == {None}


@pytest.mark.soak
def test_single_calls_are_not_taken_for_conversations(tmp_path: Path) -> None:
    """Chosen by us: every further machine has to read the beginning once, so there are few of them."""
    reads = []
    for ours in (False, True):
        provider = Provider()
        with provider.stack:
            client = provider.wrapped(tmp_path)[1] if ours else provider.client()
            for number in range(60):
                client.chat.completions.create(model=OLD, messages=[RULES, user(f"case {number} {prose(200, number)}")])
                provider.clock.advance(3)
            reads.append(provider.hit_rate)
    assert reads[1] >= reads[0] - 0.03


@pytest.mark.slow
def test_another_process_gives_a_conversation_the_key_that_it_has(provider: Provider, tmp_path: Path) -> None:
    """Must hold: a changed key is a move to a cold machine. Two processes share a store, and every conversation."""
    crowd(provider, [provider.wrapped(tmp_path), provider.wrapped(tmp_path)], turns=4)
    assert {len(found) for found in keys(provider).values()} == {1}
    assert len(set.union(*keys(provider).values())) > 3


@pytest.mark.soak
def test_processes_that_share_a_store_do_not_fill_the_same_machine(tmp_path: Path) -> None:
    """Chosen by us: what others were answered in the last minute is in the store. The twin has a store each."""
    fullest = []
    for stores in (1, 3):
        provider = Provider()
        with provider.stack:
            folders = [tmp_path / f"{stores} {n % stores}" for n in range(3)]
            for folder in folders:
                folder.mkdir(exist_ok=True)
            views = [provider.wrapped(folder) for folder in folders]
            for turn in range(6):
                for n in range(9):
                    accel, client = views[n % 3]
                    with accel.session(f"talk {n}"):
                        talk = [RULES, user(f"task {n}"), *[assistant("ok"), user("go on")] * turn]
                        client.chat.completions.create(model=OLD, messages=talk, tools=TOOLS)
                    provider.clock.advance(1.0)
            fullest.append(provider.fullest())
    assert fullest[0] <= 15 < fullest[1]


@pytest.mark.slow
def test_a_conversation_that_began_without_a_key_stays_without(provider: Provider, tmp_path: Path) -> None:
    """Must hold: it is on the first machine, whatever comes later."""
    accel, client = provider.wrapped(tmp_path)
    talk = [RULES, user("task first")]
    with accel.session("first"):
        client.chat.completions.create(model=OLD, messages=talk, tools=TOOLS)
    crowd(provider, [(accel, client)], turns=2)
    with accel.session("first"):
        client.chat.completions.create(model=OLD, messages=[*talk, assistant("ok"), user("go on")], tools=TOOLS)
    assert KEY not in provider.bodies[-1]


def test_the_senders_own_key_stays(provider: Provider, tmp_path: Path) -> None:
    """Contract line 1."""
    accel, client = provider.wrapped(tmp_path)
    crowd(provider, [(accel, client)], turns=2, **{KEY: "mine"})
    assert {body[KEY] for body in provider.bodies} == {"mine"}
    client.chat.completions.create(model=OLD, messages=[RULES, user("somebody else's")], tools=TOOLS)
    assert KEY not in provider.bodies[-1], "those with a key of their own are on another machine"


@pytest.mark.parametrize("how", ["observe", "holdout", "bypass"])
def test_who_asked_for_nothing_gets_nothing(provider: Provider, tmp_path: Path, how: str) -> None:
    """Contract line 10: the very bodies of the bare client, with a crowd, a tenant and a retention."""
    cache = CachePolicy(retention="24h")
    policy = {"observe": {"mode": "observe"}, "holdout": {"holdout": 0.999999999}, "bypass": {}}[how]
    accel, client = provider.wrapped(tmp_path, cache=cache, **policy)
    bare = provider.client()
    for number in range(8):
        talk = [RULES, user(f"task {number}")]
        with accel.session(f"talk {number}", tenant="acme"), ExitStack() as stack:
            if how == "bypass":
                stack.enter_context(accel.bypass())
            client.chat.completions.create(model=OLD, messages=talk, tools=TOOLS)
        bare.chat.completions.create(model=OLD, messages=talk, tools=TOOLS)
        assert provider.bodies[-1] == provider.bodies[-2]


# --- where a key or a salt separates ----------------------------------------------------------------------------------

APART = {"api": (NEW, KEY), "vllm": ("m", "cache_salt"), "sglang": ("m", "cache_salt")}


def asked_by(provider: Provider, folder: Path, tenants: str, **policy: Any) -> list[int]:
    """What one request of each tenant reads, all with the same prompt."""
    model = APART.get(provider.platform, ("m", ""))[0]
    accel, client = provider.wrapped(folder, **policy)
    for number, tenant in enumerate(tenants):
        with accel.session(f"talk {number}", tenant=None if tenant == "-" else f"tenant {tenant}"):
            client.chat.completions.create(model=model, messages=[RULES, user("What is a lamp?")])
        provider.clock.advance(20)
    return [int(read > 0) for read in provider.reads]


@pytest.mark.parametrize("platform", APART)
def test_tenants_share_with_themselves_and_with_nobody_else(tmp_path: Path, platform: str) -> None:
    """Documented by the provider and the servers; who names no tenant shares with all who name none."""
    provider = Provider(platform)
    with provider.stack:
        assert asked_by(provider, tmp_path, "aabba--") == [0, 1, 0, 1, 1, 0, 1]
        name = APART[platform][1]
        sent = [body.get(name) for body in provider.bodies]
        assert sent[0] == sent[1] == sent[4] != sent[2] == sent[3]
        assert sent[5:] == [None, None]
        assert "tenant" not in json.dumps(sent)
    with open_reader(tmp_path / "trace.db") as store:
        written = [turn.as_written for turn in store.turns()]
    assert [one is None for one in written] == [True] * 5 + [False] * 2, (
        "what others' entries would have held is not told"
    )


@pytest.mark.parametrize("platform", APART)
def test_tenants_share_with_all_where_the_policy_lets_them(tmp_path: Path, platform: str) -> None:
    """The twin: without the key or the salt one is read by all."""
    provider = Provider(platform)
    with provider.stack:
        cache = CachePolicy(isolate_tenants=False)
        assert asked_by(provider, tmp_path, "aabba--", cache=cache) == [0, 1, 1, 1, 1, 1, 1]
        assert not {KEY, "cache_salt"} & {name for body in provider.bodies for name in body}


@pytest.mark.parametrize("platform", ["server", "llamacpp", "azure", "deepseek"])
def test_a_server_that_is_not_known_to_separate_is_sent_no_salt(tmp_path: Path, platform: str) -> None:
    """Contract line 2: an unknown field may be a 400, and a salt that does nothing promises what is not so."""
    accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False)), environ={})
    provider = "openai" if platform == "azure" else "compatible"
    with accel, accel.session("s", tenant="acme"):
        model = NEW if platform == "azure" else "m"
        plan = accel.plan({"model": model, "messages": [user(prose(2000))]}, provider=provider, platform=platform)
    assert not {KEY, "cache_salt"} & set(plan.options)


def test_a_tenants_key_is_the_same_in_every_process(tmp_path: Path) -> None:
    """Must hold: a key that is made anew at a restart is another cache. With a store, and without one."""
    found = []
    for enabled in (True, True, False, False):
        policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db", enabled=enabled))
        with Accel(policy, environ={}) as accel, accel.session(f"s{len(found)}", tenant="acme"):
            body = {"model": NEW, "messages": [user(prose(2000))]}
            plan = accel.plan(body, provider="openai")
        found.append(plan.options[KEY])
        assert "keeps the tenant's prefixes apart" in plan.reasons
    assert found[0] == found[1] != found[2] == found[3]


def test_a_conversation_that_the_provider_holds_keeps_its_key(provider: Provider, tmp_path: Path) -> None:
    """Mandated since 5.6: another key, or none, is another cache. The rest of such a request is as written."""
    accel, client = provider.wrapped(tmp_path)
    with accel.session("s", tenant="acme"):
        first = client.responses.create(model=NEW, instructions="Rules. " * 2000, input="Hello")
        provider.clock.advance(20)
        asked = {"model": NEW, "instructions": "Rules. " * 2000, "input": "Go on", "previous_response_id": first.id}
        client.responses.create(**asked)
    assert provider.bodies[1] == {**asked, KEY: provider.bodies[0][KEY]}
    assert provider.reads[1] > 1000


def test_nobody_waits_for_what_another_tenant_writes() -> None:
    """Chosen by us: it could not be read. The twin is the same tenant, who waits."""
    for other, waits in (("umbrella", False), ("acme", True)):
        policy = Policy(strict=True, store=StorePolicy(enabled=False), cache=CachePolicy(max_wait=30))
        with Accel(policy, clock=ManualClock(now=1e9), environ={}) as accel:
            goes = []
            turns = []
            for number, tenant in enumerate(("acme", other)):
                with accel.session(f"s{number}", tenant=tenant):
                    big = {"role": "developer", "content": prose(30_000)}
                    body = {"model": NEW, "messages": [big, user(f"task {number}")]}
                    turns.append(accel.turn(body, provider="openai"))
                goes.append(isinstance(turns[-1].handle(Started(float(number) / 10, can_wait=True))[-1], Send))
            assert goes == [True, not waits]


# --- retention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        ("gpt-4.1", {"24h", "in_memory"}),
        ("gpt-5.2", {"24h", "in_memory"}),
        ("gpt-5.5", {"24h"}),
        ("gpt-4o", set()),
        ("gpt-5-mini", set()),
        (NEW, set()),
    ],
)
def test_retention_is_asked_of_models_that_are_known_to_take_it(
    provider: Provider, tmp_path: Path, model: str, taken: set[str]
) -> None:
    """Contract line 2: the provider takes all of these; since 5.6 lifetimes are chosen by `ttl`."""
    for asked in ("24h", "in_memory", None):
        given = CachePolicy(retention=asked)  # type: ignore[arg-type]  # of three values
        (tmp_path / str(asked)).mkdir()
        _, client = provider.wrapped(tmp_path / str(asked), cache=given)
        client.chat.completions.create(model=model, messages=[RULES, user("a")])
        sent = provider.bodies[-1].get("prompt_cache_retention")
        assert sent == (asked if asked in taken else None)
        assert provider.emulator.log[-1].status == 200
        own = "24h"
        client.chat.completions.create(model=model, messages=[RULES, user("a")], prompt_cache_retention=own)
        assert provider.bodies[-1]["prompt_cache_retention"] == own


def test_a_retention_that_nobody_offers_is_refused_where_it_is_written() -> None:
    """Chosen by us."""
    with pytest.raises(ConfigError):
        replace(CachePolicy(), retention="1h")  # type: ignore[arg-type]  # that is the point
