"""A system whose objects Phalanx reads and that may run in the cluster itself, and the evidence that it runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kube.catalog import Plain


@dataclass(frozen=True, slots=True)
class System:
    """Another system, and three marks of its admission webhooks. Any one of these marks is sufficient evidence.

    `webhook`: pattern of the name of a webhook entry. `configuration`: pattern of the name of a webhook configuration.
    `namespace`: namespace of the webhook's service. `dialects`: the dialects whose keys and objects the system handles.
    `marks`: labels or annotations that it writes on its pods. `schedulers`: names by which pods ask for its scheduler.
    `component`: the manifests (manifests/without-…) that exclude pods with its keys from Phalanx's webhook. Two systems
    may share a component; "": the installation sends no such pods without a component that asks for them.
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
        """Whether the system has webhooks as evidence. Otherwise only the administrator's annotation shows it."""
        return bool(self.namespace)

    def shows_in(self, configuration: Plain) -> bool:
        """Whether a webhook configuration is this system's."""
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
