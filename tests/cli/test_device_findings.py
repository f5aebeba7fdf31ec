"""The doctor's findings about the component that holds devices: absent, in part, short of rights, or whole."""

from copy import deepcopy
from typing import Any

from cli.installation.device_checks import component, kinds, paths
from cli.installation.installed_objects import component_objects
from planning.doctor.finding import Severity

ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/phalanx-devices"


def installed() -> dict[str, Any]:
    """The component's objects by path, as they are in a cluster with the component."""
    return dict(zip(paths(), deepcopy(component_objects("devices")), strict=True))


def absent() -> dict[str, Any]:
    """The component's paths, without objects."""
    return dict.fromkeys(paths())


def test_the_component_is_wanted_only_if_gangs_have_claims() -> None:
    assert not list(component(absent(), []))
    (found,) = component(absent(), ["default/llm-0", "default/llm-1"])
    assert found.severity is Severity.ERROR
    assert found.text.startswith("pods default/llm-0..1 have ResourceClaims")
    assert "kubectl apply --server-side -f manifests/devices/access.yaml -f manifests/devices/guard.yaml" in found.fix


def test_a_whole_component_is_well() -> None:
    (found,) = component(installed(), ["default/llm-0"])
    assert (found.severity, found.text) == (Severity.OK, "the component is installed")


def test_a_component_in_part_names_what_is_missing() -> None:
    (found,) = component({**installed(), ROLE: None}, [])
    assert (found.severity, found.text) == (Severity.ERROR, "the component lacks ClusterRole phalanx-devices")


def test_a_role_without_a_right_names_it() -> None:
    here = installed()
    here[ROLE]["rules"][0]["resources"].remove("resourceclaims/binding")
    found, _ = component(here, [])
    assert (found.severity, found.subject) == (Severity.ERROR, "ClusterRole phalanx-devices")
    assert found.text == ("lacks the right to patch resourceclaims, resourceclaims/status and resourceclaims/binding")


def test_a_role_that_grants_more_is_well() -> None:
    here = installed()
    here[ROLE]["rules"] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    assert [each.severity for each in component(here, [])] == [Severity.OK]


def test_a_user_who_may_not_read_it_is_told_so() -> None:
    (found,) = component({**installed(), ROLE: "forbidden"}, [])
    assert (found.severity, found.text) == (Severity.WARNING, "the component could not be read: forbidden")


def test_an_old_api_server_lacks_rules_or_claims() -> None:
    assert not list(kinds({"items": []}, {"items": []}))
    (old,) = kinds({"items": []}, None)
    assert (old.severity, "serves no DeviceTaintRules" in old.text) == (Severity.WARNING, True)
    (older,) = kinds(None, None)
    assert (older.severity, "serves no ResourceClaims" in older.text) == (Severity.ERROR, True)
