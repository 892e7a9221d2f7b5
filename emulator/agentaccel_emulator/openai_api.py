"""The emulated Chat Completions and Responses APIs: checks, prompt, caches, script and rendering put together.

One object serves one host: OpenAI's, Azure's, or a server that speaks the same APIs, with the facts of its platform.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel.facts import CacheFacts, Wire, cache_facts, plain_name, table
from agentaccel_emulator.accounts import Bucket, RateMeter, drain
from agentaccel_emulator.behaviour import Behaviour
from agentaccel_emulator.calls import Call, Outcome, entry_of, hung
from agentaccel_emulator.exchange import json_reply
from agentaccel_emulator.openai_caches import Asked, PromptCaches
from agentaccel_emulator.openai_candidate import Candidate
from agentaccel_emulator.openai_diagnosis import CacheDiagnoser, remembered
from agentaccel_emulator.openai_generation import Billed, body_of, completed, id_of, reply_to, shape_of, with_extra
from agentaccel_emulator.openai_held import answer_held
from agentaccel_emulator.openai_paths import Place, place_of
from agentaccel_emulator.openai_prompt import read_tape
from agentaccel_emulator.openai_reading import read_chat, read_responses
from agentaccel_emulator.openai_shapes import objection, outputs_answer
from agentaccel_emulator.openai_state import HeldState, conversation_of
from agentaccel_emulator.openai_wire import Completion, Shape, Streams, error_body, fault_problem, limit_headers
from agentaccel_emulator.script import Script
from agentaccel_emulator.trial import Problem

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Whose APIs are emulated, and where."""

    provider: str
    """openai or compatible."""
    platform: str
    """The platform in the provider's facts."""
    prefixes: tuple[str, ...]
    """What the paths begin with, the longest first."""
    gateway: str = ""
    """The platform of the gateway in front, which streams usage in its own way; empty where there is none."""

    @property
    def strict(self) -> bool:
        """Whether unknown fields are refused."""
        return self.provider == "openai"


