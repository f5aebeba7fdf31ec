"""Another scheduling system, such as Kueue, that may run in the cluster, and how Phalanx detects that it runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kube.catalog import Plain


@dataclass(frozen=True, slots=True)
class System:
    """Another scheduling system, such as Kueue, and the names by which Phalanx detects its admission webhooks.

    The system runs if a webhook configuration of the cluster matches one of three fields. `webhook`: regular expression
    for the name of a webhook. `configuration`: regular expression for the name of the configuration. `namespace`: the
    namespace of the webhook's service.

    `dialects`: the dialects whose keys and objects the system handles. `marks`: labels and annotations that the system
    writes on its pods. `schedulers`: the `schedulerName`s of its scheduler. `component`: the manifests
    (manifests/without-…) that exclude pods with its keys from Phalanx's webhook. Two systems may share a component.
    "" if Phalanx's webhook does not match such pods anyway, unless a component of manifests/ adds them.
    `by_default`: the system is part of Kubernetes. Its workloads are ceded to it unless an annotation adopts them.
    """

    name: str
    title: str
    dialects: tuple[str, ...]
    component: str
    by_default: bool = False
    namespace: str = ""
    webhook: str = "(?!)"
    configuration: str = "(?!)"
    marks: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()

    @property
    def shows_itself(self) -> bool:
        """Whether Phalanx can detect the system by its webhooks.

        Otherwise the administrator must name it in the annotation `phalanx.dev/leave`.
        """
        return bool(self.namespace)

    def shows_in(self, configuration: Plain) -> bool:
        """Whether a webhook configuration belongs to this system, by its name or by one of its webhooks."""
        if not self.shows_itself:
            return False
        if re.fullmatch(self.configuration, configuration["metadata"]["name"]):
            return True
        return any(self._answers(each) for each in configuration.get("webhooks") or ())

    def _answers(self, webhook: Mapping[str, object]) -> bool:
        client = webhook.get("clientConfig")
        service = client.get("service") if isinstance(client, dict) else None
        where = service.get("namespace") if isinstance(service, dict) else None
        return where == self.namespace or bool(re.fullmatch(self.webhook, str(webhook.get("name", ""))))
