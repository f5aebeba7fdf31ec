"""The spans of a gang's trace, exported to memory."""

import uuid

from manual_clock import START, ManualClock
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from controller.gang_status import Phase
from controller.telemetry.metrics import GangSample
from controller.telemetry.tracing import Traces
from gangs.model import GangKey

UID = "0b8f5a3e-9a53-4a1c-8a3f-5d1c7f0e2b11"
NINE = 1795251600
WAY = ((1, Phase.WAITING), (3, Phase.NOMINATED), (4, Phase.NOMINATED), (5, Phase.RELEASED), (6, Phase.PLACED))


def standing(phase: Phase) -> GangSample:
    status = {"planId": "abc", "proof": "Optimal", "members": {"existing": 2}, "victims": [{}]}
    return GangSample(GangKey("kai", "team", "llm"), phase, "2026-11-21T09:00:00Z", status, UID)


def told(*steps: tuple[int, Phase], empty_first: bool = True) -> tuple[ReadableSpan, ...]:
    """The spans of a gang that stood so at these seconds after nine."""
    exporter, clock = InMemorySpanExporter(), ManualClock()
    clock.step_wall(NINE - START.timestamp())
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = Traces(provider, clock=clock)
    if empty_first:
        traces.stand([])
    for clock.now, phase in steps:
        traces.stand([standing(phase)])
    return exporter.get_finished_spans()


def seconds(span: ReadableSpan) -> tuple[int, int]:
    return (span.start_time or 0) // 10**9 - NINE, (span.end_time or 0) // 10**9 - NINE


def test_the_way_of_a_gang_is_one_trace_from_its_creation_to_bound() -> None:
    spans = told(*WAY)
    assert [(each.name, *seconds(each)) for each in spans] == [
        ("Waiting", 1, 3),
        ("Nominated", 3, 5),
        ("Released", 5, 6),
        ("gang team/llm", 0, 6),
    ]


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def test_the_trace_is_found_by_the_uid_of_the_gang_object() -> None:
    spans = told(*WAY)
    root = spans[-1]
    assert {context_of(span).trace_id for span in spans} == {uuid.UUID(UID).int}
    assert {each.parent.span_id for each in spans[:-1] if each.parent} == {context_of(root).span_id}
    assert root.parent is None


def test_every_span_names_gang_plan_and_proof() -> None:
    wanted = {"phalanx.gang": "llm", "phalanx.plan": "abc", "phalanx.proof": "Optimal", "phalanx.victims": 1}
    for each in told(*WAY):
        assert wanted.items() <= dict(each.attributes or {}).items()


def test_a_gang_that_was_bound_before_is_not_told_again() -> None:
    assert told((1, Phase.PLACED), (2, Phase.PLACED), empty_first=False) == ()
    repaired = told(*WAY, (20, Phase.RELEASED), (21, Phase.PLACED))
    assert [each.name for each in repaired].count("gang team/llm") == 1
