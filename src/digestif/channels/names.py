"""Parts of the names of channels. A name is stored and shown, so it holds no secret."""

import hashlib

ROUNDS = 100_000


def fingerprint(address: str) -> str:
    """Eight digits that tell addresses apart. Slow: a weak password in an address must not be guessed from them."""
    data = address.encode("utf-8", "surrogatepass")
    return hashlib.pbkdf2_hmac("sha256", data, b"digestif channel", ROUNDS, dklen=4).hex()
