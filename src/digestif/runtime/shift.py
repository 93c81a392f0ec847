"""A shift: all that a worker says to its store, one thing after the other. No event loop, no waiting.

The worker calls this from its threads; a simulation drives it step by step.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from digestif.core.texts import reason_of
from digestif.core.times import Millis, to_seconds
from digestif.core.verdicts import Deliver, PutOff, is_poison, judge, poison
from digestif.desk import Desk
from digestif.endings import Ending, Settlement, conclude
from digestif.errors import StaleLease, StoreError
from digestif.events import Delivered, Lapsed, LeaseNotRenewed, Returned, Unhandled
from digestif.handlers import Handler, Handlers
from digestif.ids import chance
from digestif.partitions import claim, tell_of_maintenance, visit
from digestif.reading import Attempt, Whole, attempt_of, read_whole
from digestif.runtime import reports
from digestif.stores.base import PAGE_RECORDS, PAGE_TIMELINES, Lease, Maintained

T = TypeVar("T")

RECORDS_IN_HAND = 20_000  # that a claim reads before it gives back the rest of its digests
PUT_OFF: Millis = 60_000  # at most, for timelines that this worker has no handler for; first a second, then twice that
STRANGERS = 10_000  # of those, that are remembered
CROWDED_OUT: Millis = 1_000  # for those whose handlers have no hand free


class Job(NamedTuple):
    """A digest in hand, and who delivers it."""

    attempt: Attempt
    handler: Handler
    is_closed: bool = False  # before it is delivered, at most once


class Page(NamedTuple):
    """What a claim brought."""

    jobs: list[Job]
    claimed: int  # timelines, also those for which there is nothing to do
    crowded: frozenset[bool] = frozenset()  # kinds of handlers that had no hand free for some of them


class Shift:
    """The digests that one worker holds. Safe to use from several threads."""

    def __init__(self, desk: Desk, handlers: Handlers) -> None:
        self.desk = desk
        self._events = desk.events
        self._handlers = handlers
        self._held: dict[tuple[str, str], Lease] = {}  # by timeline and token: a digest may be held twice
        self._ended: deque[Ending] = deque()  # of which the store does not know yet
        self._unanswered: deque[Ending] = deque()  # it was told of these and did not answer
        self._strangers: dict[str, int] = {}  # timelines without a handler, and how often they came
        self.delivered = 0
        self.returned = 0

    # Beginning

    def claim(self, limit: int, *, room: Mapping[bool, int] | None = None, slow: frozenset[bool] = frozenset()) -> Page:
        """Take at most `limit` digests that are due, and read them. Raises StoreError if no partition answers.

        `room` is how many coroutines (True) and functions (False) have a hand free. What is more than that is given
        back; if its kind is slow, for a second: so one kind does not keep the other from its turn.
        """
        desk = self.desk
        hands = _Hands(room, slow)
        leases = claim(desk.store, limit, lease=desk.lease, now=desk.now(), events=self._events)
        self._held.update(((lease.timeline, lease.token), lease) for lease in leases)
        if lapsed := sum(lease.lapsed for lease in leases):
            self._events.emit(Lapsed(digests=lapsed))
        jobs = list(self._begun(self._read([lease for lease in leases if self._is_handled(lease, hands)])))
        return Page(self._closed_first(jobs), len(leases), frozenset(hands.crowded))

    def _is_handled(self, lease: Lease, hands: "_Hands") -> bool:
        handler = self._handlers.find(lease.timeline)
        if handler is None:
            delay = self._strange(lease.timeline)
            self._events.emit(Unhandled(timeline=lease.timeline, retry_in=to_seconds(delay)))
            self._put_off([lease], PutOff(delay))
            return False
        if hands.take(handler.is_async):
            return True
        self._put_off([lease], PutOff(hands.delay(handler.is_async)))
        return False

    def _strange(self, timeline: str) -> Millis:
        """How long to put off a timeline without a handler: another worker may have one, and should get at it soon."""
        if len(self._strangers) >= STRANGERS:
            self._strangers.clear()
        times = self._strangers.get(timeline, 0)
        self._strangers[timeline] = times + 1
        return min(1000 << min(times, 16), PUT_OFF)

    def _put_off(self, leases: Iterable[Lease], verdict: PutOff) -> None:
        for lease in leases:
            whole = Whole(lease, self.desk.policy_for(lease.timeline))
            self._ended.append(Ending.untried(whole, verdict))

    def _read(self, leases: Sequence[Lease]) -> list[Whole]:
        """Those that could be read; the others are given back."""
        try:
            wholes = read_whole(self.desk, leases, at_most=RECORDS_IN_HAND)
        except StoreError:
            self._put_off(leases, PutOff(None))
            raise
        self._put_off([w.lease for w in wholes if not w.complete and not w.lost], PutOff(None))
        return [whole for whole in wholes if whole.complete or whole.lost]

    def _begun(self, wholes: Iterable[Whole]) -> Iterator[Job]:
        """The digests that somebody has to deliver; the others end right here."""
        for whole in wholes:
            begun = self._begin(whole)
            if isinstance(begun, Ending):
                self._ended.append(begun)
            elif begun is not None:
                yield begun

    def _begin(self, whole: Whole) -> Job | Ending | None:
        lease, policy = whole.lease, whole.policy
        try:
            if not whole.lost and is_poison(lease.lapses, policy):
                return Ending.untried(whole, poison(lease.lapses))
            attempt = attempt_of(self.desk, whole)
        except StaleLease:
            self._lose(lease)
            return None
        except StoreError:
            return Ending.untried(whole, PutOff(None))
        except Exception as error:  # noqa: BLE001  # a policy or a codec that fails: as if the handler had
            return Ending.untried(whole, judge(error, attempt=lease.attempt, policy=policy, chance=chance()))
        if not attempt.digest.records:
            return Ending.of(attempt, Deliver())
        handler = self._handlers.find(lease.timeline)
        assert handler is not None  # see _is_handled
        self._events.emit(reports.claimed(lease, self.desk.lease))
        return Job(attempt, handler)

    def _closed_first(self, jobs: list[Job]) -> list[Job]:
        """Close what is to be delivered at most once; what can't be closed is not delivered."""
        early = [job for job in jobs if job.handler.at_most_once]
        if not early:
            return jobs
        endings = [Ending.of(job.attempt, Deliver()) for job in early]
        answers = [answer for page in _pages(endings) for answer in self._conclude(page, tell=False).answers]
        closed = [job._replace(is_closed=True) for job, done in zip(early, answers, strict=True) if done]
        for job, done in zip(early, answers, strict=True):
            if done is None:  # nobody knows; if it was closed after all, giving it back is refused
                self.give_back(job, begun=False)
        return [*(job for job in jobs if not job.handler.at_most_once), *closed]

    # Ending

    def finish(self, job: Job, error: BaseException | None) -> None:
        """Note how an attempt ended; `settle` tells the store."""
        attempt = job.attempt
        verdict = judge(error, attempt=attempt.lease.attempt, policy=attempt.policy, chance=chance())
        ending = Ending.of(attempt, verdict)
        if not job.is_closed:
            self._ended.append(ending)
        elif error is not None:
            self._events.emit(reports.failed_for_good(ending, reason_of(error)))
        else:
            self._tell(ending)

    def give_back(self, job: Job, *, begun: bool) -> None:
        """Note that this worker will not finish a digest; if it was begun, nobody knows whether it went out."""
        ending = Ending.of(job.attempt, PutOff(None, unknown=begun))
        if job.is_closed:
            reason = (
                "the worker stopped while it was delivered" if begun else "the worker stopped before it was delivered"
            )
            self._events.emit(reports.failed_for_good(ending, reason))
        else:
            self._ended.append(ending)

    @property
    def unsettled(self) -> int:
        """Endings that the store does not know of yet."""
        return len(self._ended) + len(self._unanswered)

    def has_to_tell(self, *, again: bool) -> bool:
        """True if the store has to be told of endings, for the first time or again."""
        return bool(self._unanswered if again else self._ended)

    def settle(self, *, again: bool | None = None) -> StoreError | None:
        """Tell the store of a page of what ended. An error is answered: what it concerns has to be told again.

        By default what it was not told of comes first. A worker tells it again apart from the rest, so that a part of
        the store that does not answer does not hold up the others.
        """
        ended = self._unanswered if again or (again is None and not self._ended) else self._ended
        page = [ended.popleft() for _ in range(min(len(ended), PAGE_TIMELINES))]
        settlement = self._conclude(page)
        told = zip(page, settlement.answers, strict=True)
        self._unanswered.extend(ending for ending, answer in told if answer is None)
        return settlement.error

    def _conclude(self, endings: Sequence[Ending], *, tell: bool = True) -> Settlement:
        try:
            settlement = conclude(self.desk, endings)
        except BaseException:  # whatever it is, leases that nobody will end must not be renewed for ever
            for ending in endings:
                self._let_go(ending.lease)
            raise
        for ending, answer in zip(settlement.endings, settlement.answers, strict=True):
            if answer is None:
                continue
            self._let_go(ending.lease)
            if not answer:
                self._lose(ending.lease)
            elif tell:
                self._tell(ending)
        if any(ending.records > PAGE_RECORDS for ending in settlement.agreed(Deliver)):
            self._sweep()
        return settlement

    def _let_go(self, lease: Lease) -> None:
        self._held.pop((lease.timeline, lease.token), None)

    def _lose(self, lease: Lease) -> None:
        self._let_go(lease)
        self._events.emit(reports.lost(lease))

    def _tell(self, ending: Ending) -> None:
        event = reports.ended(ending, self.desk.lease)
        if event is not None:
            self.delivered += isinstance(event, Delivered)
            self.returned += isinstance(event, Returned)
            self._events.emit(event)

    def _sweep(self) -> None:
        with suppress(StoreError):  # maintenance erases it later
            while self.desk.store.sweep():
                pass

    # Besides

    def renew(self) -> None:
        """Let the leases of everything in hand last longer."""
        desk, held = self.desk, list(self._held.values())
        for leases in _pages(held):
            try:
                answers = desk.store.extend(leases, lease=desk.lease, now=desk.now())
            except StoreError as error:
                self._events.emit(LeaseNotRenewed(timeline=leases[0].timeline, error=error))
                continue
            for lease, alive in zip(leases, answers, strict=True):
                if not alive:
                    self._let_go(lease)  # lost: the ending will say so

    def maintain(self) -> bool:
        """Expire old records and let digests wait whose leases ran out, one page. True if there is more to do.

        Raises StoreError if no partition answers.
        """
        desk = self.desk

        def page(partition: int) -> Iterator[Maintained]:
            yield desk.store.maintain(partition, None, limit=PAGE_TIMELINES, now=desk.now())

        done = list(visit(desk.store, "maintenance", page, self._events))
        tell_of_maintenance(done, self._events)
        return any(each.more for each in done)


class _Hands:
    """The hands that are free for each kind of handler, while a page is given out."""

    def __init__(self, room: Mapping[bool, int] | None, slow: frozenset[bool]) -> None:
        self._slow = slow
        self._left = None if room is None else dict(room)
        self.crowded: set[bool] = set()  # kinds that did not suffice

    def take(self, is_async: bool) -> bool:
        if self._left is None:
            return True
        if self._left[is_async] < 1:
            self.crowded.add(is_async)
            return False
        self._left[is_async] -= 1
        return True

    def delay(self, is_async: bool) -> Millis:
        """How long what is too much is put off."""
        return CROWDED_OUT if is_async in self._slow else 0


def _pages(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + PAGE_TIMELINES] for start in range(0, len(items), PAGE_TIMELINES))
