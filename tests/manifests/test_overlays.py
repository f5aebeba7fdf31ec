"""The single file is the default installation, and each overlay differs from it only in its own purpose."""

import os.path
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.http.trace_exporter import DEFAULT_ENDPOINT
from rendered import Identity, Object, by_identity, overlay

from certs.authority import service_names
from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE
from cli.installation.installed_objects import OURS, custom_resource_definitions
from controlplane.rendering import MANIFESTS, kustomize, made
from gangs.coexistence.systems import COMPONENTS
from gangs.dialects.table import DIALECTS
from webhook.app import ABSENT_SCHEDULERS

pytestmark = pytest.mark.controlplane

OPERATIONS = MANIFESTS.parent / "docs" / "operations.md"
PLACE = DEFAULT_PLACE
WEBHOOK = ("Deployment", PLACE.namespace, "phalanx-webhook")
CONTROLLER = ("Deployment", PLACE.namespace, "phalanx-controller")
CERTIFICATES: set[Identity] = {
    (f"{scope}Role{binding}", PLACE.namespace if not scope else "", "phalanx-certificates")
    for scope in ("", "Cluster")
    for binding in ("", "Binding")
}
"""The objects that grant the controller its rights while it manages the certificate itself."""
HANDS_OFF = {
    (kind, namespace, "phalanx-certificates")
    for namespace, kinds in (("", ("ClusterRole", "ClusterRoleBinding")), (PLACE.namespace, ("Role", "RoleBinding")))
    for kind in kinds
}
"""The rights to the certificate and the caBundle. Overlays in which another program manages these remove them."""
CONFIGURED: list[Identity] = [(kind, "", name) for kind, name in CONFIGURATIONS]


HANDED_OVER = "absent-schedulers.phalanx.dev"


def container(objects: dict[Identity, Object], server: Identity) -> Object:
    """The one container of a server."""
    (found,) = objects[server]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def changed(name: str) -> tuple[set[Identity], set[Identity], set[Identity]]:
    """Return the objects that an overlay adds to the default, the objects that it lacks, and those that it changes."""
    default, other = overlay("default"), overlay(name)
    both = default.keys() & other.keys()
    return other.keys() - both, default.keys() - both, {each for each in both if default[each] != other[each]}


def test_what_is_made_from_other_manifests_is_up_to_date() -> None:
    for path, text in made():
        assert path.read_text() == text, f"`make manifests` writes {path.name}"


def test_every_definition_is_known_as_ours_when_it_is_to_be_removed() -> None:
    definitions = [each for (kind, *_), each in overlay("all-dialects").items() if kind == "CustomResourceDefinition"]
    assert [each["metadata"]["labels"] for each in definitions] == [OURS] * len(custom_resource_definitions())


def test_no_manifest_ships_a_bundle() -> None:
    for each in CONFIGURED:
        assert not any("caBundle" in webhook["clientConfig"] for webhook in overlay("default")[each]["webhooks"])


