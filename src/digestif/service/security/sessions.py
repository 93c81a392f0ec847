"""Sessions of the dashboard: a signed cookie, and the token that each of its forms carries.

The secret that signs is a note in the store, so that all processes share it and a restart ends no session. A session
ends after 12 hours, when its token is removed from the settings, or by a log-out. Only log-outs are stored, until the
session would have ended by itself.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from digestif.core.times import is_past
from digestif.ids import fresh_id, fresh_secret
from digestif.stores.base import Store
from digestif.stores.documents import Bounds, Document
from digestif.stores.note import Note

COOKIE = "digestif_session"
LIFETIME = 12 * 3600  # seconds
SKEW = 3600  # seconds by which the clocks of two processes may differ
LONGEST_COOKIE = 500  # characters
LOGGED_OUT = "logged-out"  # the collection of documents
BOUNDS = Bounds(entries=100_000, age=LIFETIME * 1000)


class Session(msgspec.Struct, frozen=True, array_like=True):
    """What the cookie of a browser says."""

    id: str
    expires: int
    token: str = ""  # fingerprint of the token that was used to log in; empty if none was


class Sessions:
    """Makes sessions, signs them, and reads what browsers send back."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def begin(self, *, token: str = "", now: float) -> Session:
        return Session(fresh_id(), int(now) + LIFETIME, token)

    def renewed(self, session: Session, *, now: float) -> Session:
        """The session of a page that stays open for days. One that was begun with a token ends when it ends."""
        is_old = session.expires - now < LIFETIME / 2
        return replace(session, expires=int(now) + LIFETIME) if is_old and not session.token else session

    def sealed(self, session: Session) -> str:
        """The session as the text of a cookie."""
        body = _text(msgspec.json.encode(session))
        return f"{body}.{self._signature('session', body)}"

    def opened(self, cookie: str | None, *, now: float) -> Session | None:
        """The session of a cookie; None if it was changed, has expired, or is none of ours."""
        if not cookie or len(cookie) > LONGEST_COOKIE or not cookie.isascii():
            return None
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature, self._signature("session", body)):
            return None
        session = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=Session)
        return None if is_past(session.expires, now=now, longest=LIFETIME + SKEW) else session

    def form_token(self, session: Session) -> str:
        """What forms of this session carry. Other sites can't know it."""
        return self._signature("form", session.id)

    def is_form_token(self, session: Session, given: str) -> bool:
        return given.isascii() and hmac.compare_digest(given, self.form_token(session))

    def _signature(self, purpose: str, text: str) -> str:
        return _text(hmac.digest(self._secret, f"{purpose}:{text}".encode(), hashlib.sha256))


def _text(content: bytes) -> str:
    """Bytes in letters, digits, - and _, which need no quotes in a cookie."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def cookie_of(headers: Iterable[tuple[bytes, bytes]], name: str) -> str | None:
    """Return the value of one of our cookies, the last one if there are several; None if it is missing or too long.

    Ours need no quotes: what other parsers do to remove them takes seconds for a value made for it.
    """
    start, found = name.encode() + b"=", None
    for header, value in headers:
        if header == b"cookie":
            for part in map(bytes.strip, value.split(b";")):
                if part.startswith(start):
                    found = part[len(start) :]
    return None if found is None or len(found) > LONGEST_COOKIE else found.decode("latin-1")


def shared_secret(store: Store) -> bytes:
    """Return the secret that all processes of a store sign with. The first of them draws it."""
    noted = Note(store, "sessions", decode=bytes, encode=bytes, empty=b"")
    return noted.update(lambda known: known or fresh_secret().encode()).after


def log_out(store: Store, session: Session) -> None:
    """End a session in all processes."""
    store.keep(LOGGED_OUT, Document(session.id, b"", ring=session.token), bounds=BOUNDS, replace=True, now=None)


def is_logged_out(store: Store, session: Session) -> bool:
    return store.kept(LOGGED_OUT, session.id, now=None) is not None
