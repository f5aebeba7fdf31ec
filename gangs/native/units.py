"""Units: each is a PodGroup of scheduling.k8s.io with its pods and the CompositePodGroups above it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gangs.findings import Findings
from gangs.manifests import MalformedError, key_of, metadata_of, pod_ref, ref_of
from gangs.membership import age, live
from gangs.model import GangKey, Manifest, ObjectRef
from gangs.native import NAME, keys
from gangs.native.spec import GroupSpec, composite_spec, group_spec
from gangs.sources import Sources
from kube.objects import Pod
from kube.scheduling_groups import group_of, is_release_group

_DEPTH = 4
"""The most levels of groups, PodGroups included (WorkloadMaxTreeDepth of k8s.io/api v0.37.1)."""


@dataclass(frozen=True, slots=True)
class Composite:
    """A CompositePodGroup. `spec`: None if the object does not exist (yet)."""

    ref: ObjectRef
    spec: GroupSpec | None


@dataclass(frozen=True, slots=True)
class Unit:
    """A PodGroup with its live pods. `spec`: None if the object does not exist (yet).

    `above`: the CompositePodGroups that plan it together with other PodGroups, narrowest first.
    """

    key: GangKey
    ref: ObjectRef
    pods: tuple[Pod, ...]
    created: str
    spec: GroupSpec | None
    above: tuple[Composite, ...] = ()

    @property
    def root(self) -> ObjectRef:
        """The object whose PodGroups are one gang: the topmost CompositePodGroup; without one, the PodGroup."""
        return self.above[-1].ref if self.above else self.ref


def gang_of(pod: Pod) -> GangKey | None:
    """Return the PodGroup that the pod names, as a gang; None if it names none, or one that Phalanx created."""
    name = group_of(pod)
    return GangKey(NAME, pod.metadata.namespace, name) if name and not is_release_group(name) else None


def unit_of_group(manifest: Manifest, pods: Sequence[Pod], sources: Sources, findings: Findings) -> Unit:
    """Return a PodGroup with its live pods. Faults go to `findings`. Raises `MalformedError`.

    :param pods: the pods that name the PodGroup.
    """
    ref = ref_of(manifest)
    spec = group_spec(manifest, ref, findings)
    return Unit(
        key=GangKey(NAME, ref.namespace, ref.name),
        ref=ref,
        pods=tuple(live(pods)),
        created=metadata_of(manifest).creation_timestamp or "",
        spec=spec,
        above=_above(spec.parent, ref, sources, findings),
    )


def unit_of_pods(key: GangKey, pods: Sequence[Pod]) -> Unit | None:
    """Return, as a unit, the pods that name a PodGroup that does not exist (yet); None if no pod is live.

    :param key: the PodGroup that the pods name.
    """
    found = tuple(sorted(live(pods), key=lambda pod: age(pod.metadata)))
    if not found:
        return None
    return Unit(key, pod_ref(found[0]), found, found[0].metadata.creation_timestamp or "", None)


def _above(parent: str, ref: ObjectRef, sources: Sources, findings: Findings) -> tuple[Composite, ...]:
    """Return the CompositePodGroups above a PodGroup, narrowest first. Raises `MalformedError`.

    The chain ends below a CompositePodGroup with the policy `basic`, because its child groups are planned one by one. A
    CompositePodGroup that does not exist is the last in the chain.
    """
    found, own = list[Composite](), ref
    while parent:
        if len(found) == _DEPTH - 1 or any(each.ref.name == parent for each in found):
            problem = f'"{parent}" closes a circle, or lies more than {_DEPTH - 1} levels above the pods\' group'
            findings.fault(own, keys.PARENT, problem, "name a group that is not below this one")
            break
        manifest = sources.get(keys.GROUP, keys.COMPOSITE_KIND, ref.namespace, parent)
        if manifest is None:
            version = f"{keys.GROUP}/{keys.COMPOSITE_VERSIONS[-1]}"
            found.append(Composite(ObjectRef(version, keys.COMPOSITE_KIND, ref.namespace, parent), None))
            break
        own = ref_of(manifest)
        spec = composite_spec(manifest, own, findings)
        if not spec.is_gang:
            break
        found.append(Composite(own, spec))
        parent = spec.parent
    return tuple(found)


def group_manifests(sources: Sources, names: Iterable[GangKey] | None) -> Iterator[Manifest]:
    """Yield the PodGroups with these keys, sorted by key; all PodGroups if `names` is None.

    PodGroups that Phalanx created are left out.
    """
    if names is None:
        found = list(sources.of_kind(keys.GROUP, keys.POD_GROUP_KIND))
    else:
        looked_up = (sources.get(keys.GROUP, keys.POD_GROUP_KIND, key.namespace, key.name) for key in sorted(names))
        found = [each for each in looked_up if each is not None]
    yield from (each for each in found if not is_release_group(key_of(each)[3]))


def grouped(about: GangKey, sources: Sources) -> set[GangKey]:
    """Return the keys of the PodGroups that are planned together with a group, `about` included.

    :param about: the key of a PodGroup or of a CompositePodGroup. Both may have the same name.
    """
    found = {about}
    for kind in (keys.POD_GROUP_KIND, keys.COMPOSITE_KIND):
        manifest = sources.get(keys.GROUP, kind, about.namespace, about.name)
        if manifest is not None:
            top = _top(manifest, sources)
            found |= set() if top is None else set(_leaves(about.namespace, top, sources))
    return found


def _top(manifest: Manifest, sources: Sources) -> str | None:
    """Return the name of the topmost CompositePodGroup above a group; None if there is none.

    A CompositePodGroup without a parent is its own topmost one.
    """
    _, kind, namespace, name = key_of(manifest)
    top, seen = (name if kind == keys.COMPOSITE_KIND else None), set[str]()
    parent = _parent(manifest)
    while parent and parent not in seen:
        seen.add(parent)
        top = parent
        above = sources.get(keys.GROUP, keys.COMPOSITE_KIND, namespace, parent)
        parent = _parent(above) if above is not None else ""
    return top


def _leaves(namespace: str, top: str, sources: Sources) -> Iterator[GangKey]:
    """Yield the keys of the PodGroups below the CompositePodGroup `top`, at any depth."""
    todo, seen = [top], {top}
    while todo:
        at = namespace, todo.pop()
        for each in sources.sought(keys.GROUP, keys.POD_GROUP_KIND, _parents, at):
            yield GangKey(NAME, namespace, key_of(each)[3])
        for each in sources.sought(keys.GROUP, keys.COMPOSITE_KIND, _parents, at):
            name = key_of(each)[3]
            if name not in seen:
                seen.add(name)
                todo.append(name)


def _parents(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    """Return the index values of a group: namespace and name of its parent CompositePodGroup, if it has one."""
    parent = _parent(manifest)
    return ((key_of(manifest)[2], parent),) if parent else ()


def _parent(manifest: Manifest) -> str:
    spec = manifest.get("spec")
    name = spec.get("parentCompositePodGroupName") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""


def faulty_composites(sources: Sources, about: GangKey | None, findings: Findings) -> None:
    """Report the faults of all CompositePodGroups. If `about` is given, only the CompositePodGroup with its name is
    checked.
    """
    for manifest in sources.of_kind(keys.GROUP, keys.COMPOSITE_KIND, about):
        try:
            composite_spec(manifest, ref_of(manifest), findings)
        except MalformedError as error:
            findings.take([error.fault])
