"""Requests made once more in the name of a service account, while it lacks one of its rights."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from access_rules import ACCOUNTS, Right, without
from installation import FORBIDDEN, Installation, Request, right_of

from controlplane.control_plane import wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
PATIENCE = 300.0


class Replay:
    """Repeats the accounts' recorded requests as dry runs with empty bodies: only the authorization matters."""

    def __init__(self, installation: Installation) -> None:
        self._plane = installation.plane
        self._objects = installation.objects()
        self._servers = {each: installation.account(each) for each in ACCOUNTS}

    def allowed(self, request: Request) -> bool:
        """Return whether the request is authorized, whatever its result is."""
        return self._status(request) != FORBIDDEN

    def await_refusal_without(self, right: Right, request: Request) -> None:
        """Wait until the request is forbidden while its account lacks this one right. Raises TimeoutError."""
        lessened = without(self._objects, right)
        names = {each["metadata"]["name"] for each in lessened}
        try:
            for role in lessened:
                self._write(role)
            wait_until(lambda: not self.allowed(request), PATIENCE, f"a refusal: {right}")
        finally:
            for role in self._objects:
                if role["kind"].endswith("Role") and role["metadata"]["name"] in names:
                    self._write(role)

    def _status(self, request: Request) -> int:
        account = right_of(request).account
        method = METHODS.get(request["verb"], "GET")
        uri = request["requestURI"]
        if method != "GET":
            uri += ("&" if "?" in uri else "?") + "dryRun=All"
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        server = self._servers[account]
        headers = {"Authorization": f"Bearer {server.token}", "Content-Type": kind}
        with contextlib.closing(server.connect(30)) as connection:
            connection.request(method, uri, None if method in ("GET", "DELETE") else json.dumps({}), headers)
            return connection.getresponse().status

    def _write(self, role: Mapping[str, Any]) -> None:
        namespace = role["metadata"].get("namespace")
        within = f"namespaces/{namespace}/" if namespace else ""
        path = f"{RBAC}/{within}{role['kind'].lower()}s/{role['metadata']['name']}"
        answer = self._plane.request("PUT", path, role)
        assert answer["kind"] == role["kind"], answer
