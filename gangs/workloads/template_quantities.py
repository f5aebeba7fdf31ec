"""Unreadable resource quantities in pod templates.

The API server validates the templates of its own kinds only. Many operators' CRDs accept any text as a quantity. Most
accept negative quantities. Spark's CRD has fields of its own for quantities.
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
    """Raises `MalformedError` if a request or limit of a pod of the template cannot be read as a quantity."""
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
