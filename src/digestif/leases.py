"""One digest under a lease: opened, renewed while somebody delivers it, and ended."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from digestif.core.records import Digest
from digestif.core.texts import reason_of
from digestif.core.verdicts import Bury, Deliver, PutOff, TryAgain, Verdict, is_poison, poison
from digestif.desk import Desk
from digestif.endings import Ending, conclude
from digestif.errors import ConfigError, DigestifError, InvalidState, StaleLease, StoreError
from digestif.events import Buried, Lapsed, LeaseNotRenewed
from digestif.ids import fresh_id
from digestif.reading import Attempt, Whole, attempt_of, read_whole
from digestif.stores.base import PAGE_RECORDS


class Delivery:
    """One attempt to deliver one digest."""

    def __init__(self, desk: Desk, timeline: str, *, minimum_delay: float | None = None) -> None:
        self._desk = desk
        self._policy = desk.policy_for(timeline)
        self.lease = desk.store.open(timeline, token=fresh_id(), lease=desk.lease, now=desk.now())
        if self.lease.lapsed:
            desk.events.emit(Lapsed(digests=1))
        whole = Whole(self.lease, self._policy)
        try:
            [whole] = read_whole(desk, [self.lease])
            self._attempt = self._begin(whole, minimum_delay)
        except InvalidState:
            raise  # it was buried
        except BaseException as error:
            _give_back(desk, Ending.untried(whole, self._verdict(whole, error)))
            raise

    def _begin(self, whole: Whole, minimum_delay: float | None) -> Attempt:
        if not whole.lost and is_poison(self.lease.lapses, self._policy):
            verdict = poison(self.lease.lapses)
            _require(self._desk, Ending.untried(whole, verdict, minimum_delay=minimum_delay))
            self._desk.events.emit(_buried(whole, verdict))
            raise InvalidState(f"{self.lease.timeline!r}: its digest lapsed too often and is now a dead letter")
        return attempt_of(self._desk, whole, minimum_delay=minimum_delay)

    def _verdict(self, whole: Whole, error: BaseException) -> Verdict:
        """On an attempt that failed before it began, because of a policy or a codec: that ends some day too."""
        is_last = self.lease.attempt >= self._policy.attempts and whole.complete and whole.records
        return Bury(reason_of(error)) if is_last and isinstance(error, ConfigError) else _AGAIN

    @property
    def digest(self) -> Digest:
        return self._attempt.digest

    @property
    def attempt(self) -> Attempt:
        return self._attempt

    def close(self) -> None:
        """End it as delivered. StaleLease if the lease was lost."""
        self.end(Deliver())

    def end(self, verdict: Verdict) -> None:
        """End it. StaleLease if the lease was lost; a failure of the store is raised."""
        _require(self._desk, Ending.of(self._attempt, verdict))
        if len(self.digest) > PAGE_RECORDS:
            while self._desk.store.sweep():
                pass

    def fail(self, error: BaseException) -> None:
        """Give it back after an error; after the last attempt it is buried. Never raises: the error itself matters.

        After an interrupt nobody knows whether it went out: it comes again exactly as it was, and that does not count.
        """
        if not isinstance(error, Exception):
            _give_back(self._desk, Ending.of(self._attempt, PutOff(None, unknown=True)))
        elif self.lease.attempt < self._policy.attempts or not self.digest.records:
            self.give_back()
        else:
            _give_back(self._desk, Ending.of(self._attempt, Bury(reason_of(error))))

    def give_back(self) -> None:
        """Make the timeline ready again, without a word if the lease is lost."""
        _give_back(self._desk, Ending.of(self._attempt, _AGAIN))

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the lease in a thread of its own while the block runs."""
        done = threading.Event()
        renewal = threading.Thread(target=self._renew, args=(done,), name="digestif-lease", daemon=True)
        renewal.start()
        try:
            yield
        finally:
            done.set()  # not joined: it may be waiting for the store, and whoever is here may be an event loop

    def _renew(self, done: threading.Event) -> None:
        desk = self._desk
        while not done.wait(desk.lease / 3000):
            try:
                if not desk.store.extend([self.lease], lease=desk.lease, now=desk.now())[0]:
                    return  # lost: the close will say so
            except StoreError as error:
                if done.is_set():
                    return
                desk.events.emit(LeaseNotRenewed(timeline=self.lease.timeline, error=error))


_AGAIN = TryAgain(None, "")


def _buried(whole: Whole, verdict: Bury) -> Buried:
    timeline, attempt = whole.lease.timeline, whole.lease.attempt
    records = len(whole.records)
    return Buried(
        timeline=timeline, digest_id=whole.lease.digest_id, attempt=attempt, records=records, reason=verdict.reason
    )


def _give_back(desk: Desk, ending: Ending) -> None:
    with suppress(DigestifError):  # the lease will lapse, then
        conclude(desk, [ending])


def _require(desk: Desk, ending: Ending) -> None:
    settlement = conclude(desk, [ending])
    if settlement.error is not None:
        raise settlement.error
    if not settlement.answers[0]:
        raise StaleLease(f"{ending.lease.timeline!r}: the lease lapsed or was lost; nothing was changed")
