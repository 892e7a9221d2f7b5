"""What agentaccel sees, as OpenTelemetry spans and metrics: `export(accel)`. Needs the extra `otel`.

Never content, never a tool's arguments or results. What a provider did not report is absent, never 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentaccel.accel import Accel
from agentaccel.errors import MissingExtraError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["export"]


def export(
    accel: Accel,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    model_spans: bool = True,
    model_metrics: bool = True,
) -> None:
    """Make spans and metrics of every request and tool run of `accel` that begins from now on.

    The providers are by default the application's global ones. Where another instrumentation's span of the same call
    is open around it, as the `anthropic` SDK's own is, that span gets what it lacks and no second one is made;
    `model_spans=False` makes none for any request, for instrumentations that cannot be seen. `model_metrics=False`
    leaves the `gen_ai.client.*` metrics to another one. Raises `MissingExtraError` without the extra `otel`.
    """
    try:
        import opentelemetry.metrics
        import opentelemetry.trace
    except ImportError:
        raise MissingExtraError("otel", "opentelemetry-api") from None
    import agentaccel
    from agentaccel.otel.exporter import Exporter, Meters, SpanPrices

    version = agentaccel.__version__
    accel.add_hook(
        Exporter(
            opentelemetry.trace.get_tracer("agentaccel", version, tracer_provider=tracer_provider),
            Meters(
                opentelemetry.metrics.get_meter("agentaccel", version, meter_provider=meter_provider),
                standard=model_metrics,
            ),
            SpanPrices(accel.policy),
            model_spans=model_spans,
        )
    )
