"""Checks a cluster for faults that would affect gangs: in node labels, topologies, placement requests, and missing
gates.

The functions are pure: they take a snapshot of the cluster and return findings.
"""

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from cluster.snapshot import Snapshot
from cluster.topology.tree import DomainTree, domains
from gangs.coexistence.ownership import ALL, IGNORED, OWN, ceded_beside_kubernetes, chosen, running
from gangs.coexistence.systems import CHOICES
from gangs.dialects.claims import ceded_to_others, dialect_of
from gangs.dialects.topologies import topologies
from gangs.dialects.typos import typos
from gangs.incremental.reading_apart import read_apart
from gangs.manifests import ref_of
from gangs.model import Gang, Manifest
from gangs.sources import Sources
from gangs.topology.levels import choose
from gangs.workload_kinds import LEFT_OUT, READY
from gangs.workloads.user_defined_kinds import AGGREGATED, KIND
from kube.keys import ADOPT, CONFIGURATION, EXEMPTIONS, GATE, GROUP, LEAVE
from kube.names import natural_key
from kube.topology import Topology
from planning.doctor.finding import Finding, Severity
from planning.doctor.unscheduled import untried
from planning.messages.wording import compressed, listed

_SHOWN = 5
"""How many names a finding lists at most. Further names are counted."""


def check_up(snapshot: Snapshot, sources: Sources, now: datetime | None = None) -> list[Finding]:
    """Return the findings about the cluster's topologies, nodes, objects that ask for gangs, and pods of gangs.

    :param now: current time. A pod is reported as waiting for a scheduler only after it has waited for some time;
        None: it is reported at once.
    """
    known, _ = topologies(sources)
    reading = read_apart(sources)
    findings = [finding for topology in known for finding in _topology(topology, snapshot)]
    if not known:
        remedy = "create a Topology, or label the nodes with well-known topology labels"
        findings.append(Finding(Severity.WARNING, "topologies", "there is none: gangs are packed by node only", remedy))
    findings += _unused(known, reading.gangs)
    findings += [Finding(Severity.ERROR, str(f.object), f"{f.field}: {f.problem}", f.remedy) for f in reading.faults]
    findings += [
        Finding(Severity.WARNING, str(a.object), f"{a.field}: {a.text}")
        for a in (*reading.advice, *typos(sources, (*reading.faults, *reading.advice)))
        if not a.awaited
    ]
    findings += _members(sources)
    findings += untried(sources, now)
    findings += _neighbours(sources)
    findings += _described_kinds(sources)
    return findings


def _topology(topology: Topology, snapshot: Snapshot) -> Iterator[Finding]:
    tree = domains(topology, (state.node for state in snapshot.nodes))
    subject = f"{topology.kind or 'levels found on nodes'} {topology.name}".strip()
    lacking: defaultdict[str, list[str]] = defaultdict(list)
    for name, label in tree.outside.items():
        lacking[label].append(name)
    for label, names in sorted(lacking.items()):
        text = f"{_some(names)} outside it for want of label {label}: never used by gangs that name a level of it"
        pool = label if "=" in label else f"{label}=VALUE"
        fix = shlex.join(["kubectl", "label", "nodes", *sorted(names, key=natural_key), pool])
        yield Finding(Severity.WARNING, subject, text, f"label the nodes with {label}", (fix,))
    yield from _ambiguous_domains(topology, tree, subject)
    if not tree.path_of:
        yield Finding(Severity.ERROR, subject, "no node belongs to it", "check its levels' node labels")
    elif not lacking:
        yield Finding(Severity.OK, subject, f"{len(tree.path_of)} nodes, all of them inside")


def _ambiguous_domains(topology: Topology, tree: DomainTree, subject: str) -> Iterator[Finding]:
    """Report domain names that occur under several parent domains. The cause is usually a mislabelled node."""
    for position, level in enumerate(topology.levels[1:-1], start=1):
        parents: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        for path in tree.path_of.values():
            parents[path[position]][path[:position]] += 1
        for name, above in sorted(parents.items(), key=lambda item: natural_key(item[0])):
            if len(above) > 1:
                where = listed([f"{'/'.join(path)} ({count} nodes)" for path, count in above.most_common()])
                text = f'{level.name} "{name}" lies under {where}: these count as different domains'
                remedy = f"check the labels {level.label_keys[0]} and {topology.levels[position - 1].label_keys[0]}"
                yield Finding(Severity.WARNING, subject, text, remedy)


def _unused(known: Sequence[Topology], gangs: Iterable[Gang]) -> Iterator[Finding]:
    choices = [choose(gang.topology, gang.topology_kind, known) for gang in gangs]
    used = {choice for choice in choices if isinstance(choice, Topology)}
    for topology in known:
        if topology not in used and topology.kind:
            yield Finding(Severity.OK, f"{topology.kind} {topology.name}", "no gang uses it now")


