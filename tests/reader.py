"""Reads digests by leases that a test has taken from the store itself."""

from collections.abc import Sequence

from digestif import Digests
from digestif.attempts import contents
from digestif.attempts.contents import Reading
from digestif.attempts.leases import HeldLease
from digestif.attempts.room import Room
from digestif.attempts.stages import Claimed
from digestif.attempts.steps import run
from digestif.core.times import to_millis
from digestif.stores.base import Lease


def read(digests: Digests, leases: Sequence[Lease], *, now: float | None = None) -> list[Reading]:
    """Return the digests as they are stored; the progress of some says that their lease is gone."""
    at = None if now is None else to_millis(now)
    readings = [Reading(claimed(digests, lease, at)) for lease in leases]
    run(contents.read(digests.store, readings, room=Room(), sealer=digests.engine.sealer))
    return readings


def claimed(digests: Digests, lease: Lease, at: int | None) -> Claimed:
    """Return an attempt with a lease that was not given by the engine, which does not renew it."""
    held = HeldLease(lease, digests.store, duration=digests.engine.lease, now=lambda: at)
    return Claimed(held, digests.policy, 0.0)
