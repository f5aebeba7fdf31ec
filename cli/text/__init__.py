"""Text for a terminal: decisions and gangs come in, out go lines and tables.

Start with `decision_text` (what was decided, for `phalanx solve`); `why_text` says how a gang stands, for `phalanx
why`; `columns` are lists as kubectl has them, `structured` is the same for programs.
"""
