"""Roles of a storm that operate its stores: they change and ask for everything, and recount."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from digestif import Busy, Digests, InvalidState, Policy
from digestif.clock import wall_clock
from torture._storm.actor import Actor, ids_of
from torture._storm.scene import FAMILIES, POLICY, TIMELINES, family_of

VERIFY_EVERY = 10.0  # seconds between two recounts

Act = Callable[[Digests, str, int], None]  # an engine, its place, and the number of the thread


class Operator(Actor):
    """Flushes, pauses, resumes, retracts, deletes, replays, discards, chooses policies, and calls every query."""

    def play(self) -> None:
        acts: list[Act] = [self._flush, self._pause_and_resume, self._retract, self._settle_letters, self._look]
        if self.scene.may_delete:
            acts.append(self._delete)
        if not self.scene.parts.isdisjoint({"overrides", "off"}):
            acts += [self._choose] * 4
        with self.served() as engines:
            places = [*zip(engines, self.scene.serve, strict=True)]

            def loop_of(thread: int) -> Callable[[], Iterator[None]]:
                def loop() -> Iterator[None]:
                    while True:
                        with suppress(Busy):  # the store is being moved
                            self.random.choice(acts)(*self.random.choice(places), thread)
                        yield

                return loop

            self.in_threads(loop_of(0), loop_of(1))

    def _gone(self) -> str:
        return f"gone:{self.random.randrange(FAMILIES['gone'])}"

    def _flush(self, digests: Digests, place: str, thread: int) -> None:
        digests.flush(self.random.choice(TIMELINES))

    def _pause_and_resume(self, digests: Digests, place: str, thread: int) -> None:
        timeline = self.random.choice(TIMELINES)
        digests.pause(timeline)
        self.pause(0.3)
        digests.resume(timeline)

    def _retract(self, digests: Digests, place: str, thread: int) -> None:
        timeline = self._gone()
        for record in digests.peek(timeline)[:3]:
            self.notes.note("remove", timeline, record.key)
            digests.retract(timeline, record.key)
            self.notes.note("removed", timeline, record.key)

    def _delete(self, digests: Digests, place: str, thread: int) -> None:
        if self.chance(0.3):
            timeline = self._gone()
            self.notes.note("remove", timeline)
            digests.delete(timeline)
            self.notes.note("removed", timeline)

    def _settle_letters(self, digests: Digests, place: str, thread: int) -> None:
        for letter in digests.dead_letters(limit=20):
            if family_of(letter.timeline) == "gone" and self.chance(0.5):
                self.notes.note("discard", ids_of(digests.dead_records(letter.id)))
                digests.discard(letter.id)
            else:
                with suppress(Busy, InvalidState):  # its timeline may be off
                    digests.replay(letter.id)

    def _look(self, digests: Digests, place: str, thread: int) -> None:
        timeline = self.random.choice(TIMELINES)
        ledger = digests.ledger()
        if not ledger.balanced:
            self.notes.note("crash", f"the ledger of {place} does not balance: {ledger}")
        digests.explain(timeline)
        digests.timelines(limit=10)
        digests.backlog()
        for entry in digests.history(timeline, limit=1):
            for key in entry.keys[:1]:
                digests.trace(timeline, key)

    # Choices of people

    def _choose(self, digests: Digests, place: str, thread: int) -> None:
        """Choose a policy for a timeline. Each thread has timelines of its own, so that their choices have an order."""
        timeline = f"choosy:{2 * self.random.randrange(FAMILIES['choosy'] // 2) + thread}"
        is_off = "off" in self.scene.parts and self.chance(0.3)
        choice = "off" if is_off else self.random.choice(["clear", "instant", "hourly", "daily", "quiet", "own"])
        self.notes.note("choose", timeline, place, is_off)
        if choice == "clear":
            digests.clear_policy(timeline)
        elif choice in digests.cadences and choice != "daily":
            digests.prefer(timeline, choice)
        else:
            digests.set_policy(timeline, self._policy(choice))
        self.notes.note("chosen", timeline, place, is_off)

    def _policy(self, choice: str) -> Policy:
        """Return a policy whose window opens in the next minute or two, or one like that of the others."""
        soon, later = (_time_of_day(wall_clock() + seconds) for seconds in (self.random.choice([30, 60]), 120))
        if choice == "daily":
            return Policy.daily(soon, tz="UTC", capacity=None)
        if choice == "quiet":
            return Policy.quiet_hours(f"{soon}-{later}", tz="UTC", capacity=None)
        return POLICY


def _time_of_day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M")


class Auditor(Actor):
    """Recounts every store that is served, again and again, while the others go on."""

    def play(self) -> None:
        with self.served() as engines:

            def audit() -> Iterator[None]:
                while True:
                    for digests, place in zip(engines, self.scene.serve, strict=True):
                        found = digests.verify()
                        self.notes.note("verified", place, list(found.problems))
                    self.wait(VERIFY_EVERY)
                    yield

            self.in_threads(audit)
