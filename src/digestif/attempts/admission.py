"""Admission: windows and closed channels decide whether candidates may be delivered, before records are taken."""

from collections.abc import Sequence
from typing import Protocol

from digestif.attempts.outages import Outages
from digestif.core import machine
from digestif.core.policy import Policy
from digestif.core.terms import Override
from digestif.core.texts import message_of
from digestif.core.times import Millis
from digestif.core.windows import admission
from digestif.core.windows.window import Window
from digestif.stores.base import Admission, Candidate

FAILED_DELAY: Millis = 60_000  # until a window is asked again after its time zone's function failed


class InForce(Protocol):
    """The policy in force for a timeline, and where it comes from."""

    @property
    def policy(self) -> Policy: ...
    @property
    def source(self) -> str: ...


class PolicySource(Protocol):
    """The policies of an engine, as attempts need them."""

    @property
    def asks(self) -> bool: ...  # True if a policy in the code may hold timelines back
    def of(self, timeline: str) -> Policy: ...  # the policy in the code, without the timeline's override
    def in_force(self, timeline: str, override: Override | None) -> InForce: ...
    def windows(self) -> list[tuple[str, Window]]: ...  # of the policies in the code, each after its source
    def texts(self) -> dict[str, str]: ...  # the policies in the code as text, by pattern
    def source_of(self, timeline: str) -> str: ...
    def report(self, timeline: str, source: str, error: Exception) -> None: ...


class Admissions:
    """Decisions which candidates may be delivered: first by their windows, then by closed channels.

    A flush passes windows. Nothing passes a closed channel.
    """

    def __init__(self, policies: PolicySource, outages: Outages) -> None:
        self._policies = policies
        self._outages = outages

    def must_ask(self, now: Millis | None) -> bool:
        """Return True if a policy in the code or a closed channel may hold timelines back, besides stored windows.

        Reads the note about closed channels, unless that was read a moment ago and no time is given.
        """
        self._outages.refresh(now)
        return self._policies.asks or self._outages.may_hold

    def decide(
        self, candidates: Sequence[Candidate], *, at: Millis | None = None, limited: bool = True, group: int = 0
    ) -> list[Admission]:
        """Decide what the store's `admit` does with each candidate.

        Windows are asked for the time `at`; without it, for the time when the candidate was found. Without `limited`,
        the rate at which digests return to a channel is ignored. `group` is the size of the group of suspects in which
        the candidates are opened. An attempt that probes a closed channel is never evidence against its digest.
        """
        decided = [self._decide(each, each.now if at is None else at, limited=limited) for each in candidates]
        if not group:
            return decided
        return [
            each if self._outages.is_probed_by(each.timeline, now=candidate.now) else each._replace(group=group)
            for candidate, each in zip(candidates, decided, strict=True)
        ]

    def _decide(self, candidate: Candidate, at: Millis, *, limited: bool) -> Admission:
        timeline, slot, now = candidate
        found = self._policies.in_force(timeline, slot.override)
        try:
            until = admission(slot, found.policy.window, timeline, now=at)
        except Exception as error:  # noqa: BLE001  # a user's function; it is called again later
            self._policies.report(timeline, found.source, error)
            until = at + FAILED_DELAY
        if until is None:
            until = self._outages.admit(timeline, slot.state, now=now, limited=limited)
        return Admission(timeline, machine.seen(slot), until)

    def not_opened(self, timeline: str, *, now: Millis) -> None:
        """Note that a candidate was admitted but not opened: it does not probe its channel."""
        self._outages.cancel_probe(timeline, now=now)

    def reason(self, candidate: Candidate) -> str:
        """Return why a timeline is held back, as the last part of a sentence."""
        timeline, slot, now = candidate
        try:
            admission(slot, self._policies.in_force(timeline, slot.override).policy.window, timeline, now=now)
        except Exception as error:  # noqa: BLE001  # a user's function
            return f"as its time zone can't be told: {message_of(error)}; it is asked again then, or flush() at once"
        return self._outages.reason(timeline, now=now) or "by its window; flush() at once"
