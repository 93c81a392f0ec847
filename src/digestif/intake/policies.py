"""Policies: which one holds for which timeline. A route's own comes before the engine's."""

from digestif.core.policy import Policy, Terms
from digestif.intake.patterns import Patterns


class Policies:
    """The policies of one engine."""

    def __init__(self, default: Policy) -> None:
        self.default = default
        self._terms = default.terms()
        self._routes: Patterns[tuple[Policy, Terms]] = Patterns()

    def add(self, pattern: str, policy: Policy | None) -> None:
        """What holds for the timelines of a pattern; without a policy of its own, the default."""
        chosen = self.default if policy is None else policy
        self._routes.add(pattern, (chosen, chosen.terms()))

    @property
    def shortest_ttl(self) -> float | None:
        """Of all policies; None if one of them lets nothing expire."""
        ttls = [self.default.ttl, *(policy.ttl for policy, _ in self._routes)]
        return None if None in ttls else min(ttl for ttl in ttls if ttl is not None)

    def of(self, timeline: str) -> Policy:
        found = self._routes.find(timeline) if self._routes else None
        return self.default if found is None else found[0]

    def terms(self, timeline: str) -> Terms:
        """What it means for an add."""
        found = self._routes.find(timeline) if self._routes else None
        return self._terms if found is None else found[1]
