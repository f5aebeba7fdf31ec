"""Parts of pages that are written from the code, between two comments that name them."""


def with_block(text: str, name: str, block: str) -> str:
    """The page with this between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}{block}{end}{after}"
