"""Give this folder the fixtures of `system_fixtures.py`: mypy cannot read two modules named `conftest`."""

from system_fixtures import (
    controller_options,
    deployment,
    jobset,
    kuberay,
    lws,
    observed,
    phalanx,
    registration,
    training_operator,
)

__all__ = [
    "controller_options",
    "deployment",
    "jobset",
    "kuberay",
    "lws",
    "observed",
    "phalanx",
    "registration",
    "training_operator",
]
