"""DSNs of channels: from `smtp://host?from=…` to a channel. Others come by the entry point `digestif.channels`."""

import re
from collections.abc import Callable
from importlib.metadata import entry_points

from digestif.core.texts import did_you_mean
from digestif.delivery.channel import Channel
from digestif.errors import ConfigError
from digestif.stores.dsn import Dsn, load_attribute

Opener = Callable[[Dsn], Channel]

BUILT_IN = {
    "apprise": "digestif.delivery.apprise_channel:from_dsn",
    "file": "digestif.delivery.files:from_dsn",
    "slack": "digestif.delivery.slack:from_dsn",
    "smtp": "digestif.delivery.smtp:from_dsn",
    "smtps": "digestif.delivery.smtp:from_dsn",
    "terminal": "digestif.delivery.terminal:from_dsn",
    "webhook+http": "digestif.delivery.webhook:from_dsn",
    "webhook+https": "digestif.delivery.webhook:from_dsn",
}
# Modules that a built-in channel needs, and the extra that brings them.
EXTRAS = {"aiohttp": "webhooks", "aiosmtplib": "mail", "apprise": "apprise"}
ENTRY_POINTS = "digestif.channels"

_OPTION = re.compile("[a-z_]{1,20}")


def open_channel(text: str) -> Channel:
    """Make the channel that a DSN names."""
    dsn = parse(text)
    return _opener(dsn.scheme)(dsn)


def parse(text: str) -> Dsn:
    """Read a DSN. Nothing of a wrong one is shown: it may be a part of a password or a token."""
    scheme, separator, rest = text.partition("://")
    if not separator or not scheme:
        raise ConfigError("channel: that is not a DSN such as smtp://host?from=digests@example.org or terminal://")
    location, mark, query = rest.partition("?")
    if "?" in query:
        raise ConfigError("channel: a DSN has one ? before its options; write any other as %3F")
    # An @ in the value of an option is an address. One elsewhere belongs to a password with a ? in it.
    names = [option.partition("=") for option in query.split("&")] if query else []
    if any("@" in name or not _OPTION.fullmatch(name) for name, *_ in names):
        raise ConfigError("channel: options are name=value; write a ? in a user name or password as %3F")
    return Dsn.parse(f"{scheme}://{location}{mark}{query.replace('@', '%40')}")


def _opener(scheme: str) -> Opener:
    if scheme.startswith("apprise+"):  # what follows is a scheme of Apprise's
        scheme = "apprise"
    if scheme in BUILT_IN:
        try:
            return load_attribute(BUILT_IN[scheme])  # type: ignore[no-any-return]
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            raise ConfigError(
                f"channel: {scheme}:// needs the module {error.name}; pip install 'digestif[{EXTRAS[error.name]}]'"
            ) from error
    others = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if scheme not in others:
        raise ConfigError(f"channel: nothing here opens {scheme}://{_hint(scheme, [*BUILT_IN, *others])}")
    try:
        return others[scheme].load()  # type: ignore[no-any-return]
    except ImportError as error:
        distribution = others[scheme].dist
        name = distribution.name if distribution else scheme
        raise ConfigError(
            f"channel: {scheme}:// needs the module {error.name}; pip install '{name}[{scheme}]'"
        ) from error


def _hint(scheme: str, known: list[str]) -> str:
    hook = f"webhook+{scheme}"  # a URL was given as it is
    return f"; did you mean {hook}?" if hook in known else did_you_mean(scheme, known)
