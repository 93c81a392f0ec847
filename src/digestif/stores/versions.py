"""Which versions are at work: of Digestif, of Python, and of what is behind a store."""

import sys
from importlib.metadata import version

from digestif.stores.reader import StoreReader


def versions(store: StoreReader) -> dict[str, str]:
    """Versions by product."""
    python = ".".join(map(str, sys.version_info[:3]))
    return {"digestif": version("digestif"), "Python": python, **store.products()}
