"""`kubectl apply` of a workload whose pods need devices: the warning says that its gang stays gated."""

from typing import Any

import pytest
from node_manifests import node_manifest
from pictures import StillPicture
from workload_operators import ROWS

from kube.keys import IGNORE_CLAIMS
from webhook.forecasts.forecasting import forecast
from webhook.forecasts.recent_gangs import RecentGangs

NODES = [node_manifest(f"n{number}", {"rack": "r1"}) for number in range(4)]
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "one"}]


def claiming(part: Any) -> Any:
    """The manifest with claims in each of its pod templates."""
    if isinstance(part, dict):
        found = {key: claiming(value) for key, value in part.items()}
        return {**found, "resourceClaims": CLAIMS} if "containers" in part else found
    return [claiming(each) for each in part] if isinstance(part, list) else part


@pytest.mark.parametrize("kind", ["StatefulSet", "JobSet", "LeaderWorkerSet", "PyTorchJob"])
def test_the_warning_gives_the_reason_and_the_remedy(kind: str) -> None:
    manifest = claiming(ROWS[kind].manifest(gang="true"))
    (said,) = forecast(manifest, StillPicture(nodes=NODES), RecentGangs(), 10.0)
    assert "stays gated: pods " in said
    assert "resource claims (spec.resourceClaims)" in said
    assert f'{kind} default/w {IGNORE_CLAIMS}: "true"' in said
    manifest["metadata"]["annotations"][IGNORE_CLAIMS] = "true"
    said, note = forecast(manifest, StillPicture(nodes=NODES), RecentGangs(), 10.0)
    assert "4 pods fit" in said
    assert "not proven optimal" in said
    assert note == "dynamic resource claims (spec.resourceClaims)"
