"""The container image: what is left out of it, and how it is built with what a machine has."""
