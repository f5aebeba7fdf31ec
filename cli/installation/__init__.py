"""The installation of Phalanx: its manifests as objects, and checks of an installation.

Start with `installed_objects`, the manifests as data. `doctor_checks` checks an installation for `phalanx doctor`.
"""
