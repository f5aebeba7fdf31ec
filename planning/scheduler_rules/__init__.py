"""What the stock scheduler asks of pods that the problem does not hold.

`member_affinity` checks a plan for wishes of members about each other, and asks for another where they do not hold;
`holdups` names what would keep a member from binding wherever it were put.
"""
