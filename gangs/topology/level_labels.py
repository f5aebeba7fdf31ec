"""The checks of the node labels that a topology object lists as its levels. All systems' objects share them."""

import re
from collections.abc import Sequence

from gangs.findings import Findings
from gangs.model import ObjectRef
from kube.topology import HOSTNAME_LABEL

MAX_LEVELS = 16
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST_OF_PREFIX = 253
"""The most characters in the prefix of a label key, by the Kubernetes API's rules."""


def check_labels(ref: ObjectRef, labels: Sequence[str], findings: Findings) -> None:
    """Report, for a topology object: too few or too many levels, invalid label keys, a node level that is not last.

    :param labels: the labels of the levels, the widest first.
    """
    check_number(ref, len(labels), findings)
    check_label_keys(ref, labels, findings)


def check_number(ref: ObjectRef, levels: int, findings: Findings) -> None:
    """Report, for a topology object, too few or too many levels."""
    if not 1 <= levels <= MAX_LEVELS:
        findings.fault(ref, "spec.levels", f"has {levels} levels", f"list 1 to {MAX_LEVELS}, widest first")


def check_label_keys(ref: ObjectRef, labels: Sequence[str], findings: Findings) -> None:
    """Report, for a topology object, invalid label keys and a node level that is not last.

    :param labels: the labels of the levels of nodes, the widest first.
    """
    for position, label in enumerate(labels):
        at = f"spec.levels[{position}].nodeLabel"
        if not _is_label_key(label):
            problem = f'"{label}" cannot be the key of a node label'
            findings.fault(ref, at, problem, "write a key such as example.com/rack")
        if label == HOSTNAME_LABEL and position < len(labels) - 1:
            findings.fault(ref, at, f"{HOSTNAME_LABEL} is the node", "put it last or leave it out")


def check_each_once(ref: ObjectRef, field: str, values: Sequence[str | None], findings: Findings) -> None:
    """Report each value that an earlier level of a topology object has already.

    :param field: the field of the levels, `nodeLabel` or an alias.
    :param values: its value in each level; None if a level has none.
    """
    for position, value in enumerate(values):
        if value is not None and value in values[:position]:
            problem = f'"{value}" is spec.levels[{values.index(value)}] already'
            what = "a label" if field == "nodeLabel" else f"an {field}"
            findings.fault(ref, f"spec.levels[{position}].{field}", problem, f"give each level {what} of its own")


def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    well_formed = not slash or (len(prefix) <= _MOST_OF_PREFIX and bool(_PREFIX.fullmatch(prefix)))
    return bool(_NAME.fullmatch(name)) and well_formed
