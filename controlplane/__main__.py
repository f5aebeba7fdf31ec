"""`python -m controlplane [1.36]`: build the control plane's programs now, so that later commands need not wait for
them.
"""

import sys

from controlplane.programs.compiling import BuildError
from controlplane.programs.other_versions import binaries_of
from controlplane.programs.toolchain import NoToolchainError

try:
    binaries_of(next(iter(sys.argv[1:]), ""))
except (BuildError, NoToolchainError, ValueError) as error:
    sys.exit(f"error: {error}")
