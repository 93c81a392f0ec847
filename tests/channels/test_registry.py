"""DSNs open channels, and wrong ones say what to write instead."""

import logging
import re
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import EntryPoint
from itertools import count

import pytest

from digestif import ConfigError
from digestif.channels import registry
from digestif.channels.base import Channel
from digestif.channels.registry import BUILT_IN, EXTRAS, open_channel
from digestif.channels.terminal import TerminalChannel
from digestif.dsn import Dsn, load_attribute
from digestif.exports import explain_missing
from digestif.routes.route import Route
from digestif.stores.registry import open_store


@pytest.mark.parametrize(
    ("dsn", "kind"),
    [
        ("smtp://localhost?from=a@b.c", "SmtpChannel"),
        ("SMTPS://localhost?from=a@b.c", "SmtpChannel"),
        ("file:///digests", "FolderChannel"),
        ("terminal://", "TerminalChannel"),
    ],
)
def test_each_scheme_opens_its_channel(dsn: str, kind: str) -> None:
    assert type(open_channel(dsn)).__name__ == kind


@pytest.mark.parametrize("scheme", BUILT_IN)
def test_everything_built_in_is_there(scheme: str) -> None:
    assert callable(load_attribute(BUILT_IN[scheme]))


@pytest.mark.parametrize(
    ("dsn", "complaint"),
    [
        ("", "channel: that is not a DSN such as smtp://"),
        ("ada@example.org", "channel: that is not a DSN"),
        ("://x", "channel: that is not a DSN"),
        ("mail://x", "channel: nothing here opens mail://; did you mean smtp[?]"),
        ("mailto:ada@example.org", "channel: :// follows the scheme of a DSN; did you mean smtp://…[?]"),
        ("smtp:/localhost?from=a@b.c", "did you mean smtp://…[?]"),
        ("smtp:localhost", "did you mean smtp://…[?]"),
        ("slack:/hooks.slack.com/services/a/b/c", "did you mean slack://…[?]"),
        ("smpt://x", "did you mean smtp[?]"),
        ("webhook://example.org/hook", "did you mean webhook[+]https[?]"),
        ("http://example.org/hook", "did you mean webhook[+]http[?]"),
        ("https://example.org/hook", "did you mean webhook[+]https[?]"),
        ("https://hooks.slack.com/services/a/b/c", "did you mean slack[?]"),
        ("postgres://host/db", "channel: nothing here opens postgres://"),
        ("smtp://a:b?c@d?from=x@y.z", "a DSN has one [?]"),
    ],
)
def test_a_wrong_dsn_is_a_config_error_that_helps(dsn: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        open_channel(dsn)


def test_an_at_sign_in_an_option_may_stay_as_it_is() -> None:
    parse = Dsn.parse_channel

    assert parse("smtp://ada:pw@host?from=a@b.c&reply_to=d%40e.f").options == {"from": "a@b.c", "reply_to": "d@e.f"}
    assert parse("smtp://ada:pw@host?from=a@b.c").location == "ada:pw@host"


@pytest.mark.parametrize(
    ("dsn", "module"),
    [
        ("smtp://localhost?from=a@b.c", "aiosmtplib"),
        ("webhook+https://example.org/hook", "aiohttp"),
        ("slack://hooks.slack.com/services/a/b/c", "aiohttp"),
    ],
)
def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch, dsn: str, module: str) -> None:
    for name in [name for name in sys.modules if name.startswith("digestif.channels.")]:
        if name not in ("digestif.channels.registry", "digestif.channels.base"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ConfigError, match=re.escape(explain_missing(module, extra=EXTRAS[module]))):
        open_channel(dsn)


def pigeon(dsn: Dsn) -> Channel:
    assert dsn.location == "loft"
    return TerminalChannel()


def offer(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint(name="pigeon", value=value, group=registry.ENTRY_POINTS)
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [point] if group == "digestif.channels" else []
    )


def test_other_packages_bring_channels_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, f"{__name__}:pigeon")

    assert isinstance(open_channel("pigeon://loft"), TerminalChannel)
    with pytest.raises(ConfigError, match="did you mean pigeon"):
        open_channel("pidgeon://loft")


def test_a_channel_of_others_that_lacks_a_library_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "no_such_module:pigeon")

    with pytest.raises(ConfigError, match=r"needs the module no_such_module; pip install 'pigeon\[pigeon\]'"):
        open_channel("pigeon://loft")


# Secrets

SECRET = "whsec_" + "aHVudGVy" * 4
DSNS = [
    f"smtp://ada:{SECRET}@mail.example?from=a@b.c",
    f"smtps://ada:{SECRET}@mail.example?from=a@b.c",
    f"webhook+https://receiver.example/{SECRET}?secret={SECRET}&query=token%3D{SECRET}",
    f"webhook+http://receiver.example/hook?secret=whsec_{SECRET},{SECRET}&allow_private=true",
    f"slack://hooks.slack.com/services/T0/B0/{SECRET}",
    f"apprise+json://ada:{SECRET}@receiver.example/hook",
    f"apprise://?url=json%3A%2F%2Fada%3A{SECRET}%40receiver.example%2Fhook",
]
# Ways to get a DSN wrong, or to show it.
SPOILT: list[Callable[[str], str]] = [
    lambda dsn: dsn,
    lambda dsn: dsn.replace("://", ":/"),
    lambda dsn: f"x{dsn}",
    lambda dsn: f"{dsn}{'&' if '?' in dsn else '?'}nonsense=1",
    lambda dsn: f"{dsn}{'&' if '?' in dsn else '?'}timeout=soon",
    lambda dsn: dsn.replace(SECRET, f"{SECRET}?{SECRET}"),
    lambda dsn: dsn.replace(SECRET, f"{SECRET}@{SECRET}"),
    lambda dsn: dsn.replace(".example", ".exam:ple"),
    lambda dsn: dsn.replace("?", "#"),
]


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
@pytest.mark.parametrize("spoil", SPOILT, ids=count())
@pytest.mark.parametrize("dsn", DSNS, ids=count())
def test_no_dsn_shows_its_secrets_when_it_is_opened_or_refused(
    dsn: str, spoil: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    shown = shown_of(open_channel, spoil(dsn)) + shown_of(open_store, spoil(dsn)) + caplog.text

    assert SECRET not in shown


def shown_of(opener: Callable[[str], object], dsn: str) -> str:
    """Everything that an error, or the representation of a channel, shows of a DSN."""
    try:
        opened = opener(dsn)
    except ConfigError as error:
        return "".join(traceback.format_exception(error, limit=0)) + repr(error)
    return repr(opened) + repr(vars(opened)) + repr(Route(pattern="*", channel=dsn)) + repr(Dsn.parse_channel(dsn))
