"""Tokens and what their holders may do. Settings have hashes only; what was looked up lately stays in memory."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from digestif.ids import fresh_secret
from digestif.service.settings import Scope, Token

FOUND = 256  # texts, known or not, whose holders are remembered
LONGEST_FOUND = 200  # characters of each of them; tokens of our own are shorter
MARK = "dgf_"  # begins each token, so that scanners for leaked secrets can find it


class Principal(Struct, frozen=True, kw_only=True):
    """The holder of a token, or the one user of a service without tokens."""

    name: str
    scopes: frozenset[Scope]
    prefix: str = ""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def reaches(self, timeline: str) -> bool:
        return timeline.startswith(self.prefix)


LOCAL = Principal(name="local", scopes=frozenset(Scope))  # who reaches a service on loopback that has no tokens


class Tokens:
    """The tokens of a service."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._by_hash = {
            token.hash: Principal(name=token.name, scopes=token.scopes, prefix=token.prefix) for token in tokens
        }
        self._found = lru_cache(FOUND)(self._find)  # tokens come again and again, and hashing costs more than the rest
        self._by_fingerprint = {_fingerprint(known): holder for known, holder in self._by_hash.items()}

    def __bool__(self) -> bool:
        return bool(self._by_hash)

    def find(self, text: str) -> Principal | None:
        """Return the holder of a token. Texts that strangers make long are not remembered."""
        return self._found(text) if len(text) <= LONGEST_FOUND else self._find(text)

    def _find(self, text: str) -> Principal | None:
        """The holder of a token. Looking a hash up tells an attacker nothing about other hashes."""
        return self._by_hash.get(hash_of(text))

    def holder(self, fingerprint: str) -> Principal | None:
        """The holder of the token with this fingerprint; None if the settings no longer name it."""
        return self._by_fingerprint.get(fingerprint)


def fresh_token() -> str:
    return MARK + fresh_secret()


def hash_of(token: str) -> str:
    """The hash of a token, as settings have it. Tokens are random, so a fast hash is safe."""
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def fingerprint(text: str) -> str:
    """What a session remembers of a token: enough to find it again, of no use to log in."""
    return _fingerprint(hash_of(text))


def _fingerprint(known_hash: str) -> str:
    return hashlib.sha256(known_hash.encode()).hexdigest()[:24]
