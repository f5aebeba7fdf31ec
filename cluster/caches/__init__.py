"""The live picture in memory: watches of the API server come in, out goes an immutable `Snapshot`, at any time.

Start with `cache`. `reflector` keeps the copy of one resource, `sinks` say what is done with its objects, `journal`
what has changed since somebody last asked, `freshness` how old what is known is.
"""
