"""The match conditions select exactly the objects that the dialects read, and follow the table of dialects."""

import re
from importlib.resources import files
from typing import Any

import pytest
import yaml

from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE
from cli.installation.installed_objects import (
    ACCESS_BY_CHOICE,
    access_by_choice,
    admission_policies,
    system_objects,
    webhook_configurations,
)
from controlplane.rendering import MANIFESTS
from gangs.coexistence.ownership import EVIDENCE_KINDS
from gangs.dialects.protocol import Queueing
from gangs.dialects.table import DIALECTS, all_kinds
from gangs.kueue.keys import WISHES as PLACES
from gangs.phalanx.gang_annotations import WISHES
from gangs.runai.keys import WISHES as TOPOLOGY_WISHES
from gangs.workloads.kind_table import WORKLOADS, KindRow
from gangs.workloads.train_jobs import RUNTIMES
from kube import keys

OF_KUBERNETES = {"kube-system", "kube-public", "kube-node-lease", keys.SYSTEM_NAMESPACE}
"""Namespaces that hold no gangs."""
URL = "https://127.0.0.1:9443"
WEBHOOKS = {each["name"]: each for part in webhook_configurations(URL, b"CA") for each in part["webhooks"]}


def component(name: str, file: str) -> dict[str, Any]:
    """Return a patch of a component."""
    found: dict[str, Any] = yaml.safe_load((files("manifests") / name / f"{file}.yaml").read_text())
    return found


def condition(webhook: str, name: str) -> str:
    """A match condition's expression."""
    found: str = next(each["expression"] for each in WEBHOOKS[webhook]["matchConditions"] if each["name"] == name)
    return found


def keys_in(expression: str, field: str) -> set[str]:
    """The keys that an expression looks for in a map, such as `object.metadata.labels`."""
    return set(re.findall(rf"'([^']+)' in {re.escape(field)}", expression))


@pytest.mark.parametrize(
    ("webhook", "subject"), [("pods.phalanx.dev", "object"), ("applied-again.phalanx.dev", "oldObject")]
)
def test_pods_are_sent_by_exactly_the_keys_of_the_dialects(webhook: str, subject: str) -> None:
    expression = condition(webhook, "names-a-gang")
    labels = {key for dialect in DIALECTS for key in dialect.pod_keys.labels}
    annotations = {key for dialect in DIALECTS for key in dialect.pod_keys.annotations}
    assert keys_in(expression, f"{subject}.metadata.labels") == labels
    assert keys_in(expression, f"{subject}.metadata.annotations") == annotations


def test_a_component_sends_pods_by_exactly_the_fields_of_the_dialects() -> None:
    """By default, no pod depends on Phalanx because of a field that kube-scheduler reads itself."""
    (webhook,) = component("native-groups", "mutating")["webhooks"]
    (expression,) = (each["expression"] for each in webhook["matchConditions"] if each["name"] == "belongs-to-a-group")
    found = {each.removeprefix("object.") for each in re.findall(r"has\(([\w.]+)\)", expression)}
    fields = {field for dialect in DIALECTS for field in dialect.pod_keys.fields}
    assert found == {part for field in fields for part in (field.rpartition(".")[0], field)}
    assert "schedulingGroup" not in str(WEBHOOKS)


def test_what_components_grant_is_removed_by_uninstall() -> None:
    granting = {path.parent.name for path in MANIFESTS.glob("*/access.yaml")} - {"system"}
    assert granting == set(dict(ACCESS_BY_CHOICE))
    policies = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert {each["kind"] for each in access_by_choice()} - policies == {
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    }


def test_policies_keep_members_by_exactly_the_keys_of_the_dialects() -> None:
    policy = next(each for each in admission_policies() if "validations" in each["spec"] and "gated" in str(each))
    labels, annotations = (
        set(re.findall(r"'([^' ]+)'[,\]]", each["expression"])) for each in policy["spec"]["validations"]
    )
    assert labels == {key for each in DIALECTS for key in each.pod_keys.labels}
    assert annotations == {key for each in DIALECTS for key in each.pod_keys.annotations}


@pytest.mark.parametrize("webhook", ["jobs.phalanx.dev", "annotated-workloads.phalanx.dev", "workloads.phalanx.dev"])
def test_workloads_are_sent_by_exactly_the_annotations_that_opt_in(webhook: str) -> None:
    assert keys_in(condition(webhook, "asks-to-be-a-gang"), "object.metadata.annotations") == set(WISHES)