def _members(sources: Sources) -> Iterator[Finding]:
    """Report pods of gangs that the webhook did not gate, and gated pods that name no gang."""
    left = ceded_to_others(sources)
    for pod in sources.pods:
        if pod.bound or pod.finished or pod.terminating:
            continue
        claim, gated = dialect_of(pod, left), pod.gated_by(GATE)
        if gated and claim is None:
            text, remedy = "is gated but names no gang: nothing will start it", "delete it, or give its label back"
            fix = f"kubectl -n {pod.metadata.namespace} delete pod {pod.metadata.name}"
            yield Finding(Severity.ERROR, f"Pod {pod.key}", text, remedy, (fix,))
        if claim is not None and not gated and not pod.status.nominated_node_name:
            text = f"names gang {claim[1]} but was never gated: the webhook did not see it"
            remedy = "see that the webhook is registered, and create the pod again"
            whose = f"kubectl -n {pod.metadata.namespace}"
            fix = f"{whose} get pod {pod.metadata.name} -o yaml | {whose} replace --force -f -"
            yield Finding(Severity.WARNING, f"Pod {pod.key}", text, remedy, (fix,))


def _neighbours(sources: Sources) -> Iterator[Finding]:
    """Report other gang-scheduling systems that run in the cluster, the workloads that Phalanx cedes to them, and
    settings of `adopt` and `leave` that match no system.
    """
    left = ceded_beside_kubernetes(sources)
    theirs: defaultdict[str, list[str]] = defaultdict(list)
    for dialect, neighbour in left.items():
        theirs[str(neighbour)].append(dialect)
    for whose, dialects in theirs.items():
        text = f"gangs asked for in the keys of {listed(sorted(dialects))} are left to {whose}"
        remedy = f"for Phalanx to place them, annotate {OWN} with {ADOPT}: {left[dialects[0]].system}"
        yield Finding(Severity.WARNING, left[dialects[0]].title, text, remedy)
    for system, evidence in running(sources):
        if system.name not in {each.system for each in left.values()} and not set(system.dialects) & left.keys():
            text = f"runs in this cluster ({evidence}), and Phalanx takes its workloads: annotation {ADOPT} of {OWN}"
            yield Finding(Severity.OK, system.title, text)
    for annotation in (ADOPT, LEAVE):
        for name in chosen(sources, annotation):
            if name not in CHOICES and (annotation, name) != (ADOPT, ALL):
                text = f'annotation {annotation} names "{name}", which is no system that Phalanx knows'
                yield Finding(Severity.ERROR, OWN, text, f"the names are {', '.join(CHOICES)}", _taken_away(annotation))
    for value in chosen(sources, EXEMPTIONS):
        if value != IGNORED:
            text = f'annotation {EXEMPTIONS} says "{value}", which means nothing: exemptions count'
            yield Finding(Severity.ERROR, OWN, text, f"write {IGNORED}, or take it away", _taken_away(EXEMPTIONS))


def _described_kinds(sources: Sources) -> Iterator[Finding]:
    """Report for each WorkloadKind whether Phalanx reads its kind, from the condition that the controller writes.

    A faulty WorkloadKind is left out, because its faults are reported with the faults of placement requests.
    """
    for manifest in sources.of_kind(GROUP, KIND):
        conditions = (manifest.get("status") or {}).get("conditions") or ()
        said = next((each for each in conditions if each.get("type") == READY), None)
        subject = f"{KIND} {ref_of(manifest).name}"
        if said is None:
            yield Finding(
                Severity.WARNING, subject, "the controller has not said whether it is in force", "see its logs"
            )
        elif said.get("status") == "True" and said.get("reason") == LEFT_OUT:
            text, _, remedy = str(said.get("message")).partition(": ")
            yield Finding(Severity.WARNING, subject, text, remedy)
        elif said.get("status") == "True":
            yield Finding(Severity.OK, subject, str(said.get("message")))
        elif said.get("reason") != "Invalid":
            text, _, remedy = str(said.get("message")).partition(": ")
            yield Finding(Severity.ERROR, subject, text, remedy, _reading(manifest, str(said.get("reason"))))


def _reading(manifest: Manifest, reason: str) -> tuple[str, ...]:
    """Return the commands that permit Phalanx to read the kind of a WorkloadKind; empty if permission is not the
    reason.
    """
    if reason != "Forbidden":
        return ()
    name, spec = f"phalanx-reads-{ref_of(manifest).name}", manifest["spec"]
    what = f"{spec['resource']}.{spec['group']}"
    create = f"kubectl create clusterrole {name} --verb=list,watch --resource={what}"
    return create, f"kubectl label clusterrole {name} {AGGREGATED}=true"


def _taken_away(annotation: str) -> tuple[str, ...]:
    return (f"kubectl annotate mutatingwebhookconfiguration {CONFIGURATION} {annotation}-",)


def _some(names: Sequence[str]) -> str:
    shown = compressed(sorted(names, key=natural_key)[:_SHOWN])
    rest = len(names) - _SHOWN
    nodes = f"{len(names)} node{'s' if len(names) > 1 else ''}"
    return f"{nodes} ({shown}{f' and {rest} more' if rest > 0 else ''}) {'lie' if len(names) > 1 else 'lies'}"