class OpenAiApi:
    """The two APIs of one host. Not thread-safe: its owner takes turns."""

    def __init__(self, *, model: str | None, host: Host, behaviour: Behaviour) -> None:
        """Serve `model` only, or every model that the facts list; a server of its own serves any name."""
        self._model, self._host, self._behaviour = model, host, behaviour
        self.places = tuple((prefix, (host.provider, host.platform)) for prefix in host.prefixes)
        self.reset()

    def reset(self) -> None:
        self.caches = PromptCaches(self._behaviour)
        self.state = HeldState()
        self._meter = RateMeter(self._behaviour.limits)
        self._diagnoser = CacheDiagnoser()
        self._served = 0

    def _place(self, path: str) -> Place | None:
        return place_of(path, self._host.prefixes, azure=self._host.platform == "azure")

    def takes(self, path: str) -> bool:
        return self._place(path) is not None

    def methods(self, path: str) -> tuple[str, ...]:
        place = self._place(path)
        return place.methods if place is not None else ()

    def generates(self, path: str) -> bool:
        place = self._place(path)
        return place is not None and place.operation in ("chat", "responses")

    def serves(self, model: str) -> bool:
        return not self._host.strict or self._facts(model, "chat") is not None

    def _facts(self, model: str, wire: Wire) -> CacheFacts | None:
        return cache_facts(
            model,
            provider=self._host.provider,
            platform=self._host.platform,
            wire=wire,
            aliases=self._behaviour.aliases,
        )

    def _serves(self, model: str, wire: Wire) -> bool:
        """Whether a request may ask for `model`; a server of its own serves what it has loaded, whatever its name."""
        if self._model not in (None, model):
            return False
        facts = self._facts(model, wire)
        return not self._host.strict or (facts is not None and (not facts.family or model == self._model))

    def answer(self, call: Call, script: Script) -> Outcome:
        place = self._place(call.path)
        if place is None:
            raise LookupError(f"this API does not take {call.path}")
        if call.goes_wrong("timeout"):
            return hung(call)
        if call.fault is not None and call.fault.status is not None:
            return refused(call, fault_problem(call.fault), headers=call.fault.headers)
        candidate = Candidate(
            headers=call.headers,
            raw=call.body,
            wire=place.wire,
            strict=self._host.strict,
            resolve=lambda model: self._facts(model, place.wire),
            serves=lambda model: self._serves(model, place.wire),
            deployment=place.name if place.operation == "chat" and place.name else None,
            api_keys=self._behaviour.api_keys,
            refused=self._behaviour.refused_fields,
        )
        if place.versioned and "api-version=" not in call.query:
            return refused(call, Problem("Resource not found", "invalid_request_error", 404, None, "404"))
        workspace = self._workspace(candidate)
        if place.operation not in ("chat", "responses", "count"):
            return answer_held(call, place, self.state, workspace)
        skipped = self._behaviour.skipped_checks
        if not self._host.strict and self._behaviour.api_keys is None:
            skipped |= {"authentication"}  # many such servers ask for no key
        if (found := objection(candidate, skipped)) is not None:
            return refused(call, found[1], check=found[0])
        return self._read(call, candidate, place, workspace, script)

    def tokens(self, chat: Json) -> int:
        """Tokens of the prompt that a chat makes, which is not asked."""
        tokenizer = self._behaviour.tokenizer_of(self._name(chat["model"]))
        return sum(piece.tokens(tokenizer) for piece in read_chat(chat, table("compatible")["tokens"]["image"]).pieces)

    def _name(self, model: str) -> str:
        """The model's plain name: aliases and dated names share one cache."""
        return plain_name(self._behaviour.aliases.get(model, model))

    def _workspace(self, candidate: Candidate) -> str:
        key = candidate.api_key or ""
        named = candidate.headers.get("openai-organization")
        return named or self._behaviour.workspaces.get(key) or f"org_of_{key}"

    def _read(self, call: Call, candidate: Candidate, place: Place, workspace: str, script: Script) -> Outcome:
        body: Json = {**candidate.body, "model": candidate.model}
        context = self._context(body, place, workspace)
        if isinstance(context, Problem):
            return refused(call, context, check="history")
        name = self._name(body["model"])
        tokenizer = self._behaviour.tokenizer_of(name)
        facts = candidate.facts
        images = facts.image_tokens if facts is not None else table("compatible")["tokens"]["image"]
        prompt = read_chat(body, images) if place.wire == "chat" else read_responses(body, context, images)
        if place.operation == "count":
            tokens = sum(piece.tokens(tokenizer) for piece in prompt.pieces)
            reply = json_reply(200, {"object": "response.input_tokens", "input_tokens": tokens}, {})
            return Outcome(reply=reply, entry=entry_of(call, status=200, request=candidate.body))
        buckets = self._meter.open(workspace, name, call.now)
        if (used_up := self._meter.refusal(buckets)) is not None:
            return limited(call, body["model"], buckets, *used_up)
        asked = Asked(
            prompt=prompt,
            body=body,
            facts=facts,
            scope=[workspace, place.wire, name],
            tokenizer=tokenizer,
            now=call.now,
        )
        request = Billed(
            body=body,
            wire=place.wire,
            context=context,
            prompt=prompt,
            facts=facts,
            bill=self.caches.bill(asked),
            workspace=workspace,
            buckets=buckets,
            tokenizer=tokenizer,
        )
        return self._reply(call, request, script)

    def _context(self, body: Json, place: Place, workspace: str) -> Sequence[Json] | Problem:
        """The whole conversation of a request, or why it is refused."""
        if place.wire == "chat":
            messages: Sequence[Json] = body["messages"]
            return messages
        context = self.state.context(workspace, body)
        if isinstance(context, Problem):
            return context
        return outputs_answer(context) or context

    def _reply(self, call: Call, request: Billed, script: Script) -> Outcome:
        replies = request.replies(script, self._served)
        self._served += 1
        completion = completed(call, request, replies, self._behaviour)
        first, last = completion.seconds
        request.bill.keep(call.now + first)
        usage = completion.usage
        drain(request.buckets, usage.input, usage.output)
        shape = shape_of(call, request, self._behaviour, self._habit())
        completion = with_extra(
            completion, shape, streams_in(self._host.gateway or self._host.platform), self._extra(request, completion)
        )
        if request.wire == "responses":
            self.state.keep(request.workspace, request.body, body_of(completion, "responses"), request.context)
        entry = entry_of(
            call,
            status=200,
            request=request.body,
            workspace=request.workspace,
            message_id=id_of(completion, request.wire),
            usage=usage,
            markers=request.bill.markers,
            hit=request.bill.hit,
            leaves=sum(1 for _ in request.prompt.pieces),
            first_byte=first,
            seconds=last,
        )
        reply = reply_to(call, completion, request.wire, limit_headers(request.buckets))
        return Outcome(reply=reply, entry=entry)

    def _habit(self) -> Shape:
        if self._host.strict:
            return "openai"
        shapes: Mapping[str, Shape] = table("compatible")["shapes"]
        return shapes.get(self._host.platform, shapes["default"])

    def _extra(self, request: Billed, completion: Completion) -> dict[str, object]:
        """What a response says of its cache and its conversation beyond what the request said."""
        if request.wire == "chat" or not self._host.strict:
            return {}
        extra: dict[str, object] = {}
        if (name := conversation_of(request.body)) is not None:
            extra["conversation"] = {"id": name}
        extra["prompt_cache_retention"] = request.body.get("prompt_cache_retention") or "24h"
        if request.facts is None or request.facts.physics != "breakpoints":
            return extra
        options = request.body.get("prompt_cache_options") or {}
        compared = options.get("comparison_response_id")
        applied = {"mode": options.get("mode", "implicit"), "ttl": options.get("ttl", request.facts.ttls[0].label)}
        extra["prompt_cache_options"] = {**applied, "comparison_response_id": compared}
        tape = read_tape(dataclasses.replace(request.prompt, seed=None), None, request.tokenizer)
        note = remembered(request.body, request.context, tape.tokens, tape.hashes)
        if compared is not None:
            read = completion.usage.read
            extra["prompt_cache_diagnostics"] = self._diagnoser.diagnose(request.workspace, compared, note, read)
        self._diagnoser.remember(request.workspace, id_of(completion, "responses"), note)
        return extra


