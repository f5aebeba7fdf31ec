"""Exact placement of gangs: a `Problem` in, a proven `Plan` or a confirmed no out. Pure functions of plain data."""
