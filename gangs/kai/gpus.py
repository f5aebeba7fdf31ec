"""The number of whole GPUs that pods request. The scope `gpu` and the size of NVLink domains are measured in it."""

from collections.abc import Iterable, Sequence

from gangs.findings import Findings
from gangs.kai import keys
from gangs.manifests import integer, pod_ref
from gangs.membership import age
from gangs.model import ObjectRef
from kube.objects import Container, Pod


def gpus_of(pod: Pod) -> int:
    """Return the number of GPUs that a pod requests.

    It is the sum over the containers, or the request of the largest init container if that is greater.
    """
    running = sum(map(_of_container, pod.spec.containers))
    return max([running, *map(_of_container, pod.spec.init_containers)])


def gpus_together(pods: Sequence[Pod], count: int) -> int:
    """Return the number of GPUs that the `count` pods with the fewest GPUs request together."""
    return sum(sorted(map(gpus_of, pods))[:count])


def check_gpu_scope(pods: Iterable[Pod], group: ObjectRef, findings: Findings) -> None:
    """Report pods of a gang as faults if the gang requests more than one GPU although its scope is a single GPU."""
    total = 0
    for pod in sorted(pods, key=lambda each: age(each.metadata)):
        total += gpus_of(pod)
        if total > 1 and gpus_of(pod):
            problem = f"makes {total} {keys.GPU} together, and {group} has the scope of a single GPU"
            findings.fault(pod_ref(pod), "spec.containers", problem, "choose the scope node, or ask for less")


def _of_container(container: Container) -> int:
    amounts = {**container.resources.limits, **container.resources.requests}
    return integer(str(amounts.get(keys.GPU, 0))) or 0
