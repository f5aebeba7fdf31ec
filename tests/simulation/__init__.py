"""A deterministic simulation of controllers against `local_api`: no HTTP, no threads, no real time.

A seed decides every latency, fault, crash and user action (`choices`), so that a failing seed replays.
`schedule.run(seed)` builds a cluster, runs it in logical time, and returns the broken invariants with a trace.

- `clock`, `engine`: logical time and the queue of what happens next.
- `real_time`: makes any use of real time by product code fail.
- `network`, `transport`: the API server as a controller reaches it, with faults.
- `watches`: delivery of watch events, late, repeated or after a relist.
- `candidate`: one controller process with its Lease, caches and `Controller`.
- `webhook`: one webhook process, which admits pods by its own caches.
- `models`: scheduler, kubelets, workload and disruption controllers.
- `users`: what users and accidents do.
- `invariants`: what must hold after every step, and at the end.
- `schedule`, `minimise`: one run of a seed; its shortest failing version.
"""
