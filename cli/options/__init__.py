"""Options that several commands share, as click decorators. Each module has one group of options."""
