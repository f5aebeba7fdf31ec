"""The HTTP interface over a fixed cluster view: every path, every family of errors."""

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from flask.testing import FlaskClient
from function_calls import function_calls
from pictures import Manifest, StillPicture, job, node, pod, pod_group, topology
from werkzeug.test import create_environ

from cluster.api.token_reviews import Access, AccessError
from serving.application import answer as serve
from serving.limits import LARGEST_BODY
from webhook.app import LONGEST_FORECAST, LONGEST_TURN, Webhook, create_app
from webhook.forecasts.quick import QuickForecasts
from webhook.forecasts.recent_gangs import RecentGangs
from webhook.forecasts.slots import BusyError, SolveSlot
from webhook.metrics import Metrics

NODES = [node(f"node-{number}", rack=f"r{number // 2}") for number in range(4)]
RACKS = topology("rack")
GANG_JOB = {"phalanx.dev/gang": "true", "phalanx.dev/required": "rack"}
HEADERS = {"Authorization": "Bearer good"}


class Tokens:
    """An access check that knows three tokens; it cannot check any other."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """By the token alone."""
        del verb, path
        known = {"good": Access.ALLOWED, "poor": Access.FORBIDDEN, "bad": Access.UNKNOWN_USER}
        if token not in known:
            raise AccessError("TokenReview failed: connection refused")
        return known[token]


def client_of(picture: StillPicture) -> FlaskClient:
    """Return a client of the application over the cluster view."""
    return create_app(picture, Tokens(), Metrics()).test_client()


@pytest.fixture
def client() -> Iterator[FlaskClient]:
    """Four nodes in two racks, one topology."""
    with client_of(StillPicture([RACKS], nodes=NODES)) as client:
        yield client


def review(manifest: Manifest, plural: str, operation: str = "CREATE", old: Manifest | None = None) -> dict[str, Any]:
    """An AdmissionReview as the API server sends it."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    request = {
        "uid": "705ab4f5",
        "kind": {"group": group, "version": version, "kind": manifest["kind"]},
        "resource": {"group": group, "version": version, "resource": plural},
        "name": manifest["metadata"]["name"],
        "namespace": manifest["metadata"].get("namespace", ""),
        "operation": operation,
        "userInfo": {"username": "admin"},
        "object": manifest,
        "oldObject": old,
        "dryRun": True,
        "options": {"kind": "CreateOptions"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def answer(client: FlaskClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The response part of the answer."""
    response = client.post(path, query_string={"timeout": "5s"}, json=body)
    assert response.status_code == 200, response.text
    value = response.get_json()
    assert (value["apiVersion"], value["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert value["response"]["uid"] == body["request"]["uid"]
    part: dict[str, Any] = value["response"]
    return part


def test_a_gangs_pod_is_answered_with_a_patch(client: FlaskClient) -> None:
    response = answer(client, "/mutate", review(pod(labels={"phalanx.dev/gang": "llm"}), "pods"))
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    operations = json.loads(base64.b64decode(response["patch"]))
    assert {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "phalanx.dev/gang"}]} in operations


def test_any_other_pod_is_answered_without_one(client: FlaskClient) -> None:
    response = answer(client, "/mutate", review(pod(), "pods"))
    assert response == {"uid": "705ab4f5", "allowed": True}


def test_a_job_that_asks_to_be_a_gang_has_its_template_labelled(client: FlaskClient) -> None:
    response = answer(client, "/mutate", review(job(annotations=GANG_JOB), "jobs"))
    operations = json.loads(base64.b64decode(response["patch"]))
    assert operations[-1]["path"] == "/spec/template/metadata/labels/phalanx.dev~1workload"


@pytest.mark.parametrize(("path", "labelled"), [("/mutate", False), ("/mutate/automatic", True)])
def test_the_path_says_that_the_api_server_knows_a_namespace_as_automatic(
    client: FlaskClient, path: str, *, labelled: bool
) -> None:
    assert ("patch" in answer(client, path, review(job(), "jobs"))) is labelled


def test_a_jobs_creation_is_answered_with_its_plan(client: FlaskClient) -> None:
    response = answer(client, "/validate", review(job(annotations=GANG_JOB), "jobs"))
    assert response["allowed"]
    text = " ".join(response["warnings"])
    assert "default/train" in text
    assert "4 pods fit in" in text
    assert "r0" in text
    assert all(len(each) <= 120 for each in response["warnings"])


@pytest.mark.parametrize(
    ("timeout", "waited", "told"),
    [
        ("5s", 0.0, True),
        ("5s", 4.9, False),
        ("0.2s", 0.0, False),
        ("1m", 0.0, True),
        ("1m", LONGEST_FORECAST + 0.1, False),
        ("", 4.9, False),
    ],
    ids=["in time", "waited here", "a short one", "a long one", "a long queue", "five seconds where none is named"],
)
def test_the_callers_own_timeout_less_what_has_passed_is_the_time_for_a_plan(
    client: FlaskClient, timeout: str, waited: float, *, told: bool
) -> None:
    """Admission itself never depends on it."""
    body = review(job(annotations=GANG_JOB), "jobs")
    environment = {"phalanx.waited": waited}
    answer = client.post("/validate", query_string={"timeout": timeout}, json=body, environ_overrides=environment)
    response = answer.get_json()["response"]
    assert response["allowed"]
    assert bool(response.get("warnings")) is told


def test_a_job_that_fits_nowhere_is_admitted_with_the_reason(client: FlaskClient) -> None:
    response = answer(client, "/validate", review(job(pods=5, annotations=GANG_JOB), "jobs"))
    assert response["allowed"]
    assert "rack" in " ".join(response["warnings"])


def test_a_pod_group_is_told_what_it_waits_for(client: FlaskClient) -> None:
    response = answer(client, "/validate", review(pod_group(), "podgroups"))
    assert response["allowed"]
    assert "waits for" in " ".join(response["warnings"])


@pytest.mark.parametrize(
    ("manifest", "plural", "says"),
    [
        (pod_group(network_topology_spec="{"), "podgroups", "network-topology-spec"),
        (job(annotations={**GANG_JOB, "phalanx.dev/required": "aisle"}), "jobs", '"aisle"'),
        (topology("rack", "rack"), "topologies", "spec.levels[1]"),
    ],
    ids=["bad JSON", "unknown level", "a level twice"],
)
def test_what_contradicts_itself_is_refused_by_object_and_field(
    client: FlaskClient, manifest: Manifest, plural: str, says: str
) -> None:
    response = answer(client, "/validate", review(manifest, plural))
    assert not response["allowed"]
    assert (response["status"]["code"], response["status"]["reason"]) == (422, "Invalid")
    name = manifest["metadata"]["name"]
    assert manifest["kind"] in response["status"]["message"]
    assert name in response["status"]["message"]
    assert says in response["status"]["message"]


def test_what_was_wrong_before_an_update_only_warns(client: FlaskClient) -> None:
    wrong = pod_group(network_topology_spec="{")
    labelled = json.loads(json.dumps(wrong))
    labelled["metadata"]["labels"] = {"team": "a"}
    response = answer(client, "/validate", review(labelled, "podgroups", "UPDATE", wrong))
    assert response["allowed"]
    assert "network-topology-spec" in " ".join(response["warnings"])


def test_an_update_that_makes_a_group_wrong_is_refused(client: FlaskClient) -> None:
    body = review(pod_group(network_topology_spec="{"), "podgroups", "UPDATE", pod_group())
    assert not answer(client, "/validate", body)["allowed"]


def test_before_the_caches_are_complete_pods_are_gated_and_groups_cannot_be_judged() -> None:
    client = client_of(StillPicture(synced=False))
    assert "patch" in answer(client, "/mutate", review(pod(labels={"phalanx.dev/gang": "llm"}), "pods"))
    response = client.post("/validate", json=review(pod_group(), "podgroups"))
    assert (response.status_code, "still reading the cluster" in response.text) == (500, True)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": null}'],
    ids=["empty", "not JSON", "a list", "no request"],
)
@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_call_that_is_no_admission_review_is_a_bad_request(client: FlaskClient, path: str, body: bytes) -> None:
    assert client.post(path, data=body).status_code == 400


def test_a_review_of_another_version_is_a_bad_request(client: FlaskClient) -> None:
    body = {**review(pod(), "pods"), "apiVersion": "admission.k8s.io/v1beta1"}
    response = client.post("/mutate", json=body)
    assert (response.status_code, "v1beta1" in response.text) == (400, True)


def test_an_admission_path_is_for_posts(client: FlaskClient) -> None:
    assert client.get("/mutate").status_code == 405


def test_the_review_of_a_pod_of_no_gang_takes_few_function_calls() -> None:
    """With Flask in between it took 600."""
    app = create_app(StillPicture([RACKS], nodes=NODES), Tokens(), Metrics())
    body = json.dumps(review(pod(), "pods")).encode()
    first, second = (create_environ("/mutate", query_string="timeout=5s", method="POST", data=body) for _ in range(2))
    answers = [serve(app, first, 0.0)]
    assert function_calls(lambda: answers.append(serve(app, second, 0.0))) < 200
    assert [each.status for each in answers] == [200, 200]


def test_a_body_that_is_too_large_is_refused(client: FlaskClient) -> None:
    assert client.post("/mutate", data=b" " * (LARGEST_BODY + 1)).status_code == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Basic Z29vZA=="}, 401),
        ({"Authorization": "Bearer bad"}, 401),
        ({"Authorization": "Bearer poor"}, 403),
        ({"Authorization": "Bearer elsewhere"}, 503),
        (HEADERS, 200),
    ],
    ids=["nobody", "not a bearer", "unknown user", "may not", "cannot be checked", "may"],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/page.js"),
        ("GET", "/v1/gangs"),
        ("GET", "/v1/topology"),
        ("GET", "/v1/changes"),
        ("GET", "/v1/queues"),
        ("GET", "/v1/history"),
        ("GET", "/metrics"),
        ("POST", "/v1/solve"),
    ],
)
def test_every_other_path_asks_who_it_is(
    client: FlaskClient, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    response = client.open(
        path, method=method, headers=headers, data=json.dumps(NODES[0]) if method == "POST" else None
    )
    assert response.status_code == status, response.text
    assert ("WWW-Authenticate" in response.headers) == (status == 401)


def stream(*manifests: Manifest) -> str:
    """A JSON List, as kubectl would print it."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})


def test_the_dry_run_answers_a_solve_report(client: FlaskClient) -> None:
    body = stream(*NODES, RACKS, job(annotations=GANG_JOB))
    report = client.post("/v1/solve", headers=HEADERS, data=body).get_json()
    assert (report["kind"], [each["outcome"] for each in report["gangs"]]) == ("SolveReport", ["Placed"])
    assert sorted(each["node"] for each in report["gangs"][0]["assignments"]) == [
        "node-0",
        "node-0",
        "node-1",
        "node-1",
    ]


def test_the_dry_run_asks_the_live_cluster_when_told_to(client: FlaskClient) -> None:
    url = "/v1/solve?cluster=live"
    report = client.post(url, headers=HEADERS, data=stream(job(annotations=GANG_JOB))).get_json()
    assert [each["outcome"] for each in report["gangs"]] == ["Placed"]


def test_a_request_that_contradicts_itself_is_a_verdict_and_not_an_error(client: FlaskClient) -> None:
    body = stream(*NODES, RACKS, job(annotations={**GANG_JOB, "phalanx.dev/required": "aisle"}))
    response = client.post("/v1/solve", headers=HEADERS, data=body)
    assert response.status_code == 200
    assert [each["outcome"] for each in response.get_json()["gangs"]] == ["Invalid"]


def test_what_is_hardly_meant_is_told_in_headers_as_by_the_api_server(client: FlaskClient) -> None:
    slip = {"phalanx.dev/requird": "rack"}
    wrong = {**RACKS, "metadata": {"name": "wrong"}, "spec": {"levels": [{"nmé": "rack"}]}}
    body = stream(*NODES, RACKS, wrong, job(annotations={**GANG_JOB, **slip}))
    response = client.post("/v1/solve", headers=HEADERS, data=body)
    assert [each["outcome"] for each in response.get_json()["gangs"]] == ["Placed"]
    topology, annotation = response.headers.getlist("Warning")
    at = "spec.levels[0].nm\\\\xe9"
    assert topology.startswith(f'299 - "request: Topology wrong: {at}: is not a known field; ')
    at = "metadata.annotations[phalanx.dev/requird]"
    assert annotation.startswith(f'299 - "request: Job default/train: {at}: is ignored: the known')


@pytest.mark.parametrize("body", ["{", "a: b: c", json.dumps({"kind": "Pod"})], ids=["JSON", "YAML", "no apiVersion"])
def test_the_dry_run_names_every_mistake_in_bad_input(client: FlaskClient, body: str) -> None:
    response = client.post("/v1/solve", headers=HEADERS, data=body)
    assert response.status_code == 400
    assert response.get_json()["mistakes"]


def test_a_busy_solver_answers_429_and_admission_goes_on_without_a_forecast() -> None:
    picture = StillPicture([RACKS], nodes=NODES)
    metrics = Metrics()
    slot = SolveSlot(waiting=0)
    others = RecentGangs()
    webhook = Webhook(picture, Tokens(), metrics, slot, QuickForecasts(slot, metrics, others), others)
    with webhook.slot.taken(1):
        assert webhook.forecast(job(annotations=GANG_JOB), 1) == ()
    assert webhook.forecast(job(annotations=GANG_JOB), 5) != ()
    assert metrics.registry.get_sample_value("phalanx_forecasts_total", {"result": "busy"}) == 1


def test_an_admission_does_not_wait_for_the_forecasts_of_others() -> None:
    asked = list[float]()

    class Recording(SolveSlot):
        """Records how long its callers would wait for their turn."""

        @contextmanager
        def taken(self, seconds: float, who: str = "") -> Iterator[float]:
            """Record the time and give the slot."""
            asked.append(seconds)
            with super().taken(seconds, who) as left:
                yield left

    others, metrics, slot = RecentGangs(), Metrics(), Recording()
    picture = StillPicture([RACKS], nodes=NODES)
    webhook = Webhook(picture, Tokens(), metrics, slot, QuickForecasts(slot, metrics, others), others)
    assert webhook.forecast(job(annotations=GANG_JOB), 60) != ()
    assert asked == [LONGEST_TURN]


class Crowded(StillPicture):
    """A cluster view in which the first review waits until `over` is set."""

    def __init__(self) -> None:
        super().__init__([RACKS], nodes=NODES)
        self.over = threading.Event()
        self.entered = threading.Semaphore(0)
        self._waiting = threading.Semaphore(1)

    def synced(self) -> bool:
        """Whether the caches are complete. Each review asks this first."""
        if self._waiting.acquire(blocking=False):
            self.entered.release()
            assert self.over.wait(120)
        return super().synced()


def test_a_job_that_is_created_beside_another_review_gets_no_forecast() -> None:
    """On a busy machine, 60 forecasts took so long that the API server refused a Job, after the 5 s of its timeout."""
    picture, metrics = Crowded(), Metrics()
    app = create_app(picture, Tokens(), metrics)
    body = review(job(annotations=GANG_JOB), "jobs")

    def review_job() -> dict[str, Any]:
        return answer(app.test_client(), "/validate", body)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(review_job)
        assert picture.entered.acquire(timeout=120)
        beside = review_job()
        picture.over.set()
        assert waiting.result()["allowed"]
    alone = review_job()
    assert (beside["allowed"], alone["allowed"]) == (True, True)
    assert "warnings" not in beside
    assert "4 pods fit in" in " ".join(alone["warnings"])
    assert metrics.registry.get_sample_value("phalanx_forecasts_total", {"result": "busy"}) == 1


def test_a_job_of_very_many_pods_costs_no_memory_and_is_told_so(client: FlaskClient) -> None:
    response = answer(client, "/validate", review(job(pods=2_000_000_000, annotations=GANG_JOB), "jobs"))
    assert "more than can be planned ahead; ask for at most 20000" in " ".join(response["warnings"])


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_job_that_no_api_server_would_store_is_refused(client: FlaskClient, operation: str) -> None:
    wrong = job(annotations={**GANG_JOB, "phalanx.dev/min-member": 2})  # type: ignore[dict-item]
    response = answer(client, "/mutate", review({**wrong, "spec": {"suspend": True}}, "jobs", operation, old=job()))
    assert not response["allowed"]
    assert "metadata.annotations[phalanx.dev/min-member]: expected `str`" in response["status"]["message"]


def test_the_slot_lets_one_in_and_few_wait() -> None:
    slot, entered, leave = SolveSlot(waiting=1), threading.Event(), threading.Event()

    def hold() -> None:
        with slot.taken(1):
            entered.set()
            leave.wait(120)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(120)
    with pytest.raises(BusyError, match="not free in time"), slot.taken(0.05):
        pass
    leave.set()
    holder.join(120)
    with slot.taken(1) as left:
        assert 0 < left <= 1


def test_the_live_gangs_show_their_members() -> None:
    members = [pod(f"p{number}", labels={"pod-group.scheduling.sigs.k8s.io": "llm"}) for number in range(2)]
    client = client_of(StillPicture([pod_group()], pods=members))
    found = client.get("/v1/gangs", headers=HEADERS).get_json()
    assert [(each["namespace"], each["name"], each["dialect"]) for each in found["gangs"]] == [
        ("default", "llm", "koordinator")
    ]
    assert [each["pod"] for each in found["gangs"][0]["members"]] == ["p0", "p1"]


def test_the_live_gangs_show_the_topology_and_the_constraint_that_apply() -> None:
    levels = [{"nodeLabel": "example.com/topology-rack"}]
    network = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "network"}}
    metadata = {"name": "train", "namespace": "default", "annotations": {}}
    template = {"metadata": {"labels": {"phalanx.dev/workload": "Job"}}, "spec": {}}
    automatic = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    picture = StillPicture(
        [network | {"spec": {"levels": levels}}, automatic | {"spec": {"parallelism": 2, "template": template}}]
    )
    (found,) = client_of(picture).get("/v1/gangs", headers=HEADERS).get_json()["gangs"]
    assert (found["topology"], found["required"], found["preferred"]) == ("network", None, "node")


