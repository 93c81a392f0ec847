"""Secrets: texts that no message, log or traceback shows, and names of fields that suggest one."""

import re
from typing import Any

# A field is taken for a secret if a word of its name is here (`auth`, not `author`) …
SECRET_WORDS = frozenset(
    {"auth", "bearer", "csrf", "cvc", "cvv", "dsn", "jwt", "oauth", "otp", "pass", "pin", "session", "totp"}
)
# … or if the letters of its name contain one of these: `accessToken`, `X-Api-Key`, `db_password`.
SECRET_PARTS = (
    "accesskey",
    "apikey",
    "authorization",
    "connectionstring",
    "cookie",
    "credential",
    "dbpass",
    "encryptionkey",
    "passcode",
    "passphrase",
    "passw",
    "privatekey",
    "pwd",
    "secret",
    "sessid",
    "sessionid",
    "signingkey",
    "token",
    "userpass",
    "xsrf",
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_INTERNAL = re.compile(r"\W*_")  # also behind blanks and invisible characters, which are not shown
_CREDENTIALS = re.compile(r"://[^:/?#\s@]*:[^/?#\s@]+@")


def is_secret_name(name: str) -> bool:
    """Return True if the name of a field suggests that its value must not be sent around."""
    letters = re.sub("[^a-z]", "", name.lower())
    words = {word.lower() for word in _WORD.findall(name)}
    return not SECRET_WORDS.isdisjoint(words) or any(part in letters for part in SECRET_PARTS)


def is_internal_name(name: str) -> bool:
    """Return True if the name of a field begins with `_`."""
    return _INTERNAL.match(name) is not None


def is_private_name(name: str) -> bool:
    """Return True for a field that readers do not see unless it is chosen."""
    return is_internal_name(name) or is_secret_name(name)


def holds_credentials(text: str) -> bool:
    """Return True for a text with a password in an address, such as `postgres://app:password@db/shop`."""
    return _CREDENTIALS.search(text) is not None


class Secret:
    """A password, a token or a key. Only `reveal()` gives its text."""

    __slots__ = ("_text",)

    def __init__(self, text: "str | Secret") -> None:
        self._text: str = text.reveal() if isinstance(text, Secret) else text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce__(self) -> Any:
        raise TypeError("a Secret is not pickled: it would lie open in the result")
