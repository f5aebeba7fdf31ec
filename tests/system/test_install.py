"""`kubectl apply -k manifests/default`, then both servers with their service accounts' tokens and rights alone.

One story: what the last tests say about rights and logs, they say about what the servers did in all the others.
"""

import base64
import json
import ssl
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3
from access_rules import Right, granted
from documented_examples import happens_as_documented
from emptying import empty
from foreign_kinds import definition
from installation import FORBIDDEN, PATIENCE, Installation, right_of, wait_for_use
from replaying import Replay
from system import EXAMPLES, SPINE, Phalanx, pod, pod_group
from test_absent_schedulers import gang, member, noted, seen_to_bind
from test_kinds_described_live import ACCESS
from workload_operators import described

from certs.cluster_edge import DEFAULT_PLACE
from cli.installation.installed_objects import system_objects
from controller.acting.placeholders import holding_class_manifest
from controlplane.control_plane import wait_until
from controlplane.scenarios import folders
from gangs.native.keys import COMPOSITES, GROUP, POD_GROUPS
from gangs.workloads.kind_table import WATCHED
from gangs.workloads.train_jobs import RUNTIMES
from kube.keys import MIRRORS, SYSTEM_NAMESPACE
from kube.placeholders import holding_class
from kube.versions import forgets, version_of

pytestmark = pytest.mark.controlplane


EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """A control plane of this module's own, with strict admission and an audit log of both accounts' requests."""
    with Installation() as installed:
        yield installed


@pytest.fixture
def phalanx(installation: Installation) -> Iterator[Phalanx]:
    """The helpers of the other system tests, for this installation."""
    running = Phalanx(installation.plane)
    yield running
    running.show_logs()


def examples() -> list[object]:
    """One for `make test`. `test_guides.py` plays the same manifests with the servers in processes of its own."""
    return [
        pytest.param(each, id=each.name, marks=() if each.name == "koordinator" else pytest.mark.long)
        for each in folders()
    ]


@pytest.mark.parametrize("folder", examples())
def test_the_example_happens_as_documented(installation: Installation, folder: Path) -> None:
    empty(installation.plane, webhooks=False)
    happens_as_documented(installation.plane, folder)


def test_a_gang_that_changes_its_mind_is_shown_as_it_is_and_said_once(
    phalanx: Phalanx, installation: Installation
) -> None:
    """A member of 9 cpu fits on no node of 8. Twice it makes its gang Unplaceable, until it is deleted."""
    empty(installation.plane, webhooks=False)
    phalanx.guide_nodes()
    phalanx.submit(pod_group("changing", 2), pod("changing-0", "changing"))
    phalanx.await_phase("changing", "Waiting")
    for _ in range(2):
        phalanx.submit(pod("changing-1", "changing", cpu=9))
        phalanx.await_phase("changing", "Unplaceable")
        phalanx.cluster.kubectl("delete", "pod", "changing-1")
        phalanx.await_phase("changing", "Waiting")
    phalanx.submit(pod_group("changing", 3))
    phalanx.wait(lambda: phalanx.gang("changing")["spec"]["minMember"] == 3, "the Gang to show the new minimum")
    with installation.stopped("controller"):
        pass  # the recorder writes the counts of repeated events at the end, if not before
    counted = phalanx.cluster.request("GET", EVENTS)["items"]
    assert [each for each in counted if (each.get("series") or {}).get("count", 0) > 1]


def test_a_topology_of_our_own_shows_its_tree(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    levels = [{"name": "spine", "nodeLabel": SPINE}]
    topology = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "fabric"}}
    phalanx.submit({**topology, "spec": {"levels": levels}})
    path = "/apis/phalanx.dev/v1alpha1/topologies/fabric"
    phalanx.wait(lambda: bool(phalanx.cluster.request("GET", path).get("status")), "the topology's status")


