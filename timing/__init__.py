"""Time: the clock that every part of a process is given, the back-off after failures, and the duty cycle of background
work. Only `timing.clock.SystemClock` reads real time.
"""
