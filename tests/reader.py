"""Reads digests by leases that a test has taken from the store itself."""

from collections.abc import Sequence

from digestif import Digests
from digestif.attempts import Attempt, Room, contents
from digestif.core.times import to_millis
from digestif.stores.base import Lease


def read(digests: Digests, leases: Sequence[Lease], *, now: float | None = None) -> list[Attempt]:
    """Return the digests as they are stored; `is_lost` marks those whose lease is gone."""
    at = None if now is None else to_millis(now)
    attempts = [Attempt(lease, digests.policy, store=digests.store, now=lambda: at) for lease in leases]
    contents.read(digests.store, attempts, room=Room(), sealer=digests._sealer)
    return attempts
