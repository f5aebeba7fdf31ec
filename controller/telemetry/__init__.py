"""Telemetry for operators: Prometheus metrics, events, traces.

`events` is the table of all event reasons. `recorder` writes events.
"""