def test_queues_show_what_is_asked_of_them(phalanx: Phalanx) -> None:
    phalanx.apply_files(EXAMPLES / "kueue" / "topology-and-flavor.yaml", EXAMPLES / "kueue" / "pool-and-queue.yaml")

    def has_status(url: str) -> bool:
        return bool(phalanx.cluster.request("GET", url).get("status"))

    for path in ("clusterqueues/metax-pool", "namespaces/default/localqueues/training"):
        url = f"/apis/kueue.x-k8s.io/v1beta1/{path}"
        phalanx.wait(partial(has_status, url), f"the status of {path}")


def test_pod_groups_of_kai_show_their_members(phalanx: Phalanx) -> None:
    phalanx.apply_files(EXAMPLES / "kai" / "namespaces.yaml", EXAMPLES / "kai" / "topology-aware-training.yaml")
    groups = "/apis/scheduling.run.ai/v2alpha2/namespaces/ml-training/podgroups"
    phalanx.wait(lambda: bool(phalanx.cluster.request("GET", groups)["items"][0].get("status")), "the group's status")


def test_a_scheduler_that_lets_members_wait_is_noted(phalanx: Phalanx, installation: Installation) -> None:
    empty(installation.plane, webhooks=False)
    phalanx.guide_nodes()
    seen_to_bind(phalanx, "volcano", "node-11")
    phalanx.submit(gang("silent", 1), member("silent-0", "silent", "volcano"))
    phalanx.wait(lambda: noted(phalanx).get("volcano", "").startswith("untried "), "the scheduler to be noted")


def test_a_certificate_that_somebody_has_spoilt_is_replaced_and_the_webhook_goes_on(
    installation: Installation,
) -> None:
    with installation.stopped("controller"):
        spoilt = base64.b64encode(b"spoilt").decode()
        patch = json.dumps({"data": {"tls.crt": spoilt}})
        installation.plane.kubectl("patch", "secret", DEFAULT_PLACE.secret, "-n", SYSTEM_NAMESPACE, "-p", patch)
    wait_until(lambda: installation.secret()["tls.crt"] != b"spoilt", PATIENCE, "another certificate")
    wait_until(installation.trusted, PATIENCE, "the API server to trust the webhook again")


def test_who_may_use_the_paths_is_asked_of_the_api_server(installation: Installation) -> None:
    tokens = {name: _token(installation, name) for name in ("viewer", "metrics", "")}
    paths = (
        ("GET", "/"),
        ("GET", "/page.js"),
        ("GET", "/metrics"),
        ("GET", "/v1/gangs"),
        ("GET", "/v1/topology"),
        ("GET", "/v1/changes"),
        ("GET", "/v1/queues"),
        ("GET", "/v1/history"),
        ("POST", "/v1/solve"),
    )
    for method, path in paths:
        allowed = {"viewer", "metrics"} if path == "/metrics" else {"viewer"}
        bearers = [(token, 200 if name in allowed else 403) for name, token in tokens.items()]
        for token, status in (("", 401), ("made-up", 401), *bearers):
            assert (path, token, installation.ask(method, path, token)) == (path, token, status)
            if path == "/metrics":
                assert (token, installation.ask_controller(path, token)) == (token, status)


def _token(installation: Installation, role: str, account: str = "") -> str:
    """A token of a new account that is bound to the role `phalanx-<role>`, to none where that is ""."""
    plane, account = installation.plane, account or f"asks-as-{role or 'stranger'}"
    plane.kubectl("create", "serviceaccount", account)
    if role:
        subject = f"--serviceaccount=default:{account}"
        plane.kubectl("create", "clusterrolebinding", account, f"--clusterrole=phalanx-{role}", subject)
        question = ["auth", "can-i", "get", "/metrics", "--as", f"system:serviceaccount:default:{account}"]
        wait_until(lambda: plane.kubectl_result(*question).returncode == 0, PATIENCE, "the binding to take effect")
    return plane.kubectl("create", "token", account).strip()


