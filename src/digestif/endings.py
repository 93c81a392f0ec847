"""Attempts end: verdicts become store calls, one for all that end the same way."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from digestif.clock import monotonic
from digestif.core.policy import Policy
from digestif.core.times import Millis, to_millis
from digestif.core.verdicts import Bury, Deliver, Drop, PutOff, TryAgain, Verdict
from digestif.desk import Desk
from digestif.errors import ConfigError, StoreError
from digestif.reading import Attempt, Whole, cool_down_of
from digestif.stores.base import Burial, Closing, Lease, Release


class Ending(NamedTuple):
    """A lease that somebody is done with, and why."""

    lease: Lease
    verdict: Verdict
    policy: Policy
    cool_down: Millis
    began: float  # by the clock that never steps
    records: int = 0
    dropped: int = 0

    @classmethod
    def of(cls, attempt: Attempt, verdict: Verdict) -> "Ending":
        lease, digest, policy, cool_down, began = attempt
        return cls(lease, verdict, policy, cool_down, began, len(digest.records), digest.dropped)

    @classmethod
    def untried(cls, whole: Whole, verdict: Verdict, *, minimum_delay: float | None = None) -> "Ending":
        """Of a digest that nobody tried to deliver."""
        try:
            cool_down = cool_down_of(whole, minimum_delay)
        except ConfigError:  # its backoff fails; that must not keep it from ending
            cool_down = to_millis(whole.policy.minimum_delay)
        return cls(whole.lease, verdict, whole.policy, cool_down, whole.began, len(whole.records), whole.dropped)


class Settlement:
    """What the store said about each ending: True; False: the lease was lost and nothing changed; None: no answer."""

    def __init__(self, endings: Sequence[Ending]) -> None:
        self.answers: list[bool | None] = [None] * len(endings)
        self.error: StoreError | None = None  # why there was no answer
        self.endings = list(endings)

    def ask(self, kinds: tuple[type, ...], call: Callable[[list[Ending]], Sequence[bool]]) -> None:
        """Make the call for the endings of these kinds, if there are any."""
        places = [place for place, ending in enumerate(self.endings) if isinstance(ending.verdict, kinds)]
        if not places:
            return
        answers: Sequence[bool | None]
        try:
            answers = call([self.endings[place] for place in places])
        except StoreError as error:
            self.error = error
            answers = error.answers or [None] * len(places)
        for place, answer in zip(places, answers, strict=True):
            self.answers[place] = answer

    def keep_dead(self, ending: Ending) -> None:
        """It was to be discarded, and stays a dead letter."""
        assert isinstance(ending.verdict, Drop)
        self.endings[self.endings.index(ending)] = ending._replace(verdict=Bury(ending.verdict.reason))

    def agreed(self, kind: type) -> list[Ending]:
        """The endings of this kind that have taken place."""
        told = zip(self.endings, self.answers, strict=True)
        return [ending for ending, answer in told if answer and isinstance(ending.verdict, kind)]


def conclude(desk: Desk, endings: Sequence[Ending]) -> Settlement:
    """End attempts, one store call for each way to end. Those without an answer may be asked for again."""
    store, at = desk.store, desk.now()
    settlement = Settlement(endings)
    settlement.ask((Deliver,), lambda some: store.close([_closing(ending) for ending in some], now=at))
    settlement.ask((TryAgain, PutOff), lambda some: store.release([_release(desk, each) for each in some], now=at))
    settlement.ask((Bury, Drop), lambda some: store.bury([_burial(ending) for ending in some], now=at))
    for ending in settlement.agreed(Drop):
        try:
            store.discard(ending.lease.digest_id, now=at)
        except StoreError:
            settlement.keep_dead(ending)
    return settlement


def _closing(ending: Ending) -> Closing:
    return Closing(ending.lease, ending.cool_down, ending.policy.max_records)


def _burial(ending: Ending) -> Burial:
    assert isinstance(ending.verdict, Bury | Drop)
    return Burial(ending.lease, ending.verdict.reason, ending.cool_down, ending.policy.max_records)


def _release(desk: Desk, ending: Ending) -> Release:
    verdict = ending.verdict
    assert isinstance(verdict, TryAgain | PutOff)
    until = None if verdict.delay is None else time_of(desk, ending) + verdict.delay
    freeze = verdict.unknown if isinstance(verdict, PutOff) else ending.policy.redelivery == "same"
    return Release(ending.lease, until, freeze=freeze, counted=isinstance(verdict, TryAgain))


def time_of(desk: Desk, ending: Ending) -> Millis:
    """The time of the store that gave the lease, without asking it: leases tell when they began."""
    at = desk.now()
    return ending.lease.until - desk.lease + to_millis(monotonic() - ending.began) if at is None else at