@pytest.mark.parametrize("webhook", ["annotated-workloads.phalanx.dev", "placed-workloads.phalanx.dev"])
def test_workloads_of_every_kind_that_can_be_a_gang_are_sent_to_have_their_templates_labelled(webhook: str) -> None:
    rules = WEBHOOKS[webhook]["rules"]
    sent = {
        (group, version, plural)
        for rule in rules
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for plural in rule["resources"]
    }
    assert sent == {
        (group, version, row.plural)
        for (group, _), row in WORKLOADS.items()
        if row.by_annotation and group != "batch"
        for version in row.versions
    }
    assert all(rule["operations"] == ["CREATE", "UPDATE"] for rule in rules)


@pytest.mark.parametrize("webhook", sorted(WEBHOOKS))
def test_a_job_of_another_group_is_not_taken_for_one_of_kubernetes(webhook: str) -> None:
    """An expression that reads a field which Volcano's Job lacks is an error: every Job of Volcano would be refused."""
    for each in WEBHOOKS[webhook].get("matchConditions", ()):
        text = " ".join(each["expression"].split())
        assert len(re.findall(r"kind\.kind [!=]= 'Job'", text)) == len(re.findall(r"kind\.group [!=]= 'batch'", text))


DESCRIBED = "described-workloads.phalanx.dev"
"""The webhook for objects of user-defined kinds that ask to be a gang."""


def test_objects_of_other_kinds_are_sent_where_they_ask_to_be_gangs() -> None:
    assert keys_in(condition(DESCRIBED, "asks-to-be-a-gang"), "object.metadata.annotations") == set(WISHES)
    (rule,) = WEBHOOKS[DESCRIBED]["rules"]
    assert (rule["apiGroups"], rule["resources"], rule["operations"]) == (["*"], ["*"], ["CREATE", "UPDATE"])


def test_most_objects_of_a_cluster_are_excluded_by_the_first_term_of_a_single_condition() -> None:
    """The API server evaluates all conditions of an entry for each object. It evaluates `&&` from left to right."""
    (only,) = WEBHOOKS[DESCRIBED]["matchConditions"]
    assert only["expression"].startswith("request.resource.group.contains('.') && ")


def test_objects_that_are_sent_elsewhere_are_not_sent_as_those_of_other_kinds() -> None:
    one_condition = condition(DESCRIBED, "asks-to-be-a-gang")
    groups_excluded, _, rest = one_condition.partition("request.resource.resource")
    elsewhere = quoted(rest.partition("in [")[2].partition("]")[0])
    known = {f"{row.plural}.{group}" for (group, _), row in WORKLOADS.items() if "." in group}
    assert elsewhere == known
    of_dialects = {kind.group for kind in all_kinds() if kind.user_defined is None} | {keys.GROUP}
    groups = {each for each in of_dialects if "." in each and not each.endswith(".k8s.io")}
    assert quoted(groups_excluded) >= groups - {group for group, _ in WORKLOADS}


