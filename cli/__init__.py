"""The commands of `phalanx`, one module each. The logic is in the other packages.

Start with `main`, which lists the commands. The subpackages: `options` that several commands share, `asking` (requests
to the cluster), `terminal` (commands that show the live cluster), `installation` and `text` (output formats).
"""
