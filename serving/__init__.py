"""The HTTP servers of Phalanx: they serve a WSGI application on a socket, with limits and fairness between clients.

One event loop holds all connections, and threads answer whole requests. Start with `port`. It combines the table of
connections (`connections`), HTTP (`http_protocol`) and the application (`application`), whose requests wait in `turns`.
The limits are in `limits`, certificates in `tls`. `gunicorn_worker` runs a server under gunicorn, `background` in a
thread of its own. This package is independent of Kubernetes and gangs.
"""