@pytest.mark.parametrize(
    ("webhook", "asks", "wishes"),
    [
        ("handed-down.phalanx.dev", "asks-to-be-a-gang", WISHES),
        ("places-handed-down.phalanx.dev", "asks-for-a-place", TOPOLOGY_WISHES),
    ],
)
def test_kinds_in_which_annotations_are_written_down_are_sent_by_them_and_by_those_that_they_had(
    webhook: str, asks: str, wishes: tuple[str, ...]
) -> None:
    assert keys_in(condition(webhook, asks), "each.metadata.annotations") == set(wishes)
    sent = {
        (group, plural)
        for rule in WEBHOOKS[webhook]["rules"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert sent == {
        (group, row.plural)
        for (group, _), row in WORKLOADS.items()
        if row.child is not None and row.child.annotations_at
    }


def _in_a_queue(row: KindRow) -> bool:
    """Whether the webhook for the queues of workloads receives the kind. Jobs have a webhook of their own."""
    return (row.queued and row.rules is None) or bool(row.suspended_at and row.child)


def test_workloads_whose_queue_is_written_on_their_templates_are_sent_when_they_are_made_and_changed() -> None:
    rules = WEBHOOKS["queues-of-workloads.phalanx.dev"]["rules"]
    sent = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    by_queue = {at: row for at, row in WORKLOADS.items() if _in_a_queue(row)}
    assert sent == {(group, row.plural) for (group, _), row in by_queue.items()}
    assert all(rule["operations"] == ["CREATE", "UPDATE"] for rule in rules)


def test_a_train_job_is_sent_by_the_queue_that_it_hands_to_its_job_set() -> None:
    text = " ".join(condition("queues-of-workloads.phalanx.dev", "names-a-queue").split())
    labels = {key for dialect in DIALECTS if isinstance(dialect, Queueing) for key in dialect.workload_labels}
    assert all(f"'trainjobs' && '{key}' in object.?spec.?labels.orValue({{}})" in text for key in labels)


def test_policies_leave_jobs_suspended_of_exactly_the_kinds_that_suspend_theirs() -> None:
    makers = {f"{group}/{kind}" for (group, kind), row in WORKLOADS.items() if row.suspended_at and "Job" in row.makers}
    texts = [str(each) for each in admission_policies() if "created-suspended" in str(each)]
    named = [found for text in texts for found in re.findall(r"each\.kind in \[([^]]*)\]", text)]
    assert [set(re.findall(r"[\w.-]+/\w+", each)) for each in named] == [makers, makers]


@pytest.mark.parametrize(
    "webhook", ["queued-jobs.phalanx.dev", "queues-of-workloads.phalanx.dev", "queued-workloads.phalanx.dev"]
)
def test_workloads_that_name_a_queue_are_sent_by_exactly_the_labels_of_the_dialects(webhook: str) -> None:
    labels = {key for dialect in DIALECTS if isinstance(dialect, Queueing) for key in dialect.workload_labels}
    assert keys_in(condition(webhook, "names-a-queue"), "object.metadata.labels") == labels


def test_jobs_whose_template_asks_for_a_place_are_reviewed() -> None:
    expression = condition("placed-jobs.phalanx.dev", "asks-for-a-place")
    assert keys_in(expression, "object.spec.template.metadata.annotations") == set(PLACES)


@pytest.mark.parametrize("webhook", ["placed-in-topologies.phalanx.dev", "workloads-in-topologies.phalanx.dev"])
@pytest.mark.parametrize("subject", ["object", "object.spec.template"])
def test_workloads_of_runai_are_sent_by_exactly_its_annotations(webhook: str, subject: str) -> None:
    expression = condition(webhook, "asks-for-a-place")
    assert keys_in(expression, f"{subject}.metadata.annotations") == set(TOPOLOGY_WISHES)


def test_other_workloads_of_runai_are_sent_by_exactly_its_annotations() -> None:
    expression = condition("placed-workloads.phalanx.dev", "asks-for-a-place")
    assert keys_in(expression, "object.metadata.annotations") == set(TOPOLOGY_WISHES)


EARLY = ("told-workloads.phalanx.dev", "changed-workloads.phalanx.dev")
"""The webhooks that report early what becomes of a workload's pods."""


def quoted(expression: str) -> set[str]:
    """The keys that stand in quotes."""
    return set(re.findall(r"'([a-z][-a-z0-9./]*[-/.][-a-z0-9./]+)'", expression))


@pytest.mark.parametrize("webhook", EARLY)
def test_workloads_are_sent_by_every_key_of_pods_and_by_those_of_our_own(webhook: str) -> None:
    pods = {key for each in DIALECTS for key in (*each.pod_keys.labels, *each.pod_keys.annotations)} - {keys.WORKLOAD}
    assert quoted(condition(webhook, "carries-a-key")) == pods | set(WISHES)


def test_a_workload_that_exists_is_sent_where_any_of_these_keys_has_changed() -> None:
    carried = quoted(condition(EARLY[1], "carries-a-key"))
    assert quoted(condition(EARLY[1], "says-something-else")) == carried


@pytest.mark.parametrize(("webhook", "operation"), [(EARLY[0], "CREATE"), (EARLY[1], "UPDATE")])
def test_every_kind_that_makes_pods_is_sent_early_and_comes_in_without_an_answer(webhook: str, operation: str) -> None:
    rules = WEBHOOKS[webhook]["rules"]
    sent = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    assert sent == {(group, row.plural) for (group, _), row in WORKLOADS.items()}
    assert all(rule["operations"] == [operation] for rule in rules)
    assert WEBHOOKS[webhook]["failurePolicy"] == "Ignore"


@pytest.mark.parametrize("webhook", EARLY)
@pytest.mark.parametrize("path", sorted({path for row in WORKLOADS.values() for path in row.templates}))
def test_every_template_is_looked_at(webhook: str, path: str) -> None:
    expression = condition(webhook, "carries-a-key")
    assert f"object.?{'.?'.join(path.split('.*', maxsplit=1)[0].split('.'))}" in expression


@pytest.mark.parametrize("webhook", EARLY)
def test_what_a_workload_says_of_the_object_that_is_made_of_it_counts(webhook: str) -> None:
    expression = condition(webhook, "carries-a-key")
    children = [row.child for row in WORKLOADS.values() if row.child is not None]
    for child in (each for each in children if each.annotations_at and "*" not in each.annotations_at):
        place = ".?".join(child.annotations_at.split(".")[:-1])
        assert f"?object.?{place}," in expression, place


@pytest.mark.parametrize("webhook", EARLY)
def test_no_workload_is_sent_twice(webhook: str) -> None:
    theirs = condition("templates.phalanx.dev", "makes-pods-of-a-gang")
    template = keys_in(theirs, "object.spec.template.metadata.annotations")
    template |= keys_in(theirs, "object.spec.template.metadata.labels")
    elsewhere = template | keys_in(theirs, "object.metadata.annotations")
    if webhook == EARLY[0]:
        elsewhere |= {*PLACES, *TOPOLOGY_WISHES}
        own = quoted(condition(webhook, "is-not-asked-about-for-its-own-keys"))
        queue = keys_in(condition("queued-workloads.phalanx.dev", "names-a-queue"), "object.metadata.labels")
        assert own == {*WISHES, *TOPOLOGY_WISHES, *queue}
    assert quoted(condition(webhook, "is-not-asked-about-for-its-template")) == elsewhere


def test_every_kind_that_describes_gangs_or_topologies_is_reviewed() -> None:
    rules = [
        rule for name, each in WEBHOOKS.items() if "/validate" in each["clientConfig"]["url"] for rule in each["rules"]
    ]
    rules += [rule for each in component("native-groups", "validating")["webhooks"] for rule in each["rules"]]
    for kind in set(all_kinds()) - {*EVIDENCE_KINDS, *RUNTIMES}:
        assert any(kind.group in rule["apiGroups"] and kind.plural in rule["resources"] for rule in rules), kind


def test_every_kind_that_is_watched_may_be_read() -> None:
    (reader,) = (each for each in system_objects() if each["metadata"]["name"] == "phalanx-reader" and "rules" in each)
    for kind in all_kinds():
        mine = [
            rule for rule in reader["rules"] if kind.group in rule["apiGroups"] and kind.plural in rule["resources"]
        ]
        assert mine, kind
        assert all({"list", "watch"} <= set(rule["verbs"]) for rule in mine), kind


def test_mirrored_gangs_are_not_reviewed() -> None:
    assert keys_in(condition("groups.phalanx.dev", "asks-for-a-gang"), "object.metadata.annotations") == {keys.MIRRORS}


@pytest.mark.parametrize("webhook", WEBHOOKS.values(), ids=WEBHOOKS)
def test_every_webhook_keeps_the_rules_of_the_house(webhook: dict[str, Any]) -> None:
    assert (webhook["sideEffects"], webhook["timeoutSeconds"]) == ("None", 5)
    assert webhook["clientConfig"] == {"url": webhook["clientConfig"]["url"], "caBundle": "Q0E="}
    assert webhook["clientConfig"]["url"].startswith(URL)
    if any(rule["scope"] == "Namespaced" for rule in webhook["rules"]):
        excluded = webhook["namespaceSelector"]["matchExpressions"][0]
        assert {"kube-system", keys.SYSTEM_NAMESPACE} <= set(excluded["values"]) <= OF_KUBERNETES
    if any("pods" in rule["resources"] for rule in webhook["rules"]):
        assert webhook["failurePolicy"] == "Fail"


def test_the_controller_may_write_the_very_objects_that_hold_the_certificate() -> None:
    rules = [rule for each in system_objects() for rule in each.get("rules", ())]
    named = {name for rule in rules for name in rule.get("resourceNames", ())}
    assert {DEFAULT_PLACE.secret, *(name for _, name in CONFIGURATIONS)} <= named


def test_the_webhook_may_write_nothing() -> None:
    roles = {
        each["metadata"]["name"]: each.get("rules", []) for each in system_objects() if each["kind"] == "ClusterRole"
    }
    bound = {
        each["roleRef"]["name"]
        for each in system_objects()
        if each["kind"].endswith("RoleBinding")
        and any(subject["name"] == "phalanx-webhook" for subject in each["subjects"])
    }
    written = {
        resource
        for name in bound
        for rule in roles[name]
        if set(rule["verbs"]) - {"get", "list", "watch"}
        for resource in rule["resources"]
    }
    assert written == {"tokenreviews", "subjectaccessreviews"}
