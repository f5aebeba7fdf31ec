"""The commands of `phalanx`, one module each. The logic is in the other packages.

Start with `main`, which lists the commands. The subpackages have the `options` that several commands share, the checks
of an `installation`, and `text` for terminals.
"""
