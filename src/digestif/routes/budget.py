"""Budgets: how many messages a route may send to a recipient in a time. A digest beyond that waits and grows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from digestif.attempts.delivery import Delivery
from digestif.core.policy import check_delay
from digestif.core.texts import shortened
from digestif.core.times import Duration, Millis, to_millis, to_seconds
from digestif.errors import ConfigError
from digestif.stores.note import Note

BOOKS = 256
MOST_MESSAGES = 1000  # each is noted, and read with every later one
Entries = dict[str, Millis]  # by digest: until when it counts
Book = dict[str, Entries]  # by account

_decode = msgspec.json.Decoder(Book).decode


@dataclass(frozen=True, slots=True)
class Budget:
    """Each recipient of a route gets at most `messages` through it in any `per` seconds. Other routes do not count."""

    messages: int
    per: float  # seconds

    if TYPE_CHECKING:  # a timedelta is kept as its seconds

        def __init__(self, messages: int, per: Duration) -> None: ...

    def __post_init__(self) -> None:
        if type(self.messages) is not int or self.messages < 1:
            raise ConfigError(f"budget: {shortened(self.messages)} is not a whole number of messages ≥ 1")
        if self.messages > MOST_MESSAGES:
            raise ConfigError(f"budget: {self.messages:,} messages are more than {MOST_MESSAGES:,}; shorten the time")
        object.__setattr__(self, "per", check_delay("budget", self.per))
        if self.per == 0:
            raise ConfigError("budget: 0 seconds are no time; leave the budget out for no limit")


class Account:
    """The messages that recipients of a route got lately. They are noted in the store, so that all workers share them.

    A fixed number of notes, the books, hold the accounts of all recipients. An account has an entry for each digest
    that was sent; sending that digest again, after a kill, adds none. Every write to a book removes entries that ended.
    """

    def __init__(self, budget: Budget, pattern: str) -> None:
        self._budget = budget
        self._per = to_millis(budget.per)
        self._pattern = pattern

    def spend(self, delivery: Delivery, recipient: str) -> float:
        """Enter a message and return 0; or, if the budget is spent, enter nothing and return the seconds to wait."""
        wait: Millis = 0
        digest = delivery.digest.id

        def spent(entries: Entries, now: Millis) -> Entries:
            nonlocal wait
            latest = now + self._per
            entries = {name: min(end, latest) for name, end in entries.items()}  # another clock may have been ahead
            ends = sorted(end for name, end in entries.items() if name != digest)
            over = len(ends) - self._budget.messages
            wait = 0 if over < 0 else ends[over] - now
            return entries if wait else {**entries, digest: latest}

        self._change(delivery, recipient, spent)
        return to_seconds(wait)

    def give_back(self, delivery: Delivery, recipient: str) -> None:
        """Remove the entry of a message that was not sent."""
        digest = delivery.digest.id
        self._change(
            delivery, recipient, lambda entries, _: {name: end for name, end in entries.items() if name != digest}
        )

    def _change(self, delivery: Delivery, recipient: str, change: Callable[[Entries, Millis], Entries]) -> None:
        """Change one account in its book, and remove entries from the others that have ended."""
        store = delivery.held.store
        account = f"{self._pattern}\0{recipient}"
        number = crc32(account.encode()) % BOOKS
        partition = number % store.partitions

        def changed(book: Book) -> Book:
            now = delivery.now()
            now = store.time(partition) if now is None else now
            live = {name: {key: end for key, end in each.items() if end > now} for name, each in book.items()}
            before = live.get(account, {})
            live[account] = change(before, now)
            return book if live[account] == before else {name: each for name, each in live.items() if each}

        Note(store, f"budget-{number}", decode=_decode, empty=Book(), partition=partition).update(changed)
