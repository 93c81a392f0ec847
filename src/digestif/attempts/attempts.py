"""`Attempts`: opens or claims digests, reads them for a handler, ends them in the store, and emits their events."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from digestif.attempts import contents, reports
from digestif.attempts.admission import Admissions, PolicySource
from digestif.attempts.attempt import Attempt, Now, Unstored
from digestif.attempts.claims import Claims
from digestif.attempts.contents import NO_PAGES
from digestif.attempts.failures import forget_failures_of, keep_failures
from digestif.attempts.handlers import Handler, Handlers
from digestif.attempts.heartbeat import Heartbeat
from digestif.attempts.lease_watch import LeaseWatch
from digestif.attempts.outages import Outages
from digestif.attempts.process import RUNNING, Group
from digestif.attempts.room import Room
from digestif.attempts.submission import Answer, Judged, Unanswerable, submit
from digestif.attempts.unhandled import UnhandledTimelines
from digestif.clock import monotonic
from digestif.core.machine import Plan
from digestif.core.records import Record
from digestif.core.terms import Openings, Override, agree
from digestif.core.texts import reason_of
from digestif.core.times import Duration, Millis, in_seconds, to_millis, to_seconds
from digestif.core.verdicts import DELIVERED, Discard, Ending, Verdict, give_back, judge, judge_block, poison, put_off
from digestif.errors import InvalidState, StaleLease, StoreError, StoreUnavailable
from digestif.events.attempts import Claimed, Delivered, Ended, Returned
from digestif.events.base import Events
from digestif.events.engine import Lapsed, LeaseNotRenewed, ShortWindow
from digestif.ids import chance
from digestif.stores.base import (
    PAGE_RECORDS,
    PAGE_TIMELINES,
    Lease,
    Maintained,
    Store,
    Taken,
)
from digestif.stores.codec import Sealer
from digestif.stores.deletion import delete_timeline
from digestif.stores.partitions import visit

T = TypeVar("T")

logger = logging.getLogger("digestif")

UNREAD = "the store did not answer when it was read"
NO_MEMORY = put_off("the worker holds enough records")
OPENINGS_LEFT = 4  # of an override; then more are stored
SWITCHED_OFF = "its timeline is switched off"
CLOSED = "its channel is unavailable"
SOON: Millis = 1_000  # then it is asked again whether it may be delivered


class Page(NamedTuple):
    """What a claim gave."""

    attempts: list[Attempt]  # for handlers
    judged: list[Judged]  # those that end before a handler sees them; they are still to be ended
    claimed: int  # timelines
    suspect: Millis | None = None  # when the earliest lapsed lease ran out
    error: StoreError | None = None  # why those that were claimed could not be read
    kept: int = 0  # timelines that may not be delivered yet


class Attempts:
    """The attempts of one worker, or of one call. Safe to use from several threads."""

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
        place: str = "",
    ) -> None:
        self.store = store
        self.place = place  # of the store, as it may be shown
        self.events = events
        self.handlers = handlers
        self.lease = lease
        self._policies = policies
        self._outages = outages
        self._lease_watch = lease_watch
        self._claims = Claims(store, Admissions(policies, outages), lease=lease, now=now, events=events)
        self._sealer = sealer
        self._now = now
        self._held: dict[int, Attempt] = {}  # by identity: a digest may be held twice, by two leases
        self.unhandled = UnhandledTimelines(events)
        self.delivered = 0
        self.returned = 0

    def time(self) -> Millis:
        """The engine's time, else that of the store."""
        at = self._now()
        return self.store.time(0) if at is None else at

    def report_short_windows(self, *, poll: float) -> None:
        """Report the windows in the code that a worker may miss, because it looks too seldom."""
        for source, window in self._policies.windows():
            problem = window.missed_by(poll)
            if problem is not None:
                self.events.emit(ShortWindow(source=source, problem=problem))

    def policy_texts(self) -> dict[str, str]:
        """The policies in the code as texts, by pattern."""
        return self._policies.texts()

    # Beginning

    def open(self, timeline: str, *, minimum_delay: Duration | None = None) -> Attempt:
        """Open a ready timeline. Its digest may be empty.

        Raises InvalidState or Busy if it can't be opened, also if its digest is buried as poison; StaleLease if the
        lease is lost while it is read; and what keeps it from being read, which then counts as a failure.
        """
        self._lease_watch.note_lease()
        alone = self.is_process_idle
        lease = self._claims.open(timeline, alone=alone)
        attempt = self._begin(lease, Group() if alone and lease.lapses else None)
        verdict = self._verdict_at_once(attempt, minimum_delay)
        if verdict is not None:
            self.finish(attempt, verdict)
            fate = "is now a dead letter" if verdict.ending is Ending.BURIED else "was discarded"
            raise InvalidState(f"{timeline!r}: its digest {fate}: {verdict.reason}")
        try:
            contents.read(self.store, [attempt], room=Room(), sealer=self._sealer)
            self._unpack(attempt, minimum_delay)
        except StaleLease:
            self._report(attempt, reports.lost(attempt))
            raise
        except StoreError:
            self.finish_quietly(attempt, put_off(UNREAD))
            raise
        except BaseException as error:
            self.fail(attempt, error)
            raise
        return attempt

    def claim(self, limit: int, *, room: Room, partitions: Collection[int] | None = None) -> Page:
        """Take at most `limit` digests that are due and make them ready for their handlers.

        From these partitions, or from any.

        Raises StoreError if no partition answers.
        """
        self._lease_watch.note_lease()
        began = monotonic()
        claimed = self._claims.claim(limit, partitions)
        # What was read along is used while its lease is young. After a claim that took long `take` looks at it again.
        is_young = monotonic() - began < to_seconds(self.lease) / 2
        page = self._prepared(claimed.leases, room, pages=claimed.pages if is_young else NO_PAGES)
        return page._replace(suspect=claimed.suspect, kept=claimed.kept)

    def claim_suspects(self, size: int, *, alone: bool, room: Room) -> Page:
        """Take a group of at most `size` digests whose lease lapsed, to be tried beside nothing else.

        `alone` says that nothing else runs in this process.
        """
        alone = alone and self.is_process_idle
        leases = self._claims.claim_suspects(size, alone=alone)
        return self._without_unread(self._prepared(leases, room, group=Group() if alone else None))

    def _without_unread(self, page: Page) -> Page:
        """Let the leases of suspects lapse for which the worker has no memory: they are suspects as before."""
        unread = [judged for judged in page.judged if judged[1] is NO_MEMORY]
        for some in _pages(unread):
            try:
                self.store.extend([attempt.lease for attempt, _ in some], lease=0, now=self._now(), alone=False)
            except StoreError:
                return page
            for attempt, verdict in some:
                self._report(attempt, reports.ended(attempt, verdict))
        return page._replace(judged=[judged for judged in page.judged if not judged[0].is_ended])

    @property
    def is_process_idle(self) -> bool:
        """True if no attempt runs in this process, of this engine or another."""
        return RUNNING.is_idle

    def _begin(self, lease: Lease, group: Group | None) -> Attempt:
        policy = self._policies.in_force(lease.timeline, lease.override).policy
        attempt = Attempt(lease, policy, store=self.store, now=self._now)
        self._refresh_openings(attempt)
        attempt.late = to_seconds(max(0, lease.until - self.lease - lease.at))
        attempt.duration = self.lease
        self._held[id(attempt)] = attempt
        attempt.group = group
        self._clear_groups(RUNNING.add(attempt))
        if lease.lapsed:
            self.events.emit(Lapsed(timeline=lease.timeline))
        if self.events.wanted(Claimed):
            self.events.emit(reports.begun(attempt))
        return attempt

    def _refresh_openings(self, attempt: Attempt) -> None:
        """Store the openings of an override again if few are left, or if they changed with the zone data.

        Adds place its timeline by them.
        """
        override, timeline = attempt.lease.override, attempt.timeline
        if override is None or override.terms.openings is None:
            return
        with suppress(Exception):  # then admission aligns the timeline when it is due
            if self._are_current(override.terms.openings, attempt):
                return
            openings = attempt.policy.openings(timeline, to_millis(attempt.time()), far=True)
            fresh = replace(override, terms=replace(override.terms, openings=openings))
            self.store.refresh_override(timeline, fresh)

    def _are_current(self, stored: Openings, attempt: Attempt) -> bool:
        """True if enough openings are left, and the calendar still has them."""
        until = attempt.lease.until
        if sum(number > until for number in stored.numbers) < OPENINGS_LEFT:
            return False
        near = attempt.policy.openings(attempt.timeline, until - self.lease)
        return near is not None and agree(stored, near, after=until)

    def _clear_groups(self, attempts: Sequence[Attempt]) -> None:
        """Another attempt is about to begin beside suspects: if they lapse now, that proves nothing."""
        for store in {attempt.store for attempt in attempts}:
            disturbed = [attempt for attempt in attempts if attempt.store is store]
            for page in _pages(disturbed):
                first, leases = page[0], [attempt.lease for attempt in page]
                with suppress(StoreError):
                    store.extend(leases, lease=first.duration, now=first.now(), alone=False)

    def _prepared(
        self, leases: Sequence[Lease], room: Room, *, group: Group | None = None, pages: Mapping[str, Taken] = NO_PAGES
    ) -> Page:
        """Attempts that a handler can be called with; the others with their verdicts."""
        judged: list[Judged] = []
        chosen: list[Attempt] = []
        for attempt in [self._begin(lease, group) for lease in leases]:
            verdict = self._verdict_unread(attempt, room)
            if verdict is None:
                chosen.append(attempt)
            else:
                judged.append((attempt, verdict))
        try:
            judged += self._read(chosen, room, pages)
        except StoreError as error:
            unread = [(attempt, put_off(UNREAD)) for attempt in chosen if not attempt.is_ended]
            return Page([], judged + unread, len(leases), error=error)
        ready: list[Attempt] = []
        for attempt in chosen:
            verdict = self._verdict_before_delivery(attempt) if attempt.is_read else None
            if verdict is not None:
                judged.append((attempt, verdict))
            elif attempt.is_read and not attempt.is_ended:
                ready.append(attempt)
        return self._completed_first(Page(ready, judged, len(leases)))

    def _verdict_unread(self, attempt: Attempt, room: Room) -> Verdict | None:
        """The verdict on an attempt for which nothing has to be read."""
        handler = self.handlers.find(attempt.timeline)
        if handler is None:
            return put_off("no handler is registered for it", delay=self.unhandled.delay(attempt.timeline))
        attempt.handler = handler
        verdict = self._verdict_at_once(attempt)
        if verdict is None and not room.take(handler.kind):
            verdict = put_off("no handler is free for it", delay=room.delay(handler.kind))
        return verdict

    def _verdict_at_once(self, attempt: Attempt, minimum_delay: Duration | None = None) -> Verdict | None:
        """The verdict on a digest that no handler may see: it ends its workers, or people switched it off."""
        override = attempt.lease.override
        verdict = poison(attempt.lease.lapses_alone, attempt.policy)
        if override is not None and override.off:
            verdict = judge(Discard(SWITCHED_OFF), attempt=attempt.lease.attempt, policy=attempt.policy, chance=0)
        if verdict is not None:
            with suppress(Exception):  # a policy that fails must not keep it from ending
                self._set_cool_down(attempt, minimum_delay, iteration=attempt.lease.iteration + 1)
            with suppress(StoreError):  # then the burial fails, too, and the digest comes again
                contents.finish_merge(attempt)
        return verdict

    def _read(self, attempts: Sequence[Attempt], room: Room, pages: Mapping[str, Taken]) -> list[Judged]:
        """Read them, and judge those for which there is no room. One that is too large for memory fails alone."""
        try:
            judged = self._read_together(attempts, room, pages)
        except StoreError:
            raise
        except Exception:  # noqa: BLE001  # one of them is to blame
            judged = self._read_one_by_one(attempts, room)
        read = [attempt for attempt in attempts if attempt.is_read and not attempt.is_lost]
        return judged + [_unread(attempt) for attempt in read if not room.hold(attempt.weight)]

    def _read_together(
        self, attempts: Sequence[Attempt], room: Room, pages: Mapping[str, Taken] = NO_PAGES
    ) -> list[Judged]:
        contents.read(self.store, attempts, room=room, sealer=self._sealer, pages=pages)
        for attempt in attempts:
            if attempt.is_lost:
                self._report(attempt, reports.lost(attempt))
        return [_unread(attempt) for attempt in attempts if not attempt.is_read and not attempt.is_lost]

    def _read_one_by_one(self, attempts: Sequence[Attempt], room: Room) -> list[Judged]:
        judged: list[Judged] = []
        for attempt in attempts:
            attempt.clear_pages()
        for attempt in attempts:
            records = sum(len(each.stored) for each in attempts)
            if room.is_full(records=records, weight=sum(each.weight for each in attempts)):
                judged.append((attempt, NO_MEMORY))
                continue
            try:
                judged += self._read_together([attempt], room)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001  # judged as if its handler had failed
                attempt.clear_pages()
                judged.append((attempt, self._unreadable(attempt, error)))
        return judged

    def _verdict_before_delivery(self, attempt: Attempt) -> Verdict | None:
        """Decode it; the verdict if no handler has to see it. A policy or codec that fails is judged as a handler."""
        try:
            self._unpack(attempt, None)
        except StaleLease:
            self._report(attempt, reports.lost(attempt))
            return None
        except Exception as error:  # noqa: BLE001  # judged
            return self._unreadable(attempt, error)
        return None if attempt.digest else DELIVERED

    def _unpack(self, attempt: Attempt, minimum_delay: Duration | None) -> None:
        if attempt.is_lost:
            raise attempt.stale()
        iteration = attempt.lease.iteration + 1 if attempt.stored else 0
        self._set_cool_down(attempt, minimum_delay, iteration=iteration)  # a policy fails before the delivery
        for event in contents.unpack(attempt, self._sealer):
            self.events.emit(event)

    def _set_cool_down(self, attempt: Attempt, minimum_delay: Duration | None, *, iteration: int) -> None:
        if minimum_delay is None:
            attempt.cool_down = attempt.policy.cool_down(iteration)
        else:
            attempt.cool_down = to_millis(in_seconds(minimum_delay))
        attempt.plan = self._plan_by_code(attempt, iteration, given=minimum_delay is not None)

    def _plan_by_code(self, attempt: Attempt, iteration: int, *, given: bool) -> Plan:
        """How the timeline goes on by the policy in the code, which an override replaces in the store.

        Where a function for the time zone fails, the timeline is aligned when it is due.
        """
        timeline, code, cool_down, openings = attempt.timeline, attempt.policy, attempt.cool_down, None
        try:
            if attempt.lease.override is not None:
                code = self._policies.of(timeline)
                cool_down = attempt.cool_down if given else code.cool_down(iteration)
            openings = code.openings(timeline, to_millis(attempt.time()))
        except Exception as error:  # noqa: BLE001  # a user's function
            self._policies.report(timeline, self._policies.source_of(timeline), error)
        ttl = None if code.ttl is None else to_millis(code.ttl)
        return Plan(cool_down, code.max_records, openings, given, ttl if given else None)

    def _unreadable(self, attempt: Attempt, error: Exception) -> Verdict:
        """The verdict on an attempt that failed before a handler saw it."""
        if isinstance(error, StoreError):
            return put_off(UNREAD)
        return self.judge(attempt, error)

    def _completed_first(self, page: Page) -> Page:
        """Complete digests of at-most-once handlers before they run; if the store does not, they are not delivered."""
        early = [attempt for attempt in page.attempts if attempt.handler and attempt.handler.at_most_once]
        if not early:
            return page
        self._outages.refresh(self._now(), at_once=True)
        closed = [attempt for attempt in early if self._is_closed(attempt)]
        page.judged.extend((attempt, put_off(CLOSED, delay=SOON)) for attempt in closed)
        early = [attempt for attempt in early if attempt not in closed]
        page = page._replace(attempts=[attempt for attempt in page.attempts if attempt not in closed])
        answers = [answer for some in _pages(early) for answer in self._submit([(each, DELIVERED) for each in some])]
        for attempt, answer in zip(early, answers, strict=True):
            if answer is True:
                self._stop_renewing(attempt)
                attempt.is_completed = True
            elif answer is False:
                self._report(attempt, reports.lost(attempt))
            else:  # no answer; if it was completed after all, giving it back is refused
                page.judged.append((attempt, give_back(begun=False)))
        ready = [attempt for attempt in page.attempts if attempt not in early or attempt.is_completed]
        return page._replace(attempts=ready)

    def _complete_first(self, attempt: Attempt) -> None:
        """End an attempt in the store before its handler is called, at most once. StaleLease if the lease is lost.

        InvalidState if its channel was closed meanwhile.
        """
        self._outages.refresh(self._now(), at_once=True)
        if self._is_closed(attempt):
            self.finish(attempt, put_off(CLOSED, delay=SOON))
            raise InvalidState(f"{attempt.timeline!r}: {CLOSED}")
        [answer] = self._submit([(attempt, DELIVERED)])
        if answer is not True:
            self._report_answer(attempt, DELIVERED, answer)
            raise attempt.stale() if answer is False else answer
        self._stop_renewing(attempt)
        attempt.is_completed = True

    def _is_closed(self, attempt: Attempt) -> bool:
        return self._outages.is_closed(attempt.timeline, now=attempt.store_time())

    def open_for(self, handler: Handler, timeline: str, *, minimum_delay: Duration | None = None) -> Attempt | None:
        """Open a ready timeline for its handler; None if there is nothing to deliver, and then it has ended."""
        attempt = self.open(timeline, minimum_delay=minimum_delay)
        attempt.handler = handler
        if not attempt.digest:
            self.finish(attempt, DELIVERED)
            return None
        if handler.at_most_once:
            self._complete_first(attempt)
        return attempt

    def unstored(self, timeline: str, record: Record, handler: Handler, override: Override | None) -> Attempt:
        """An attempt to deliver a record that is not stored, by the policy and zone that its reader chose."""
        policy = self._policies.in_force(timeline, override).policy
        attempt = Unstored(timeline, record, policy, asked=self.store, override=override, now=self._now)
        attempt.handler = handler
        self._clear_groups(RUNNING.add(attempt))
        return attempt

    # Ending

    def judge(self, attempt: Attempt, error: BaseException | None) -> Verdict:
        """Decide what the error that a handler raised, or None, means for the digest."""
        return judge(
            error, attempt=attempt.lease.attempt, policy=attempt.policy, chance=chance(), failing=attempt.failing()
        )

    def end(self, judged: Sequence[Judged]) -> list[Answer]:
        """End attempts, one store call for each way to end. Those without an answer are still to be ended."""
        judged = [(attempt, self._settled(attempt, verdict)) for attempt, verdict in judged]
        open_ones = [(attempt, verdict) for attempt, verdict in judged if not attempt.is_completed]
        forget_failures_of(self.store, open_ones)
        answers = iter(self._submit(open_ones))
        given: list[Answer] = []
        for attempt, verdict in judged:
            if attempt.is_completed:
                self._delete_after_completion(attempt, verdict)
                self._report(attempt, reports.ended_after_completion(attempt, verdict))
                given.append(True)
                continue
            answer = next(answers)
            given.append(answer)
            if not isinstance(answer, StoreError) or isinstance(answer, Unanswerable):
                self._report_answer(attempt, verdict, answer)
        ended = [one for one, answer in zip(judged, given, strict=True) if answer is True]
        keep_failures(self.store, ended, now=self._now())
        self._sweep_after(judged)
        return given

    def _delete_after_completion(self, attempt: Attempt, verdict: Verdict) -> None:
        """Delete the timeline of an attempt that has no lease: delivered at most once, or never stored."""
        if verdict.deletes:
            with suppress(StoreError):  # the next digest finds its audience gone, too
                delete_timeline(self.store, attempt.timeline, now=self._now())

    def _settled(self, attempt: Attempt, verdict: Verdict) -> Verdict:
        """The verdict, after its channel was looked at. Whatever goes wrong there, the attempt ends."""
        if isinstance(attempt, Unstored):
            return verdict
        try:
            return self._outages.settle(attempt, verdict)
        except Exception:
            logger.exception("what %s means for its channel could not be noted", attempt.timeline)
            return verdict

    def _submit(self, judged: Sequence[Judged]) -> list[Answer]:
        return submit(self.store, judged, now=self._now())

    def finish(self, attempt: Attempt, verdict: Verdict) -> None:
        """End one attempt. StaleLease if the lease was lost; a failure of the store is raised."""
        try:
            [answer] = self.end([(attempt, verdict)])
        except BaseException as error:  # an interrupt, during the call
            self.abandon(attempt, verdict, StoreUnavailable(f"interrupted by {reason_of(error)}"))
            raise
        if isinstance(answer, StoreError):
            self.abandon(attempt, verdict, answer)
            raise answer
        if not answer:
            raise attempt.stale()

    def finish_quietly(self, attempt: Attempt, verdict: Verdict) -> None:
        """End an attempt and swallow errors of the store: the caller is about to raise a more important one."""
        with suppress(StaleLease, StoreError):
            self.finish(attempt, verdict)

    def conclude(self, attempt: Attempt, error: BaseException | None) -> bool:
        """End an attempt by the policy's rules. True if it was delivered; StaleLease if the lease was lost."""
        verdict = self.judge(attempt, error)
        self.finish(attempt, verdict)
        return verdict is DELIVERED

    def finish_unstored(self, attempt: Attempt, error: BaseException | None) -> bool:
        """End an attempt whose record is not stored: raise its error, or answer False if its handler discards it."""
        self.end([(attempt, self.judge(attempt, error))])
        if error is not None and not isinstance(error, Discard):
            raise error
        return error is None

    def fail(self, attempt: Attempt, error: BaseException) -> None:
        """End an attempt whose block raised. Never raises: the error itself matters."""
        records = attempt.records or not attempt.is_read  # what could not be read is not empty
        verdict = judge_block(
            error, attempt=attempt.lease.attempt, policy=attempt.policy, records=records, failing=attempt.failing()
        )
        self.finish_quietly(attempt, verdict)

    def abandon(self, attempt: Attempt, verdict: Verdict, error: StoreError) -> None:
        """Give up on an attempt that the store could not end: its lease lapses."""
        self._report(attempt, reports.unsettled(attempt, verdict, error))

    def _report_answer(self, attempt: Attempt, verdict: Verdict, answer: Answer) -> None:
        if isinstance(answer, StoreError):
            self.abandon(attempt, verdict, answer)
        elif answer:
            self._report(attempt, reports.ended(attempt, verdict))
        else:
            self._report(attempt, reports.lost(attempt))

    def _report(self, attempt: Attempt, event: Ended) -> None:
        """Emit the one event that says how an attempt ended."""
        if attempt.is_ended:
            return
        attempt.is_ended = True
        self._stop_renewing(attempt)
        RUNNING.remove(attempt)
        self.delivered += isinstance(event, Delivered)
        self.returned += isinstance(event, Returned)
        self.events.emit(event)

    def _stop_renewing(self, attempt: Attempt) -> None:
        self._held.pop(id(attempt), None)

    def _sweep_after(self, judged: Sequence[Judged]) -> None:
        if any(attempt.records > PAGE_RECORDS for attempt, _ in judged):
            with suppress(StoreError):  # maintenance sweeps it later
                while self.store.sweep():
                    pass

    # Besides

    def maintain(self) -> bool:
        """Expire old records, one page of each partition, and end leases that end too far ahead. True if there is more.

        Raises StoreError if no partition answers.
        """
        everywhere = range(self.store.partitions)
        answers = self.store.maintain_each(everywhere, None, limit=PAGE_TIMELINES, now=self._now())

        def page(partition: int) -> Iterator[Maintained]:
            answer = answers[partition]
            if isinstance(answer, StoreError):
                raise answer
            yield answer

        pages = list(visit(self.store, "maintenance", page, self.events))
        for done in pages:
            reports.report_maintenance(done, self.store, self.events, now=self._now())
        self._lease_watch.look(self._now())
        return any(done.more for done in pages)

    @contextmanager
    def renewed(self, attempt: Attempt, *, renews: bool) -> Iterator[None]:
        """Renew the lease of an attempt in the background while the block runs, if `renews`."""
        if renews and not attempt.is_completed:
            with Heartbeat(self.renew, seconds=self.lease / 3000):
                yield
        else:
            yield

    def renew(self) -> None:
        """Renew the leases of all attempts that are under way."""
        for attempts in _pages(list(self._held.values())):
            try:
                answers = self.store.extend([attempt.lease for attempt in attempts], lease=self.lease, now=self._now())
            except StoreError as error:
                if any(id(attempt) in self._held for attempt in attempts):
                    self.events.emit(LeaseNotRenewed(timeline=attempts[0].timeline, error=error))
                continue
            for attempt, alive in zip(attempts, answers, strict=True):
                if alive:
                    self._outages.extend_probe(attempt)
                else:
                    self._stop_renewing(attempt)  # lost: its ending will say so


def _unread(attempt: Attempt) -> Judged:
    """Give back a digest for which the worker has no memory."""
    attempt.clear_pages()
    return attempt, NO_MEMORY


def _pages(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + PAGE_TIMELINES] for start in range(0, len(items), PAGE_TIMELINES))
