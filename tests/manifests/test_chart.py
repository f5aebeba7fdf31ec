"""The Helm chart renders the manifests themselves: with its own values the very objects of the default installation."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendered import Identity, Object, by_identity, overlay

from controlplane.checkers import check
from controlplane.control_plane import ControlPlane
from controlplane.rendering import MANIFESTS, kustomize

pytestmark = pytest.mark.controlplane

CHART = MANIFESTS.parent / "charts" / "phalanx"
KEPT = "helm.sh/resource-policy"
WEBHOOK = ("Deployment", "phalanx-system", "phalanx-webhook")
CONTROLLER = ("Deployment", "phalanx-system", "phalanx-controller")
MUTATING = ("MutatingWebhookConfiguration", "", "zz-phalanx")


def rendered(*settings: str) -> dict[Identity, Object]:
    """Return the objects that `helm template` renders with these settings."""
    answer = check("helm", "template", "phalanx", str(CHART), *(part for each in settings for part in ("--set", each)))
    assert answer.returncode == 0, answer.stderr
    return by_identity(answer.stdout)


def pod_of(objects: dict[Identity, Object], server: Identity) -> dict[str, Any]:
    """Return the pod spec of a server."""
    pod: dict[str, Any] = objects[server]["spec"]["template"]["spec"]
    return pod


def without_policy(manifest: Object) -> Object:
    """A definition without the annotation by which Helm keeps it."""
    metadata = dict(manifest["metadata"])
    annotations = {key: value for key, value in metadata.pop("annotations", {}).items() if key != KEPT}
    return manifest | {"metadata": metadata | ({"annotations": annotations} if annotations else {})}


def test_lint_finds_nothing() -> None:
    answer = check("helm", "lint", "--strict", str(CHART))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "1 chart(s) linted, 0 chart(s) failed" in answer.stdout


def test_with_its_own_values_it_renders_the_default_installation() -> None:
    objects, default = rendered(), overlay("default")
    assert objects.keys() == default.keys()
    for name, each in objects.items():
        if name[0] == "CustomResourceDefinition":
            assert each["metadata"]["annotations"][KEPT] == "keep"
            assert without_policy(each) == default[name], name
        else:
            assert each == default[name], name


@pytest.mark.long
def test_with_cert_manager_it_renders_that_overlay() -> None:
    objects, wanted = rendered("certificates=cert-manager", "definitions.keep=false"), overlay("cert-manager")
    assert objects == wanted


def test_definitions_that_another_system_has_brought_are_left_out() -> None:
    assert rendered("definitions.kueue=false", "definitions.keep=false") == overlay("beside-kueue")


def with_component(folder: Path, component: str) -> dict[Identity, Object]:
    """The default installation with a component."""
    where = {each: os.path.relpath(MANIFESTS / each, folder.resolve()) for each in ("default", component)}
    written = {"resources": [where["default"]], "components": [where[component]]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(written))
    return by_identity(kustomize(folder))


@pytest.mark.parametrize(
    ("component", "values"),
    [
        ("without-ack", ["systems.ack=false"]),
        ("without-kai", ["systems.kai=false"]),
        ("without-koordinator", ["leave={koordinator}"]),
        ("without-kueue", ["systems.kueue=false"]),
        ("client-certificates", ["clientAuthority=phalanx-client-ca"]),
        ("egress-to-api-servers", ["apiServers={10.96.0.1/32,192.0.2.10/32}"]),
    ],
)
def test_every_choice_is_one_component_and_one_value(tmp_path: Path, component: str, values: list[str]) -> None:
    objects, wanted = rendered("definitions.keep=false", *values), with_component(tmp_path, component)
    objects[MUTATING]["metadata"].pop("annotations", None)
    assert {name for name in wanted if wanted[name] != objects[name]} == set()
    assert {name for name in wanted if wanted[name] != overlay("default")[name]}


@pytest.mark.parametrize(
    ("component", "value"), [("native-groups", "nativeGroups=plan"), ("atomic-release", "atomicRelease=true")]
)
def test_kubernetes_own_groups_are_one_component_and_one_value(tmp_path: Path, component: str, value: str) -> None:
    def in_order(objects: dict[Identity, Object]) -> dict[Identity, Object]:
        """The objects with their webhooks by name: a component adds its own before the others, and the chart after."""
        return {
            name: each | {"webhooks": sorted(each["webhooks"], key=lambda webhook: str(webhook["name"]))}
            if "webhooks" in each
            else each
            for name, each in objects.items()
        }

    objects = rendered("definitions.keep=false", value)
    assert in_order(objects) == in_order(with_component(tmp_path, component))
    assert objects != overlay("default")


def test_where_groups_are_stripped_their_pods_are_sent_and_no_group_is_reviewed() -> None:
    objects, default = rendered("definitions.keep=false", "nativeGroups=strip"), overlay("default")
    assert {name for name, each in objects.items() if each != default[name]} == {MUTATING}
    assert objects[MUTATING]["metadata"]["annotations"] == {"phalanx.dev/strip": "native"}
    assert objects[MUTATING]["webhooks"][-1]["name"] == "pods-of-groups.phalanx.dev"


def test_a_system_that_has_brought_its_definitions_is_asked_about_where_it_is_adopted() -> None:
    objects = rendered("definitions.kueue=false", "definitions.keep=false", "adopt={kueue}")
    objects[MUTATING]["metadata"].pop("annotations")
    default = overlay("default")
    assert {name for name, each in objects.items() if each != default[name]} == set()


def test_values_reach_the_servers() -> None:
    objects = rendered(
        "image.repository=registry.example.com/phalanx",
        f"image.digest=sha256:{64 * 'a'}",
        "image.pullSecrets={secret}",
        "webhook.replicas=5",
        "controller.args={--log-level=debug}",
        "controller.env[0].name=OTEL_EXPORTER_OTLP_ENDPOINT",
        "controller.env[0].value=http://collector.example.com:4318",
        "controller.nodeSelector.pool=system",
        "adopt={kueue,kai}",
        "leave={ack}",
        "exemptions=false",
        "absentSchedulers={volcano,kai-scheduler}",
        "networkPolicies=false",
        "namespace.create=false",
    )
    for server in (WEBHOOK, CONTROLLER):
        pod = pod_of(objects, server)
        assert pod["containers"][0]["image"] == f"registry.example.com/phalanx@sha256:{64 * 'a'}"
        assert pod["imagePullSecrets"] == [{"name": "secret"}]
    assert objects[WEBHOOK]["spec"]["replicas"] == 5
    assert pod_of(objects, CONTROLLER)["nodeSelector"] == {"pool": "system"}
    arguments = pod_of(overlay("default"), CONTROLLER)["containers"][0]["args"]
    assert pod_of(objects, CONTROLLER)["containers"][0]["args"] == [*arguments, "--log-level=debug"]
    variables = [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector.example.com:4318"}]
    assert pod_of(objects, CONTROLLER)["containers"][0]["env"] == variables
    annotations = objects[MUTATING]["metadata"]["annotations"]
    choices = {"phalanx.dev/adopt": "kueue,kai", "phalanx.dev/leave": "ack"}
    assert annotations == choices | {"phalanx.dev/exemptions": "ignored"}
    handed_over = objects[MUTATING]["webhooks"][-1]
    condition = "object.spec.schedulerName in ['volcano', 'kai-scheduler']"
    assert handed_over["name"] == "absent-schedulers.phalanx.dev"
    assert handed_over["matchConditions"][0]["expression"] == condition
    assert not {"NetworkPolicy", "Namespace"} & {kind for kind, _, _ in objects}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("replica=3", "replica"),
        ("webhook.replicas=0", "minimum"),
        ("certificates=mine", "certificates"),
        ("image.digest=latest", "digest"),
        ("definitions.volcano=true", "volcano"),
        ("systems.kueue=maybe", "kueue"),
        ("apiServers={everybody}", "apiServers"),
    ],
)
def test_a_wrong_value_is_refused_by_name(setting: str, said: str) -> None:
    answer = check("helm", "template", "phalanx", str(CHART), "--set", setting)
    assert answer.returncode != 0
    assert said in answer.stderr


@pytest.mark.long
def test_a_package_holds_the_files_themselves(tmp_path: Path) -> None:
    packed = check("helm", "package", str(CHART), "--destination", str(tmp_path))
    assert packed.returncode == 0, packed.stderr
    (archive,) = tmp_path.glob("phalanx-*.tgz")
    assert by_identity(check("helm", "template", "phalanx", str(archive)).stdout) == rendered()


def test_what_it_renders_is_strictly_valid(cluster: ControlPlane) -> None:
    objects = rendered("networkPolicies=true")
    text = yaml.safe_dump_all(list(objects.values()))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MANIFESTS / "default"))
    cluster.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", "-f", "-"), stdin=text
    )