def test_a_browser_sees_the_page_through_phalanx_ui_and_nobody_else_does(
    phalanx: Phalanx, installation: Installation
) -> None:
    phalanx.submit(pod_group("seen", 2), pod("seen-0", "seen"))
    phalanx.await_phase("seen", "Waiting")
    _token(installation, "viewer", "reader")
    with installation.ui("default/reader") as address:
        name, _, key = address.removeprefix("http://").partition("/?")
        assert not name.startswith(("127.", "localhost:")), "the cookie would go to other ports"
        place = f"http://127.0.0.1:{name.partition(':')[2]}"
        browser = urllib3.PoolManager(headers={"Host": name})
        assert browser.request("GET", place, retries=False).status == 403
        assert browser.request("GET", f"{place}/?key=guessed", retries=False).status == 403
        assert browser.request("GET", f"{place}/?key=%C3%A9", retries=False).status == 403
        elsewhere = {"Host": "elsewhere.example:80"}
        assert browser.request("GET", f"{place}/?{key}", headers=elsewhere, retries=False).status == 403
        led = browser.request("GET", f"{place}/?{key}", redirect=False)
        cookie = {"Host": name, "Cookie": led.headers["Set-Cookie"].partition(";")[0]}
        assert (led.status, led.headers["Location"]) == (303, "/")
        assert {"HttpOnly", "SameSite=Strict"} <= set(led.headers["Set-Cookie"].split("; "))
        page = browser.request("GET", place, headers=cookie)
        assert (page.status, "default-src 'none'" in page.headers["Content-Security-Policy"]) == (200, True)
        assert b"default/seen" in browser.request("GET", f"{place}/?tables", headers=cookie).data
        script = browser.request("GET", f"{place}/page.js", headers=cookie)
        assert (script.status, script.headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
        assert browser.request("GET", f"{place}/v1/gangs", headers=cookie).json()["gangs"]
        asks = json.dumps([pod_group("tried", 1), pod("tried-0", "tried")])
        tried = browser.request("POST", f"{place}/v1/solve?cluster=live", headers=cookie, body=asks)
        assert [each["name"] for each in tried.json()["gangs"]] == ["tried"]
        assert browser.request("POST", f"{place}/v1/solve", body=asks).status == 403
        other = {**cookie, "Origin": "http://127.0.0.1:8888"}
        assert browser.request("POST", f"{place}/v1/solve", headers=other, body=asks).status == 403
        own = {**cookie, "Origin": f"http://{name}"}
        assert browser.request("POST", f"{place}/v1/solve?cluster=live", headers=own, body=asks).status == 200
        story = f"{place}/v1/story?namespace=default&name=seen"
        told = browser.request("GET", story, headers=cookie).json()
        assert (told["phase"], 'cannot list resource "events"' in told["withoutEvents"]) == ("Waiting", True)
        installation.plane.kubectl(
            "create", "rolebinding", "reads", "--clusterrole=view", "--serviceaccount=default:reader"
        )
        phalanx.wait(lambda: not browser.request("GET", story, headers=cookie).json()["withoutEvents"], "the right")

        def steps() -> set[str]:
            return {each["what"] for each in browser.request("GET", story, headers=cookie).json()["steps"]}

        phalanx.wait(lambda: {"asked for", "GangWaiting"} <= steps(), "the story")
        for method, path, status in (("POST", "/v1/gangs", 405), ("GET", "/v1/solve", 404), ("POST", "/mutate", 405)):
            assert browser.request(method, place + path, headers=cookie, retries=False).status == status


def test_no_secret_is_logged_even_when_everything_is(installation: Installation) -> None:
    text = installation.logs()
    assert '"level": "DEBUG"' in text
    held = installation.secret()
    keys = [line for name in ("tls.key", "ca.key") for line in held[name].decode().splitlines() if "-----" not in line]
    encoded = [base64.b64encode(held[name]).decode() for name in ("tls.key", "ca.key")]
    tokens = [part for token in installation.tokens if len(token) > 20 for part in (token, token.rpartition(".")[2])]
    assert len(tokens) >= 8
    assert [secret[:8] for secret in (*keys, *encoded, *tokens) if secret in text] == []


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_tls_is_refused(installation: Installation, version: ssl.TLSVersion) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol"):
        installation.shake_hands(version)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_present_tls_is_spoken(installation: Installation, version: ssl.TLSVersion) -> None:
    spoken = {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}
    assert installation.shake_hands(version) == spoken[version]


def describe_a_kind(installation: Installation) -> None:
    """Create a WorkloadKind whose kind is not installed, and let both servers read its objects."""
    installation.plane.kubectl("apply", "-f", "-", stdin=json.dumps(ACCESS))
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/phalanx-workload-kinds"
    wait_until(lambda: installation.plane.request("GET", role).get("rules"), PATIENCE, "the right to be handed on")
    installation.plane.kubectl("apply", "-f", "-", stdin=json.dumps(described()))


def _of_placeholders(right: Right) -> bool:
    return (right.resource, right.verb) == ("priorityclasses", "create")


def usable_rights(installation: Installation) -> list[Right]:
    """Return the rights that this API server has an object for.

    It does not serve the PodGroups of scheduling.k8s.io (feature gate GenericWorkload). `test_groups_in_one_cycle.py`
    uses the rights for these. Priority classes are created only before Kubernetes 1.37.
    """
    version = version_of(installation.plane.request("GET", "/version")["gitVersion"])
    rights = [each for each in granted(installation.objects()) if forgets(version) or not _of_placeholders(each)]
    served = installation.plane.request("GET", f"/apis/{GROUP}/v1beta1")["kind"] == "APIResourceList"
    assert not served, "then each right can be used here"
    return [
        right for right in rights if (right.group, right.resource) not in {(GROUP, POD_GROUPS), (GROUP, COMPOSITES)}
    ]


def test_every_right_is_granted_once_and_used(installation: Installation) -> None:
    others = [(each.group, each.kind, each.versions[0]) for each in (*WATCHED, *RUNTIMES) if each.group != "apps"]
    definitions = {"apiVersion": "v1", "kind": "List", "items": [definition(*each) for each in others]}
    installation.plane.kubectl("apply", "-f", "-", stdin=json.dumps(definitions))
    describe_a_kind(installation)
    installation.plane.program("controller").kill()  # the next one watches the Lease until it expires
    installation.start("controller")
    rights = usable_rights(installation)
    assert [str(each) for each, times in Counter(rights).items() if times > 1] == []
    assert sorted(map(str, wait_for_use(installation, set(rights)))) == []


def test_nothing_was_asked_for_that_is_not_granted(installation: Installation) -> None:
    """In a terminating namespace no user may create objects. The API server refuses that with the same status."""
    refused = [
        (str(right_of(each)), each["responseStatus"].get("message", ""))
        for each in installation.requests()
        if "objectRef" in each and each.get("responseStatus", {}).get("code") == FORBIDDEN
    ]
    assert [each for each in refused if "because it is being terminated" not in each[1]] == []


def scheduled(status: str, reason: str) -> dict[str, Any]:
    """A change of the condition PodScheduled."""
    return {"status": {"conditions": [{"type": "PodScheduled", "status": status, "reason": reason}]}}


def restricted(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that keeps the restricted profile, which our namespace demands."""
    made = pod(name, securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}, **spec)
    held = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    made["spec"]["containers"][0]["securityContext"] = held
    return made


OURS, OTHER = {"name": "phalanx.dev/gang"}, {"name": "example.com/other"}
OUTAGES = [
    {"key": f"node.kubernetes.io/{each}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for each in ("not-ready", "unreachable")
]
"""The tolerations that the API server adds to every pod. No change may remove them."""
EVERYTHING = {"spec": {"tolerations": [*OUTAGES, {"operator": "Exists"}]}}
IMAGE = {"spec": {"containers": [{"name": "main", "image": "of-somebody-else"}]}}


@pytest.mark.parametrize(
    ("below", "change", "says"),
    [
        ("", IMAGE, "what a pod runs"),
        ("", {"spec": {"activeDeadlineSeconds": 1}}, "what a pod runs"),
        ("", {"spec": {"schedulingGates": [OURS]}}, "its own scheduling gate"),
        ("", {"spec": {"schedulingGates": []}}, "its own scheduling gate"),
        ("", {"metadata": {"labels": {"app": "other"}}}, "annotations of its own"),
        ("", {"metadata": {"finalizers": ["example.com/stay"]}}, "annotations of its own"),
        ("", {"metadata": {"annotations": {"example.com/note": "x"}}}, "annotations of its own"),
        ("/status", {"metadata": {"annotations": {"example.com/own": None}}}, "annotations of its own"),
        ("/status", {"metadata": {"labels": {"app": "other"}}}, "annotations of its own"),
        ("", EVERYTHING, ""),
        ("/status", {"status": {"phase": "Failed"}}, "only write nominatedNodeName and the condition"),
        ("/status", {"status": {"podIP": "10.6.6.6", "podIPs": [{"ip": "10.6.6.6"}]}}, "only write nominatedNodeName"),
        ("/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "only write nominatedNodeName"),
        ("/status", {"status": {"reason": "Evicted", "message": "by whom?"}}, "only write nominatedNodeName"),
        ("/status", scheduled("True", "Scheduled"), "why a pod is not scheduled"),
        ("/status", scheduled("False", "Unschedulable"), ""),
        ("/status", {"status": {"nominatedNodeName": "node-1"}}, ""),
        ("", {"spec": {"schedulingGates": [OTHER]}}, ""),
        ("", {"spec": {"schedulingGates": [OTHER], "nodeSelector": {"rack": "r1"}}}, ""),
        ("/status", {"metadata": {"annotations": {"phalanx.dev/plan": "p1"}}}, ""),
    ],
)
def test_the_controllers_account_changes_no_more_of_a_pod_than_it_is_for(
    installation: Installation, below: str, change: dict[str, Any], says: str
) -> None:
    gated = pod("guarded", schedulingGates=[OURS, OTHER])
    gated["metadata"]["annotations"] = {"example.com/own": "yes"}
    installation.plane.kubectl("apply", "-f", "-", stdin=json.dumps(gated))
    path = f"/api/v1/namespaces/default/pods/guarded{below}?dryRun=All"
    # This kind of patch keeps lists whole that the change does not name.
    whole = change is IMAGE or "conditions" in change.get("status", {})
    kind = "application/strategic-merge-patch+json" if whole else "application/merge-patch+json"
    answer = installation.account("phalanx-controller").request("PATCH", path, change, kind)
    assert (answer.get("message", "") == "") == (says == ""), answer
    assert says in answer.get("message", "")


@pytest.mark.parametrize(
    ("below", "change", "says"),
    [
        ("", EVERYTHING, "only place pods that its own gate holds"),
        ("/status", scheduled("False", "Unschedulable"), "of one that has no node"),
        ("/status", {"status": {"phase": "Succeeded"}}, "only write nominatedNodeName"),
        ("", {"metadata": {"annotations": {"phalanx.dev/spared-from": "p1"}}}, ""),
    ],
)
def test_the_controllers_account_leaves_a_running_pod_as_it_is(
    installation: Installation, below: str, change: dict[str, Any], says: str
) -> None:
    running = pod("runs", nodeName="of-somebody")
    installation.plane.kubectl("apply", "-f", "-", stdin=json.dumps(running))
    path = f"/api/v1/namespaces/default/pods/runs{below}?dryRun=All"
    kind = "application/strategic-merge-patch+json" if "status" in change else "application/merge-patch+json"
    answer = installation.account("phalanx-controller").request("PATCH", path, change, kind)
    assert (answer.get("message", "") == "") == (says == ""), answer
    assert says in answer.get("message", "")


def test_the_controllers_account_writes_no_gang_of_a_user(installation: Installation) -> None:
    """The account may write only the status of a user's Gang. Mirrors are its own objects."""
    controller, path = installation.account("phalanx-controller"), "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"
    own = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "own"}, "spec": {"minMember": 2}}
    installation.plane.request("POST", path, own)
    merge = "application/merge-patch+json"
    refused = [
        controller.request("POST", f"{path}?dryRun=All", own | {"metadata": {"name": "another"}}),
        controller.request("PATCH", f"{path}/own?dryRun=All", {"spec": {"minMember": 1}}, merge),
        controller.request("PATCH", f"{path}/own?dryRun=All", {"metadata": {"annotations": {MIRRORS: "a/b/c"}}}, merge),
        controller.request("DELETE", f"{path}/own?dryRun=All"),
    ]
    for answer in refused:
        assert "only write and delete the Gang objects that it made itself" in answer.get("message", ""), answer
    allowed = controller.request("PATCH", f"{path}/own/status?dryRun=All", {"status": {"message": "waits"}}, merge)
    assert allowed["kind"] == "Gang", allowed
    installation.plane.request("DELETE", f"{path}/own")


