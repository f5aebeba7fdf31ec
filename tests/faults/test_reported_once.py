"""A gang with a fault has one entry in the report: it is Invalid, and it is not planned as well."""

from pathlib import Path

from solving import solved

WRONG = (
    'StatefulSet default/w: spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: "other" differs from "q" of the '
    "StatefulSet; leave it out"
)


def test_a_queue_on_a_stateful_set_whose_template_names_a_level() -> None:
    """The workload must not be planned by the level of its template as well, and take the capacity of other gangs."""
    answer = solved(Path(__file__).parent / "once" / "queue_on_a_stateful_set.yaml")
    assert answer.report == f"default/w  Invalid\n  {WRONG}\n"
    assert answer.said == f"error: queue_on_a_stateful_set.yaml: {WRONG}\n"
    assert answer.status == 2
