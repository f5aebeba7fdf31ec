"""The user-defined kinds that WorkloadKind objects describe, and the check of these objects."""

from collections.abc import Mapping

from gangs.findings import Findings
from gangs.manifests import ref_of
from gangs.model import Fault, GangKey, Manifest
from gangs.sources import Sources
from gangs.workloads.kind_table import KindRow
from gangs.workloads.user_defined_kinds import KIND, age, row_or_reasons, rows_of
from kube import keys

READY = "Ready"
"""The condition of a WorkloadKind that reports whether Phalanx reads workloads of the kind."""
LEFT_OUT = "SomeLeftOut"
"""The reason in the condition Ready of a WorkloadKind if Phalanx fails to read some of the workloads."""


def user_defined_rows(sources: Sources) -> Mapping[tuple[str, str], KindRow]:
    """Return the user-defined kinds: by API group and kind, how Phalanx reads a workload of the kind (`KindRow`).

    An invalid WorkloadKind is left out.
    """
    return rows_of(sources.of_kind(keys.GROUP, KIND))


def check_all(sources: Sources, about: GangKey | None, findings: Findings) -> None:
    """Report the faults of all WorkloadKinds; if `about` is given, only of the WorkloadKind with its name."""
    for manifest in sources.of_kind(keys.GROUP, KIND, about):
        check(manifest, sources, findings)


def check(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    """Report the faults of a WorkloadKind. A WorkloadKind also has a fault if an older WorkloadKind describes the same
    kind.
    """
    row, ref = row_or_reasons(manifest), ref_of(manifest)
    if not isinstance(row, KindRow):
        findings.take(Fault(ref, at, problem, remedy) for at, problem, remedy in row)
        return
    of = manifest["spec"]["group"], manifest["spec"]["kind"]
    for other in sources.of_kind(keys.GROUP, KIND):
        if age(other) >= age(manifest) or not isinstance(row_or_reasons(other), KindRow):
            continue
        if (other["spec"]["group"], other["spec"]["kind"]) == of:
            problem = f"{of[1]} of {of[0]} is described by {KIND} {ref_of(other).name} already"
            findings.fault(ref, "spec.kind", problem, "change that one, or delete it first")
            return
