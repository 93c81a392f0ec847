"""Apprise: some 170 services, by the library of that name.

Apprise says only whether a delivery succeeded. So its "no" counts as an attempt, until the policy ends them.
Its notifications block, so each runs in a thread.
"""

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import Any, ClassVar

from digestif.channels.addresses import public_only
from digestif.channels.base import Channel, Format, Message, Receipt
from digestif.channels.names import fingerprint
from digestif.core.secret import Secret
from digestif.core.times import is_duration
from digestif.core.verdicts import DeliveryFailed, Unavailable
from digestif.dsn import Dsn, option, yes_or_no
from digestif.errors import ConfigError
from digestif.exports import needs
from digestif.threads import DaemonThreads

with needs("apprise", module=__name__):
    import apprise
    from apprise.attachment.file import AttachFile
    from apprise.plugins import url_to_dict

TITLE_CHARACTERS = 250
BODY_CHARACTERS = 100_000  # services cut to their own limits, but some process the whole text first
PREFIX = "apprise+"
LEAKY_LOGGERS = ("apprise", "urllib3.connectionpool")  # they log whole URLs, with their tokens

_LABEL_OF_FILE = re.compile("(?:file|path)$", re.IGNORECASE)
_A_FILE = "a file on this computer; allow_private=yes allows it"

_silenced: ContextVar[int] = ContextVar("silenced", default=logging.NOTSET)  # up to this level; threads inherit it


