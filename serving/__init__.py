"""How our ports are served: in come sockets, certificates and a WSGI application, out go answers.

One event loop holds all connections, threads answer whole requests. Start with `port`: it puts together who may stay
(`connections`), HTTP (`http_protocol`) and the application (`application`), which knows whose turn it is (`turns`); the
numbers are in `limits`, certificates in `tls`. `gunicorn_worker` runs it under gunicorn, `background` in a thread of
its own. Nothing here knows Kubernetes or gangs.
"""
