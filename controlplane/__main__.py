"""`python -m controlplane`: build the programs now, so that nothing has to wait for them later."""

from controlplane.binaries import find_binaries

find_binaries()
