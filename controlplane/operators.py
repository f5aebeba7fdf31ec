"""Operators that create the pods of other projects' workloads. `python -m controlplane.operators` builds them ahead.

Each operator is built like the control plane, from the module pinned in `operator-pins`, into its own cache. If a
module builds with the control plane's versions of the Kubernetes libraries, these are pinned, so that Go has compiled
them already. Go's minimal version selection (MVS) lets a build request newer versions than the module does. The other
modules share KubeRay's versions, the newest with which all of them build. docs/decisions/0033 has the cost of the
builds. The definitions and the webhooks of an operator come from the same module.
"""

import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controlplane.programs.binaries import Recipe, build_alone, module_files
from controlplane.programs.compiling import BuildError
from controlplane.programs.toolchain import NoToolchainError
from controlplane.progress import Progress

STARTED = ("lws", "jobset", "mpi-operator", "kuberay", "training-operator", "trainer")
"""The operators that tests start. They are built ahead. Only `make bench` uses Kueue, for comparison, and builds it."""
_PINS = Path(__file__).parent / "operator-pins"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its Go module, and where its main package, CustomResourceDefinitions and webhooks are in the module.

    `module`: the path of the Go module. `definitions`, `webhooks`: files or folders inside; "": the operator has none.
    """

    name: str
    module: str
    package: str
    definitions: str
    webhooks: str = ""

    @property
    def recipe(self) -> Recipe:
        """The recipe that builds the operator's program."""
        return Recipe(self.name, _PINS / self.name, f"{self.module}{self.package}", ("-ldflags", "-s -w"))


OPERATORS = {
    each.name: each
    for each in (
        Operator(
            "jobset",
            "sigs.k8s.io/jobset",
            "",
            "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
            "config/components/webhook",
        ),
        Operator("lws", "sigs.k8s.io/lws", "/cmd", "config/crd/bases/*.yaml", "config/webhook"),
        Operator("kuberay", "github.com/ray-project/kuberay/ray-operator", "", "config/crd/bases/*.yaml"),
        Operator(
            "mpi-operator",
            "github.com/kubeflow/mpi-operator",
            "/cmd/mpi-operator",
            "manifests/base/kubeflow.org_mpijobs.yaml",
        ),
        Operator(
            "training-operator",
            "github.com/kubeflow/training-operator",
            "/cmd/training-operator.v1",
            "manifests/base/crds/kubeflow.org_*.yaml",
            "manifests/base/webhook",
        ),
        Operator(
            "trainer",
            "github.com/kubeflow/trainer/v2",
            "/cmd/trainer-controller-manager",
            "manifests/base/crds/trainer.kubeflow.org_*.yaml",
            "manifests/base/webhook",
        ),
        Operator(
            "kueue",
            "sigs.k8s.io/kueue",
            "/cmd/kueue",
            "config/components/crd/bases/*.yaml",
            "config/components/webhook",
        ),
    )
}


def program(name: str, progress: Progress | None = None) -> Path:
    """Return the path of an operator's program. If it is not in the cache, it is built first (half a minute, once).

    :raises KeyError: there is no operator of that name.
    :raises controlplane.programs.binaries.BuildError: the build failed. The text is the end of the toolchain's output.
    :raises controlplane.programs.toolchain.NoToolchainError: there is no Go, and none could be installed.
    """
    return build_alone(OPERATORS[name].recipe, "operators", progress or Progress())


def definitions(name: str) -> Iterator[dict[str, Any]]:
    """Yield the CustomResourceDefinitions of an operator, from its Go module. Raises the exceptions of the function
    `source`.
    """
    for file in sorted(source(name).glob(OPERATORS[name].definitions)):
        yield from filter(None, yaml.load_all(file.read_text(), yaml.CSafeLoader))


def webhooks(name: str, kubectl: Callable[..., str], url: str, authority: bytes) -> Iterator[dict[str, Any]]:
    """Yield an operator's webhook configurations, changed to call `url` (https://host:port) instead of the Service.

    Raises the exceptions of `source`.
    :param kubectl: runs kubectl with the given arguments and returns its output.
    :param authority: the certificate of the authority that the API server trusts at `url` (PEM).
    """
    folder = OPERATORS[name].webhooks
    text = kubectl("kustomize", str(source(name) / folder)) if folder else ""
    for each in filter(None, yaml.safe_load_all(text)):
        if each["kind"] == "Service":
            continue
        each["metadata"]["name"] = f"{name}-{each['metadata']['name']}"
        for hook in each["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"{url}{path}", "caBundle": b64encode(authority).decode()}
        yield each


def source(name: str) -> Path:
    """Return the folder with the source files of an operator's Go module. Raises the exceptions of `module_files`."""
    return module_files(_PINS / name, OPERATORS[name].module)


if __name__ == "__main__":
    try:
        for each in STARTED:
            program(each)
    except (BuildError, NoToolchainError) as error:
        sys.exit(f"error: {error}")
