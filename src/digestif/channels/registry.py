"""Channels by scheme: the built-in ones, and those that other packages offer by the entry point `digestif.channels`."""

from collections.abc import Callable

from digestif.channels.base import Channel
from digestif.core.texts import did_you_mean
from digestif.dsn import Dsn, load_opener

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
# Modules that a built-in channel needs, and the extra that installs them.
EXTRAS = {"aiohttp": "webhooks", "aiosmtplib": "mail", "apprise": "apprise"}
ENTRY_POINTS = "digestif.channels"


def open_channel(text: str) -> Channel:
    """Open the channel that a DSN names."""
    dsn = Dsn.parse_channel(text)
    scheme = "apprise" if dsn.scheme.startswith("apprise+") else dsn.scheme  # Apprise reads what follows the +
    opener: Opener = load_opener(
        scheme, what="channel", built_in=BUILT_IN, extras=EXTRAS, group=ENTRY_POINTS, hint=_hint
    )
    return opener(dsn)


def _hint(scheme: str, known: list[str]) -> str:
    hook = f"webhook+{scheme}"  # for https://…
    return f"; did you mean {hook}?" if hook in known else did_you_mean(scheme, known)
