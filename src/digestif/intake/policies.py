"""Which policy is in force for a timeline: that of its route, else the engine's."""

from digestif.core.policy import Policy
from digestif.core.terms import Terms
from digestif.intake.patterns import Patterns


class Policies:
    """The policies of one engine."""

    def __init__(self, default: Policy) -> None:
        self.default = default
        self._terms = default.terms()
        self._routes: Patterns[tuple[Policy, Terms]] = Patterns()

    def add(self, pattern: str, policy: Policy | None) -> None:
        """Set the policy for the timelines of a pattern; None means the default."""
        chosen = self.default if policy is None else policy
        self._routes.add(pattern, (chosen, chosen.terms()))

    @property
    def shortest_ttl(self) -> float | None:
        """The shortest ttl of all policies; None if one of them has none."""
        ttls = [self.default.ttl, *(policy.ttl for policy, _ in self._routes)]
        return None if None in ttls else min(ttl for ttl in ttls if ttl is not None)

    def of(self, timeline: str) -> Policy:
        found = self._routes.find(timeline) if self._routes else None
        return self.default if found is None else found[0]

    def terms(self, timeline: str) -> Terms:
        """The policy of a timeline as the numbers that an add needs."""
        found = self._routes.find(timeline) if self._routes else None
        return self._terms if found is None else found[1]
