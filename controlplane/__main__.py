"""`python -m controlplane`: build the programs now, so that nothing has to wait for them later."""

import sys

from controlplane.binaries import BuildError, find_binaries
from controlplane.toolchain import NoToolchainError

try:
    find_binaries()
except (BuildError, NoToolchainError) as error:
    sys.exit(f"error: {error}")
