"""Forecasts: the plan that a gang would get now, reported in admission warnings.

Start with `forecasting`, at the admission of a workload or group object. `quick` makes the forecast for a pod if it is
known within milliseconds. `recent_gangs` caches all gangs of the cluster, and `slots` lets one solve run at a time.
"""
