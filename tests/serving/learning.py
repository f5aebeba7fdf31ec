"""Detect when the API server has learnt a changed webhook configuration, by a request instead of a guessed delay.

The API server watches all configurations of a kind on one connection, in order. Once it calls a webhook that was
registered later, it knows every earlier change. The webhook that is registered here selects only the object of that
request.
"""

from functools import partial

from cluster.api.transport import APPLY_PATCH
from controlplane.control_plane import ControlPlane, wait_until

NAME = "learnt.phalanx.test"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
QUESTION = "/api/v1/namespaces/default/configmaps?dryRun=All"


class Learning:
    """Use it as long as configurations change, and `close` it."""

    def __init__(self, plane: ControlPlane, patience: float) -> None:
        self._plane = plane
        self._patience = patience
        self._asked = 0

    def await_everything(self) -> None:
        """Wait until the API server knows everything that has been written so far."""
        self._asked += 1
        for kind in KINDS:
            mark = f"{kind}-{self._asked}"
            self._ask_for(kind, mark)
            wait_until(partial(self._refused, mark), self._patience, f"the API server to learn of {mark}")

    def close(self) -> None:
        """Leave nothing behind."""
        for kind in KINDS:
            self._plane.request("DELETE", f"{CONFIGURATIONS}/{kind.lower()}s/{NAME}")

    def _ask_for(self, kind: str, mark: str) -> None:
        path = f"{CONFIGURATIONS}/{kind.lower()}s/{NAME}?fieldManager=tests&force=true"
        written = self._plane.request("PATCH", path, _refusing(kind, mark), APPLY_PATCH)
        assert written["kind"] == kind, written

    def _refused(self, mark: str) -> bool:
        question = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "question", "labels": {NAME: mark}}}
        answer = self._plane.request("POST", QUESTION, question)
        return bool(answer["kind"] == "Status")


def _refusing(kind: str, mark: str) -> dict[str, object]:
    """Return a webhook configuration that sends each ConfigMap with this mark to an address without a server."""
    webhook = {
        "name": NAME,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "objectSelector": {"matchLabels": {NAME: mark}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
        ],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAME},
        "webhooks": [webhook],
    }
