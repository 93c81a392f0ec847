"""Whom channels trust over TLS: the authorities of the system, or those in a file, and then no others."""

import ssl
from pathlib import Path

from digestif.errors import ConfigError
from digestif.stores.dsn import Dsn


def ca_option(dsn: Dsn) -> str | None:
    """The file that `ca` names."""
    path = dsn.options.get("ca")
    if path is not None and not Path(path).is_file():
        raise ConfigError(f"ca: there is no file {path!r}")
    return path


def tls_context(ca: str | None = None) -> ssl.SSLContext:
    """For a client that looks at certificates and names."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # also what is wrong in it
        raise ConfigError(f"ca: {ca!r} is not a file of certificates in PEM: {error.strerror or error}") from None
