"""The commands of `phalanx`, one module each. No logic that a room above should hold."""
