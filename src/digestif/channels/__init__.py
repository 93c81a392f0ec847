"""Channels, which deliver digests: one module each, behind the contract in `base`."""
