"""The life of a digest: one attempt to deliver it, from its lease to its end.

    claim or open → load (read, decode) → [complete, if at most once] → deliver → judge → note the channel → end, report

Each step takes the value of one stage and returns that of the next: `Claimed`, `Loaded` (or `Completed`), `Judged`, an
event; a worker's `Page` holds many. Before a lease is given, `Claims` asks whether the window and the channel of the
timeline allow a delivery now. Before the end, `Outages` notes the outcome for the channel: if the channel is closed,
the verdict becomes another, and the digest waits. A digest that is completed already does not wait.

A lost lease. A worker renews a lease from the claim to the end of the attempt; `deliver` and `digest()` renew it while
the handler or block runs. If a lease lapsed or was taken over, the next call of the store for it changes nothing: reads
and ends are answered with None, and calls of a handler on its `Delivery` raise StaleLease. The attempt is reported as
LeaseLost, and `deliver` and `block` raise StaleLease, unless they are about to raise another error: of the block, the
codec or the store.

At most once. The store completes the digest before its handler is called. It is delivered as `Completed` and judged as
`JudgedCompleted`: nothing is left to end in the store, and only the outcome is reported. A record that is never stored
goes the same way, without a lease.

Interrupts. An attempt that is interrupted gives its digest back (`_gives_back`). If its generator is closed, nothing
can call the store any more: the attempt is reported, and the lease lapses.

Suspects. A digest whose lease lapsed may have ended its worker. Suspects are tried as a `Group`, with no other attempt
in the process, so that another lapse is evidence against one of them.

The steps are generators (see steps.py). `deliver` and `block` are the life of one digest, for callers that have one; a
worker takes the same steps a page at a time: `claim`, then a handler for each digest, then `judge` and `end`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Concatenate, ParamSpec, TypeVar

from digestif.attempts.admission import Admissions, PolicySource
from digestif.attempts.claims import ClaimedLeases, Claims
from digestif.attempts.contents import NO_PAGES, Progress, Reading, finish_merge, read, read_each, unpack
from digestif.attempts.delivery import Delivery, UnstoredDelivery
from digestif.attempts.failures import ends_failures, forget_failures_of, is_failure, keep_failures
from digestif.attempts.handlers import Handler, Handlers
from digestif.attempts.judgement import BegunAttempts, judge, verdict_on, verdict_on_block
from digestif.attempts.lease_watch import LeaseWatch
from digestif.attempts.leases import Group, HeldLease, Now, Renewals, pages_of, running
from digestif.attempts.outages import Outages
from digestif.attempts.plans import plan_after, refresh_openings
from digestif.attempts.reports import Reports
from digestif.attempts.room import Room
from digestif.attempts.stages import (
    Carried,
    Claimed,
    Completed,
    Completions,
    Judged,
    Loaded,
    Page,
    Unstored,
)
from digestif.attempts.steps import Call, Deliver, NotBegun, Steps
from digestif.attempts.submission import Answer, submit
from digestif.attempts.unhandled import UnhandledTimelines
from digestif.clock import monotonic
from digestif.core.machine import Plan
from digestif.core.texts import reason_of
from digestif.core.times import Duration, Millis, to_seconds
from digestif.core.verdicts import DELIVERED, Discard, Ending, give_back, poison, put_off
from digestif.errors import InvalidState, StaleLease, StoreError, StoreUnavailable
from digestif.events.base import Events
from digestif.stores.base import PAGE_RECORDS, Lease, Store, Taken
from digestif.stores.codec import Sealer

P = ParamSpec("P")
T = TypeVar("T")

UNREAD = "the store did not answer when it was read"
NO_MEMORY = put_off("the worker holds enough records")
SWITCHED_OFF = "its timeline is switched off"
CLOSED = "its channel is unavailable"
CLOSED_DELAY: Millis = 1_000  # then it is asked again whether the digest may be delivered


def _gives_back(
    steps: "Callable[Concatenate[Pipeline, BegunAttempts, P], Steps[T]]",
) -> "Callable[Concatenate[Pipeline, P], Steps[T]]":
    """Give back the digests of the attempts that steps have begun and not ended, if the steps are interrupted."""

    @wraps(steps)
    def guarded(self: "Pipeline", /, *args: P.args, **options: P.kwargs) -> Steps[T]:
        begun = BegunAttempts()
        try:
            return (yield from steps(self, begun, *args, **options))
        except BaseException as interrupt:
            yield from self._give_back(begun, interrupt)
            raise

    return guarded


class Pipeline:
    """The steps of the attempts of one worker, or of one call. Safe to use from several threads."""

    def __init__(
        self,
        store: Store,
        *,
        policies: PolicySource,
        sealer: Sealer,
        lease: Millis,
        now: Now,
        events: Events,
        handlers: Handlers,
        outages: Outages,
        lease_watch: LeaseWatch,
    ) -> None:
        self.store = store
        self.events = events
        self.handlers = handlers
        self.policies = policies
        self.leases = Renewals(store, duration=lease, now=now, events=events)
        self.lease_watch = lease_watch
        self.now = now
        self._outages = outages
        self._claims = Claims(store, Admissions(policies, outages), lease=lease, now=now, events=events)
        self._sealer = sealer
        self.unhandled = UnhandledTimelines(events)
        self.reports = Reports(events, self.leases)

    # The life of one digest

    @_gives_back
    def deliver(
        self, begun: BegunAttempts, timeline: str, handler: Handler, *, minimum_delay: Duration | None = None
    ) -> Steps[bool]:
        """Open a ready timeline and let its handler deliver it. True if the digest was delivered.

        Raises InvalidState or Busy if it can't be opened, StaleLease if the lease was lost.
        """
        claimed: Claimed = yield Call("open", partial(self._open, timeline, handler, begun))
        loaded = yield from self._load_opened(claimed, minimum_delay)
        if not loaded.digest:
            yield from self._finish(loaded.judged(DELIVERED))
            return False
        if handler.at_most_once:
            loaded = yield from self._complete_opened(loaded, begun)
        judged = yield from self._call_handler(loaded, handler, begun)
        yield from self._finish(judged)
        return judged.verdict.ending is Ending.DELIVERED

    def _call_handler(self, loaded: Loaded, handler: Handler, begun: BegunAttempts) -> Steps[Judged]:
        delivery = Delivery(loaded)
        begun.reach(delivery)
        try:
            error: BaseException | None = yield Deliver(delivery, handler)
        except Exception as failure:  # noqa: BLE001  # judged by the policy's rules
            error = failure
        try:
            return judge(delivery, error)
        finally:
            del error  # whose traceback has this frame

    @_gives_back
    def block(self, begun: BegunAttempts, timeline: str, *, minimum_delay: Duration | None = None) -> Steps[None]:
        """Open a ready timeline for a block of the caller's; its digest may be empty. What the block raises is raised.

        Raises InvalidState or Busy if it can't be opened, StaleLease if the lease was lost.
        """
        claimed: Claimed = yield Call("open", partial(self._open, timeline, None, begun))
        delivery = Delivery((yield from self._load_opened(claimed, minimum_delay)))
        begun.reach(delivery)
        try:
            yield Deliver(delivery, None)
        except Exception as error:
            verdict = verdict_on_block(claimed, error, len(delivery.digest))
            yield from self._finish_quietly(delivery.judged(verdict))
            raise
        yield from self._finish(delivery.judged(DELIVERED))

    @_gives_back
    def deliver_unstored(self, begun: BegunAttempts, loaded: Unstored) -> Steps[bool]:
        """Deliver a record that is not stored. Raises what its handler raises; False if the handler raised Discard."""
        handler = loaded.claimed.handler
        assert handler is not None
        delivery = UnstoredDelivery(loaded)
        begun.reach(delivery)
        yield Call("begin", partial(running().begin, loaded.claimed.held))
        error: BaseException | None
        try:
            error = yield Deliver(delivery, handler)
        except (GeneratorExit, NotBegun):
            raise
        except BaseException as failure:  # noqa: BLE001  # raised below
            error = failure
        yield from self.end([judge(delivery, error)])
        if error is not None and not isinstance(error, Discard):
            raise error
        return error is None

    def _give_back(self, begun: BegunAttempts, interrupt: BaseException) -> Steps[None]:
        """Give back the digests of attempts that were interrupted, unless they have ended."""
        for judged in begun.returned(interrupt):
            if isinstance(interrupt, GeneratorExit):  # the driver has gone, and the store can't be asked
                self.reports.abandoned(judged, StoreUnavailable("the attempt was left in the middle"))
            else:
                yield from self._finish_quietly(judged)

    # Claim or open, and admit: in `Claims`, which asks for each timeline whether it may be delivered now

    @_gives_back
    def claim(
        self, begun: BegunAttempts, limit: int, *, room: Room, partitions: Collection[int] | None = None
    ) -> Steps[Page]:
        """Take at most `limit` digests that are due, in these partitions or in any, and load them for their handlers.

        Raises StoreError if no partition answers.
        """
        claimed, found = yield Call("claim", partial(self._claim, limit, partitions, begun))
        page = yield from self._load_page(claimed, room, pages=found.pages)
        page = yield from self._complete_page(page, begun)
        return page._replace(suspect_since=found.suspect_since, kept=found.kept)

    @_gives_back
    def claim_suspects(self, begun: BegunAttempts, size: int, *, alone: bool, room: Room) -> Steps[Page]:
        """Take a group of at most `size` digests whose lease lapsed, to be tried beside nothing else.

        `alone` says that nothing else runs in this worker.
        """
        claimed = yield Call("claim suspects", partial(self._claim_suspects, size, alone, begun))
        page = yield from self._load_page(claimed, room)
        page = yield from self._complete_page(page, begun)
        lapsed = yield from self._let_lapse([each for each in page.judged if each.verdict is NO_MEMORY])
        return page._replace(judged=[each for each in page.judged if each not in lapsed])

    def _open(self, timeline: str, handler: Handler | None, begun: BegunAttempts) -> Claimed:
        """Open a ready timeline.

        Raises InvalidState or Busy if it can't be opened, or may not be delivered now.
        """
        self.lease_watch.note_lease()
        alone = running().is_idle
        lease = self._claims.open(timeline, alone=alone)
        return self._begin(lease, handler, Group() if alone and lease.lapses else None, begun)

    def _claim(
        self, limit: int, partitions: Collection[int] | None, begun: BegunAttempts
    ) -> tuple[list[Claimed], ClaimedLeases]:
        self.lease_watch.note_lease()
        began = monotonic()
        found = self._claims.claim(limit, partitions)
        # Records that a claim reads along are used while the lease is young. After a slow claim they are read again.
        is_young = monotonic() - began < to_seconds(self.leases.duration) / 2
        claimed = [self._begin(lease, self.handlers.find(lease.timeline), None, begun) for lease in found.leases]
        return claimed, found if is_young else found._replace(pages=NO_PAGES)

    def _claim_suspects(self, size: int, alone: bool, begun: BegunAttempts) -> list[Claimed]:
        alone = alone and running().is_idle
        leases = self._claims.claim_suspects(size, alone=alone)
        group = Group() if alone else None
        return [self._begin(lease, self.handlers.find(lease.timeline), group, begun) for lease in leases]

    def _begin(self, lease: Lease, handler: Handler | None, group: Group | None, begun: BegunAttempts) -> Claimed:
        """Begin an attempt: from here on its lease is renewed, and it ends with exactly one event."""
        policy = self.policies.in_force(lease.timeline, lease.override).policy
        held = HeldLease(lease, self.store, duration=self.leases.duration, now=self.now, group=group)
        claimed = Claimed(held, policy, to_seconds(max(0, held.given_at - lease.at)), handler)
        begun.reach(claimed)
        self.leases.add(held)
        try:
            running().begin(held)
        finally:
            if held.is_running:  # also if `begin` was interrupted later, while it cleared groups
                self.reports.begun(claimed)
        if lease.override is not None:
            refresh_openings(claimed, lease.override)
        return claimed

    # Load: read the records, then decode them

    def _load_opened(self, claimed: Claimed, minimum_delay: Duration | None) -> Steps[Loaded]:
        """Load a digest that was opened. Errors are raised once the attempt has ended.

        Raises InvalidState if it is buried as poison, or discarded because people switched its timeline off.
        """
        early = yield from self._judge_claimed(claimed, minimum_delay)
        if early is not None:
            yield from self._finish(early)
            fate = "is now a dead letter" if early.verdict.ending is Ending.BURIED else "was discarded"
            raise InvalidState(f"{claimed.held.timeline!r}: its digest {fate}: {early.verdict.reason}")
        reading = Reading(claimed)
        try:
            yield from read(self.store, [reading], room=Room(), sealer=self._sealer)
            return (yield from self._decode(reading, minimum_delay))
        except Exception as error:
            judged = self._judge_unloaded(reading, error)
            if judged is not None:
                yield from self._finish_quietly(judged)
            raise

    def _load_page(
        self, claimed: Sequence[Claimed], room: Room, *, pages: Mapping[str, Taken] = NO_PAGES
    ) -> Steps[Page]:
        """Load the digests of a claim for their handlers; judge those that no handler has to see."""
        loaded: list[Loaded] = []
        judged: list[Judged] = []
        readings: list[Reading] = []
        for each in claimed:
            refused = yield from self._refuse(each, room)
            if refused is None:
                readings.append(Reading(each))
            else:
                judged.append(refused)
        try:
            failed = yield from read_each(self.store, readings, room=room, sealer=self._sealer, pages=pages)
        except StoreError as error:
            unread = [Judged(reading.claimed, put_off(UNREAD)) for reading in readings]
            return Page([], judged + unread, len(claimed), error=error)
        for reading in readings:
            outcome = yield from self._load(reading, room, failed.get(reading))
            if isinstance(outcome, Loaded):
                loaded.append(outcome)
            elif outcome is not None:
                judged.append(outcome)
        return Page(loaded, judged, len(claimed))

    def _refuse(self, claimed: Claimed, room: Room) -> Steps[Judged | None]:
        """Judge a digest that no handler can take now, or may see; None for any other, which takes a place."""
        handler = claimed.handler
        if handler is None:
            delay = self.unhandled.delay(claimed.held.timeline)
            return Judged(claimed, put_off("no handler is registered for it", delay=delay))
        early = yield from self._judge_claimed(claimed, None)
        if early is None and not room.take(handler.kind):
            return Judged(claimed, put_off("no handler is free for it", delay=room.delay(handler.kind)))
        return early

    def _judge_claimed(self, claimed: Claimed, minimum_delay: Duration | None) -> Steps[Judged | None]:
        """Judge a digest that no handler may see: it ends its workers, or is switched off. None for any other."""
        lease, plan, records = claimed.held.lease, Plan(0), 0
        is_off = lease.override is not None and lease.override.off
        verdict = verdict_on(claimed, Discard(SWITCHED_OFF)) if is_off else poison(lease.lapses_alone, claimed.policy)
        if verdict is None:
            return None
        with suppress(Exception):  # a policy that fails must not keep it from ending
            _, plan = plan_after(claimed, self.policies, iteration=lease.iteration + 1, minimum_delay=minimum_delay)
        with suppress(StoreError):  # then the burial fails, too, and the digest comes again
            records = yield from finish_merge(claimed)
        return Judged(claimed, verdict, Carried(records), plan)

    def _load(self, reading: Reading, room: Room, error: Exception | None) -> Steps[Loaded | Judged | None]:
        """Decode a digest that was read, unless there is no memory for it; None if its lease is lost."""
        claimed = reading.claimed
        try:
            if error is not None:
                raise error
            if reading.progress is Progress.LOST:
                raise claimed.held.stale()
            if reading.progress is not Progress.WHOLE or not room.hold(reading.weight):
                reading.clear()
                return Judged(claimed, NO_MEMORY)
            loaded = yield from self._decode(reading, None)
        except Exception as failure:  # noqa: BLE001  # judged
            return self._judge_unloaded(reading, failure)
        return loaded if loaded.digest else loaded.judged(DELIVERED)

    def _judge_unloaded(self, reading: Reading, error: Exception) -> Judged | None:
        """Judge a digest that could not be loaded; None if its lease is lost, which is reported.

        A policy or codec that fails is judged as if the handler or block had failed.
        """
        claimed = reading.claimed
        if isinstance(error, StaleLease):
            self.reports.lost(claimed.held)
            return None
        if isinstance(error, StoreError):
            verdict = put_off(UNREAD)
        elif claimed.handler is not None:
            verdict = verdict_on(claimed, error)
        else:
            at_least = 0 if reading.progress is Progress.WHOLE else 1  # what was not read to its end may have records
            verdict = verdict_on_block(claimed, error, max(len(reading.stored), at_least))
        return Judged(claimed, verdict, reading.carried())

    def _decode(self, reading: Reading, minimum_delay: Duration | None) -> Steps[Loaded]:
        """Decode what was read, and plan how the timeline goes on: a policy that fails does so before the delivery."""
        claimed = reading.claimed
        if reading.progress is Progress.LOST:
            raise claimed.held.stale()
        iteration = claimed.held.lease.iteration + 1 if reading.stored else 0
        cool_down, plan = plan_after(claimed, self.policies, iteration=iteration, minimum_delay=minimum_delay)
        digest, quarantined = yield from unpack(reading, self._sealer)
        for event in quarantined:
            self.events.emit(event)
        return Loaded(claimed, digest, reading.weight, cool_down, plan)

    # At most once: complete before the delivery

    def _complete_opened(self, loaded: Loaded, begun: BegunAttempts) -> Steps[Loaded]:
        """Complete a digest that was opened.

        Raises StaleLease if its lease is lost, InvalidState if its channel is closed.
        """
        ready, refused, error = yield from self._complete([loaded], begun)
        if refused:
            yield from self._finish_quietly(refused[0])
            raise error or InvalidState(f"{loaded.digest.timeline!r}: {CLOSED}")
        if not ready:
            raise loaded.claimed.held.stale()
        return ready[0]

    def _complete_page(self, page: Page, begun: BegunAttempts) -> Steps[Page]:
        """Complete the digests of a page whose handlers deliver at most once. The others are ready as they are."""
        ready: list[Loaded] = []
        wanted: list[Loaded] = []
        for each in page.loaded:
            handler = each.claimed.handler
            (wanted if handler is not None and handler.at_most_once else ready).append(each)
        if not wanted:
            return page
        completed, refused, _ = yield from self._complete(wanted, begun)
        return page._replace(loaded=ready + completed, judged=page.judged + refused)

    def _complete(self, loaded: Sequence[Loaded], begun: BegunAttempts) -> Steps[Completions]:
        """Complete digests in the store, unless their channel is closed.

        If the store does not answer, the digest is among those refused, to be given back. If it was completed after
        all, that call finds no lease, and the attempt is reported as LeaseLost: its records count as delivered, and no
        handler has seen them.
        """
        wanted: list[Loaded] = []
        ready: list[Loaded] = []
        refused: list[Judged] = []
        error: StoreError | None = None
        yield Call("look at channels", partial(self._outages.refresh, self.now(), even_if_fresh=True))
        for each in loaded:
            if self._outages.is_closed(each.digest.timeline, now=each.claimed.held.store_time()):
                refused.append(each.judged(put_off(CLOSED, delay=CLOSED_DELAY)))
            else:
                wanted.append(each)
        for page in pages_of(wanted):
            completions = [each.judged(DELIVERED) for each in page]
            try:
                answers = yield from submit(self.store, completions, now=self.now())
                for each, answer in zip(page, answers, strict=True):
                    if isinstance(answer, StoreError):
                        error = answer
                        refused.append(each.judged(give_back(begun=False)))
                    elif answer is None:
                        self.reports.lost(each.claimed.held)
                    else:
                        completed = Completed(each.claimed, each.digest, each.weight, each.cool_down, each.plan)
                        begun.reach(completed)
                        self.leases.drop(each.claimed.held)
                        ready.append(completed)
            except BaseException as interrupt:  # whether the store has completed the others is unknown
                self.abandon([each for each in completions if not begun.is_completed(each.held)], interrupt)
                raise
        return Completions(ready, refused, error)

    # End and report

    def end(self, judged: Sequence[Judged]) -> Steps[list[Answer]]:
        """End attempts, one store call for each way to end, and report those that the store answered.

        An attempt whose answer is a StoreError has not ended: end it again, or abandon it.
        """
        judged = yield Call("note channels", partial(self._outages.note_outcomes, judged))
        if over := list(filter(ends_failures, judged)):
            yield Call("forget failures", partial(forget_failures_of, self.store, over))
        answers = yield from submit(self.store, judged, now=self.now())
        failed: list[Judged] = []
        is_any_large = False
        for each, answer in zip(judged, answers, strict=True):
            self.reports.ended(each, answer)
            if isinstance(answer, Ending) and is_failure(each):
                failed.append(each)
            is_any_large |= each.carried.records > PAGE_RECORDS
        if failed:
            yield Call("keep failures", partial(keep_failures, self.store, failed, now=self.now()))
        if is_any_large:
            yield from self._sweep()
        return answers

    def _let_lapse(self, judged: Sequence[Judged]) -> Steps[set[Judged]]:
        """End the leases of suspects for which there is no memory, so that they stay suspects; return those ended."""
        lapsed: set[Judged] = set()
        for page in pages_of(judged):
            lapse = partial(self.store.extend, [each.held.lease for each in page], lease=0, now=self.now(), alone=False)
            try:
                yield Call("let lapse", lapse)
            except StoreError:
                break
            for each in page:
                self.reports.ended(each, each.verdict.ending)
            lapsed.update(page)
        return lapsed

    def _sweep(self) -> Steps[None]:
        """Remove the records of large digests that have ended."""
        with suppress(StoreError):  # maintenance sweeps them later
            while (yield Call("sweep", self.store.sweep)):
                pass

    def _finish(self, judged: Judged) -> Steps[None]:
        """End one attempt. Raises StaleLease if the lease was lost, StoreError if the store gave no answer."""
        try:
            [answer] = yield from self.end([judged])
        except BaseException as interrupt:  # whether the store has ended it is unknown
            self.abandon([judged], interrupt)
            raise
        if isinstance(answer, StoreError):
            self.reports.abandoned(judged, answer)
            raise answer
        if answer is None:
            raise judged.held.stale()

    def abandon(self, judged: Sequence[Judged], interrupt: BaseException) -> StoreError:
        """Report attempts that an error kept from ending, unless they were reported. Return the reported error."""
        error = StoreUnavailable(f"interrupted by {reason_of(interrupt)}")
        for each in judged:
            self.reports.abandoned(each, error)
        return error

    def _finish_quietly(self, judged: Judged) -> Steps[None]:
        """End an attempt and swallow errors of the store: the caller is about to raise a more important one."""
        with suppress(StaleLease, StoreError):
            yield from self._finish(judged)

    # Leases and time

    def renew(self) -> None:
        """Renew the leases of all attempts that are under way, and the probes of closed channels among them."""
        self.leases.renew(self._outages.extend_probe)

    def time(self) -> Millis:
        """Return the engine's time, else that of the store."""
        at = self.now()
        return self.store.time(0) if at is None else at
