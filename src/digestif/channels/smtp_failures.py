"""What the replies and the silence of a mail server mean. The texts of failures show neither the password nor the mail.

Until the mail itself is sent, a server that is silent, ends the connection, or refuses us would refuse every mail: it
is unavailable. What it says to the recipient or to the mail concerns this digest only.
"""

import base64
import os
import ssl

from digestif.channels.base import DeliveryFailed, Unavailable
from digestif.channels.mail import one_line
from digestif.channels.smtp_options import Server
from digestif.exports import needs

with needs("mail", module=__name__):
    from aiosmtplib import (
        SMTPAuthenticationError,
        SMTPDataError,
        SMTPException,
        SMTPRecipientRefused,
        SMTPResponseException,
        SMTPSenderRefused,
        SMTPServerDisconnected,
    )

REPLY_LENGTH = 300
TOO_LARGE = 552
CLOSING = 421  # the server ends the connection: before the mail, that concerns all mails
UNAUTHENTICATED = {530, 534, 535, 538}  # about our log-in, at whichever command they come


class Disconnected(Exception):
    """The connection ended before the mail was sent. Its cause says why."""


class Unanswered(Exception):
    """The mail was sent, at least in part, and no valid reply came. Its cause says why."""


class MailRefused(SMTPDataError):
    """The server refused the mail after it was sent."""


def failure_of(error: BaseException | None, server: Server) -> DeliveryFailed:
    """The failure that an error means: whose fault it is, and whether the mail may have gone out."""
    match error:
        case Disconnected():
            return failure_of(error.__cause__, server)
        case Unanswered():
            return DeliveryFailed(str(failure_of(error.__cause__, server)), unknown=True)
        case SMTPResponseException():
            return _refusal(error, server)
        case TimeoutError():
            return Unavailable(f"{server} did not answer within {server.options.timeout:g} s")
        case SMTPServerDisconnected() | ConnectionResetError():
            return Unavailable(f"{server} ended the connection before it answered")
        case SMTPException() | OSError():
            return Unavailable(_trouble(error, server))
        case _:
            return Unavailable(f"{server}: {type(error).__name__}")


def _refusal(error: SMTPResponseException, server: Server) -> DeliveryFailed:
    said = reply_line(error.code, str(error.message), server)
    if 400 <= error.code < 500:
        return _temporary(error, f"{server} can't take it now: {said}")
    match error:
        case SMTPSenderRefused() | SMTPDataError() if error.code == TOO_LARGE:
            return DeliveryFailed(f"{server} finds the mail too large: {said}")
        case MailRefused():
            return DeliveryFailed(f"{server} refuses the mail: {said}")
        case SMTPAuthenticationError():
            return Unavailable(f"configuration: {server} refuses the user or the password: {said}")
        case SMTPResponseException() if error.code in UNAUTHENTICATED:
            return Unavailable(f"configuration: {server} wants a user and a password: {said}")
        case SMTPSenderRefused():
            return Unavailable(f"configuration: {server} refuses the sender: {said}")
        case SMTPRecipientRefused() if error.code >= 500:
            return DeliveryFailed(f"{server} refuses the recipient: {said}", retry=False)
        case SMTPDataError() if error.code >= 500:
            return DeliveryFailed(f"{server} refuses the mail: {said}")
        case _:
            return Unavailable(f"{server} refuses to serve us: {said}")


def _temporary(error: SMTPResponseException, reason: str) -> DeliveryFailed:
    """4xx: to the recipient or the mail it is a request to wait, such as greylisting; earlier it is about all mails."""
    is_closing = error.code == CLOSING and isinstance(error, SMTPRecipientRefused)
    if isinstance(error, SMTPRecipientRefused | SMTPDataError) and not is_closing:
        return DeliveryFailed(reason, throttled=True)
    return Unavailable(reason)


def _trouble(error: SMTPException | OSError, server: Server) -> str:
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        problem = reply_line(None, cause.verify_message, server)
        return f"configuration: the certificate of {server} is not trusted: {problem}"
    if isinstance(cause, ssl.SSLError):
        return f"{server}: TLS failed: {reply_line(None, cause.reason or 'no reason', server)}"
    if isinstance(error, OSError):
        return f"{server} can't be reached: {reply_line(None, _why(cause), server)}"
    return f"configuration: {server}: {reply_line(None, str(error), server)}"


def _why(cause: BaseException) -> str:
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return os.strerror(cause.errno)  # the text of the error only says that the call failed
    return str(cause) or type(cause).__name__


def reply_line(code: int | None, text: str, server: Server) -> str:
    """A server's reply in one short line. The password is hidden, because a server may repeat what it was sent."""
    line = one_line(text)
    for secret in _spellings(server):
        line = line.replace(secret, "…")
    said = one_line(line, REPLY_LENGTH)
    return said if code is None else f"{code} {said}"


def _spellings(server: Server) -> list[str]:
    """The password, plain and as it is sent."""
    password = server.password.reveal()
    if not password:
        return []
    sent = (password, f"\0{server.user}\0{password}")
    return [password, *(base64.b64encode(text.encode()).decode() for text in sent)]
