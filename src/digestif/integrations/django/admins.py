"""Error mails to ADMINS as digests: a flood of errors is one mail with counts."""

from contextvars import ContextVar
from typing import Any

from django.conf import settings
from django.core import mail
from django.utils.log import AdminEmailHandler

from digestif.core.records import Digest
from digestif.core.texts import shortened_text
from digestif.digests import Digests
from digestif.errors import ConfigError
from digestif.integrations.django.letters import letter_of_errors
from digestif.integrations.django.mail import CHANNEL, failures_judged, sending_backend
from digestif.integrations.django.options import SMTP, Options
from digestif.integrations.handlers import UnlockedHandler, is_inside_a_store

TIMELINE = "django-admins:errors"
BODY_LENGTH = 20_000  # characters of a report; its beginning has the request and the traceback
HTML_LENGTH = 100_000

_is_adding: ContextVar[bool] = ContextVar("_is_adding", default=False)


class DigestAdminHandler(UnlockedHandler, AdminEmailHandler):  # type: ignore[misc]  # Django has no types
    """Gathers what Django's AdminEmailHandler would send. If the store fails, the mail goes out at once."""

    def emit(self, record: Any) -> None:
        if settings.ADMINS:
            super().emit(record)

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
