"""Objects with wrong values in almost every field, as a user with the role `edit` may write them in his own namespace.

No such object may disturb another user's gangs. The API server refuses it, the product reports it to its author, or
the product ignores it.
"""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from tenants import A, B, Object, job, made, pod, with_annotations
from workload_operators import ROWS, Row, described, spark_application, training_run

from gangs.workloads.kind_table import WORKLOADS

DEEP = '{"a":' * 2_000 + "1" + "}" * 2_000
EVIL = "x\n2026-11-22 WARNING FORGED \x1b[31m"
NUMBERS = ("-1", "0", "1e9", "NaN", "١٢", "9" * 40, "1.0", " 1", "+1", "0x1", "1_0", "²", "")
SHAPES: tuple[Any, ...] = (None, "x", -1, 10**9, 1.5, True, [], {}, [None], {"": None}, [[]], {"x": [{}]}, EVIL)
OPERATED: Mapping[str, Row] = {
    **{name: row for name, row in ROWS.items() if row.group != "apps" and "," not in name and not row.makers},
    "TrainingRun": training_run(),
}
"""Kinds whose pods an absent operator creates, or Jobs; one of the kinds is described by a WorkloadKind."""
_EXAMPLES = Path(__file__).parents[2] / "examples" / "workloads"


def made_by_others(kind: str) -> Row:
    """A kind whose operator creates another kind of object, with its example's spec. The operator does not run here."""
    text = (_EXAMPLES / f"{kind.lower()}.yaml").read_text()
    found = next(each for each in yaml.safe_load_all(text) if each["kind"] == kind)
    return Row(found["apiVersion"], kind, lambda: deepcopy(found["spec"]), {}, lambda _: iter(()), ())


WRITTEN: Mapping[str, Row] = {
    **OPERATED,
    "LeaderWorkerSet": ROWS["LeaderWorkerSet"],
    "SparkApplication": spark_application(),
    **{kind: made_by_others(kind) for kind in ("RayJob", "RayService", "TrainJob")},
}
"""The kinds of `OPERATED`, and kinds that tenant a writes although no operator creates their pods."""
KOORDINATOR, LIGHT = "gang.scheduling.koordinator.sh", "pod-group.scheduling.sigs.k8s.io"


def workload(row: Row, name: str, namespace: str, **annotations: str) -> Object:
    """A workload of four pods that is one gang in a rack."""
    found = row.manifest(**{"gang": "true", "topology": "own", "required": "rack", **annotations})
    found["metadata"] |= {"name": name, "namespace": namespace}
    return found


def operated(row: Row, stored: Object) -> list[Object]:
    """Return the objects that the workload's operator creates, in its order: pods, and Jobs with pods of their own."""
    pods = [each for each in row.pods(stored) if each["metadata"]["ownerReferences"][0]["kind"] == row.kind]
    found = [*pods, *(row.jobs(stored) if row.jobs else ())]
    for each in found:
        each["metadata"]["namespace"] = stored["metadata"]["namespace"]
    return found


def spoilt(manifest: Object, first: int) -> Iterator[Object]:
    """Yield copies of the manifest, each with one part of its spec replaced by a shape of `SHAPES`.

    :param first: the number of the shape that the first copy gets.
    """
    for number, path in enumerate(_parts(manifest["spec"]), start=first):
        found = deepcopy(manifest)
        at = found["spec"]
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = SHAPES[number % len(SHAPES)]
        yield found


