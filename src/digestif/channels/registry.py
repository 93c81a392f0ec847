"""DSNs of channels: from `smtp://host?from=…` to a channel. Others come by the entry point `digestif.channels`."""

import re
from collections.abc import Callable

from digestif.channels.base import Channel
from digestif.core.texts import did_you_mean
from digestif.errors import ConfigError
from digestif.stores.dsn import Dsn, load_opener

Opener = Callable[[Dsn], Channel]

BUILT_IN = {
    "apprise": "digestif.channels.apprise_channel:from_dsn",
    "file": "digestif.channels.files:from_dsn",
    "slack": "digestif.channels.slack:from_dsn",
    "smtp": "digestif.channels.smtp:from_dsn",
    "smtps": "digestif.channels.smtp:from_dsn",
    "terminal": "digestif.channels.terminal:from_dsn",
    "webhook+http": "digestif.channels.webhook:from_dsn",
    "webhook+https": "digestif.channels.webhook:from_dsn",
}
# Modules that a built-in channel needs, and the extra that brings them.
EXTRAS = {"aiohttp": "webhooks", "aiosmtplib": "mail", "apprise": "apprise"}
ENTRY_POINTS = "digestif.channels"

_OPTION = re.compile("[a-z_]{1,20}")


def open_channel(text: str) -> Channel:
    """Make the channel that a DSN names."""
    dsn = parse(text)
    scheme = "apprise" if dsn.scheme.startswith("apprise+") else dsn.scheme  # what follows is one of Apprise's
    opener: Opener = load_opener(
        scheme, what="channel", built_in=BUILT_IN, extras=EXTRAS, group=ENTRY_POINTS, hint=_hint
    )
    return opener(dsn)


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


def _hint(scheme: str, known: list[str]) -> str:
    hook = f"webhook+{scheme}"  # a URL was given as it is
    return f"; did you mean {hook}?" if hook in known else did_you_mean(scheme, known)
