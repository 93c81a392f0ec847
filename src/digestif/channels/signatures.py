"""Signatures of webhooks, as Standard Webhooks has them (https://www.standardwebhooks.com).

What is signed is the id, the time of sending and the body. With several secrets there are several signatures: a
receiver that knows any of them is content, so a secret can be changed without a gap.
"""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence

from digestif.core.secret import Secret
from digestif.errors import ConfigError

PREFIX = "whsec_"
KEY_BYTES = range(24, 65)  # as the standard asks


class Signer:
    """Signs with all of these secrets, in their order."""

    def __init__(self, secrets: Sequence[str | Secret] | str | Secret) -> None:
        given = [secrets] if isinstance(secrets, str | Secret) else secrets
        self._keys = [_key(Secret(secret), number) for number, secret in enumerate(given, 1)]
        if not self._keys:
            raise ConfigError(f"secret: a webhook needs at least one; write {PREFIX} and 32 random bytes in base64")

    def headers(self, message_id: str, *, at: float, body: bytes) -> dict[str, str]:
        """The three headers of a message that is sent at this time."""
        seconds = str(int(at))
        # The id may hold dots, and still nothing else reads as the same text: no body but ours begins after the
        # number, because ours begins with a brace.
        content = f"{message_id}.{seconds}.".encode() + body
        return {
            "webhook-id": message_id,
            "webhook-timestamp": seconds,
            "webhook-signature": " ".join(f"v1,{_signature(key, content)}" for key in self._keys),
        }


def _signature(key: bytes, content: bytes) -> str:
    return b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def _key(secret: Secret, number: int) -> bytes:
    text = secret.reveal().removeprefix(PREFIX)
    try:
        key = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        problem = "is not base64"
    else:
        if len(key) in KEY_BYTES:
            return key
        problem = f"has {len(key)} bytes"
    # Raised here, where no exception that could show the secret is being handled.
    raise ConfigError(f"secret: number {number} {problem}; a webhook's is {PREFIX} and 24 to 64 bytes in base64")