@pytest.mark.parametrize("server", [WEBHOOK, CONTROLLER], ids=["webhook", "controller"])
def test_the_servers_run_with_the_least_they_need(server: Identity) -> None:
    pod = overlay("default")[server]["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {each["topologyKey"] for each in pod["topologySpreadConstraints"]} >= {"kubernetes.io/hostname"}
    one = container(overlay("default"), server)
    limits = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert one["securityContext"] == limits
    assert {"startupProbe", "readinessProbe", "livenessProbe", "resources"} <= one.keys()


def test_a_quota_lets_the_servers_in_where_critical_priority_is_rationed() -> None:
    for name in ("default", "high-availability"):
        quota = overlay(name)["ResourceQuota", PLACE.namespace, "phalanx-critical"]["spec"]
        (scope,) = quota["scopeSelector"]["matchExpressions"]
        servers = [overlay(name)[each]["spec"] for each in (WEBHOOK, CONTROLLER)]
        assert (scope["scopeName"], scope["operator"]) == ("PriorityClass", "In")
        assert {each["template"]["spec"]["priorityClassName"] for each in servers} == set(scope["values"])
        assert sum(each["replicas"] for each in servers) * 2 <= int(quota["hard"]["pods"])


@pytest.mark.parametrize("kind", ["PodDisruptionBudget", "NetworkPolicy"])
@pytest.mark.parametrize("server", [WEBHOOK, CONTROLLER], ids=["webhook", "controller"])
def test_each_server_has_its_budget_and_its_network_policy(kind: str, server: Identity) -> None:
    default = overlay("default")
    spec = default[kind, PLACE.namespace, server[2]]["spec"]
    selector = spec["selector"] if kind == "PodDisruptionBudget" else spec["podSelector"]
    assert selector["matchLabels"].items() <= default[server]["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("server", [WEBHOOK, CONTROLLER], ids=["webhook", "controller"])
def test_the_network_policies_let_every_named_port_in(server: Identity) -> None:
    default = overlay("default")
    open_to_all = {
        port["port"]
        for rule in default["NetworkPolicy", PLACE.namespace, server[2]]["spec"]["ingress"]
        for port in rule["ports"]
    }
    assert open_to_all == {each["name"] for each in container(default, server)["ports"]}


@pytest.mark.parametrize("server", [WEBHOOK, CONTROLLER], ids=["webhook", "controller"])
def test_the_servers_are_let_out_to_the_ports_of_api_servers_alone(server: Identity) -> None:
    """To any address: a manifest does not know theirs (docs/decisions/0014)."""
    default = overlay("default")
    ports = [{"port": each, "protocol": "TCP"} for each in (443, 6443, 8443)]
    assert default["NetworkPolicy", PLACE.namespace, server[2]]["spec"]["egress"] == [{"ports": ports}]
    rest = default["NetworkPolicy", PLACE.namespace, "phalanx-nothing-else"]["spec"]
    assert rest == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_by_the_component_the_servers_are_let_out_to_the_api_servers_addresses_alone(tmp_path: Path) -> None:
    where = [os.path.relpath(MANIFESTS / each, tmp_path.resolve()) for each in ("default", "egress-to-api-servers")]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": where[:1], "components": where[1:]}))
    policies = [each for each in by_identity(kustomize(tmp_path)).values() if each["kind"] == "NetworkPolicy"]
    rules = [rule for policy in policies for rule in policy["spec"].get("egress", ())]
    blocks = [{"ipBlock": {"cidr": "10.96.0.1/32"}}, {"ipBlock": {"cidr": "192.0.2.10/32"}}]
    assert [each["to"] for each in rules] == [blocks, blocks]


def documented(kind: str) -> list[Object]:
    """The objects of a kind that the page of operations shows."""
    shown = re.findall(r"```yaml\n(.*?)```", OPERATIONS.read_text(), re.DOTALL)
    return [each for text in shown for each in yaml.safe_load_all(text) if each["kind"] == kind]


def test_the_documented_policies_let_the_servers_out_to_what_the_others_do_not() -> None:
    default = overlay("default")
    for policy in documented("NetworkPolicy"):
        assert policy["metadata"]["namespace"] == PLACE.namespace
        selected = policy["spec"]["podSelector"]["matchLabels"].items()
        assert selected <= default[CONTROLLER]["spec"]["template"]["metadata"]["labels"].items()
    ports = [
        port["port"]
        for policy in documented("NetworkPolicy")
        for rule in policy["spec"]["egress"]
        for port in rule["ports"]
    ]
    assert ports == [16443, 53, 53, urlsplit(DEFAULT_ENDPOINT).port]


def test_the_documented_kustomization_turns_traces_on(tmp_path: Path) -> None:
    (shown,) = documented("Kustomization")
    where = os.path.relpath(MANIFESTS / "default", tmp_path.resolve())
    assert shown["resources"] == ["../default"]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(shown | {"resources": [where]}))
    objects = by_identity(kustomize(tmp_path))
    one, usual = container(objects, CONTROLLER), container(overlay("default"), CONTROLLER)
    assert one["args"] == [*usual["args"], "--traces"]
    assert [each["name"] for each in one["env"]] == ["OTEL_EXPORTER_OTLP_ENDPOINT"]


def test_pods_of_absent_schedulers_are_asked_about_by_choice(tmp_path: Path) -> None:
    where = {each: os.path.relpath(MANIFESTS / each, tmp_path.resolve()) for each in ("default", "absent-schedulers")}
    written = {"resources": [where["default"]], "components": [where["absent-schedulers"]]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(written))
    objects, default = by_identity(kustomize(tmp_path)), overlay("default")
    (differs,) = (each for each in default if objects[each] != default[each])
    (*usual, one) = sorted(objects[differs]["webhooks"], key=lambda each: each["name"] == HANDED_OVER)
    assert usual == default[differs]["webhooks"]
    names = {name for each in DIALECTS for name in each.pod_keys.scheduler_names}
    assert set(re.findall(r"'([^']+)'", one["matchConditions"][0]["expression"])) == names
    assert (one["name"], one["failurePolicy"]) == (HANDED_OVER, "Ignore")
    assert one["clientConfig"]["service"]["path"] == ABSENT_SCHEDULERS


def test_the_replicas_are_as_promised() -> None:
    replicas = {name: overlay(name) for name in ("default", "high-availability")}
    assert [replicas["default"][each]["spec"]["replicas"] for each in (WEBHOOK, CONTROLLER)] == [3, 2]
    assert [replicas["high-availability"][each]["spec"]["replicas"] for each in (WEBHOOK, CONTROLLER)] == [5, 3]


def test_high_availability_spreads_both_servers_over_zones() -> None:
    assert changed("high-availability") == (set(), set(), {WEBHOOK, CONTROLLER})
    for server in (WEBHOOK, CONTROLLER):
        spread = overlay("high-availability")[server]["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert {each["topologyKey"]: each["whenUnsatisfiable"] for each in spread} == {
            "kubernetes.io/hostname": "DoNotSchedule",
            "topology.kubernetes.io/zone": "DoNotSchedule",
        }


def test_with_cert_manager_the_controller_keeps_its_hands_off_the_certificate() -> None:
    more, fewer, other = changed("cert-manager")
    assert {each[0] for each in more} == {"Issuer", "Certificate"}
    assert (fewer, other) == (CERTIFICATES, {CONTROLLER, *CONFIGURED})
    objects = overlay("cert-manager")
    assert "--certificates=given" in container(objects, CONTROLLER)["args"]
    made = objects["Certificate", PLACE.namespace, "phalanx-webhook"]["spec"]
    assert made["secretName"] == PLACE.secret
    assert service_names(PLACE.service, PLACE.namespace).dns[0] in made["dnsNames"]
    for each in CONFIGURED:
        annotations = objects[each]["metadata"]["annotations"]
        assert annotations["cert-manager.io/inject-ca-from"] == f"{PLACE.namespace}/phalanx-webhook"


def test_a_webhook_by_url_leaves_no_service_behind() -> None:
    more, fewer, other = changed("webhook-by-url")
    assert (more, other) == (set(), {CONTROLLER, *CONFIGURED})
    kinds = {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    assert fewer == CERTIFICATES | {(kind, PLACE.namespace, "phalanx-webhook") for kind in kinds}
    objects = overlay("webhook-by-url")
    assert "--certificates=given" in container(objects, CONTROLLER)["args"]
    for each in CONFIGURED:
        for webhook, usual in zip(objects[each]["webhooks"], overlay("default")[each]["webhooks"], strict=True):
            path = usual["clientConfig"]["service"]["path"]
            assert webhook["clientConfig"]["url"] == f"https://phalanx.example.com:9443{path}", webhook["name"]
            assert "service" not in webhook["clientConfig"], webhook["name"]


def test_with_policies_there_is_no_webhook_to_call() -> None:
    more, fewer, other = changed("admission-policy")
    kinds = {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    assert fewer == CERTIFICATES | {*((kind, PLACE.namespace, "phalanx-webhook") for kind in kinds), *CONFIGURED}
    assert other == {CONTROLLER}
    policies = {(kind, name) for kind, _, name in more if kind.endswith("Policy")}
    bound = {(kind.removesuffix("Binding"), name) for kind, _, name in more if kind.endswith("Binding")}
    assert policies == bound
    system = "{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, phalanx-system]}"
    for kind, name in policies:
        constraints = overlay("admission-policy")[kind, "", name]["spec"]["matchConstraints"]
        assert constraints["namespaceSelector"]["matchExpressions"] == [yaml.safe_load(system)], name


@pytest.mark.parametrize("system", ["kai", "koordinator", "kueue"])
def test_beside_another_system_only_its_keys_are_left_out(system: str) -> None:
    assert changed(f"beside-{system}") == (set(), set(), {*CONFIGURED})


def groups(objects: dict[Identity, Object]) -> set[str]:
    """The API groups of the definitions."""
    return {each["spec"]["group"] for (kind, *_), each in objects.items() if kind == "CustomResourceDefinition"}


@pytest.mark.parametrize("name", ["default", "high-availability", "cert-manager", "admission-policy", "beside-kueue"])
def test_no_overlay_but_one_brings_definitions_of_other_systems(name: str) -> None:
    assert groups(overlay(name)) == {"phalanx.dev"}


def test_every_systems_definitions_are_one_component(tmp_path: Path) -> None:
    more, fewer, other = changed("all-dialects")
    assert (fewer, other) == (set(), set())
    for part, dialects in COMPONENTS.items():
        where = [os.path.relpath(MANIFESTS / each, tmp_path.resolve()) for each in ("default", f"with-{part}")]
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": where[:1], "components": where[1:]}))
        added = by_identity(kustomize(tmp_path)).keys() - overlay("default").keys()
        assert added == {("CustomResourceDefinition", "", name) for name in names_of(dialects)}
        more -= added
    assert more == set()


def names_of(dialects: Iterable[str]) -> set[str]:
    """The names of the definitions of these dialects."""
    return {each["metadata"]["name"] for each in custom_resource_definitions(*dialects)}
