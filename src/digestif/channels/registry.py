"""Channels by scheme: the built-in ones, and those that other packages offer by the entry point `digestif.channels`."""

from collections.abc import Callable

from digestif.channels.base import Channel
from digestif.dsn import Dsn, forgetful, load_opener, refuse_few_slashes

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
# Schemes that do not exist, and what people mean by them.
MEANT = {
    "console": "terminal",
    "email": "smtp",
    "http": "webhook+http",
    "https": "webhook+https",
    "mail": "smtp",
    "mailto": "smtp",
    "smtp+ssl": "smtps",
    "smtp+tls": "smtps",
    "stdout": "terminal",
    "webhook": "webhook+https",
    "webhooks": "webhook+https",
}
SLACK_HOSTS = ("hooks.slack.com/", "hooks.slack-gov.com/")


@forgetful
def open_channel(text: str) -> Channel:
    """Open the channel that a DSN names."""
    refuse_few_slashes(text, what="channel", built_in=BUILT_IN, meant=MEANT)
    dsn = Dsn.parse_channel(text)
    scheme = "apprise" if dsn.scheme.startswith("apprise+") else dsn.scheme  # Apprise reads what follows the +
    meant = {**MEANT, "https": "slack"} if dsn.rest.startswith(SLACK_HOSTS) else MEANT
    opener: Opener = load_opener(
        scheme, what="channel", built_in=BUILT_IN, extras=EXTRAS, group=ENTRY_POINTS, meant=meant
    )
    return opener(dsn)
