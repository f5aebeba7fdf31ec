"""The live picture: watch caches or files, turned into one immutable `Snapshot`. Knows no dialect."""
