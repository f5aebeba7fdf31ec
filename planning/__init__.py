"""Brings the rooms together: a `Gang` and a `Snapshot` become a `Problem`, its answer becomes a `Decision`."""
