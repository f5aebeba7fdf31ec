"""The controller carries out plans and keeps them valid: nominate, evict, verify, release, monitor. No other server of
Phalanx writes to the cluster.

Start with `loop`. Every reconcile reads a snapshot (`cluster_view`) and finds the step that is due for each gang
(`reconcile_states`, by the protocol in `release`). `scheduling` plans the gangs that need a plan, `acting` carries out
the steps, and `status` reports the state of all gangs. `serving` assembles the controller. These packages use
`leadership`, `telemetry` and `writes`.
"""
