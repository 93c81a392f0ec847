"""Where timelines are kept: the port (`base`), the registry of DSNs, the codecs, and a room for each store."""
