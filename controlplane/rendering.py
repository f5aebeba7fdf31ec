"""`python -m controlplane.rendering`: writes the files generated from the manifests, such as manifests/install.yaml."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from controlplane.programs.binaries import find_binaries

MANIFESTS = Path(__file__).parent.parent / "manifests"
INSTALL = MANIFESTS / "install.yaml"
_HEADER = """\
# The default installation in one file: kubectl apply --server-side -f install.yaml
# Made from manifests/default by `make manifests`; do not edit.
"""


_BY_URL = """\
# Every webhook of ../webhook/{file}, called by URL and not through the Service.
# Made by `make manifests`; do not edit.
apiVersion: admissionregistration.k8s.io/v1
kind: {kind}
metadata: {{name: {name}}}
webhooks:
{webhooks}"""


class RenderError(Exception):
    """A kustomization is wrong. The text is kubectl's message."""


def kustomize(folder: Path, kubectl: str | None = None) -> str:
    """Return the objects of a kustomization, as the YAML that `kubectl kustomize` prints.

    :param kubectl: the path of kubectl. None: kubectl of the control plane, whose programs are built if missing.
    :raises RenderError: the kustomization is wrong, or kubectl warns.
    """
    command = [kubectl or find_binaries()["kubectl"], "kustomize", str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode or answer.stderr:
        raise RenderError(answer.stderr.strip())
    return answer.stdout


def made() -> Iterator[tuple[Path, str]]:
    """Yield the path of every generated file, with its content."""
    for file in ("mutating.yaml", "validating.yaml"):
        yield MANIFESTS / "webhook-by-url" / file, _by_url(file)
    yield INSTALL, _HEADER + kustomize(MANIFESTS / "default")


def _by_url(file: str) -> str:
    """Return the patch that makes the API server call every webhook of a configuration by URL. kustomize inserts
    the address.
    """
    document = yaml.safe_load((MANIFESTS / "webhook" / file).read_text())
    webhooks = "".join(
        f"- name: {each['name']}\n"
        f"  clientConfig: {{service: null, url: https://address{each['clientConfig']['service']['path']}}}\n"
        for each in document["webhooks"]
    )
    return _BY_URL.format(file=file, kind=document["kind"], name=document["metadata"]["name"], webhooks=webhooks)


if __name__ == "__main__":
    for path, text in made():
        path.write_text(text)
        sys.stdout.write(f"{path.relative_to(MANIFESTS)} written\n")
