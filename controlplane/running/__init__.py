"""The programs as processes: executables come in, out go servers that answer, and nothing that stays behind them.

Start with `components` (how each program is called) and `processes` (a program with its log); `readiness` waits until
one works, `ports` and `directories` give it its place, `janitor` clears up, `stages` says what kwok does with pods.
"""
