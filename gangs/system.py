"""A system whose objects Phalanx reads and which may run in the cluster itself, and how that is seen."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kube.catalog import Plain


@dataclass(frozen=True, slots=True)
class System:
    """Another system, and how its admission webhooks are known: any one of the three marks is enough.

    `dialects`: whose keys and objects are its business. `webhook`: pattern of the name of a webhook entry,
    `configuration`: of the name of a configuration, `namespace`: where the service is that answers. `marks`: labels
    or annotations that it writes on its pods. `schedulers`: names by which pods ask for its scheduler. `component`:
    what has nobody ask Phalanx about pods with its keys (manifests/without-…), which it may share with another system.
    """

    name: str
    title: str
    dialects: tuple[str, ...]
    component: str
    namespace: str = ""
    webhook: str = "(?!)"
    configuration: str = "(?!)"
    marks: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()

    @property
    def shows_itself(self) -> bool:
        """Whether it has webhooks to be known by; else only the annotation of whoever runs the cluster tells."""
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
