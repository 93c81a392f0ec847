"""The mails that an application sends anyway, as digests: one timeline for each recipient.

A mail that leaves alone leaves as it was written. Several become one mail in plain text.
"""

import smtplib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email.utils import getaddresses, parseaddr
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage, EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend

from digestif.core.records import Digest
from digestif.core.texts import reason_of
from digestif.core.verdicts import DeliveryFailed, Unavailable
from digestif.digests import Digests
from digestif.errors import InvalidRecord, StoreError
from digestif.events.base import logger
from digestif.integrations.django.letters import letters_of_mails
from digestif.integrations.django.options import BACKEND, Options, read_options

PREFIX = "django-mail:"
CHANNEL = "Django's mail backend"


class DigestEmailBackend(BaseEmailBackend):  # type: ignore[misc]  # Django has no types
    """Gathers mails; the backend of `DIGESTIF["EMAIL"]` sends the digests, and at once what can't be gathered."""

    def __init__(self, fail_silently: bool = False, **options: Any) -> None:
        super().__init__(fail_silently=fail_silently)
        self._options = options
        self._inner: Any = None

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    def send_messages(self, email_messages: Sequence[Any]) -> int:
        """Return how many mails were gathered or sent."""
        gathered, at_once = 0, []
        for message in email_messages:
            if can_gather(message) and self._gather(message):
                gathered += 1
            elif message.recipients():
                at_once.append(message)
        return gathered + (self._send(at_once) if at_once else 0)

    def _gather(self, message: Any) -> bool:
        """False if it has to be sent at once: no record can hold it, or the store does not answer.

        Raises what Django raises for headers that it would refuse.
        """
        from digestif.integrations.django.engine import digests  # which imports this module

        message.message()
        value = _value_of(message)
        try:
            if not digests().enabled:
                return False
            digests().add_many([(PREFIX + parseaddr(to)[1], {**value, "to": to}) for to in message.to])
        except InvalidRecord:
            return False
        except StoreError as error:
            logger.warning(
                "DigestEmailBackend: the store does not answer, so a mail is sent at once: %s", reason_of(error)
            )
            return False
        return True

    def _send(self, messages: list[Any]) -> int:
        if self._inner is None:
            backend = read_options().email_backend
            self._inner = get_connection(backend, fail_silently=self.fail_silently, **self._options)
        return self._inner.send_messages(messages) or 0


def can_gather(message: Any) -> bool:
    """True for a mail that is only a subject and a body, with or without HTML, and that may wait."""
    if type(message) not in (EmailMessage, EmailMultiAlternatives):
        return False
    alternatives = [mimetype for _, mimetype in getattr(message, "alternatives", [])]
    special = (message.attachments, message.cc, message.bcc, message.reply_to, message.extra_headers, message.encoding)
    if any(special) or message.content_subtype != "plain" or alternatives not in ([], ["text/html"]):
        return False
    if not message.to or not all(_is_one_address(to) for to in message.to):
        return False
    can_wait = read_options().can_wait
    return can_wait is None or bool(can_wait(message))


def _is_one_address(to: str) -> bool:
    return len(getaddresses([to])) == 1 and "@" in parseaddr(to)[1]


def _value_of(message: Any) -> dict[str, str]:
    html = [str(content) for content, _ in getattr(message, "alternatives", [])]
    return {
        "subject": str(message.subject),
        "body": str(message.body),
        "html": html[0] if html else "",
        "from": str(message.from_email),
    }


# Delivering


def register(engine: Digests, options: Options) -> None:
    """Let the engine send the digests of mails."""
    engine.handler(f"{PREFIX}*", policy=options.email_policy, channel=CHANNEL)(send_digest)


def send_digest(digest: Digest) -> None:
    """Send the mails of one recipient as one, or as few as their size allows.

    Every attempt has the same Message-IDs, by which receivers recognise a mail that they have.
    """
    letters = letters_of_mails(digest)
    senders = {record.value["from"] for record in digest}
    sender = senders.pop() if len(senders) == 1 else settings.DEFAULT_FROM_EMAIL
    domain = parseaddr(sender)[1].rpartition("@")[2] or "localhost"
    mails = []
    for number, letter in enumerate(letters, start=1):
        key = digest.idempotency_key if number == 1 else f"{digest.idempotency_key}.{number}"
        headers = {"Message-ID": f"<{key}@{domain}>"}
        mail = EmailMultiAlternatives(letter.subject, letter.text, sender, [digest[0].value["to"]], headers=headers)
        if letter.html:
            mail.attach_alternative(letter.html, "text/html")
        mails.append(mail)
    with failures_judged():
        get_connection(sending_backend()).send_messages(mails)


@contextmanager
def failures_judged() -> Iterator[None]:
    """Say what an error of a mail backend means: the mail is refused, or no mail gets through."""
    try:
        yield
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        raise DeliveryFailed(str(error), retry=any(code < 500 for code in codes)) from error
    except smtplib.SMTPDataError as error:
        raise DeliveryFailed(str(error), retry=error.smtp_code < 500) from error
    except (smtplib.SMTPServerDisconnected, smtplib.SMTPConnectError, smtplib.SMTPAuthenticationError) as error:
        raise Unavailable(str(error)) from error
    except smtplib.SMTPException:
        raise
    except OSError as error:
        raise Unavailable(str(error)) from error


def sending_backend() -> str:
    """What sends digests: the backend of the project, or the one behind ours. Django's tests replace the first."""
    return read_options().email_backend if settings.EMAIL_BACKEND == BACKEND else str(settings.EMAIL_BACKEND)
