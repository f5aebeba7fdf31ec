"""Clocks, exponential back-off after failures, and duty cycles of background work.

Every part of a process gets its clock from the caller. Only `timing.clock.SystemClock` reads real time.
"""
