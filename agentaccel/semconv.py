"""Names of OpenTelemetry's conventions for generative AI: strings of our own, because the Python packages' lag behind.

Source: github.com/open-telemetry/semantic-conventions-genai (docs/gen-ai: spans, metrics, registry), status
Development, read on 2026-11-21. `cache_write` was `cache_creation` until its pull request 440. Drafts on its main
branch put `gen_ai.client.inference.*` in place of the two metrics `gen_ai.client.*`; ours are still those.
"""

from __future__ import annotations

import re

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
AGENT = "gen_ai.agent.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
"""Seconds from the request to the first piece of a streamed reply."""
INPUT_TOKENS = "gen_ai.usage.input_tokens"
"""Inclusive of what was read from the cache and written to it."""
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"
HTTP_STATUS = "http.response.status_code"

CHAT, EXECUTE_TOOL, INVOKE_AGENT = "chat", "execute_tool", "invoke_agent"
INFERENCE = frozenset({CHAT, "generate_content", "text_completion"})
"""Operations that are one request to a model."""

OTHER_ERROR = "_OTHER"
"""The type of an error that has no better name."""

TOKEN_USAGE = "gen_ai.client.token.usage"
TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
OPERATION_DURATION = "gen_ai.client.operation.duration"
TOOL_DURATION = "gen_ai.execute_tool.duration"
DURATION_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)

# --- what the conventions have no name for ----------------------------------------------------------------------------

MODE = "agentaccel.mode"
OUTCOME = "agentaccel.outcome"
HIT_RATIO = "agentaccel.cache.hit_ratio"
WRITTEN_FOR = "agentaccel.cache.write."
"""Before the label of a lifetime: tokens written with it."""
TERM = "agentaccel.price."
"""Before the name of what a request is priced by, such as "service_tier", where it is not the usual."""
BILLED = "agentaccel.billed"
"""JSON of `TurnRecord.besides`: what a reply was billed for beside the sampling that answered. The usage of that one
stands under the conventions' names."""
DOUBTS = "agentaccel.doubts"
"""Names of counters of the reply that contradict one another; what they would tell is not there."""
MISS_CAUSES = "agentaccel.cache.miss_causes"
COST_PAID = "agentaccel.cost.paid"
COST_SAVED = "agentaccel.cost.saved"
ATTEMPT = "agentaccel.attempt"
WAITED = "agentaccel.waited"
"""Seconds for which a request was held back before its span begins."""

SPECULATIVE = "agentaccel.tool.speculative"
"""A run that was begun before its call; the call has a span of its own."""
SERVED_FROM = "agentaccel.tool.served_from"
HIDDEN = "agentaccel.tool.hidden"
"""Seconds of the run that served this call for which the call did not wait."""

# --- providers --------------------------------------------------------------------------------------------------------

PROVIDERS = {
    ("anthropic", "api"): "anthropic",
    ("anthropic", "bedrock"): "aws.bedrock",
    ("anthropic", "vertex"): "gcp.vertex_ai",
    ("anthropic", "foundry"): "anthropic",
    ("anthropic", "aws"): "anthropic",
    ("openai", "api"): "openai",
    ("openai", "azure"): "azure.ai.openai",
    ("compatible", "deepseek"): "deepseek",
    ("compatible", "groq"): "groq",
    ("compatible", "mistral"): "mistral_ai",
    ("compatible", "moonshot"): "moonshot_ai",
    ("compatible", "perplexity"): "perplexity",
    ("compatible", "xai"): "x_ai",
    ("compatible", "anthropic"): "anthropic",
    ("compatible", "server"): "openai",
}
"""The conventions' names for our providers and platforms. A platform that has none goes by our own name. A server that
is not known goes by the form of telemetry that it speaks, which is what the attribute is for."""

_OTHER_PROVIDERS = {
    "az.ai.openai": "azure.ai.openai",
    "azure": "azure.ai.openai",
    "azure-openai": "azure.ai.openai",
    "vertex-ai": "gcp.vertex_ai",
    "vertex": "gcp.vertex_ai",
    "google-vertex": "gcp.vertex_ai",
    "google.vertex": "gcp.vertex_ai",
    "xai": "x_ai",
    "mistral": "mistral_ai",
    "aws": "aws.bedrock",
    "bedrock": "aws.bedrock",
    "bedrock-converse": "aws.bedrock",
    "aws-bedrock": "aws.bedrock",
    "amazon-bedrock": "aws.bedrock",
}
"""Names that `gen_ai.system`, or an instrumentation of its own, has for the same; a blank or "_" is "-" here."""


def provider_told(name: str) -> str:
    """The conventions' name for who answers, of the names that instrumentations have for them: in any case of letters,
    and with the form of the request behind a dot.

    >>> [provider_told(name) for name in ("AWS", "amazon_bedrock", "azure.chat", "openai.responses", "x_ai")]
    ['aws.bedrock', 'aws.bedrock', 'azure.ai.openai', 'openai', 'x_ai']
    """
    own = name.casefold()
    if own in PROVIDERS.values():
        return own
    parts = re.sub("[ _]", "-", own).split(".")
    beginnings = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((_OTHER_PROVIDERS.get(one, one) for one in beginnings if _is_told(one)), name)


def _is_told(name: str) -> bool:
    return name in _OTHER_PROVIDERS or name in PROVIDERS.values()


def provider_name(provider: str, platform: str) -> str:
    """The conventions' name for who answers, or ours where they have none."""
    return PROVIDERS.get((provider, platform), platform if provider == "compatible" else provider)
