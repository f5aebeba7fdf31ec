"""How our ports are served: in come sockets, certificates and a WSGI application, out go answers.

One event loop holds all connections, threads answer whole requests. Start with `server`: it puts together who may stay
(`connections`), HTTP (`protocol`), whose turn it is (`turns`) and the application (`application`). `worker` runs it
under gunicorn, `background` in a thread of its own. Nothing here knows Kubernetes or gangs.
"""
