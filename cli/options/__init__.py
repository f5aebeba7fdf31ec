"""Options that several commands share: click options come in, out go settings. One module for each group of them."""
