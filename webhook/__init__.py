"""The HTTP server: admission, dry run, the live page, metrics. It answers from memory and writes nothing.

Start with `app`, the paths with their views, and `service`, the parts of one process. The subpackages, each of which
uses only later ones: `forecasts` (the plan that a gang would get), `admission` (the answers to AdmissionReviews) and
`live_view` (the live page and its data). All of them read the cluster through `picture`.
"""
