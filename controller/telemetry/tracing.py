"""OpenTelemetry traces of gangs, from admission until all members are bound. Optional: installed by `phalanx[tracing]`.

The ID of a gang's trace is the UID of its Gang object, so each can be found from the other. The root span lasts from
the creation of the gang's first object until all its members are bound. It has one child span for each phase that the
gang has left. The leading controller reports all spans, so pods need not carry a trace context.
OpenTelemetry's environment variables define where traces are sent, above all OTEL_EXPORTER_OTLP_ENDPOINT:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from controller.gang_status import Phase
from controller.telemetry.metrics import GangSample
from gangs.model import GangKey
from timing.clock import SYSTEM_CLOCK, Clock

_NANOSECONDS = 1_000_000_000
_HALF = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last reported state of a gang.

    `since`: when its phase began, in nanoseconds since the epoch. `placed`: whether its root span was reported.
    """

    phase: Phase
    since: int
    placed: bool


class _Ids(RandomIdGenerator):
    """Generates the IDs of traces and spans. The trace and the root span of a gang get IDs derived from its UID.

    Set `trace` to the gang's trace ID while its root span is created. All other IDs are random.
    """

    def __init__(self) -> None:
        self.trace: int | None = None

    def generate_trace_id(self) -> int:
        """Return the gang's trace ID while its root span is created, else a random ID."""
        return super().generate_trace_id() if self.trace is None else self.trace

    def generate_span_id(self) -> int:
        """Return the gang's root span ID while its root span is created, else a random ID."""
        return super().generate_span_id() if self.trace is None else _root_id(self.trace)


class Traces:
    """Reports the phases of gangs, as spans, to an OpenTelemetry tracer provider."""

    def __init__(self, provider: TracerProvider, clock: Clock = SYSTEM_CLOCK) -> None:
        self._provider = provider
        self._ids = _Ids()
        provider.id_generator = self._ids
        self._tracer = provider.get_tracer("phalanx")
        self._clock = clock
        self._seen: dict[GangKey, _Seen] = {}
        self._first_round = True

    def stand(
        self,
        changed: Sequence[GangSample],
        invalid: Sequence[GangKey] = (),
        gone: Collection[GangKey] | None = None,
    ) -> None:
        """Report a span for each phase that a gang has left, as an `Observer`. `invalid` gangs have no trace."""
        del invalid
        now = int(self._clock.wall().timestamp() * _NANOSECONDS)
        for key in self._seen.keys() - {each.key for each in changed} if gone is None else gone:
            self._seen.pop(key, None)
        for each in changed:
            self._advance(each, now)
        self._first_round = False

    def close(self) -> None:
        """Send the spans that are not sent yet, and stop."""
        self._provider.shutdown()

    def _advance(self, standing: GangSample, now: int) -> None:
        before = self._seen.get(standing.key)
        if before is not None and before.phase is standing.phase:
            return
        trace = uuid.UUID(standing.uid).int if standing.uid else 0
        found_placed = before is None and self._first_round and standing.phase is Phase.PLACED
        seen = before or _Seen(standing.phase, now, placed=found_placed)
        if trace and before is not None:
            self._tell_phase(standing, before, trace, now)
        if trace and standing.phase is Phase.PLACED and not seen.placed:
            self._tell_gang(standing, trace, now)
            seen = replace(seen, placed=True)
        self._seen[standing.key] = replace(seen, phase=standing.phase, since=now)

    def _tell_phase(self, standing: GangSample, before: _Seen, trace: int, now: int) -> None:
        root = SpanContext(trace, _root_id(trace), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        span = self._tracer.start_span(
            before.phase.value,
            context=set_span_in_context(NonRecordingSpan(root)),
            attributes=_attributes(standing),
            start_time=before.since,
        )
        span.end(now)

    def _tell_gang(self, standing: GangSample, trace: int, now: int) -> None:
        created = int(datetime.fromisoformat(standing.created).timestamp()) * _NANOSECONDS if standing.created else now
        self._ids.trace = trace
        try:
            name = f"gang {standing.key.namespace}/{standing.key.name}"
            span = self._tracer.start_span(name, attributes=_attributes(standing), start_time=min(created, now))
        finally:
            self._ids.trace = None
        span.end(now)


def traces() -> Traces:
    """Return an observer of gangs that sends their traces by OTLP over HTTP, in the background."""
    provider = TracerProvider(resource=Resource.create({"service.name": "phalanx-controller"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider)


def _root_id(trace: int) -> int:
    return trace & _HALF or 1


def _attributes(standing: GangSample) -> Mapping[str, Any]:
    status = standing.status
    return {
        "phalanx.dialect": standing.key.dialect,
        "k8s.namespace.name": standing.key.namespace,
        "phalanx.gang": standing.key.name,
        "phalanx.plan": str(status.get("planId", "")),
        "phalanx.proof": str(status.get("proof", "")),
        "phalanx.pods": int((status.get("members") or {}).get("existing", 0)),
        "phalanx.victims": len(status.get("victims") or ()),
    }
