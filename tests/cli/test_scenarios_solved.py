"""`phalanx solve` on the files of every scenario, act by act: the same pods on the same nodes as on a cluster.

The pods that one act places run in the next act, as on a cluster: each plan becomes pods bound to their nodes.
"""

import fnmatch
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from refusal_cases import defaulted, sources_of

from cli.main import group
from controlplane.scenarios import Act, folders, read
from gangs.dialects.expanding import expanded
from gangs.manifests import key_of
from gangs.sources import ObjectKey
from kube.names import natural_key

Manifest = dict[str, Any]
PLACED, NOT_PLACED = 0, 3


class Cluster:
    """The objects applied so far, and the running pods of the plans so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.applied: dict[ObjectKey, Manifest] = {}

    def do(self, act: Act) -> None:
        """Delete and apply the objects that the act deletes and applies."""
        for each in act.delete:
            self._delete([key for key in self.applied if self._meant(each, key)])
        for name in act.apply:
            for manifest in yaml.safe_load_all((self.folder / name).read_text()):
                if manifest:
                    whole = defaulted(manifest)
                    self.applied[key_of(whole)] = {**self.applied.get(key_of(whole), {}), **whole}
        for cron_job, name in act.trigger.items():
            self._trigger(cron_job, name)

    def _trigger(self, cron_job: str, name: str) -> None:
        """The Job that is made of a CronJob, with its annotations, in its place: that one would be planned, too."""
        manifest = self.applied.pop(("batch", "CronJob", "default", cron_job))
        spec = manifest["spec"]["jobTemplate"]["spec"]
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**manifest["metadata"], "name": name},
            "spec": spec,
        }
        whole = defaulted(job)
        self.applied[key_of(whole)] = dict(whole)

    def _meant(self, what: str, key: ObjectKey) -> bool:
        path = self.folder / what
        if path.exists():
            return key in [key_of(defaulted(each)) for each in yaml.safe_load_all(path.read_text()) if each]
        kind, _, name = what.partition("/")
        return (key[1].lower(), key[3]) == (kind, name)

    def _delete(self, keys: list[ObjectKey]) -> None:
        """Delete these objects, and the pods that they own."""
        names = {(key[1], key[2], key[3]) for key in keys}
        for key, manifest in list(self.applied.items()):
            owners = manifest["metadata"].get("ownerReferences") or ()
            if key in keys or any((each["kind"], key[2], each["name"]) in names for each in owners):
                del self.applied[key]

    def solve(self, path: Path) -> list[Mapping[str, Any]]:
        """Run `phalanx solve` and return the gangs of its report.

        Afterwards the placed pods run on their nodes, and the victims are deleted.
        """
        path.write_text(yaml.safe_dump_all(self.applied.values()))
        result = CliRunner().invoke(group, ["solve", "-f", str(path), "-o", "json"], catch_exceptions=False)
        assert result.exit_code in (PLACED, NOT_PLACED), result.stderr
        found: list[Mapping[str, Any]] = json.loads(result.stdout)["gangs"]
        pods = {pod.key: pod for pod in expanded(sources_of([*self.applied.values()]))[0].pods}
        for each in (each for gang in found for each in gang["assignments"]):
            pod = msgspec.to_builtins(pods[f"{each['namespace']}/{each['pod']}"])
            pod["spec"]["nodeName"] = each["node"]
            manifest = {"apiVersion": "v1", "kind": "Pod", **pod}
            self.applied[key_of(manifest)] = manifest
        for victim in (victim for gang in found for victim in gang["victims"]):
            del self.applied["", "Pod", victim["namespace"], victim["pod"]]
        return found

    def nodes(self, pattern: str) -> list[str]:
        """Where the pods of a pattern are, in the order of their names."""
        pods = {key[3]: each for key, each in self.applied.items() if key[1] == "Pod"}
        names = sorted(fnmatch.filter(pods, pattern), key=natural_key)
        return [pods[name]["spec"].get("nodeName", "-") for name in names]


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_a_dry_run_of_each_act_places_what_the_cluster_does(folder: Path, tmp_path: Path) -> None:
    cluster = Cluster(folder)
    for act in read(folder).acts:
        cluster.do(act)
        gangs = cluster.solve(tmp_path / "files.yaml")
        for pattern, nodes in act.nodes.items():
            seen = cluster.nodes(pattern)
            assert (sorted(seen, key=natural_key) if act.any_order else seen) == list(nodes), (act.title, pattern)
        for pattern in act.pending:
            assert set(cluster.nodes(pattern)) <= {"-"}, (act.title, pattern)
        if act.victims is not None:
            assert tuple(each["pod"] for gang in gangs for each in gang["victims"]) == act.victims, act.title
