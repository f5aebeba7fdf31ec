"""Makes plans true and keeps them true: nominate, evict, verify, release, watch over. The only writer.

Start with `loop`: in every round it takes a picture (`cluster_view`), finds what is due for each gang (`gang_rounds`,
by the protocol in `release`), has plans made (`scheduling`), acts on them (`acting`) and tells how all stand
(`status`). `serving` puts it together; `leadership`, `telemetry` and `writes` are what the rooms above use.
"""
