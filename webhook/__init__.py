"""The HTTP surface: admission, dry run, live picture, metrics. Answers from memory and writes nothing.

Start with `app` (every path and what answers it) and `service` (what one process holds). The rooms, each of which uses
only those after it: `forecasts` (the plan that a gang would get), `admission` (what is admitted, and how), `live_view`
(the picture for people). `picture` is what all of them read.
"""
