"""A small API server in memory, for tests of the controller that take a moment each: `local_api.server.local_api`.

In come real HTTP requests of the controller's own client; out come the answers that a kube-apiserver would give, or
501 for whatever is not known here, so that no test rests on a guess. `tests/controller/test_local_api.py` puts the same
table of requests to this one and to a real one and compares what they say.

- `resources`: what is served at all.
- `store`: objects, versions, watches; what is the same for every kind.
- `pods`: what the API server knows of pods: gates, pins, bindings, evictions, graceful ends.
- `patches`: the kinds of patch.
- `server`: HTTP, and faults on cue.

It leaves out: defaults that no test reads, admission, schemas, rights, owners, finalizers of kinds other than pods,
pages, bookmarks. No component acts in it: tests play the scheduler and the kubelet (`controller_scene`,
`simulation.models`).
"""
