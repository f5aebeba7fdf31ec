"""Advice on pods that name a queue of one system, such as Kueue, although another dialect's gang has the pod.

Only gangs of a dialect with queues, and Gang objects, use quota (docs/decisions/0032). Without the advice, such a gang
would start beyond the quota and no message would say so.
"""

from dataclasses import replace

from gangs.dialects.protocol import Charging, Dialect
from gangs.dialects.table import DIALECTS, OWN
from gangs.manifests import pod_ref
from gangs.model import Advice, Gang, Reading
from gangs.sources import Queues
from gangs.workloads.jobs import controller_of

_WITH_QUEUES = frozenset((OWN, *(each.name for each in DIALECTS if isinstance(each, Charging))))
"""The names of the dialects whose gangs use quota."""


def with_ignored_queues(reading: Reading, dialect: Dialect, queues: Queues) -> Reading:
    """Return the reading with advice on each unbound member that names a queue although its gang uses no quota.

    Of several members of one controller, the first gets the advice. Names of queues that do not exist are no request
    for quota, so they get none. Gangs of dialects with queues, and of Phalanx's own dialect, are checked by the
    dialects.
    """
    if dialect.name in _WITH_QUEUES:
        return reading
    found = [advice for gang in reading.gangs for advice in _ignored(gang, queues)]
    return replace(reading, advice=(*reading.advice, *found)) if found else reading


def _ignored(gang: Gang, queues: Queues) -> list[Advice]:
    found = dict[object, Advice]()
    for pod in (member.pod for member in gang.members if not member.pod.bound):
        named = queues.named_on(pod)
        controller = controller_of(pod)
        about = pod_ref(pod) if controller is None else controller.uid
        if named is None or about in found or not queues.charged(pod.metadata.namespace, named.queue, ()).dialect:
            continue
        text = f"is ignored: gang {gang.key}, whose member this is, is in no queue, so no quota limits it; "
        remedy = f"name queue: {named.queue} in a Gang object instead of the other keys, or remove the queue's name"
        found[about] = Advice(pod_ref(pod), named.field, text + remedy)
    return list(found.values())
