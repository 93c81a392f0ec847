"""The ledger: how many records have each fate."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """How many records were accepted, and what became of them."""

    accepted: int = 0
    pending: int = 0  # in no digest yet
    open: int = 0  # in a digest that is not finished
    delivered: int = 0
    superseded: int = 0  # replaced by a later version of the same key
    dropped: int = 0  # pushed out by capacity
    expired: int = 0  # older than the policy's ttl
    deleted: int = 0  # on request: delete, retract, discard
    dead: int = 0  # in a dead letter
    lost: int = 0  # taken by damage from outside; nothing else raises it
    declined: int = 0  # not accepted, because people switched the timeline off; no fate of an accepted record

    @property
    def accounted(self) -> int:
        """The sum of all fates."""
        return sum(getattr(self, fate) for fate in FATES)

    @property
    def balanced(self) -> bool:
        """True if every accepted record has exactly one fate, and no count is negative."""
        return self.imbalance is None

    @property
    def impossible(self) -> list[str]:
        """The counters that are further from 0 than anything that was counted."""
        return [name for name in COUNTERS if abs(getattr(self, name)) > MOST]

    @property
    def imbalance(self) -> str | None:
        """Why the counters can't be right, in words; None if they agree with each other."""
        if negative := [f"{name} {getattr(self, name)}" for name in COUNTERS[1:] if getattr(self, name) < 0]:
            return f"the ledger has negative counts: {', '.join(negative)}"
        if impossible := [f"{name} {getattr(self, name)}" for name in self.impossible]:
            return f"the ledger has counts that are too large: {', '.join(impossible)}"
        if self.accepted != self.accounted:
            return f"the ledger does not balance: {self.accepted} accepted, {self.accounted} accounted for"
        return None


COUNTERS = tuple(field.name for field in fields(Ledger))
TALLIED = (*COUNTERS, "digests")  # and how many digests ended as delivered
MOST = 2**53  # records: every store counts so far exactly; a counter beyond it was damaged
FATES = tuple(name for name in COUNTERS if name not in ("accepted", "declined"))


def corrected(ledger: Ledger, found: Mapping[str, int]) -> Ledger:
    """The ledger after a repair that found these numbers of stored records: `accepted` stays, the rest is lost.

    A counter that is negative or beyond MOST counts as 0. If more is found than was accepted, because a counter itself
    was damaged, `lost` falls first; `accepted` rises only when that is not enough, and never falls otherwise.
    """
    known = {name: count if 0 <= (count := getattr(ledger, name)) <= MOST else 0 for name in COUNTERS}
    counts = known | dict(found)
    others = sum(counts[fate] for fate in FATES) - counts["lost"]
    counts["lost"] = max(0, known["accepted"] - others)
    counts["accepted"] = max(known["accepted"], others)
    return replace(ledger, **counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The ledger beside a recount of the data; true if they agree."""

    ledger: Ledger
    recounted: dict[str, int]  # pending, open and dead, counted record by record
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.problems
