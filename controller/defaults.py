"""Default settings of the controller.

This module imports nothing, because `cli.controller` reads it before the modules that take long to import.
"""

SOLVE_SECONDS = 10.0
"""The time limit of one solve, in seconds, as an emergency stop."""
LEASE_SECONDS = 4.0
"""How long a silent leader keeps the Lease. docs/decisions/0015 says what that costs and why it is not longer."""
RESTART_SECONDS = 30.0
"""How long a lost member must have found no place before its gang is restarted. Lost nodes may return meanwhile."""
MADE_AGAIN_SECONDS = 30.0
"""How long capacity is reserved for the successor of a member that ran and is gone (docs/decisions/0034)."""
UNTRIED_SECONDS = 30.0
"""How long a scheduler may take to try a released member."""
WRITES = 16
"""The most concurrent write requests to the API server. More are no faster on a small API server."""
