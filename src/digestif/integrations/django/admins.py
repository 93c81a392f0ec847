"""Error mails to ADMINS as digests: a flood of errors is one mail with a count for each bug."""

import logging
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from typing import Any
from weakref import WeakValueDictionary, ref

from django.conf import settings
from django.core import mail
from django.utils.log import AdminEmailHandler

from digestif.core.records import Digest
from digestif.core.texts import shortened_text
from digestif.digests import Digests
from digestif.errors import ConfigError
from digestif.integrations.django.bugs import bug_of, request_of
from digestif.integrations.django.letters import letter_of_errors
from digestif.integrations.django.mail import CHANNEL, failures_judged, sending_backend
from digestif.integrations.django.options import SMTP, Options
from digestif.integrations.handlers import UnlockedHandler, error_of, is_inside_a_store

TIMELINE = "django-admins:errors"
BODY_LENGTH = 20_000  # characters of a report; its beginning has the request and the traceback
HTML_LENGTH = 100_000
ACCESS_LOG = "django.server"  # the lines of runserver: what failed in a request is logged by django.request

_is_adding: ContextVar[bool] = ContextVar("_is_adding", default=False)
_bug: ContextVar[dict[str, str]] = ContextVar("_bug")  # of the log record that is emitted
_handled: WeakValueDictionary[int, logging.LogRecord] = WeakValueDictionary()  # by identity


class DigestAdminHandler(UnlockedHandler, AdminEmailHandler):  # type: ignore[misc]  # Django has no types
    """Gathers what Django's AdminEmailHandler would send. If the store fails, the mail goes out at once.

    A failing request is gathered once, whichever loggers have the handler.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        if _handled.get(id(record)) is record:  # it came by another logger, or another handler of this class
            return False
        is_kept = super().handle(record)
        if is_kept:
            _handled[id(record)] = record
        return is_kept

    def emit(self, record: Any) -> None:
        if not settings.ADMINS or record.name == ACCESS_LOG:
            return
        request, error = request_of(record), error_of(record)
        if request is not None:
            if _was_reported(request, error):
                return
            record = copy(record)
            record.request = request
        token = _bug.set(bug_of(record, request))
        try:
            super().emit(record)
        finally:
            _bug.reset(token)

    def send_mail(self, subject: str, message: str, *args: Any, **kwargs: Any) -> None:
        if not self._gather(subject, message, kwargs.get("html_message") or ""):
            connection = mail.get_connection(self.email_backend or _backend(), fail_silently=True)
            mail.mail_admins(subject, message, *args, connection=connection, **kwargs)

    def _gather(self, subject: str, body: str, html: str) -> bool:
        if _is_adding.get() or is_inside_a_store():  # gathering what the engine logs would make it log again, for ever
            return False
        from digestif.integrations.django.engine import digests  # which imports this module

        value = {
            "subject": subject,
            "body": shortened_text(body, BODY_LENGTH),
            "html": html if len(html) <= HTML_LENGTH else "",
            **_bug.get({}),
        }
        token = _is_adding.set(True)
        try:
            if not digests().enabled:
                return False
            digests().add(TIMELINE, value)
        except Exception:  # noqa: BLE001  # whatever is wrong, the operators must hear of it
            return False
        finally:
            _is_adding.reset(token)
        return True


def _was_reported(request: Any, error: BaseException | None) -> bool:
    """True for an exception of a request that comes again, such as one that a view logs and raises again.

    The exception bears the mark: a request with its exception, whose traceback has the request, would stay in memory.
    """
    if error is None:
        return False
    reported = getattr(error, "_digestif_request", None)
    if reported is not None and reported() is request:
        return True
    with suppress(AttributeError):  # of an exception that takes no mark
        error._digestif_request = ref(request)  # type: ignore[attr-defined]
    return False


def _backend() -> str:
    try:
        return sending_backend()
    except ConfigError:  # the report may be about just that
        return SMTP


def register(engine: Digests, options: Options) -> None:
    """Let the engine send the digests of errors."""
    engine.handler(TIMELINE, policy=options.admins_policy, channel=CHANNEL)(send_errors)


def send_errors(digest: Digest) -> None:
    """Send all errors to ADMINS as one mail."""
    letter = letter_of_errors(digest)
    with failures_judged():
        connection = mail.get_connection(sending_backend())
        mail.mail_admins(letter.subject, letter.text, connection=connection, html_message=letter.html or None)