def _parts(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of the parts of a value, the outer ones first; of a list, such as containers, only the first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, part in inner:
        yield (key,)
        yield from ((key, *rest) for rest in _parts(part))


def odd_workloads() -> Iterator[Object]:
    """Yield workloads of every operator's kind, with damaged specs and with meaningless annotations.

    Each kind gets a third of these annotations, because one reader reads the annotations of all kinds.
    """
    for first, (kind, row) in enumerate(WRITTEN.items()):
        name = "".join(filter(str.isalpha, kind.lower()))
        for number, each in enumerate(spoilt(workload(row, name, A), first)):
            each["metadata"]["name"] = f"odd-{name}-{number}"
            yield each
        for number in range(first % 3, len(NUMBERS), 3):
            said = {"min_member": NUMBERS[number], "topology": NUMBERS[number], "required": EVIL}
            yield workload(row, f"said-{name}-{number}", A, **said)


def claimants(victims: Mapping[str, Object]) -> Iterator[Object]:
    """Yield pods and workloads of tenant a that claim to belong to workloads of tenant b.

    :param victims: those workloads, by kind.
    """
    for kind, theirs in victims.items():
        row, name = OPERATED[kind], theirs["metadata"]["name"]
        yield workload(row, name, A)
        for each in operated(row, theirs):
            each["metadata"]["namespace"] = A
            each["metadata"].setdefault("labels", {})["volcano.sh/job-namespace"] = B
            yield each
        for each in operated(row, theirs):
            each["metadata"] |= {"namespace": A, "name": f"bound-{each['metadata']['name']}"}
            if each["kind"] == "Pod":
                each["spec"]["nodeName"] = "n11"
            yield each


def odd_pods() -> Iterator[Object]:
    """Pods that ask to be members by values that are none."""
    said: list[tuple[dict[str, str], dict[str, str]]] = []
    for value in NUMBERS:
        said.append(({}, {f"{KOORDINATOR}/name": "odd", f"{KOORDINATOR}/min-available": value}))
        said.append(
            ({}, {"kueue.x-k8s.io/pod-group-total-count": value, "kueue.x-k8s.io/pod-group-fast-admission": value})
        )
        said.append(({"phalanx.dev/gang": "odd"}, {"phalanx.dev/index": value, "phalanx.dev/released": value}))
        said.append(({"kueue.x-k8s.io/pod-group-name": "odd"}, {"kueue.x-k8s.io/pod-group-total-count": value}))
        said.append(({"phalanx.dev/gang": "odd"}, {"phalanx.dev/pinned-domain": value, "phalanx.dev/plan": value}))
    for value in (DEEP, "[" * 20_000, EVIL, "😀" * 20, "../../x", "\u202eabc", "<script>", "x" * 100_000):
        keys = (f"{KOORDINATOR}/network-topology-spec", f"{KOORDINATOR}/groups", "phalanx.dev/held-limits")
        small = {f"{KOORDINATOR}/name": "deep", f"{KOORDINATOR}/min-available": "1"}
        said += [({}, {**small, key: value}) for key in keys]
        said.append(({}, {f"{KOORDINATOR}/name": value[:200], f"{KOORDINATOR}/min-available": "1"}))
        said.append(({}, {"scheduling.run.ai/pod-group": value[:200], "kai.scheduler/topology": value[:200]}))
    for number, (labels, annotations) in enumerate(said):
        yield pod(f"odd-{number}", A, labels=labels, annotations=annotations)
    asking = pod("no-amount", A, labels={"phalanx.dev/gang": "odd"})
    asking["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "9223372036854775807"}}
    yield asking


def odd_groups() -> Iterator[Object]:
    """Groups, gangs and topologies of every system, far too large or going round in circles."""
    koordinator, kai = "scheduling.sigs.k8s.io/v1alpha1", "scheduling.run.ai/v2"
    for number, value in enumerate((-1, 0, 2**31 - 1, 100_000)):
        yield made(koordinator, "PodGroup", f"odd-{number}", A, minMember=value)
        yield made(kai, "PodGroup", f"odd-{number}", A, minMember=value)
        yield made("phalanx.dev/v1alpha1", "Gang", f"odd-{number}", A, minMember=value, topology="own")
        network = made("scheduling.koordinator.sh/v1alpha1", "JobNetworkTopology", f"odd-{number}", A)
        yield {**network, "spec": {"workerNum": value, "topologyStrategy": [{"layer": EVIL, "strategy": "MustGather"}]}}
    for number, text in enumerate((DEEP, json.dumps([f"{A}/g{each}" for each in range(5_000)]), "[" * 20_000, "null")):
        for key in ("groups", "network-topology-spec"):
            deep = made(koordinator, "PodGroup", f"deep-{key}-{number}", A, minMember=1)
            yield with_annotations(deep, **{f"{KOORDINATOR}/{key}": text})
    for name, others in (("ga", "ab"), ("gb", "ba"), ("gc", "ccab")):
        ring = made(koordinator, "PodGroup", name, A, minMember=1)
        yield with_annotations(ring, **{f"{KOORDINATOR}/groups": json.dumps([f"{A}/g{each}" for each in others])})
    subgroups = [{"name": f"s{each}", "minMember": 1, "parent": f"s{(each + 1) % 50}"} for each in range(50)]
    yield made(kai, "PodGroup", "ring", A, minMember=1, subGroups=subgroups)
    sets = [{"name": f"s{each}", "count": 1, "minCount": 1} for each in range(500)]
    pairs = [{"podSets": [f"s{each}", f"s{(each + 1) % 500}"], "level": "rack"} for each in range(500)]
    yield made("phalanx.dev/v1alpha1", "Gang", "ring", A, minMember=1, topology="own", podSets=sets, together=pairs)


def beside_gangs() -> Iterator[Object]:
    """Yield objects that are named like objects of Phalanx or of administrators, but in tenant a's namespace."""
    for name in ("phalanx-schedulers", "koord-scheduler-config", "kai-scheduler-config"):
        yield {**made("v1", "ConfigMap", name, A), "data": {"default-scheduler": "absent", "config.yaml": "[" * 1_000}}
    yield made("policy/v1", "PodDisruptionBudget", "all", A, minAvailable="100%", selector={})
    yield made("policy/v1", "PodDisruptionBudget", "none", A, maxUnavailable=0, selector={"matchLabels": {"x": "y"}})
    yield {**made("v1", "Secret", "phalanx-webhook-certs", A), "stringData": {"tls.crt": EVIL}}
    for number, value in enumerate(NUMBERS):
        named = {"phalanx.dev/gang": "true", "phalanx.dev/min-member": value, "phalanx.dev/required": EVIL}
        yield job(f"odd-{number}", A, annotations=named)
    many = job("many", A, annotations={"phalanx.dev/gang": "true"})
    many["spec"] |= {"parallelism": 100_000, "completions": 100_000, "suspend": True}
    yield many


FORBIDDEN: tuple[Object, ...] = (
    made("v1", "ResourceQuota", "none", A, hard={"pods": "0"}),
    made("phalanx.dev/v1alpha1", "Topology", "mine", levels=[{"name": "rack", "nodeLabel": "x"}]),
    made("scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology", "mine", networkTopologySpec=[]),
    made("kueue.x-k8s.io/v1beta1", "ClusterQueue", "mine", namespaceSelector={}),
    made("kueue.x-k8s.io/v1beta1", "LocalQueue", "mine", A, clusterQueue="pool"),
    made("kai.scheduler/v1alpha1", "Topology", "mine", levels=[]),
    {**described(), "metadata": {"name": "pods.ml.example.com"}},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "mine"}, "value": 10**9},
    made("coordination.k8s.io/v1", "Lease", "phalanx-controller", "phalanx-system", holderIdentity="me"),
    made("phalanx.dev/v1alpha1", "Gang", "mine", B, minMember=1),
    made("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "mine", B, minMember=1),
    pod("mine", B, labels={"phalanx.dev/gang": "x"}),
)
"""Objects that the role `edit` of a namespace does not permit, because other users' gangs are planned by them."""


def rights() -> list[Object]:
    """Return the rules that the operators' own installations add to the role `edit` of a namespace."""
    groups = sorted({row.group for row in WRITTEN.values()} | {"policy", ""})
    return [{"apiGroups": groups, "resources": sorted(_plurals()), "verbs": ["*"]}]


def _plurals() -> set[str]:
    named = {WORKLOADS[row.group, row.kind].plural for row in WRITTEN.values() if (row.group, row.kind) in WORKLOADS}
    return named | {"trainingruns", "poddisruptionbudgets"}
