"""The manifests of the installation as data, for `phalanx uninstall`, for the demo and for tests.

If the webhook's server runs outside the cluster, the webhook configurations name the server's URL instead of a Service.
"""

import base64
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import yaml

Manifest = dict[str, Any]

WEBHOOK_FILES = ("mutating.yaml", "validating.yaml")
POLICY_FILES = ("bindings.yaml", "pods.yaml", "jobs.yaml")
SYSTEM_FILES = (
    "namespace.yaml",
    "access.yaml",
    "certificates.yaml",
    "guard.yaml",
    "mirrors.yaml",
    "quota.yaml",
    "priorityclass.yaml",
    "schedulers.yaml",
)
ACCESS_BY_CHOICE = (("atomic-release", ("access.yaml",)), ("devices", ("access.yaml", "guard.yaml")))
"""The optional components that bring rights: folders of manifests/, each with its files."""
OURS = {"app.kubernetes.io/name": "phalanx"}
"""The label on CRDs that Phalanx has installed. A CRD of the same name that another system installed lacks it."""


def webhook_configurations(url: str, ca_bundle: bytes) -> list[Manifest]:
    """Return the webhook configurations for a webhook server outside the cluster.

    :param url: where the server is reached, such as `https://127.0.0.1:9443`.
    :param ca_bundle: the CA certificates (PEM) that verify it.
    """
    configurations = [each for name in WEBHOOK_FILES for each in _objects(_manifests() / "webhook" / name)]
    for configuration in configurations:
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {
                "url": url.rstrip("/") + path,
                "caBundle": base64.b64encode(ca_bundle).decode(),
            }
    return configurations


def admission_policies() -> list[Manifest]:
    """Return the admission policies that gate members inside the API server, without a webhook. Bindings come first."""
    return [each for name in POLICY_FILES for each in _objects(_manifests() / "admission-policy" / name)]


def custom_resource_definitions(*folders: str) -> list[Manifest]:
    """Return the CRDs in these folders of `manifests/crds`; without arguments, the CRDs of all folders."""
    crds = _manifests() / "crds"
    names = folders or tuple(sorted(each.name for each in crds.iterdir() if each.is_dir()))
    found = [each for name in names for path in _yaml_files(crds / name) for each in _objects(path)]
    return [each for each in found if each["kind"] == "CustomResourceDefinition"]


def system_objects() -> list[Manifest]:
    """Return the objects in `manifests/system`, such as the namespace, service accounts, roles and priority class."""
    return [each for name in SYSTEM_FILES for each in _objects(_manifests() / "system" / name)]


def access_by_choice() -> list[Manifest]:
    """Return the roles, role bindings and policies that optional components add to an installation."""
    return [each for folder, _ in ACCESS_BY_CHOICE for each in component_objects(folder)]


def component_objects(component: str) -> list[Manifest]:
    """Return the objects of an optional component that adds access rights to an installation."""
    return [each for name in dict(ACCESS_BY_CHOICE)[component] for each in _objects(_manifests() / component / name)]


def _manifests() -> Traversable:
    return files("manifests")


def _yaml_files(folder: Traversable) -> list[Traversable]:
    return sorted((each for each in folder.iterdir() if each.name.endswith(".yaml")), key=lambda each: each.name)


def _objects(path: Traversable) -> Iterator[Manifest]:
    return (each for each in yaml.safe_load_all(path.read_text()) if each)
