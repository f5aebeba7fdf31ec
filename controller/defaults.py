"""What the controller goes by where nobody says otherwise.

Nothing is imported here, because `cli.controller` reads it before anything that takes long to import.
"""

SOLVE_SECONDS = 10.0
"""The emergency stop of one solve."""
LEASE_SECONDS = 4.0
"""How long a silent leader keeps the Lease. What it costs, and why it is not longer: docs/decisions/0015."""
RESTART_SECONDS = 30.0
"""How long a lost member must have found no place before its gang is restarted: nodes come back."""
MADE_AGAIN_SECONDS = 30.0
"""How long room is held for the successor of a member that ran and is gone (docs/decisions/0034)."""
UNTRIED_SECONDS = 30.0
"""How long a scheduler may take over a member that was let go."""
WRITES = 16
"""Requests that write to the API server at the same time; more gain nothing on a small one."""
