"""Devices of dynamic resource allocation: what nodes offer, what claims ask for, and who holds which device."""
