"""How long the solver takes, how much of its answers is proven, and what a plain model would need for the same."""
