"""What policies make of a week. Time is an argument: an engine steps from each arrival or due time to the next."""

from collections.abc import Iterator
from dataclasses import dataclass

from digestif import Digests, Policy
from tests.docs.week.events import ZONE, Week, arrivals, is_night

READER = "mail:ada"
POLICIES = {
    "default": Policy(),
    "hourly": Policy.hourly(),
    "daily": Policy.daily("09:00", tz=ZONE),
    "quiet hours": Policy.quiet_hours("22:00-07:00", tz=ZONE),
}


@dataclass(frozen=True)
class Delivery:
    """A message: when it left, and the numbers of its events in the order of arrival."""

    at: float
    events: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """What one policy made of a week."""

    times: list[float]  # when the events arrived
    deliveries: list[Delivery]

    @property
    def sizes(self) -> list[int]:
        return [len(delivery.events) for delivery in self.deliveries]

    @property
    def waits(self) -> list[float]:
        return [delivery.at - self.times[event] for delivery in self.deliveries for event in delivery.events]

    @property
    def at_night(self) -> list[Delivery]:
        return [delivery for delivery in self.deliveries if is_night(delivery.at)]


def outcomes(week: Week) -> dict[str, Outcome]:
    """By the name of the policy."""
    times = arrivals(week)
    return {name: Outcome(times, deliveries(policy, times)) for name, policy in POLICIES.items()}


def deliveries(policy: Policy, times: list[float]) -> list[Delivery]:
    """The messages of an engine that gets events at these times."""
    with Digests("memory://", policy=policy) as digests:
        found = list(_deliveries(digests, times))
        assert digests.verify()
        assert digests.ledger().delivered == len(times)
    return found


def _deliveries(digests: Digests, times: list[float]) -> Iterator[Delivery]:
    event = 0
    while (now := _next_moment(digests, times[event : event + 1])) is not None:
        ready = [entry.key for entry in digests.schedule(now=now)]
        while not ready and event < len(times) and times[event] == now:
            ready = [READER] if digests.add(READER, event, key=str(event), now=now) else []
            event += 1
        for timeline in ready:
            with digests.digest(timeline, now=now) as digest:
                if digest:
                    yield Delivery(now, tuple(sorted(record.value for record in digest)))


def _next_moment(digests: Digests, arrival: list[float]) -> float | None:
    """The next arrival or due time; None when nothing arrives and nothing waits any more."""
    due = digests.timeline(READER).due
    return min(arrival if due is None else [due, *arrival], default=None)