def test_nobody_else_has_the_priority_of_the_probes_or_of_placeholders(installation: Installation) -> None:
    """Users' pods with these priorities would take the reserved capacity, and gangs would evict victims in vain."""
    installation.plane.apply([holding_class_manifest(7)])
    path = "/api/v1/namespaces/{}/pods?dryRun=All"
    for name in ("phalanx-probe", holding_class(7)):
        of_the_class = restricted("thief", priorityClassName=name)
        for namespace in ("default", SYSTEM_NAMESPACE):
            of_the_class["metadata"]["namespace"] = namespace
            answer = installation.plane.request("POST", path.format(namespace), of_the_class)
            assert "are for pods of Phalanx' own controller" in answer.get("message", ""), answer


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({}, True),
        ({"metadata": {"name": "of-a-user"}}, False),
        ({"preemptionPolicy": "PreemptLowerPriority"}, False),
        ({"globalDefault": True}, False),
    ],
    ids=["of placeholders", "of another name", "preempting", "default"],
)
def test_the_controllers_account_creates_priority_classes_of_placeholders_alone(
    installation: Installation, change: dict[str, Any], *, allowed: bool
) -> None:
    made = {**holding_class_manifest(8), **change}
    path = "/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All"
    answer = installation.account("phalanx-controller").request("POST", path, made)
    assert (answer["kind"] == "PriorityClass") == allowed, answer
    assert allowed or "only create priority classes phalanx-hold-" in answer["message"]


