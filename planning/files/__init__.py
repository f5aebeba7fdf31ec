"""Files to objects, as strictly as the API server would take them.

In comes text; out come typed objects and every mistake, by object and field. Start with `objects`.
"""
