"""An agent in front of the emulator, and what OpenTelemetry's SDK was given meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import openai
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.otel import export
from agentaccel_emulator import RunningServer

MODEL, GPT = "claude-sonnet-5", "gpt-6-sol"
SYSTEM = "You help the customers of a shop for lamps. " * 200
ASK: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 100,
    "system": SYSTEM,
    "messages": [{"role": "user", "content": "Where is order 7?"}],
}


@dataclass
class Telemetry:
    """Providers that keep what they get."""

    spans_kept: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans_kept))
        self.meters = MeterProvider([self.reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order in which they ended."""
        return list(self.spans_kept.get_finished_spans())

    def said(self, name: str) -> list[dict[str, Any]]:
        """The attributes of every span of that operation, from whichever instrumentation."""
        found = [dict(span.attributes or {}) for span in self.spans]
        return [one for one in found if one.get("gen_ai.operation.name") == name]

    def points(self, metric: str) -> list[Any]:
        """The points of one metric; none where nothing was recorded."""
        data = self.reader.get_metrics_data()
        metrics = [
            one
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
        ]
        return [point for one in metrics for point in one.data.data_points]

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()


def watched(folder: Path, server: RunningServer, telemetry: Telemetry, **options: Any) -> Accel:
    """An `Accel` on the server's clock whose spans and metrics `telemetry` keeps."""
    policy = Policy(strict=True, store=StorePolicy(path=folder / "trace.db"))
    accel = Accel(policy, clock=server.clock)
    export(accel, tracer_provider=telemetry.tracers, meter_provider=telemetry.meters, **options)
    return accel


def claude(server: RunningServer, **options: Any) -> anthropic.Anthropic:
    """The real SDK; its own tracing is off unless asked for."""
    return anthropic.Anthropic(
        base_url=server.url, api_key="k", **{"max_retries": 0, "open_telemetry": False, **options}
    )


def async_claude(server: RunningServer, **options: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=server.url, api_key="k", **{"max_retries": 0, "open_telemetry": False, **options}
    )


def gpt(server: RunningServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
