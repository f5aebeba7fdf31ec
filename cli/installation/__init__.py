"""Phalanx itself as something that is installed: manifests come in, out go objects to apply and findings about them.

Start with `installed_objects` (the manifests as data); `local` installs them on a control plane of its own, for the
demo and the examples, `doctor_checks` looks at an installation from outside, for `phalanx doctor`.
"""