def test_the_live_topology_shows_the_room_of_every_domain(client: FlaskClient) -> None:
    """Racks r0 (node-0, node-1) and r1 (node-2, node-3), 8 cpu a node."""
    found = client.get("/v1/topology", headers=HEADERS).get_json()
    domains = {tuple(each["path"]): (each["nodes"], each["free"]["cpu"]) for each in found["topologies"][0]["domains"]}
    assert domains == {(): (4, 32000), ("r0",): (2, 16000), ("r1",): (2, 16000)}
    assert found["nodes"]["node-0"]["free"]["pods"] == 110


def test_metrics_count_every_answer(client: FlaskClient) -> None:
    answer(client, "/mutate", review(pod(labels={"phalanx.dev/gang": "llm"}), "pods"))
    client.post("/mutate", data=b"{")
    text = client.get("/metrics", headers=HEADERS).text
    labels = 'operation="CREATE",outcome="patched",path="/mutate",resource="pods"'
    assert f"phalanx_admission_requests_total{{{labels}}} 1.0" in text
    assert 'outcome="bad-review"' in text


@pytest.mark.parametrize(
    ("manifest", "plural", "expected"),
    [
        (
            job(annotations={**GANG_JOB, "phalanx.dev/topology": "nowhere"}),
            "jobs",
            ["Job default/train: metadata.annotations[phalanx.dev/topology]: the gang waits for Topology nowhere"],
        ),
        (
            {
                "apiVersion": "phalanx.dev/v1alpha1",
                "kind": "Gang",
                "metadata": {"name": "llm", "namespace": "default"},
                "spec": {"topology": "nowhere", "minMember": 2},
            },
            "gangs",
            [
                "Gang default/llm: spec.topology: the gang waits for Topology nowhere",
                "gang default/llm: waits for Topology nowhere and 2 more pods: 0 of 2 exist",
            ],
        ),
    ],
    ids=["a Job", "a Gang that lacks pods as well"],
)
def test_what_a_gang_waits_for_is_said_with_the_field_that_names_it_and_once(
    client: FlaskClient, manifest: Manifest, plural: str, expected: list[str]
) -> None:
    assert answer(client, "/validate", review(manifest, plural))["warnings"] == expected
