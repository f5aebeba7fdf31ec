"""The commands of `phalanx`, one module each. No logic that a room above should hold.

Start with `main`, which lists them. The rooms: `options` that several of them share, the `installation` as something
to look at, and `text` for terminals.
"""
