"""A small API server in memory, for tests of the controller that take a moment each: `local_api.server.local_api`.

It receives real HTTP requests of the controller's own client and answers as a kube-apiserver would. A request that it
does not know gets 501, so that no test rests on a guess. `tests/controller/test_local_api.py` sends the same table of
requests to this server and to a real one, and compares the answers.

- `resources`: what is served at all.
- `store`: objects, versions, watches; what is the same for every kind.
- `pods`: what the API server knows of pods: gates, pins, bindings, evictions, graceful ends.
- `patches`: the kinds of patch.
- `server`: HTTP, and faults on cue.

It leaves out: defaults that no test reads, admission, schemas, rights, owners, finalizers of kinds other than pods,
pages, bookmarks. No component acts in it: tests play the scheduler and the kubelet (`controller_scene`,
`simulation.models`).
"""
