"""If the controller reserves nothing for expected pods, the webhook's forecast does not claim that their gang fits."""

from typing import Any

import pytest
from node_manifests import node_manifest
from pictures import StillPicture
from workload_operators import ROWS

from planning.dry_run import Live, dry_run
from planning.files.documents import Document
from webhook.forecasts.forecasting import forecast
from webhook.forecasts.recent_gangs import RecentGangs

NODES = [node_manifest(f"n{number}", {"rack": "r1"}) for number in range(4)]
WAITS = (
    "gang {}: waits for {}; {} default/w creates pods only when others of it run, "
    "and no capacity is reserved for them, as the "
    "controller's --no-placeholders says: {}, so that all are made at once, or have the controller run without it"
)
IN_TURN: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "StatefulSet": (
        {"podManagementPolicy": "OrderedReady"},
        "default/w",
        "3 more pods: 1 of 4 exist",
        "set spec.podManagementPolicy: Parallel",
    ),
    "LeaderWorkerSet": (
        {"startupPolicy": "LeaderReady"},
        "default/w-0",
        "3 more pods of worker: 0 of 3 exist",
        "set spec.startupPolicy: LeaderCreated",
    ),
    "JobSet": (
        {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
        "default/w",
        "3 more pods of nodes: 0 of 3 exist",
        "set spec.startupPolicy.startupPolicyOrder: AnyOrder",
    ),
}
"""By kind: the spec that creates pods in turn, the gang, the missing pods, and the setting that creates all at once."""
kinds = pytest.mark.parametrize("kind", IN_TURN)


def workload(kind: str) -> dict[str, Any]:
    """Return a workload of four pods of this kind that creates them in turn, as its user writes it."""
    manifest: dict[str, Any] = ROWS[kind].manifest(gang="true")
    return {**manifest, "spec": {**manifest["spec"], **IN_TURN[kind][0]}}


def waits(kind: str) -> str:
    """Return the warning that the gang of this kind gets."""
    _, gang, missing, at_once = IN_TURN[kind]
    return WAITS.format(gang, missing, kind, at_once)


@kinds
def test_kubectl_apply_is_told_so(kind: str) -> None:
    (fits, *_) = forecast(workload(kind), StillPicture(nodes=NODES), RecentGangs(), 10.0)
    assert "4 pods fit" in fits
    (said,) = forecast(workload(kind), StillPicture(nodes=NODES, placeholders=False), RecentGangs(), 10.0)
    assert said == waits(kind)


@kinds
def test_a_dry_run_on_the_live_cluster_says_so(kind: str) -> None:
    picture = StillPicture(nodes=NODES, placeholders=False)
    asked = [Document("w.yaml", workload(kind))]
    (decision,) = dry_run(asked, live=Live(picture.snapshot(), picture.sources())).decisions
    assert f"gang {decision.key}: {decision.message}" == waits(kind)
