"""TLS of channels: certificates are checked against the authorities of the system, or only against those in a file."""

import ssl

from digestif.errors import ConfigError


def tls_context(ca: str | None = None, *, verify: bool = True) -> ssl.SSLContext:
    """The context of a client that checks certificates and names, unless `verify` is false."""
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:  # the file can't be read, or its content is wrong
        raise ConfigError(f"ca: {ca!r} is not a file of certificates in PEM: {error.strerror or error}") from None
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