def streams_in(platform: str) -> Streams:
    """Where streams on a platform have their usage."""
    habits: Mapping[str, Streams] = table("compatible")["streams"]
    return habits.get(platform, habits["default"])


def refused(
    call: Call, problem: Problem, *, check: str | None = None, headers: Mapping[str, str] | None = None
) -> Outcome:
    """A refusal in OpenAI's form."""
    reply = json_reply(problem.status, error_body(problem), {"x-request-id": call.request_id, **(headers or {})})
    return Outcome(reply=reply, entry=entry_of(call, status=problem.status, check=check, error=problem.message))


def limited(call: Call, model: str, buckets: tuple[Bucket, ...], name: str, wait: float) -> Outcome:
    """The refusal of a request that finds a rate limit used up."""
    kind, short = ("requests", "RPM") if name == "requests" else ("tokens", "TPM")
    limit = buckets[0 if kind == "requests" else 1].limit
    text = (
        f"Rate limit reached for {model} on {kind} per min ({short}): Limit {limit}, Used {limit}. "
        f"Please try again in {int(wait) + 1}s. Visit https://platform.openai.com/account/rate-limits to learn more."
    )
    headers = {**limit_headers(buckets), "retry-after": str(int(wait) + 1)}
    return refused(call, Problem(text, kind, 429, None, "rate_limit_exceeded"), headers=headers)
