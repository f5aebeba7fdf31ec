"""ACK Lingjun requests with oddities that are no faults: admission accepts them, if necessary with a warning."""

from ack_objects import LINGJUN, job, network
from written import documents, sources

from gangs.dialects.reviewing import review


def test_fields_that_nobody_reads_are_warned_of() -> None:
    (manifest,) = documents(network(strategies="[{layer: ASWTopologyLayer, strategy: PreferGather, must: true}]"))
    manifest["spec"]["workers"] = 2
    _, advice = review(manifest, sources(LINGJUN))
    assert [each.field for each in advice] == ["spec.workers", "spec.topologyStrategy[0].must"]


def test_a_job_of_no_gang_is_let_alone() -> None:
    (manifest,) = documents(job(3, 2, of="", namespace=""))
    assert review(manifest, sources(LINGJUN, network(2))) == ([], [])
