"""`python -m controlplane [1.36]`: build the programs now, so that nothing has to wait for them later."""

import sys

from controlplane.programs.compiling import BuildError
from controlplane.programs.previous_version import binaries_of
from controlplane.programs.toolchain import NoToolchainError

try:
    binaries_of(next(iter(sys.argv[1:]), ""))
except (BuildError, NoToolchainError, ValueError) as error:
    sys.exit(f"error: {error}")
