"""The emulator without sockets: a request and a time in, a reply planned to the byte and the second out.

>>> import json
>>> request = HttpRequest(method="POST", path="/v1/messages",
...     headers={"x-api-key": "k", "anthropic-version": "2026-10-21"},
...     body=json.dumps({"model": "claude-sonnet-5", "max_tokens": 99,
...                      "messages": [{"role": "user", "content": "Hello"}]}).encode())
>>> reply = Emulator(script=["Hi."]).handle(request, now=0.0)
>>> reply.status, json.loads(reply.body)["content"]
(200, [{'type': 'text', 'text': 'Hi.'}])
"""

from __future__ import annotations

import threading
from dataclasses import asdict

from agentaccel.clock import Clock, ManualClock
from agentaccel.errors import ConfigError
from agentaccel_emulator.accounts import Counters, LogEntry
from agentaccel_emulator.anthropic_cache import PromptCache
from agentaccel_emulator.anthropic_wire import error_body
from agentaccel_emulator.apis import apis_of
from agentaccel_emulator.behaviour import Behaviour
from agentaccel_emulator.calls import Call
from agentaccel_emulator.exchange import HttpReply, HttpRequest, json_reply, read_json
from agentaccel_emulator.faults import FaultPlan, FaultsLike, faults_of
from agentaccel_emulator.gateway_api import GatewayApi
from agentaccel_emulator.given import number
from agentaccel_emulator.messages_api import MessagesApi
from agentaccel_emulator.openai_api import OpenAiApi
from agentaccel_emulator.script import ScriptLike, script_of
from agentaccel_emulator.trial import Problem

_NO_CALL = "req_emulated"


class Emulator:
    """A local provider with its prompt cache, its refusals and its faults. Thread-safe.

    A script that is a function is called under the emulator's lock and must not call the emulator.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        script: ScriptLike = None,
        faults: FaultsLike = None,
        clock: Clock | None = None,
        platform: str = "api",
        behaviour: Behaviour | None = None,
    ) -> None:
        """Serve `model` only, or every model that the facts list; `clock` is read where no time is given.

        `platform` says whose rules hold at the paths that several platforms share: api, azure, bedrock, vllm, ...

        Raises UnknownModel where nothing is known of `model`, and ConfigError for a platform, script or faults that
        cannot be.
        """
        self.behaviour = behaviour or Behaviour()
        self.platform = platform
        self.clock: Clock = clock or ManualClock()
        self._lock = threading.RLock()
        self._apis = apis_of(model=model, platform=platform, behaviour=self.behaviour)
        self._messages = next(api for api in self._apis if isinstance(api, MessagesApi))
        self._script = script_of(script)
        self._faults = FaultPlan(faults_of(faults))
        self._counters = Counters()
        self._log: list[LogEntry] = []
        self._strikable = 0

    @property
    def places(self) -> tuple[tuple[str, tuple[str, str]], ...]:
        """Beginnings of paths at which an API compatible with OpenAI's answers, each with its provider and platform."""
        apis = (api for api in self._apis if isinstance(api, OpenAiApi | GatewayApi))
        return tuple(place for api in apis for place in api.places)

    def reset(self) -> None:
        """Forget the cache, the log, the totals and what has struck; script, faults and clock stay."""
        with self._lock:
            for api in self._apis:
                api.reset()
            self._faults.reset()
            self._counters = Counters()
            self._log = []
            self._strikable = 0

    def use_script(self, script: ScriptLike) -> None:
        """Answer from `script` from now on. Raises ConfigError where it is none."""
        with self._lock:
            self._script = script_of(script)

    def use_faults(self, faults: FaultsLike) -> None:
        """Strike with `faults` from now on; `at` still counts all calls since the last reset."""
        with self._lock:
            self._faults = FaultPlan(faults_of(faults))

    @property
    def log(self) -> tuple[LogEntry, ...]:
        """Every call so far, oldest first."""
        with self._lock:
            return tuple(self._log)

    @property
    def counters(self) -> Counters:
        """The running totals; they go on counting."""
        return self._counters

    @property
    def cache(self) -> PromptCache:
        """The prompt cache of the Messages API, for tests that look inside."""
        return self._messages.cache

    def handle(self, request: HttpRequest, now: float | None = None) -> HttpReply:
        """The reply to `request`, which starts at `now` (seconds since the epoch; None reads the clock).

        Nothing is awaited: the reply says when each of its bytes leaves. The table of entries is at once as it will
        be then, and shows an entry only to requests that start after the first byte of the reply that writes it.
        """
        path, _, query = request.path.partition("?")
        with self._lock:
            now = self.clock.wall() if now is None else now
            if path.startswith("/_ctl"):
                return self._control(request.method, path, request.body)
            api = next((api for api in self._apis if api.takes(path)), None)
            if api is None:
                return _refused(Problem("Not found", "not_found_error", 404))
            if request.method not in api.methods(path):
                return _refused(Problem("Method Not Allowed", "invalid_request_error", 405))
            striking = api.generates(path)
            self._strikable += striking
            call = Call(
                number=len(self._log) + 1,
                now=now,
                path=path,
                query=query,
                method=request.method,
                headers={name.lower(): value for name, value in request.headers.items()},
                body=request.body,
                fault=self._faults.strike(self._strikable, request.body) if striking else None,
            )
            outcome = api.answer(call, self._script)
            self._book(outcome.entry)
            return outcome.reply

    def _book(self, entry: LogEntry) -> None:
        self._log.append(entry)
        if entry.status != 200:
            self._counters.refused(entry.status)
        elif entry.usage is not None and entry.model is not None:
            self._counters.answered(entry.model, entry.usage)

    def _control(self, method: str, path: str, body: bytes) -> HttpReply:
        """The control path: not part of any provider's API."""
        if method == "GET" and path == "/_ctl/log":
            return json_reply(200, [asdict(entry) for entry in self._log], {})
        if method == "GET" and path == "/_ctl/counters":
            return json_reply(200, self._counters.as_json(), {})
        if method != "POST" or path != "/_ctl":
            return _refused(Problem("Not found", "not_found_error", 404))
        try:
            self._obey(read_json(body))
        except (ConfigError, ValueError, KeyError, TypeError, AttributeError) as error:
            return _refused(Problem(f"{type(error).__name__}: {error}"))
        return json_reply(200, {"now": self.clock.wall()}, {})

    def _obey(self, order: dict[str, object]) -> None:
        match order:
            case {"op": "advance", "seconds": float() | int() as seconds}:
                advance = getattr(self.clock, "advance", None)
                if advance is None:
                    raise ConfigError("this emulator's clock cannot be moved")
                number("what a clock is advanced by, in seconds,", seconds)
                advance(float(seconds))
            case {"op": "reset"}:
                self.reset()
            case {"op": "script", "script": list() | dict() | None as script}:  # never the path of one
                self.use_script(script)
            case {"op": "faults", "faults": list() | None as faults}:
                self.use_faults(faults)
            case _:
                raise ConfigError(
                    "use op advance (seconds), reset, script (its content: a list or an object) or faults (a list)"
                )


def _refused(problem: Problem) -> HttpReply:
    return json_reply(problem.status, error_body(problem, _NO_CALL), {"request-id": _NO_CALL})
