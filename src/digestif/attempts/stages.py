"""The stages of an attempt, as values: each step of the pipeline takes that of one stage and returns that of the next.

Claimed → Loaded → [Completed] → Judged (JudgedCompleted after Completed) → an event
"""

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from digestif.attempts.leases import HeldLease
from digestif.core.machine import Plan
from digestif.core.policy import Policy
from digestif.core.records import Digest
from digestif.core.times import Millis
from digestif.core.verdicts import Verdict
from digestif.errors import StoreError
from digestif.stores.base import HISTORY_KEYS

if TYPE_CHECKING:
    from digestif.attempts.handlers import Handler


class Claimed(Struct, frozen=True, eq=False):
    """A digest under a lease, not read yet."""

    held: HeldLease
    policy: Policy
    late: float  # seconds from due to claimed
    handler: "Handler | None" = None  # None: a block, or a timeline that no handler of this process delivers


class Loaded(Struct, frozen=True, eq=False):
    """A digest with its records, and how its timeline goes on."""

    claimed: Claimed
    digest: Digest
    weight: int  # bytes of its records, about as many as they take in memory
    cool_down: Millis  # by the policy in force
    plan: Plan  # by the policy in the code

    def judged(
        self,
        verdict: Verdict,
        *,
        digest: Digest | None = None,
        receipts: tuple[str, ...] = (),
        answered: bool | None = None,
    ) -> "Judged":
        """Return the attempt with its verdict, and without its records, so that their memory is free.

        `digest` is the digest without the records that its handler removed; None: as it was loaded.
        """
        left = self.digest if digest is None else digest
        keys = tuple([record.key for record in left.records[:HISTORY_KEYS]])
        carried = Carried(len(left.records), left.dropped, keys)
        return JUDGED[type(self)](self.claimed, verdict, carried, self.plan, receipts, answered)


class Completed(Loaded, frozen=True, eq=False):
    """A loaded digest that has no lease any more, because it is delivered at most once."""


class Unstored(Completed, frozen=True, eq=False):
    """A record that was never stored, as a digest."""


class Carried(Struct, frozen=True):
    """The counts and keys of a digest, kept to its end, while the memory of its records is free again."""

    records: int = 0
    dropped: int = 0
    keys: tuple[str, ...] | None = None  # of its newest records; None: it was not read to its end


class Judged(Struct, frozen=True, eq=False):
    """An attempt whose outcome is known, and that has still to end in the store."""

    claimed: Claimed
    verdict: Verdict
    carried: Carried = Carried()
    plan: Plan = Plan(0)
    receipts: tuple[str, ...] = ()  # what the receivers of its messages said
    answered: bool | None = None  # its channel answered, even with a refusal; None: unknown

    @property
    def held(self) -> HeldLease:
        return self.claimed.held


class JudgedCompleted(Judged, frozen=True, eq=False):
    """A judged attempt whose digest is no longer in the store: completed before its delivery, or never stored."""


class JudgedUnstored(JudgedCompleted, frozen=True, eq=False):
    """An attempt to deliver a record that was never stored."""


JUDGED = {Loaded: Judged, Completed: JudgedCompleted, Unstored: JudgedUnstored}


class Page(NamedTuple):
    """The digests of one claim: loaded for handlers, or judged already."""

    loaded: list[Loaded]  # for handlers
    judged: list[Judged]  # without a delivery; they are still to be ended
    claimed: int  # timelines
    suspect_since: Millis | None = None  # when the earliest lapsed lease ran out
    error: StoreError | None = None  # why the claimed digests could not be read
    kept: int = 0  # timelines that may not be delivered yet


class Completions(NamedTuple):
    """The result of completing digests that are delivered at most once."""

    ready: list[Loaded]  # completed: they may be delivered
    refused: list[Judged]  # may not: their channel is closed, or the store gave no answer
    error: StoreError | None = None  # of the store
