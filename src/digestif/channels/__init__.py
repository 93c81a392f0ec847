"""Where digests go: channels, one module each, behind one contract."""
