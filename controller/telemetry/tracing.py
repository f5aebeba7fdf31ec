"""Traces of gangs from admission to bound, by OpenTelemetry: an extra (`phalanx[tracing]`), off unless asked for.

A gang's trace has the uid of its Gang object as its id, so it is found from the object and the object from it. The root
spans the time from the gang's first object to all its members bound; below it is one span for each phase it left. All
of it is told by the leading controller, which sees every step: nothing has to be carried along by pods.
Where the traces go is said by OpenTelemetry's own variables, OTEL_EXPORTER_OTLP_ENDPOINT the first of them:
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
    """A gang as it stood last. `since`: nanoseconds since the epoch; `placed`: its root span has been told."""

    phase: Phase
    since: int
    placed: bool


class _Ids(RandomIdGenerator):
    """Random ids, but for the trace and the root span of a gang, which its uid gives."""

    def __init__(self) -> None:
        self.trace: int | None = None

    def generate_trace_id(self) -> int:
        """The gang's, while its root is being made."""
        return super().generate_trace_id() if self.trace is None else self.trace

    def generate_span_id(self) -> int:
        """The gang's, while its root is being made."""
        return super().generate_span_id() if self.trace is None else _root_id(self.trace)


class Traces:
    """Reports to a tracer provider what the rounds see."""

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
        """How gangs stand at the end of a round: see `Observer`. `invalid` ones have no way to be told of."""
        del invalid
        now = int(self._clock.wall().timestamp() * _NANOSECONDS)
        for key in self._seen.keys() - {each.key for each in changed} if gone is None else gone:
            self._seen.pop(key, None)
        for each in changed:
            self._advance(each, now)
        self._first_round = False

    def close(self) -> None:
        """Send what is still to be sent."""
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
    """Traces that are sent by OTLP over HTTP, in the background."""
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
