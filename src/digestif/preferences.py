"""`Preferences`: the part of `Digests` for policies at run time, which people choose and programs change."""

from collections.abc import Callable

import msgspec

from digestif.core.cadences import Cadences, PolicyInForce, Preference
from digestif.core.machine import Slot, seen
from digestif.core.policy import Policy
from digestif.core.records import State, check_timeline
from digestif.core.terms import Override, Terms
from digestif.core.texts import shortened
from digestif.core.times import Millis, to_millis
from digestif.engine import Engine
from digestif.errors import ConfigError
from digestif.events.engine import Replanned
from digestif.intake.overrides import chosen_override, override_of, refreshed
from digestif.intake.patterns import check_pattern, stars
from digestif.intake.zone_data import zone_data_version
from digestif.notes.policies import Fingerprint, PolicyChange, fingerprint_note
from digestif.stores.base import PAGE_TIMELINES, Replan, Store

Wanted = Callable[[str, Slot], bool]


class Preferences:
    """What changes the policies of timelines while programs run."""

    engine: Engine
    store: Store

    @property
    def cadences(self) -> Cadences:
        """The cadences that people can choose from."""
        return self.engine.cadences

    def _moment(self, now: float | None) -> Millis:
        """The time for which openings of a window are looked up."""
        return to_millis(self.engine.intake.seconds(now))

    # One timeline

    def set_policy(self, timeline: str, policy: Policy | str, *, now: float | None = None) -> None:
        """Store a policy for a timeline: it holds in every process, at once, until it is replaced or cleared.

        A Policy or its text. What waits is planned again. ConfigError if the policy holds a function.
        """
        key = check_timeline(timeline)
        chosen = Policy.parse(policy) if isinstance(policy, str) else policy
        if not isinstance(chosen, Policy):
            raise ConfigError(f"policy: {shortened(policy)} is neither a Policy nor the text of one")
        override = override_of(chosen, key, now=self._moment(now))
        self.store.set_override(key, override, now=self.engine.intake.millis(now))

    def clear_policy(self, timeline: str, *, now: float | None = None) -> bool:
        """Remove the policy or the cadence that is stored for a timeline. False if there is none.

        What waits is planned again, by the policy in the code.
        """
        key = check_timeline(timeline)
        slot = self.store.inspect(key)
        return self.store.clear_override(
            key,
            terms=self.engine.policies.terms(key, self._moment(now)),
            cool_down=self.engine.policies.of(key).cool_down(slot.iteration),
            now=self.engine.intake.millis(now),
        )

    def policy_of(self, timeline: str, *, now: float | None = None) -> PolicyInForce:
        """The policy that is in force for a timeline, and where it comes from."""
        key = check_timeline(timeline)
        return self.engine.policies.in_force(key, self.store.inspect(key).override)

    def prefer(self, timeline: str, cadence: str, *, zone: str | None = None, now: float | None = None) -> None:
        """Store what a person chose: a cadence, and the time zone for its window.

        As `set_policy` does. With a cadence that is off, no record is accepted, and what is pending is deleted.
        """
        key = check_timeline(timeline)
        override = chosen_override(self.cadences, cadence, key, now=self._moment(now), zone=zone)
        self.store.set_override(key, override, now=self.engine.intake.millis(now))

    def preference(self, timeline: str, *, now: float | None = None) -> Preference | None:
        """What a person chose for a timeline; None if nothing."""
        key = check_timeline(timeline)
        override = self.store.inspect(key).override
        if override is None or override.cadence is None:
            return None
        found = self.engine.policies.in_force(key, override)
        return Preference(cadence=override.cadence, zone=override.zone, policy=None if found.off else found.policy)

    def forget_policies(self, timeline: str | None = None) -> None:
        """Ask functions that give policies again: about one timeline, or about all. Answers are kept for a minute."""
        self.engine.policies.forget(None if timeline is None else check_timeline(timeline))

    # Many timelines

    def replan(self, pattern: str = "*", *, now: float | None = None) -> int:
        """Plan the timelines of a pattern again that wait, by the policies in force now. The answer is how many moved.

        Functions that give policies are asked again. The due time is that of the cool-down or first_delay: increments
        are forgotten.
        """
        self.forget_policies()
        prefix, _, _ = check_pattern(pattern).partition("*")
        return self._replan(pattern, prefix, lambda key, _: stars(pattern, key) is not None, now=now)

    def replan_changed(self, *, now: float | None = None) -> int:
        """Plan timelines again whose policy, cadence or zone data changed since this was called last.

        Workers do it once when they start. The answer is how many moved; the first time nothing does.
        """
        if not self.store.enabled:
            return 0
        current = Fingerprint(self.engine.policies.fingerprints(), self.cadences.texts(), zone_data_version())
        moved = 0

        def replanned(before: Fingerprint | None) -> Fingerprint:
            """Replan before the note is written: a program that dies in between leaves that to the next one."""
            nonlocal moved
            change = PolicyChange(before or Fingerprint({}, {}), current)
            if before not in (None, change.together):
                moved += self._replan(change.pattern, change.prefix, change.is_wanted, now=now)
            return change.together

        fingerprint_note(self.store).update(replanned)
        return moved

    def _replan(self, pattern: str, prefix: str, wanted: Wanted, *, now: float | None) -> int:
        at, given = self._moment(now), self.engine.intake.millis(now)
        after: str | None = None
        timelines = moved = 0
        while True:
            page = self.store.scan(prefix=prefix, after=after, limit=PAGE_TIMELINES)
            found = [self._planned(key, slot, now=at, given=given) for key, slot in page if wanted(key, slot)]
            plans = [plan for plan in found if plan is not None]
            timelines += len(plans)
            moved += sum(self.store.replan(plans, now=given)) if plans else 0
            if len(page) < PAGE_TIMELINES:
                break
            after = page[-1][0]
        if timelines:
            self.engine.events.emit(Replanned(pattern=pattern, timelines=timelines, moved=moved))
        return moved

    def _planned(self, key: str, slot: Slot, *, now: Millis, given: Millis | None) -> Replan | None:
        """The plan for a timeline that waits; None if it is not to be moved. Its override is brought up to date."""
        try:
            override = slot.override
            if override is not None:
                override = self._renewed(key, override, now=now, given=given)
            terms, cool_down = self._numbers(key, override, iteration=slot.iteration, now=now)
        except Exception as error:  # noqa: BLE001  # a policy that fails must not keep the others from being planned
            self.engine.policies.report(key, self._source(key, slot.override), error)
            return None
        is_moved = override is not None and slot.override is not None and override.since != slot.override.since
        is_off = override is not None and override.off
        if is_off or is_moved or slot.state is not State.WAITING or slot.digest is not None or slot.passes:
            return None
        return Replan(key, seen(slot), terms, cool_down)

    def _renewed(self, key: str, override: Override, *, now: Millis, given: Millis | None) -> Override:
        """The override by today's cadences and calendar, and stored so. If it is switched on or off, it is set anew."""
        fresh = refreshed(override, key, self.cadences, now=now)
        if fresh.off != override.off:
            fresh = msgspec.structs.replace(fresh, since=now)
            self.store.set_override(key, fresh, now=given)
        elif fresh != override:
            self.store.refresh_override(key, fresh)
        return fresh

    def _numbers(self, key: str, override: Override | None, *, iteration: int, now: Millis) -> tuple[Terms, Millis]:
        """The terms and the cool-down that are in force."""
        if override is not None:
            return override.terms, override.cool_down(iteration)
        return self.engine.policies.terms(key, now), self.engine.policies.of(key).cool_down(iteration)

    def _source(self, key: str, override: Override | None) -> str:
        return self.engine.policies.source_of(key) if override is None else "override"
