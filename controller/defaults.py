"""Default settings of the controller.

This module imports nothing, because `cli.controller` reads it before the modules that take long to import.
"""

SOLVE_SECONDS = 10.0
"""The time limit of one solve, in seconds, as an emergency stop."""
LEASE_SECONDS = 4.0
"""Seconds after which the Lease of a leader that does not renew it expires. docs/decisions/0015 says why this value."""
RESTART_SECONDS = 30.0
"""Seconds for which a lost member must have had no plan before its gang is restarted. Lost nodes may return meanwhile.
"""
MADE_AGAIN_SECONDS = 30.0
"""Seconds for which capacity is reserved for the successor of a member that ran and is gone (docs/decisions/0034)."""
UNTRIED_SECONDS = 30.0
"""Seconds within which a scheduler must try a released member. Later the member's capacity is freed."""
WRITES = 16
"""The most concurrent write requests to the API server. More are no faster on a small API server."""
