"""How many pods of a workload must start together, as fields of its own kind say, and which of them."""

from collections.abc import Mapping, Sequence

from gangs.findings import Findings
from gangs.manifests import ref_of
from gangs.model import Manifest
from gangs.workloads import pod_templates
from gangs.workloads.kind_table import shape_of
from gangs.workloads.pod_counts import number
from gangs.workloads.pod_templates import WORKER, Template


def of_kind(manifest: Manifest, templates: Sequence[Template], findings: Findings) -> int:
    """The minimum that the workload's own fields state, else all pods of these templates. Raises `MalformedError`.

    One that is more than all is noted.
    """
    shape, total = shape_of(manifest), sum(each.count for each in templates)
    if shape is None:
        return total
    if (stated := _stated(manifest, shape.minimum, total, findings)) is not None:
        return stated
    if any(each.least is not None for each in templates):
        return sum(_least(each) for each in templates)
    workers = sum(each.count for each in templates if each.role == WORKER)
    least = _stated(manifest, shape.least_workers, workers, findings)
    return total if least is None else total - workers + least


def _stated(manifest: Manifest, path: str, most: int, findings: Findings) -> int | None:
    """What a field says, None where the kind has none such, or where nothing is written."""
    ref = ref_of(manifest)
    stated = number(pod_templates.at_path(manifest, path), ref, path) if path else None
    if stated is not None and stated > most:
        problem = f"{stated} is more than the {most} pods that the {ref.kind} runs"
        findings.fault(ref, path, problem, f"lower it to {most} or raise the replicas")
    return stated or None


def _least(template: Template) -> int:
    return template.count if template.least is None else template.least


def by_role(templates: Sequence[Template], minimum: int) -> Mapping[str, int]:
    """The minimum of each role: its own where these make it up, else the others before the workers, in their order: the
    workers may be short of pods where a minimum is below all of them.
    """
    least = {each.role: _least(each) for each in templates}
    if sum(least.values()) == minimum:
        return least
    left, found = minimum, dict[str, int]()
    for each in sorted(templates, key=lambda each: each.role == WORKER):
        found[each.role] = min(each.count, left)
        left -= found[each.role]
    return found