def test_a_cluster_that_rations_critical_priorities_lets_the_servers_in(installation: Installation) -> None:
    """`limitedResources` of the admission plugin ResourceQuota restricts these priorities at the API server."""
    installation.plane.apply(each for each in system_objects() if each["kind"] == "ResourceQuota")  # emptied away
    server = restricted("server", priorityClassName="system-cluster-critical")

    def let_in(namespace: str) -> bool:
        server["metadata"]["namespace"] = namespace
        answer = installation.plane.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", server)
        assert answer["kind"] == "Pod" or "insufficient quota" in answer["message"], answer
        return bool(answer["kind"] == "Pod")

    wait_until(lambda: let_in(SYSTEM_NAMESPACE), PATIENCE, "the quota to be counted")
    assert not let_in("default")


def test_the_controllers_account_creates_probes_alone(installation: Installation) -> None:
    controller = installation.account("phalanx-controller")
    for selector, says in (({"phalanx.dev/probe": "never"}, ""), ({}, "only create probes")):
        made = restricted("made", nodeSelector=selector, priorityClassName="phalanx-probe")
        made["metadata"]["namespace"] = SYSTEM_NAMESPACE
        answer = controller.request("POST", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods?dryRun=All", made)
        assert (says in answer.get("message", ""), answer["kind"] == "Pod") == (True, says == ""), answer


def test_each_right_is_needed_taken_away_one_at_a_time(installation: Installation) -> None:
    """Each recorded request is forbidden without the one right that it needs. `docs/security.md` says what breaks.

    Both servers are stopped first: the requests are repeated in their names, without any effect.
    """
    for name in ("webhook", "controller"):
        program = installation.plane.program(name)
        program.terminate()
        program.wait()
    rights = usable_rights(installation)
    made = [each for each in installation.requests() if "objectRef" in each]
    replay = Replay(installation)
    requests = {right: next(each for each in made if right.covers(right_of(each))) for right in rights}
    assert [str(right) for right, request in requests.items() if not replay.allowed(request)] == []
    for right, request in requests.items():
        replay.await_refusal_without(right, request)