class AppriseChannel(Channel):
    """Notifies the service that an Apprise URL names. The URL holds passwords and tokens, so it is a secret.

    Apprise follows redirects and connects wherever the URL leads. For URLs that others enter, `allow_private=False`
    refuses addresses that are not public, redirects, and services that act on this computer or read its files.
    """

    scheme: ClassVar[str] = "apprise"
    formats: ClassVar[frozenset[Format]] = frozenset({Format.MARKDOWN, Format.TEXT})

    def __init__(self, url: str | Secret, *, timeout: float = 60, allow_private: bool = True) -> None:
        if not is_duration(timeout) or timeout == 0:
            raise ConfigError("timeout: not a number of seconds above 0")
        self._url = Secret(url)
        self._timeout = timeout
        self._allow_private = allow_private
        service = self._notifier()[0]
        if not allow_private:
            _refuse_local(service)
            self._refuse_files(service)
        self._service = service.service_name
        self._threads = DaemonThreads(8, "digestif-apprise")

    @cached_property
    def name(self) -> str:
        return f"apprise {self._service} #{fingerprint(self._url.reveal())}"

    async def deliver(self, message: Message) -> Receipt:
        begun = Event()
        try:
            async with asyncio.timeout(self._timeout):
                succeeded, refused = await self._threads.run(lambda: self._notify_guarded(message, begun))
        except TimeoutError:
            raise self._late(begun.is_set()) from None
        if refused:
            raise Unavailable(f"{self._service}: {refused[0]} is not a public address; allow_private=yes allows it")
        if not succeeded:
            raise DeliveryFailed(f"{self._service} did not take it; the log of apprise may tell why")
        return Receipt(channel=self.scheme, detail=str(self._service))

    async def close(self) -> None:
        self._threads.shutdown()
        self._threads = DaemonThreads(8, "digestif-apprise")

    def __repr__(self) -> str:
        return f"AppriseChannel({self._service})"

    def _late(self, is_begun: bool) -> DeliveryFailed:
        if is_begun:  # its thread goes on
            return DeliveryFailed(f"{self._service} did not end within {self._timeout:g} s", unknown=True)
        return Unavailable(f"{self._service} did not end earlier deliveries within {self._timeout:g} s")

    def _notify_guarded(self, message: Message, begun: Event) -> tuple[bool, list[str]]:
        """Whether it succeeded, and the addresses that were refused."""
        begun.set()
        if self._allow_private:
            return self._notify(message), []
        with public_only() as refused:
            return self._notify(message), refused

    def _notify(self, message: Message) -> bool:
        notifier = self._notifier()
        body, body_format = _body(message, shows_markdown=_shows_markdown(notifier[0]))
        with _silence(logging.DEBUG):
            succeeded = notifier.notify(
                title=" ".join(message.subject.split())[:TITLE_CHARACTERS],
                body=body[:BODY_CHARACTERS],
                body_format=body_format,
            )
        return bool(succeeded)

    def _notifier(self) -> apprise.Apprise:
        """A new one for each delivery: Apprise's services are not made for several at once."""
        with _silence(logging.ERROR):  # its errors show a URL that it can't read
            notifier = apprise.Apprise(asset=self._asset())
            is_known = notifier.add(self._url.reveal())
        if not is_known or len(notifier) != 1:
            raise ConfigError("apprise: this is not the URL of one service that Apprise knows")
        return notifier

    def _refuse_files(self, service: Any) -> None:
        """Raise ConfigError for an argument that names a file: some services read it only when they send."""
        with _silence(logging.ERROR):
            given = url_to_dict(self._url.reveal()) or {}  # type: ignore[no-untyped-call]
        for name, field in file_arguments(service):
            if given.get(field) and not re.match("https?://", str(given[field]), re.IGNORECASE):
                raise ConfigError(f"apprise: {name} names {_A_FILE}")

    def _asset(self) -> apprise.AppriseAsset:
        """Apprise's settings. Older releases always follow redirects; there only `public_only` guards."""
        if self._allow_private or not hasattr(apprise.AppriseAsset, "http_redirects"):
            return apprise.AppriseAsset()
        return apprise.AppriseAsset(http_redirects=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppriseOptions:
    """Options of the DSN."""

    url: Secret = option(Secret, required="one, percent-encoded; or write apprise+ before it")
    allow_private: bool = option(yes_or_no, True)


def from_dsn(dsn: Dsn) -> AppriseChannel:
    """`apprise+URL`, such as `apprise+tgram://…`, or `apprise://?url=URL` with a percent-encoded URL."""
    if dsn.scheme.startswith(PREFIX):
        return AppriseChannel(Secret(f"{dsn.scheme.removeprefix(PREFIX)}://{dsn.rest}"))
    dsn.refuse_location()
    options = dsn.read(AppriseOptions)
    return AppriseChannel(options.url, allow_private=options.allow_private)


def _refuse_local(service: Any) -> None:
    """Raise ConfigError for the log, the desktop or a device of this computer, and for a file of it in the URL.

    Only such services can be named by their scheme alone: others need an address or a token.
    """
    if "{schema}://" in service.templates:
        raise ConfigError(f"apprise: {service.service_name} is on this computer; allow_private=yes allows it")
    attachments = [value for value in vars(service).values() if isinstance(value, apprise.AppriseAttachment)]
    if any(isinstance(each, AttachFile) for attachment in attachments for each in attachment):
        raise ConfigError(f"apprise: the URL names {_A_FILE}")


def file_arguments(service: Any) -> list[tuple[str, str]]:
    """Return the arguments of a service that name files, and what its constructor calls them.

    Apprise labels them so: "Template Path", "OAuth2 KeyFile". An argument that is itself called path is one of a URL.
    """
    arguments = {**service.template_tokens, **service.template_args}
    return [
        (name, argument.get("map_to", name))
        for name, argument in arguments.items()
        if _LABEL_OF_FILE.search(str(argument.get("name", ""))) and not name.endswith("path")
    ]


def _shows_markdown(service: Any) -> bool:
    """Whether a service shows Markdown, or the HTML that Apprise makes of it. To others it would go as it is written.

    `?format=…` in the URL decides it for services that can show several.
    """
    markdown = apprise.NotifyFormat.MARKDOWN
    resolve = getattr(service, "resolve_format", None)  # since Apprise 2
    return (resolve(markdown) if resolve else service.notify_format) in (markdown, apprise.NotifyFormat.HTML)


def _body(message: Message, *, shows_markdown: bool) -> tuple[str, apprise.NotifyFormat]:
    if message.markdown and (shows_markdown or not message.text):
        return message.markdown, apprise.NotifyFormat.MARKDOWN
    return message.text or message.subject, apprise.NotifyFormat.TEXT


@contextmanager
def _silence(level: int) -> Iterator[None]:
    """Keep lines up to this level, written inside the block, out of the log."""
    token = _silenced.set(level)
    try:
        yield
    finally:
        _silenced.reset(token)


def _is_discreet(record: logging.LogRecord) -> bool:
    return record.levelno > _silenced.get()


for _name in LEAKY_LOGGERS:
    logging.getLogger(_name).addFilter(_is_discreet)
