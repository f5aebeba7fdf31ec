"""The members of a marked workload's gang: one pod set for each role, with the count of its template."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gangs.assembling import GangWorkload, assemble, of_one_set
from gangs.findings import Findings
from gangs.labelled_workloads import makers
from gangs.manifests import metadata_of, pod_ref, ref_of
from gangs.membership import Seat, live
from gangs.model import Gang, GangKey, Manifest, Member, PlacementRequest, PodSet
from gangs.workloads import minimum_pods, pod_templates
from gangs.workloads.kind_table import row_of
from gangs.workloads.later_pods import held_room, start_order
from gangs.workloads.later_pods.pods_to_come import example_pods
from gangs.workloads.pod_templates import MAIN, Template
from gangs.workloads.suspension import to_be_resumed
from gangs.workloads.template_quantities import check_quantities
from kube import keys
from kube.objects import Pod
from kube.placeholders import role_of_seat


@dataclass(frozen=True, slots=True)
class LabelledWorkload:
    """A marked workload, or the part of it that is one gang.

    `gated`: its templates with the mark. `made`: its existing pods, ended ones included. The constructor raises
    `MalformedError`.
    """

    manifest: Manifest
    part: str
    gated: Sequence[Template]
    made: Sequence[Pod] = ()
    remaining: int | None = field(init=False)
    """The number of pods that should run now, by the rules of the kind; None: the templates state the numbers."""

    def __post_init__(self) -> None:
        """Count the remaining pods once, because each reading asks several times."""
        row = row_of(self.manifest)
        rules = None if row is None else row.rules
        object.__setattr__(self, "remaining", None if rules is None else rules.expected(self.manifest))

    @property
    def live(self) -> list[Pod]:
        """Its pods that count."""
        return live(self.made)

    @property
    def over(self) -> bool:
        """Whether the workload has no pods, and creates none."""
        if self.live or self.remaining:
            return False
        return self.remaining == 0 or not any(each.count for each in self.gated) or pod_templates.ended(self.manifest)

    def examples(self) -> list[Pod]:
        """Return one pod for each template with the mark. Raises `MalformedError`, also for an unreadable quantity.

        Expected pods therefore never have requests that `kube.requests.pod_requests` cannot count. The API server
        checks the quantities of a kind with rules in code.
        """
        declared, gated = pod_templates.of_a_part(self.manifest), {each.way for each in self.gated}
        made = list(zip(example_pods(self.manifest), declared, strict=True))
        for pod, template in made if self.remaining is None else ():
            check_quantities(self.manifest, template, pod)
        return [pod for pod, template in made if template.way in gated]

    def seats(self, seat: Callable[[Pod, str], Seat] = Seat) -> list[Seat]:
        """Return the seats of the existing pods, and of the pods that the workload creates only when these run.

        Raises `MalformedError` for a workload with too many expected pods.

        :param seat: of a pod in a pod set.
        """
        running = self.live
        start_order.check_order(self.manifest, self.part, len(running))
        ended = [pod for pod in self.made if pod.status.phase == "Succeeded" and not pod.terminating]
        coming = start_order.to_come(self.manifest, running, ended, self._role, self.part)
        there = [seat(pod, self._role(pod)) for pod in running]
        return [*there, *(seat(pod, role_of_seat(pod.metadata.uid)) for pod in coming)]

    def key(self, dialect: str) -> GangKey:
        """Return the key of the gang of the workload or of this part of it."""
        ref = ref_of(self.manifest)
        return GangKey(dialect, ref.namespace, makers.named(ref.name, self.part))

    def workload(self, members: tuple[Member, ...], minimum: int) -> GangWorkload:
        """Return the description of the gang.

        :param minimum: the pods that start together. Near the workload's end, fewer pods are left to run.
        """
        ref = ref_of(self.manifest)
        least = minimum if self.remaining is None else max(1, min(minimum, self.remaining))
        return GangWorkload(
            source=ref,
            members=members,
            pod_sets=self._pod_sets(members, least),
            min_member=least,
            created=metadata_of(self.manifest).creation_timestamp or "",
            groups=() if self.part else (ref,),
            part=self.part,
        )

    def assembled(
        self, key: GangKey, workload: GangWorkload, request: PlacementRequest, waiting_for: tuple[str, ...]
    ) -> Gang:
        """Return the gang. It also waits until a suspended workload is resumed. Raises `MalformedError`."""
        resumed = to_be_resumed(self.manifest, workload.source)
        return self.settled(assemble(key, workload, request, waiting_for + resumed))

    def settled(self, gang: Gang) -> Gang:
        """Return the gang with the state of the pods that the workload creates later. Raises `MalformedError`."""
        gang = replace(gang, later=held_room.later_of(self.manifest))
        return gang if held_room.wanted(self.manifest) else held_room.without_room(gang, held_room.BY_ANNOTATION)

    def _role(self, pod: Pod) -> str:
        """Return the pod set of a pod. Leaders that are created from the worker template are workers."""
        if self.remaining is not None:
            return MAIN  # the Job of a JobSet gives its pods the label of a role, too
        role = pod_templates.role_of(pod)
        return pod_templates.WORKER if role == pod_templates.LEADER and role not in self.roles else role

    def check_sets(self, findings: Findings) -> None:
        """Report pods that name a pod set that the workload does not have (any more)."""
        roles, ref, row = set(self.roles), ref_of(self.manifest), row_of(self.manifest)
        strange = {self._role(pod): pod for pod in reversed(self.live) if self._role(pod) not in roles}
        for role, pod in sorted(strange.items()) if row is not None and row.fields else ():
            problem = f'"{role}" is no pod set of {ref}, which has {", ".join(self.roles)}'
            remedy = "delete such pods, to be recreated"
            if row is not None and row.user_defined_by:
                remedy = f"correct the paths of WorkloadKind {row.user_defined_by}, or {remedy}"
            findings.fault(pod_ref(pod), f"metadata.labels[{keys.POD_SET}]", problem, remedy)

    @property
    def roles(self) -> tuple[str, ...]:
        """Its pod sets."""
        return tuple(each.role for each in self.gated)

    def _pod_sets(self, members: Sequence[Member], minimum: int) -> tuple[PodSet, ...]:
        """Return one pod set for each role. Its count is the number of existing pods if that is higher."""
        if self.remaining is not None:
            return of_one_set(members, MAIN, self.remaining, minimum)
        existing = Counter(member.pod_set for member in members)
        least: Mapping[str, int] = minimum_pods.by_role(self.gated, minimum)
        return tuple(PodSet(each.role, max(each.count, existing[each.role]), least[each.role]) for each in self.gated)


def gated_by(manifest: Manifest, mark: str) -> list[Template]:
    """The templates of a workload, or of a part of it, that have a mark. Raises `MalformedError`."""
    return [each for each in pod_templates.of_a_part(manifest) if each.labels.get(keys.WORKLOAD) == mark]


def by_part(pods: Sequence[Pod], part_of: Callable[[Pod], str]) -> dict[str, list[Pod]]:
    """Return the pods of each part of a workload, ordered by the parts' names. Pods without a part are left out."""
    parts: dict[str, list[Pod]] = {}
    for pod in pods:
        parts.setdefault(part_of(pod), []).append(pod)
    return {each: parts[each] for each in sorted(parts) if each}
