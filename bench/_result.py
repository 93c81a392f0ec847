"""The result of the rounds, phase by phase."""

from dataclasses import asdict, dataclass, field
from typing import Any

from bench._measure import Stopwatch
from digestif import Ledger


@dataclass
class Phase:
    """One step of a round: how much it handled, and the time that the store took."""

    round: int
    name: str
    unit: str
    count: int = 0
    watch: Stopwatch = field(default_factory=Stopwatch)

    def to_dict(self) -> dict[str, Any]:
        milliseconds = round(self.watch.seconds * 1000, 3)
        return {"round": self.round, "phase": self.name, self.unit: self.count, "milliseconds": milliseconds}


@dataclass
class Result:
    """Events in, digests out, and what is left in the store."""

    phases: list[Phase] = field(default_factory=list)
    events: int = 0
    digests: int = 0  # with something in them
    carried: int = 0  # records in all digests
    largest: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    problems: tuple[str, ...] = ()  # of verify
    left: dict[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        counted = self.ledger.delivered == self.carried and self.ledger.accepted == self.events
        return self.ledger.balanced and counted and not self.problems and not self.left

    def to_dict(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "digests": self.digests,
            "events_per_digest": round(self.events / max(self.digests, 1), 2),
            "largest_digest": self.largest,
            "phases": [phase.to_dict() for phase in self.phases],
            "ledger": asdict(self.ledger),
            "balanced": self.ledger.balanced,
            "verified": not self.problems,
            "problems": list(self.problems),
            "left": self.left,
            "good": self.good,
        }
