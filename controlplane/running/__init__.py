"""Runs the programs of the control plane as processes, and leaves nothing behind when they end.

Start with `components`, the arguments of each program, and `processes`, a program with its log. `readiness` checks
whether a program works. `ports` and `directories` provide ports and a folder, and `janitor` removes everything after a
run. `stages` describes how kwok simulates nodes and pods.
"""
