"""Where timelines are kept: the port (`base`), the registry of DSNs, the codecs, and one module or package per store."""
