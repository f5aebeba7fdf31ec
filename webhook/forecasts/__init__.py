"""The plan that a gang would get now, told as an admission warning: a gang comes in, out goes a sentence, or none.

Start with `forecasting` (at the admission of a workload or group object); `quick` does it for a pod, where that takes
no time. `recent_gangs` holds all gangs as they were read a moment ago, `slots` lets one solve run at a time.
"""
