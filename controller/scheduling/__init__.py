"""Gangs are planned beside the rounds: which are asked about when, and what is remembered of the answers.

In come gangs and a picture; out comes a decision for each, or None while one is made. Start with `scheduling_queue`;
`questions` is what is asked, `lanes` where it is answered, `taking` whether an answer still stands when a round takes
it up; `counting` and `aside` keep gangs that fit nowhere from holding others up.
"""
