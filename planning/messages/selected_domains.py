"""The few domains to which a gang's node selector or node affinity confines it, and the gangs that use them."""

from collections import Counter
from collections.abc import Iterable, Sequence

from cluster.node_state import NodeState
from cluster.selectors import chooses, wants_node
from cluster.snapshot import Snapshot
from gangs.model import Gang
from kube.names import natural_key
from kube.objects import Pod, Requirement
from kube.requests import pod_requests
from planning.framing.gang_problem import Framing
from planning.framing.running_gangs import RunningGangs
from planning.framing.ties import as_written
from planning.message import Message, Names
from planning.messages.wording import domain, listed, pods

_DOMAINS_SHOWN = 3
"""More domains than this are not few: the rule is then not what a gang waits for."""
_GANGS_SHOWN = 3


def only_in(gang: Gang, framing: Framing, snapshot: Snapshot, running: RunningGangs) -> Message:
    """Return the few domains in which the node selector and affinity of a gang's pods let the gang run.

    The text names the rule and the gangs whose pods use these domains: `rack-15 (node selector gpu=h200); in use there:
    team-b/hotfix (6 pods)`. Without names it counts the pods. Empty if the rules allow all domains or more than
    `_DOMAINS_SHOWN`, or if pods of the gang have different rules.

    :param running: the gangs of the running pods.
    """
    waiting = [member.pod for member in gang.members if not member.pod.bound]
    rules = {_rule(as_written(pod)) for pod in waiting}
    if len(rules) != 1 or not (rule := rules.pop()):
        return Message()
    layout = framing.problem.nodes.layout
    selected = _selected(as_written(waiting[0]), framing, snapshot)
    named = [at for at, name in enumerate(framing.nodes) if at not in framing.guests and name not in framing.outside]
    # Without levels above the nodes, the nodes are the domains. A node that lacks a label has a shorter path.
    above = len(framing.topology.levels) > 1
    path_of = {at: layout.paths[at] if above else (layout.names[at],) for at in named}
    inside = [path_of[at] for at in selected if at in path_of]
    for depth in range(max(1, len(framing.topology.levels) - 1), 0, -1):
        found = dict.fromkeys(path[:depth] for path in inside)
        everywhere = {path[:depth] for path in path_of.values()}
        if found and len(found) <= _DOMAINS_SHOWN and len(found) < len(everywhere):
            states = [snapshot.nodes[snapshot.positions[framing.nodes[at]]] for at in selected]
            users = _users(states, waiting[0], running)
            text = f"{listed([domain(path) for path in found])} ({rule})"
            return Message.of(text, "; in use there: ", users) if users.text else Message.of(text)
    return Message()


def _selected(pod: Pod, framing: Framing, snapshot: Snapshot) -> Sequence[int]:
    """Return the positions of the nodes that the pod's rules allow, in the order of the tree.

    A closed node (cordoned, tainted or not ready) counts if the pod's node selector and affinity allow it, because it
    may be usable again later.
    """
    shapes = [framing.problem.shapes[member.shape] for each in framing.problem.sets for member in each.members]
    eligible = frozenset[int]().union(*(shape.nodes for shape in {id(shape): shape for shape in shapes}.values()))
    states = (snapshot.nodes[snapshot.positions[name]] for name in framing.nodes)
    return [at for at, state in enumerate(states) if at in eligible or (not state.open and wants_node(pod, state.node))]


def _rule(pod: Pod) -> str:
    """Return the node selector and the required node affinity of a pod as text; "" if it has none."""
    if not chooses(pod):
        return ""
    parts = []
    if selector := pod.spec.node_selector:
        parts.append("node selector " + ", ".join(f"{key}={value}" for key, value in sorted(selector.items())))
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        terms = [
            " and ".join(map(_requirement, (*term.match_expressions, *term.match_fields)))
            for term in affinity.required.node_selector_terms
        ]
        parts.append(f"node affinity {' or '.join(terms)}")
    return ", ".join(parts)


def _requirement(requirement: Requirement) -> str:
    values = f" ({', '.join(requirement.values)})" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def _users(states: Iterable[NodeState], pod: Pod, running: RunningGangs) -> Names:
    """Return the gangs with the most pods on these nodes, and the number of pods of no gang. For a reader who may not
    see other users' objects, the text is only the number of pods. Otherwise a user could find out, by a node selector,
    which gangs of other namespaces run on a node.

    Only pods count that request a resource which the pod requests, too: an extended resource if it requests one, else
    cpu.
    """
    wanted = [name for name in pod_requests(pod) if "/" in name] or ["cpu"]
    counts: Counter[str] = Counter()
    for state in states:
        for tenant in state.tenants:
            if not tenant.terminating and any(tenant.requests.get(name, 0) for name in wanted):
                member = running.get(tenant.pod.key)
                counts["" if member is None else f"{member.key.namespace}/{member.key.name}"] += 1
    total, without = counts.total(), counts.pop("", 0)
    order = sorted(counts.items(), key=lambda each: (-each[1], natural_key(each[0])))
    texts = [f"{name} ({pods(count)})" for name, count in order[:_GANGS_SHOWN]]
    if (rest := len(order) - _GANGS_SHOWN) > 0:
        texts.append(f"{rest} more gangs" if rest > 1 else "1 more gang")
    texts += [f"{pods(without)} of no gang"] if without else []
    return Names(listed(texts), pods(total)) if texts else Names("", "")
