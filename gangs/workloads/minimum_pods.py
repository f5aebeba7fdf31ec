"""The minimum of a workload's gang, by the fields of its kind: how many pods must start together, also by role."""

from collections.abc import Mapping, Sequence

from gangs.findings import Findings
from gangs.manifests import ref_of
from gangs.model import Manifest
from gangs.workloads import pod_templates
from gangs.workloads.kind_table import row_of
from gangs.workloads.pod_counts import number
from gangs.workloads.pod_templates import WORKER, Template


def of_kind(manifest: Manifest, templates: Sequence[Template], findings: Findings) -> int:
    """Return the minimum that the workload's fields state; if they state none, the number of all its pods.

    A minimum above the number of pods is reported in `findings`. Raises `MalformedError`.

    :param templates: the pod templates whose pods are members.
    """
    row, total = row_of(manifest), sum(each.count for each in templates)
    if row is None:
        return total
    if (stated := _stated(manifest, row.minimum, total, findings)) is not None:
        return stated
    if any(each.least is not None for each in templates):
        return sum(_least(each) for each in templates)
    workers = sum(each.count for each in templates if each.role == WORKER)
    least = _stated(manifest, row.least_workers, workers, findings)
    return total if least is None else total - workers + least


def _stated(manifest: Manifest, path: str, most: int, findings: Findings) -> int | None:
    """Return the number in the field at `path`; None if `path` is "", or if the field is absent or 0.

    A number above `most` is reported in `findings`.
    """
    ref = ref_of(manifest)
    stated = number(pod_templates.at_path(manifest, path), ref, path) if path else None
    if stated is not None and stated > most:
        problem = f"{stated} is more than the {most} pods that the {ref.kind} runs"
        findings.fault(ref, path, problem, f"lower it to {most} or raise the replicas")
    return stated or None


def _least(template: Template) -> int:
    return template.count if template.least is None else template.least


def by_role(templates: Sequence[Template], minimum: int) -> Mapping[str, int]:
    """Divide the minimum of a gang among its roles (pod sets). Return the minimum of each role.

    If the roles' own minimums add up to `minimum`, these are returned. Otherwise each role needs all its pods, except
    that the workers need only as many as remain of the minimum. If `minimum` is below the number of pods of the other
    roles, the last of these roles need fewer pods, too.
    """
    least = {each.role: _least(each) for each in templates}
    if sum(least.values()) == minimum:
        return least
    left, found = minimum, dict[str, int]()
    for each in sorted(templates, key=lambda each: each.role == WORKER):
        found[each.role] = min(each.count, left)
        left -= found[each.role]
    return found
