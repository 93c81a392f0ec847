"""The headers of a request by name."""

from collections.abc import Mapping, Sequence

ONCE = frozenset((b"authorization", b"content-type", b"host", b"idempotency-key", b"origin"))


def headers_of(pairs: Sequence[tuple[bytes, bytes]]) -> Mapping[bytes, bytes] | None:
    """The headers; None if one comes twice that a guard reads: which of them counts would be a guess."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs if name in ONCE]
        if len(set(names)) < len(names):
            return None
    return found
