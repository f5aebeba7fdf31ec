"""Devices of dynamic resource allocation: what nodes offer, what claims ask for, and which claim has which device."""
