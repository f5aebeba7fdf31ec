"""Phalanx itself as something that is installed: manifests come in, out go objects to apply and findings about them.

Start with `installed_objects` (the manifests as data); `doctor_checks` looks at an installation from outside, for
`phalanx doctor`.
"""
