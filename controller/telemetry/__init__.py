"""What operators see: Prometheus metrics, events, traces.

`events` has the table of every reason there is; `recorder` writes them.
"""
