"""Invalid requests in KAI's dialect, and what stays in effect beside them."""

import pytest
from kai_objects import group, member
from refusal_cases import Case, cases, sources_of
from written import documents, sources

from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.topologies import topologies
from gangs.sources import Sources

CONFIGS = [case for case in cases() if case.dialect == "kai" and case.write["kind"] == "ConfigMap"]


@pytest.mark.parametrize("case", CONFIGS, ids=str)
def test_a_wrong_configmap_counts_for_nothing(case: Case) -> None:
    (usual,), faults = topologies(sources_of([case.write]))
    assert [level.name for level in usual.levels] == ["zone", "rack", "nvlink-domain", "node"]
    assert [str(each) for each in faults] == [case.refused]


def test_a_gang_of_scope_gpu_may_have_one_gpu_in_all() -> None:
    one = [member("a", gpus=1, created="2026-01-01T00:00:00Z"), member("b")]
    assert not read_all(Sources(one, sources(group(scope="gpu")).objects)).faults


def test_what_has_no_effect_is_said() -> None:
    (manifest,) = documents(group(version="v2alpha2", more="preemptibility: preemptible, minMembers: 3"))
    manifest["metadata"]["namespace"] = "default"
    _, said = review(manifest, Sources())
    assert [(each.field, each.text.partition(":")[0]) for each in said] == [
        ("spec.preemptibility", "has no effect here"),
        ("spec.minMembers", "is ignored"),
    ]
