"""The members of a gang that is a labelled workload: one pod set for each pod template, with the template's count."""

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
from gangs.workloads.jobs import job_of
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
    """A workload whose pod templates have the label `phalanx.dev/workload`, or the part of it that is one gang.

    `part`: "" for the whole workload. `gated`: the templates with the label, whose pods are gated. `made`: the existing
    pods of these templates, finished ones included. The constructor raises `MalformedError`.
    """

    manifest: Manifest
    part: str
    gated: Sequence[Template]
    made: Sequence[Pod] = ()
    remaining: int | None = field(init=False)
    """The number of pods that should run now, for a Job; None for other kinds, whose templates state the numbers."""

    def __post_init__(self) -> None:
        """Compute `remaining` once, because it is needed several times for each gang."""
        row = row_of(self.manifest)
        rules = None if row is None else row.rules
        object.__setattr__(self, "remaining", None if rules is None else rules.expected(self.manifest))

    @property
    def live(self) -> list[Pod]:
        """The pods that are members: neither terminating nor finished."""
        return live(self.made)

    @property
    def over(self) -> bool:
        """Whether the workload has no live pods and creates none any more, so that there is no gang."""
        if self.live or self.remaining:
            return False
        return self.remaining == 0 or not any(each.count for each in self.gated) or pod_templates.ended(self.manifest)

    def examples(self) -> list[Pod]:
        """Return, for each template in `gated`, a pod as the workload would create it.

        Raises `MalformedError`, also if a resource quantity is unreadable. For a Job, the API server has checked the
        quantities.
        """
        declared, gated = pod_templates.of_a_part(self.manifest), {each.way for each in self.gated}
        made = list(zip(example_pods(self.manifest), declared, strict=True))
        for pod, template in made if self.remaining is None else ():
            check_quantities(self.manifest, template, pod)
        return [pod for pod, template in made if template.way in gated]

    def seats(self, seat: Callable[[Pod, str], Seat] = Seat) -> list[Seat]:
        """Return a `Seat` for each live pod, and for each expected pod that the workload creates only after these run.

        Raises `MalformedError` if there are too many expected pods.

        :param seat: a function from a pod and its pod set to the seat. A dialect's own function adds the rank.
        """
        running = self.live
        start_order.check_order(self.manifest, self.part, len(running))
        ended = [pod for pod in self.made if pod.status.phase == "Succeeded" and not pod.terminating]
        coming = start_order.to_come(self.manifest, running, ended, self._role, self.part)
        there = [seat(pod, self._role(pod)) for pod in running]
        return [*there, *(seat(pod, role_of_seat(pod.metadata.uid)) for pod in coming)]

    def key(self, dialect: str) -> GangKey:
        """Return the key of the gang that the workload, or this part of it, is in a dialect."""
        ref = ref_of(self.manifest)
        return GangKey(dialect, ref.namespace, makers.gang_name(ref.name, self.part))

    def workload(self, members: tuple[Member, ...], minimum: int) -> GangWorkload:
        """Return the part of the gang that follows from the workload: its members, pod sets and minimum.

        :param minimum: the number of pods that must start together. If fewer pods remain near the end of a Job, the
            minimum of the gang is lower.
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
        """Return the gang of the workload. The gang waits as long as the workload is suspended. Raises
        `MalformedError`.
        """
        resumed = to_be_resumed(self.manifest, workload.source)
        return self.settled(assemble(key, workload, request, waiting_for + resumed))

    def settled(self, gang: Gang) -> Gang:
        """Return the gang with `Gang.later` and `Gang.delay` set, if the workload creates some pods later than others.

        If the workload opts out of reserved capacity for them, the gang waits for these pods. Raises `MalformedError`.
        """
        delay = None if self.remaining is None else job_of(self.manifest).delay
        gang = replace(gang, later=held_room.later_of(self.manifest), delay=delay)
        return gang if held_room.wanted(self.manifest) else held_room.without_room(gang, held_room.BY_ANNOTATION)

    def _role(self, pod: Pod) -> str:
        """Return the name of a pod's pod set. Leaders that are created from the worker template are workers."""
        if self.remaining is not None:
            return MAIN  # pods of a Job in a JobSet have the label of a role, too, which must not count
        role = pod_templates.role_of(pod)
        return pod_templates.WORKER if role == pod_templates.LEADER and role not in self.roles else role

    def check_sets(self, findings: Findings) -> None:
        """Report live pods whose pod set the workload does not have, or not any more."""
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
        """The names of the pod sets, in the order of the templates."""
        return tuple(each.role for each in self.gated)

    def _pod_sets(self, members: Sequence[Member], minimum: int) -> tuple[PodSet, ...]:
        """Return one pod set for each template. Its count is the template's, or the number of its members if higher."""
        if self.remaining is not None:
            return of_one_set(members, MAIN, self.remaining, minimum)
        existing = Counter(member.pod_set for member in members)
        least: Mapping[str, int] = minimum_pods.by_role(self.gated, minimum)
        return tuple(PodSet(each.role, max(each.count, existing[each.role]), least[each.role]) for each in self.gated)


def gated_by(manifest: Manifest, mark: str) -> list[Template]:
    """Return the pod templates whose label `phalanx.dev/workload` has the value `mark`. Raises `MalformedError`.

    If each part of the workload is a gang, the templates have the counts of one part.
    """
    return [each for each in pod_templates.of_a_part(manifest) if each.labels.get(keys.WORKLOAD) == mark]


def by_part(pods: Sequence[Pod], part_of: Callable[[Pod], str]) -> dict[str, list[Pod]]:
    """Return the pods of a workload by part, ordered by the names of the parts. Pods without a part are left out.

    :param part_of: a function from a pod to its part; "" for none.
    """
    parts: dict[str, list[Pod]] = {}
    for pod in pods:
        parts.setdefault(part_of(pod), []).append(pod)
    return {each: parts[each] for each in sorted(parts) if each}
