"""Amounts in pod templates that nobody can read.

The API server looks at the templates of its own kinds alone: many operators' definitions take any text there, most take
what is below 0, and Spark's have fields of their own.
"""

from gangs.manifests import MalformedError, ref_of
from gangs.model import Fault, Manifest
from gangs.workloads import spark
from gangs.workloads.kind_table import shape_of
from gangs.workloads.pod_templates import Template
from kube.objects import Pod
from kube.quantities import amount
from kube.requests import quantities


def check_quantities(manifest: Manifest, template: Template, pod: Pod) -> None:
    """Raises `MalformedError` where what a pod of a workload's template asks for, or its limit, cannot be read."""
    for path, resource, written in quantities(pod):
        try:
            amount(resource, written)
        except ValueError as error:
            shape = shape_of(manifest)
            if shape is not None and shape.bare:
                at = spark.field_of(manifest, template.way[-1], path, resource)
            else:
                at = f"{template.path}.{path}.{resource}"
            raise MalformedError(Fault(ref_of(manifest), at, str(error), "write 8, 500m or 64Gi, say")) from error
