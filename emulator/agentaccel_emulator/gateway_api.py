"""A gateway in the manner of OpenRouter: one Chat Completions API in front of several vendors' caches.

`vendor/model` names whose rules hold. Claude is asked through the Messages API with the markers that stand on content;
OpenAI's models through their own; of others nothing is cached. Sticky routing is not modelled: every request finds the
upstream that the one before it was sent to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import orjson

from agentaccel.facts import table
from agentaccel_emulator.behaviour import Behaviour
from agentaccel_emulator.calls import Call, Outcome, decoded, entry_of, hung
from agentaccel_emulator.exchange import HttpReply, json_reply
from agentaccel_emulator.gateway_translation import messages_request, written_of
from agentaccel_emulator.messages_api import MessagesApi
from agentaccel_emulator.openai_api import Host, OpenAiApi, streams_in
from agentaccel_emulator.openai_candidate import Candidate
from agentaccel_emulator.openai_generation import reply_to
from agentaccel_emulator.openai_shapes import objection
from agentaccel_emulator.openai_wire import Completion, fault_problem
from agentaccel_emulator.script import Script

Json = Mapping[str, Any]

_PATH = "/chat/completions"
_OWN_FIELDS = frozenset(
    {"provider", "session_id", "models", "route", "transforms", "plugins", "usage", "cache_control"}
)
"""Fields of the gateway's own, which it does not pass on to OpenAI."""


class GatewayApi:
    """The gateway. Not thread-safe: its owner takes turns."""

    def __init__(self, *, model: str | None, behaviour: Behaviour, prefixes: tuple[str, ...]) -> None:
        """Serve `model` only, or every model, at paths that begin with one of the prefixes."""
        self.places = tuple((prefix, ("compatible", _platform())) for prefix in prefixes)
        self._model, self._behaviour, self._prefixes = model, behaviour, prefixes
        named = (model or "").partition("/")[2] or None
        self._claude = MessagesApi(model=named, platform="api", behaviour=behaviour)
        hosts = (
            Host(provider=provider, platform=place, prefixes=prefixes, gateway=_platform())
            for provider, place in (("openai", "api"), ("compatible", "server"))
        )
        openai, other = (OpenAiApi(model=model, host=host, behaviour=behaviour) for host in hosts)
        self._openai, self._other = openai, other

    def takes(self, path: str) -> bool:
        return any(path == prefix + _PATH for prefix in self._prefixes)

    def methods(self, path: str) -> tuple[str, ...]:
        return ("POST",)

    def generates(self, path: str) -> bool:
        return True

    def serves(self, model: str) -> bool:
        return self._claude.serves(model) or self._openai.serves(model)

    def reset(self) -> None:
        for api in (self._claude, self._openai, self._other):
            api.reset()

    def answer(self, call: Call, script: Script) -> Outcome:
        if call.goes_wrong("timeout"):
            return hung(call)
        if call.fault is not None and call.fault.status is not None:
            problem = fault_problem(call.fault)
            return _refused(call, problem.status, problem.message, headers=call.fault.headers)
        body = decoded(call.body)
        vendor = str(body.get("model", "")).partition("/")[0] if body is not None else ""
        upstream = table("compatible")["upstreams"].get(vendor, {}).get("provider")
        if body is not None and upstream == "anthropic":
            return self._through_messages(call, script)
        if body is not None and upstream == "openai":
            return self._through_chat(call, body, script)
        return self._other.answer(call, script)

    def _through_messages(self, call: Call, script: Script) -> Outcome:
        candidate = Candidate(
            headers=call.headers,
            raw=call.body,
            wire="chat",
            strict=False,
            resolve=lambda model: None,
            serves=lambda model: True,  # the upstream judges
            api_keys=self._behaviour.api_keys,
            refused=self._behaviour.refused_fields,
        )
        if (found := objection(candidate, self._behaviour.skipped_checks)) is not None:
            return _refused(call, found[1].status, found[1].message, check=found[0])
        delayed = call.fault if call.goes_wrong("slow_first_token") else None
        headers = {**call.headers, "anthropic-version": "2023-06-01"}
        raw = orjson.dumps(messages_request(candidate.body))
        inner = self._claude.answer(
            dataclasses.replace(call, path="/v1/messages", headers=headers, body=raw, fault=delayed), script
        )
        if inner.entry.status != 200 or inner.entry.usage is None:
            check, status = inner.entry.check, inner.entry.status
            return _refused(call, status, "Provider returned error", check=check, raw=inner.reply.body)
        silent = call.goes_wrong("missing_usage")
        completion = Completion(
            id=f"emulated{call.number:012d}",
            created=call.now,
            model=candidate.body["model"],
            choices=(written_of(orjson.loads(inner.reply.body)),),
            usage=inner.entry.usage,
            request=candidate.body,
            shape="nothing" if silent else "openai",
            streams=streams_in(_platform()),
            seconds=(inner.entry.first_byte, inner.entry.seconds),
            extra={"provider": "Anthropic"},
        )
        reply = reply_to(call, completion, "chat", {})
        streamed = candidate.body.get("stream") is True
        entry = dataclasses.replace(inner.entry, path=call.path, model=completion.model, streamed=streamed)
        entry = dataclasses.replace(entry, fault=call.fault.kind if call.fault is not None else None)
        return Outcome(reply=reply, entry=entry)

    def _through_chat(self, call: Call, body: Json, script: Script) -> Outcome:
        plain = {name: value for name, value in body.items() if name not in _OWN_FIELDS}
        if isinstance(plain.get("messages"), list):
            plain["messages"] = [_unmarked(message) for message in plain["messages"]]
        inner = self._openai.answer(dataclasses.replace(call, body=orjson.dumps(plain)), script)
        if inner.entry.status == 200:
            return inner
        check, status = inner.entry.check, inner.entry.status
        return _refused(call, status, "Provider returned error", check=check, raw=inner.reply.body, provider="OpenAI")


def _platform() -> str:
    """The name of the gateway among the platforms."""
    found: str = next(name for name, place in table("compatible")["platforms"].items() if place.get("upstream"))
    return found


def _unmarked(value: object) -> object:
    """A message without markers of another vendor; what is none is left to the checks."""
    if isinstance(value, Mapping):
        return {key: _unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value


def _refused(
    call: Call,
    status: int,
    message: str,
    *,
    check: str | None = None,
    raw: bytes = b"",
    provider: str = "Anthropic",
    headers: Mapping[str, str] | None = None,
) -> Outcome:
    """A refusal in the gateway's form; what the upstream said stands inside."""
    error: dict[str, object] = {"message": message, "code": status}
    if raw:
        error["metadata"] = {"raw": raw.decode(), "provider_name": provider}
    reply: HttpReply = json_reply(status, {"error": error}, {"x-request-id": call.request_id, **(headers or {})})
    return Outcome(reply=reply, entry=entry_of(call, status=status, check=check, error=raw.decode() or message))
