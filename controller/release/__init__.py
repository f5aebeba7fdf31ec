"""How a plan is carried out without races: pure functions of what the cluster holds (docs/decisions/0001).

In comes a gang with the record of its plan and a picture; out comes the next step. Start with `next_step`; `records` is
the plan as the Gang object keeps it, `patches` how members are let go, `wholeness` whether a gang ever was whole.
"""
