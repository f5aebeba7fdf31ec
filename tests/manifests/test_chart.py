"""The Helm chart renders the manifests themselves: with its own values the very objects of the default installation."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendered import Identity, Object, by_identity, overlay

from controlplane.checkers import check
from controlplane.control_plane import ControlPlane
from controlplane.programs.other_versions import asked_for
from controlplane.rendering import MANIFESTS, kustomize

pytestmark = pytest.mark.controlplane

CHART = MANIFESTS.parent / "charts" / "phalanx"
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
KEPT = "helm.sh/resource-policy"
WEBHOOK = ("Deployment", "phalanx-system", "phalanx-webhook")
CONTROLLER = ("Deployment", "phalanx-system", "phalanx-controller")
MUTATING = ("MutatingWebhookConfiguration", "", "zz-phalanx")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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


def test_beside_another_system_its_keys_are_left_out() -> None:
    assert rendered("systems.kueue=false", "definitions.keep=false") == overlay("beside-kueue")


def test_the_definitions_of_other_systems_are_values() -> None:
    asked = [f"definitions.{each}=true" for each in ("ack", "kai", "koordinator", "kueue", "runai")]
    assert rendered(*asked, "definitions.keep=false") == overlay("all-dialects")


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
    ("component", "value"),
    [("native-groups", "nativeGroups=plan"), ("atomic-release", "atomicRelease=true"), ("devices", "devices=true")],
)
def test_what_is_left_out_by_default_is_one_component_and_one_value(tmp_path: Path, component: str, value: str) -> None:
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


def test_a_system_that_is_ceded_to_is_asked_about_where_it_is_adopted() -> None:
    objects = rendered("leave={kueue}", "definitions.keep=false", "adopt={kueue}")
    objects[MUTATING]["metadata"].pop("annotations")
    default = overlay("default")
    assert {name for name, each in objects.items() if each != default[name]} == set()


def test_monitoring_is_rendered_by_its_values() -> None:
    objects = rendered(
        "monitoring.serviceMonitor=true",
        "monitoring.rules=true",
        "monitoring.dashboards=true",
        "definitions.keep=false",
    )
    wanted = by_identity(kustomize(MANIFESTS / "monitoring"))
    assert {name: objects[name] for name in wanted} == wanted
    labelled = rendered("monitoring.serviceMonitor=true", "monitoring.labels.release=operator")
    monitor = labelled["ServiceMonitor", "phalanx-system", "phalanx"]
    assert monitor["metadata"]["labels"] == {"app.kubernetes.io/name": "phalanx", "release": "operator"}


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
        "controller.podAnnotations.example\\.com/team=platform",
        "controller.priorityClassName=infrastructure",
        "controller.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
        ".matchExpressions[0].key=node-role.kubernetes.io/control-plane",
        "controller.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
        ".matchExpressions[0].operator=Exists",
        "webhook.tolerations[0].operator=Exists",
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
    assert pod_of(objects, CONTROLLER)["priorityClassName"] == "infrastructure"
    assert pod_of(objects, WEBHOOK)["priorityClassName"] == "system-cluster-critical"
    (term,) = pod_of(objects, CONTROLLER)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]
    assert pod_of(objects, WEBHOOK)["tolerations"] == [{"operator": "Exists"}]
    usual, metadata = (each[CONTROLLER]["spec"]["template"]["metadata"] for each in (overlay("default"), objects))
    assert metadata["annotations"] == usual.get("annotations", {}) | {"example.com/team": "platform"}
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
        ("webhook.affinity.nodes=a", "affinity"),
        ("controller.podAnnotation.team=a", "podAnnotation"),
        ("image.registry=example.com", "registry"),
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


def described(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """Yield the path and the schema of every value that the schema knows, with `$ref` resolved."""
    reference = schema.get("$ref", "").rpartition("/")[2]
    known = {**SCHEMA["definitions"].get(reference, {}), **schema}
    yield path, known
    for name, each in known.get("properties", {}).items():
        yield from described(each, f"{path}.{name}".lstrip("."))


def paths(values: Object, schema: Mapping[str, Object], path: str = "") -> Iterator[str]:
    """Yield the path of every value, such as `image.tag`.

    A value whose schema has no fixed fields, such as `nodeSelector`, has one path for its whole content.
    """
    for name, each in values.items():
        here = f"{path}.{name}".lstrip(".")
        yield here
        if isinstance(each, dict) and "properties" in schema.get(here, {"properties": None}):
            yield from paths(each, schema, here)


def test_every_value_is_described_and_no_other_is_taken() -> None:
    known = dict(described(SCHEMA))
    del known[""]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(paths(values, known)) - known.keys() == set(), "values without a schema"
    assert [path for path, each in known.items() if not each.get("description", "").endswith(".")] == []
    closed = [each.get("additionalProperties") for each in known.values() if "properties" in each]
    assert closed
    assert not any(closed)
    assert SCHEMA["additionalProperties"] is False


def helm(cluster: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm against the cluster."""
    return check("helm", *arguments, "--kubeconfig", str(cluster.kubeconfig))


def test_a_second_release_in_one_cluster_is_refused_clearly() -> None:
    with ControlPlane(binaries=asked_for()) as cluster:
        first = helm(cluster, "install", "phalanx", str(CHART), "--namespace", "default")
        assert first.returncode == 0, first.stderr
        second = helm(cluster, "install", "another", str(CHART), "--namespace", "kube-public")
        assert second.returncode != 0
        assert "Phalanx is already installed in this cluster, as release phalanx of namespace default" in second.stderr
        upgraded = helm(cluster, "upgrade", "phalanx", str(CHART), "--namespace", "default", "--reuse-values")
        assert upgraded.returncode == 0, upgraded.stderr
        removed = helm(cluster, "uninstall", "phalanx", "--namespace", "default")
        assert removed.returncode == 0, removed.stderr
        kept = cluster.kubectl("get", "crd", "-o", "name").split()
        assert [each for each in kept if each.endswith(".phalanx.dev")], "definitions.keep is true"


def test_what_it_renders_is_strictly_valid(cluster: ControlPlane) -> None:
    objects = rendered("networkPolicies=true")
    text = yaml.safe_dump_all(list(objects.values()))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MANIFESTS / "default"))
    cluster.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", "-f", "-"), stdin=text
    )
