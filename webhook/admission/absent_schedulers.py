"""Gives pods of no gang to the stock scheduler if the scheduler that they name does not run in the cluster.

The API server sends these pods only if the component `manifests/absent-schedulers`, or the value `absentSchedulers` of
the Helm chart, has registered the webhook for them.
"""

from gangs.coexistence.running_schedulers import FIELD, runs, unread
from gangs.dialects.claims import dialect_of
from gangs.gpu_fractions import of_pod
from gangs.manifests import MalformedError, pod_of, pod_ref, section
from gangs.model import Advice, Manifest
from gangs.sources import PodKeys
from kube.keys import STOCK_SCHEDULER
from kube.scheduling import names_another_scheduler
from webhook.admission.patch_builder import PatchBuilder
from webhook.admission.reviews import Admitted, Decision
from webhook.admission.warnings import lines
from webhook.errors import Unavailable
from webhook.picture import Picture

_NOBODYS = PodKeys()


def created(manifest: Manifest, picture: Picture) -> Decision:
    """Set the stock scheduler as the scheduler of a new pod, if the one that the pod names does not run in the cluster.

    A pod of a gang is admitted unchanged, because the review of gangs' pods decides about it. A pod that requests a
    fraction of a GPU is admitted unchanged with a warning, because the stock scheduler cannot provide a fraction.

    :raises Unavailable: the caches do not show yet which schedulers run in the cluster.
    """
    try:
        pod = pod_of(manifest)
    except MalformedError:
        return Admitted()
    if pod.bound or not names_another_scheduler(pod) or dialect_of(pod) is not None:
        return Admitted()
    name = pod.spec.scheduler_name
    if waited := unread(name, _NOBODYS, picture.listed):
        raise Unavailable(f"still reading {waited}, to see whether {name} runs in this cluster")
    if runs(name, picture.sources_of()):
        return Admitted()
    if wrong := of_pod(pod):
        return Admitted(warnings=lines([Advice(each.object, each.field, each.problem) for each in wrong]))
    patch = PatchBuilder(manifest)
    patch.set(("spec", "schedulerName"), STOCK_SCHEDULER)
    message = f'"{name}" does not run here: {STOCK_SCHEDULER} starts the pod'
    return Admitted(patch.build(), lines([Advice(pod_ref(pod), FIELD, message)]))


def updated(manifest: Manifest, old: Manifest) -> Decision:
    """Keep the stock scheduler in an updated pod that has it.

    `schedulerName` cannot change. So without this step, a user could not apply a manifest again if it names another
    scheduler.
    """
    patch = PatchBuilder(manifest)
    if section(old, "spec").get("schedulerName") == STOCK_SCHEDULER:
        patch.set(("spec", "schedulerName"), STOCK_SCHEDULER)
    return Admitted(patch.build())
