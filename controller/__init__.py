"""Makes plans true and keeps them true: nominate, evict, verify, release, watch over. The only writer."""
