"""Claude on Bedrock and on Vertex: other paths, errors and streams around the Messages API with the platform's rules.

Paths and bodies are those of the anthropic SDK's own clients (lib/bedrock and lib/vertex of 2.12). What is not
published, such as most texts of errors, is marked *invented*.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import orjson

from agentaccel_emulator.bedrock_frames import chunk_frame, corrupt_frame, exception_frame
from agentaccel_emulator.calls import Call, Outcome, decoded, entry_of
from agentaccel_emulator.exchange import Chunk, HttpReply, json_reply
from agentaccel_emulator.messages_api import MessagesApi
from agentaccel_emulator.script import Script

Json = Mapping[str, Any]

_VERSIONS: Mapping[str, str] = {"bedrock-2023-05-31": "2023-06-01", "vertex-2023-10-16": "2023-06-01"}
"""Versions of the platforms' own, and the version of the Messages API that they stand for."""
_INVOKE = re.compile(r"/model/(?P<model>.+)/(?P<verb>invoke|invoke-with-response-stream)")
_PREDICT = re.compile(
    r"(?:/v1)?/projects/(?P<project>[^/]+)/locations/(?P<region>[^/]+)/publishers/anthropic/models/(?P<model>[^/]+)"
    r":(?P<verb>rawPredict|streamRawPredict)"
)
_AWS_ERRORS: Mapping[int, tuple[int, str]] = {
    401: (403, "AccessDeniedException"),
    403: (403, "AccessDeniedException"),
    404: (404, "ResourceNotFoundException"),
    429: (429, "ThrottlingException"),
    500: (500, "InternalServerException"),
    503: (503, "ServiceUnavailableException"),
    529: (503, "ServiceUnavailableException"),
}
_AWS_TEXTS: Mapping[str, str] = {
    "ThrottlingException": "Too many requests, please wait before trying again.",
    "ServiceUnavailableException": "Bedrock is unable to process your request.",
    "InternalServerException": "The system encountered an unexpected error during processing. Try your request again.",
}
_GOOGLE_ERRORS: Mapping[int, str] = {
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


class CloudApi:
    """What the two have in common: a Messages request in disguise is unwrapped, and the reply is wrapped up again."""

    path: re.Pattern[str]
    """The paths that it takes."""

    def __init__(self, inner: MessagesApi) -> None:
        """Answer from `inner`, which knows the platform's rules and holds its cache."""
        self._inner = inner

    def takes(self, path: str) -> bool:
        return self.path.fullmatch(path) is not None

    def methods(self, path: str) -> tuple[str, ...]:
        return ("POST",)

    def generates(self, path: str) -> bool:
        return "/models/count-tokens:" not in path

    def serves(self, model: str) -> bool:
        return self._inner.serves(model)

    def reset(self) -> None:
        self._inner.reset()

    def answer(self, call: Call, script: Script) -> Outcome:
        found = self.path.fullmatch(call.path)
        if found is None:
            raise LookupError(f"this API does not take {call.path}")
        body = decoded(call.body)
        if body is not None and (problem := self._problem(body)) is not None and call.fault is None:
            return self._refused(call, 400, problem)
        inner = self._inner.answer(self._unwrapped(call, body, found), script)
        entry = dataclasses.replace(inner.entry, path=call.path)
        return Outcome(reply=self._wrapped(call, inner), entry=entry)

    def _problem(self, body: Json) -> str | None:
        """Why the disguise itself is refused."""
        if "anthropic_version" not in body:
            return "anthropic_version: Field required"
        betas = body.get("anthropic_beta") or []
        if not isinstance(betas, list) or not all(isinstance(beta, str) for beta in betas):
            return "anthropic_beta: Input should be a valid list"
        return None

    def _unwrapped(self, call: Call, body: Json | None, found: re.Match[str]) -> Call:
        """The call as the Messages API would have it."""
        if body is None:
            return dataclasses.replace(call, path="/v1/messages")
        plain: dict[str, Any] = {**body}
        version = str(plain.pop("anthropic_version", ""))
        headers = {**call.headers, "anthropic-version": _VERSIONS.get(version, version)}
        if betas := plain.pop("anthropic_beta", None):
            headers["anthropic-beta"] = ",".join(betas)
        counting = found["model"] == "count-tokens"
        if not counting:
            plain = {"model": unquote(found["model"]), **plain}
        if found["verb"] == "invoke-with-response-stream":
            plain["stream"] = True
        path = "/v1/messages/count_tokens" if counting else "/v1/messages"
        return dataclasses.replace(call, path=path, headers=headers, body=orjson.dumps(plain))

    def _refused(self, call: Call, status: int, message: str) -> Outcome:
        entry = entry_of(call, status=status, check="platform", error=message)
        return Outcome(reply=self._error(call, status, "invalid_request_error", message), entry=entry)

    def _error(self, call: Call, status: int, kind: str, message: str) -> HttpReply:
        """A refusal in the platform's form."""
        raise NotImplementedError

    def _wrapped(self, call: Call, inner: Outcome) -> HttpReply:
        """The reply in the platform's form."""
        reply = inner.reply
        if reply.status < 400 or not reply.chunks:
            return reply
        error = orjson.loads(reply.body)["error"]
        wrapped = self._error(call, reply.status, error["type"], error["message"])
        faulty = call.fault.headers if call.fault is not None else {}
        kept = {name: value for name, value in reply.headers.items() if name == "retry-after"}
        return dataclasses.replace(wrapped, headers={**wrapped.headers, **kept, **faulty})


class BedrockApi(CloudApi):
    """InvokeModel and InvokeModelWithResponseStream."""

    path = _INVOKE

    def _problem(self, body: Json) -> str | None:
        extra = next((name for name in ("model", "stream") if name in body), None)
        return super()._problem(body) or (f"{extra}: Extra inputs are not permitted" if extra else None)

    def _error(self, call: Call, status: int, kind: str, message: str) -> HttpReply:
        status, name = _AWS_ERRORS.get(status, (status, "ValidationException"))
        if kind == "not_found_error":
            status, name, message = 400, "ValidationException", "The provided model identifier is invalid."
        headers = {"x-amzn-requestid": call.request_id, "x-amzn-errortype": name}
        return json_reply(status, {"message": _AWS_TEXTS.get(name, message)}, headers)

    def _wrapped(self, call: Call, inner: Outcome) -> HttpReply:
        reply = super()._wrapped(call, inner)
        if reply.status != 200:
            return reply
        usage = inner.entry.usage
        headers = {"x-amzn-requestid": call.request_id, "content-type": "application/json"}
        if usage is None:
            return dataclasses.replace(reply, headers=headers)
        if reply.streamed:
            chunks = tuple(Chunk(chunk.at, _framed(chunk.data, inner)) for chunk in reply.chunks)
            headers |= {"content-type": "application/vnd.amazon.eventstream"}
            headers |= {"x-amzn-bedrock-content-type": "application/json"}
            return dataclasses.replace(reply, chunks=chunks, headers=headers)
        headers |= {
            "x-amzn-bedrock-input-token-count": str(usage.uncached),
            "x-amzn-bedrock-output-token-count": str(usage.output),
            "x-amzn-bedrock-cache-read-input-token-count": str(usage.read),
            "x-amzn-bedrock-cache-write-input-token-count": str(usage.written),
            "x-amzn-bedrock-invocation-latency": f"{inner.entry.seconds * 1000:.0f}",
        }
        return dataclasses.replace(reply, headers=headers)


def _framed(event: bytes, inner: Outcome) -> bytes:
    """A server-sent event as a frame: errors become exceptions, and what cannot be read a frame that cannot be."""
    data = event.partition(b"\ndata: ")[2].rstrip(b"\n")
    decoded_ = decoded(data)
    if decoded_ is None:
        return corrupt_frame(data)
    if decoded_["type"] == "error":
        return exception_frame("serviceUnavailableException", _AWS_TEXTS["ServiceUnavailableException"])
    usage = inner.entry.usage
    if decoded_["type"] == "message_stop" and usage is not None:
        metrics = {
            "inputTokenCount": usage.uncached,
            "outputTokenCount": usage.output,
            "invocationLatency": round(inner.entry.seconds * 1000),
            "firstByteLatency": round(inner.entry.first_byte * 1000),
            "cacheReadInputTokenCount": usage.read,
            "cacheWriteInputTokenCount": usage.written,
        }
        data = orjson.dumps({**decoded_, "amazon-bedrock-invocationMetrics": metrics})
    return chunk_frame(data)


class VertexApi(CloudApi):
    """rawPredict and streamRawPredict of Anthropic's models; refusals by the model have Anthropic's form."""

    path = _PREDICT

    def _error(self, call: Call, status: int, kind: str, message: str) -> HttpReply:
        headers = {"request-id": call.request_id}
        if status not in _GOOGLE_ERRORS:
            error = {"type": kind, "message": message}
            return json_reply(status, {"type": "error", "error": error, "request_id": call.request_id}, headers)
        if status == 404:
            place = call.path.removeprefix("/v1").rpartition(":")[0].strip("/")
            message = f"Publisher Model `{place}` was not found or your project does not have access to it."
        body = {"error": {"code": status, "message": message, "status": _GOOGLE_ERRORS[status]}}
        return json_reply(status, body, headers)
