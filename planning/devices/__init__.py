"""Devices in the planner: what members ask for, columns of amounts for the solver, and the devices that members get."""
