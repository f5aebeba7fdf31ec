"""Workloads in a queue whose pods are members of a Gang object.

The Gang object, and not the workload, uses the queue's quota. Both must name the same queue.
"""

from collections.abc import Mapping

from gangs.findings import Findings
from gangs.kueue import keys, wishes
from gangs.manifests import ref_of
from gangs.mirrors import claim_of
from gangs.model import Manifest
from gangs.sources import Sources
from gangs.workloads.pod_templates import Template, templates
from kube import keys as own


def in_a_gang(template: Template) -> bool:
    """Whether the pods of a template name a Gang object, and ask Kueue for nothing but a queue."""
    marked = own.WORKLOAD in template.labels or wishes.asks(template.annotations)
    return bool(template.labels.get(own.GANG)) and not marked


def check_queues(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    """Report each pod template that names a Gang object and another queue than this Gang.

    A Gang that does not exist yet is not compared. Its pods are compared with it later. At this point, admission has
    already copied a queue's name on the workload itself to its templates.
    """
    ref = ref_of(manifest)
    for template in filter(in_a_gang, templates(manifest)):
        name, queue = template.labels[own.GANG], template.labels.get(keys.QUEUE_NAME)
        gang = sources.get(own.GROUP, "Gang", ref.namespace, name)
        if gang is None or claim_of(gang) or not queue or queue == (other := _queue_of(gang)):
            continue
        differs = f'"{queue}" differs from "{other}", the queue of' if other else f'"{queue}" is no queue of'
        problem, at = f"{differs} Gang {ref.namespace}/{name} (spec.queue)", f"{template.metadata_at}.labels"
        findings.fault(ref, f"{at}[{keys.QUEUE_NAME}]", problem, "write the same in both, or leave one of them out")


def _queue_of(gang: Manifest) -> str:
    spec = gang.get("spec")
    queue = spec.get("queue") if isinstance(spec, Mapping) else None
    return queue if isinstance(queue, str) else ""
