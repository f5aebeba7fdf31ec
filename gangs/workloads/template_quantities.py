"""The check of resource quantities in pod templates.

It is needed because the API server validates the pod templates of Kubernetes' own kinds only. Many operators' CRDs
accept any text as a quantity, and most accept negative quantities.
"""

from gangs.manifests import MalformedError, ref_of
from gangs.model import Fault, Manifest
from gangs.workloads import spark
from gangs.workloads.kind_table import row_of
from gangs.workloads.pod_templates import Template
from kube.objects import Pod
from kube.quantities import amount
from kube.requests import quantities


def check_quantities(manifest: Manifest, template: Template, pod: Pod) -> None:
    """Check the requests and limits of a pod template. Raises `MalformedError` if one is no valid quantity.

    :param pod: a pod as the workload creates it from the template.
    """
    for path, resource, written in quantities(pod):
        try:
            amount(resource, written)
        except ValueError as error:
            row = row_of(manifest)
            if row is not None and row.bare:
                at = spark.field_of(manifest, template.way[-1], path, resource)
            else:
                at = f"{template.path}.{path}.{resource}"
            raise MalformedError(Fault(ref_of(manifest), at, str(error), "write 8, 500m or 64Gi, say")) from error
