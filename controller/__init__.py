"""The controller carries out plans and keeps them valid: nominate, evict, verify, release, monitor. The only writer.

Start with `loop`. Every reconcile reads a snapshot (`cluster_view`) and finds the step that is due for each gang
(`gang_rounds`, by the protocol in `release`). It has plans made (`scheduling`), acts on them (`acting`) and reports the
state of all gangs (`status`). `serving` assembles the controller. The packages above use `leadership`, `telemetry` and
`writes`.
"""
