"""`python -m controlplane [1.36]`: build the programs now, so that nothing has to wait for them later."""

import sys

from controlplane.binaries import BuildError
from controlplane.earlier import binaries_of
from controlplane.toolchain import NoToolchainError

try:
    binaries_of(next(iter(sys.argv[1:]), ""))
except (BuildError, NoToolchainError, ValueError) as error:
    sys.exit(f"error: {error}")
