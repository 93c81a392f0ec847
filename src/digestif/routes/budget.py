"""Budgets: how many messages a recipient may get in a time. What does not fit waits, and gathers more."""

from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

import msgspec

from digestif.core.policy import check_delay
from digestif.core.texts import shortened
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.desk import Desk
from digestif.errors import ConfigError

BOOKS = 256
Book = dict[str, list[Millis]]  # by account

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Book).decode


@dataclass(frozen=True, slots=True)
class Budget:
    """At most so many messages in any so many seconds, for each recipient."""

    messages: int
    per: float  # seconds

    def __post_init__(self) -> None:
        if type(self.messages) is not int or self.messages < 1:
            raise ConfigError(f"budget: {shortened(self.messages)} is not a whole number of messages ≥ 1")
        check_delay("budget", self.per)


class Account:
    """What the recipients of a route have spent. Kept in the store, so that all who deliver go by one account.

    A few notes, the books, hold the accounts of all recipients. An account is a list of ends: the times at which the
    messages that were sent stop to count. Whoever writes in a book leaves out what has ended.
    """

    def __init__(self, budget: Budget, pattern: str) -> None:
        self._budget = budget
        self._per = to_millis(budget.per)
        self._pattern = pattern

    def spend(self, desk: Desk, recipient: str) -> float:
        """Take one message out of the budget: 0, or the seconds after which there is room, with nothing taken."""
        wait: Millis = 0

        def spent(ends: list[Millis], now: Millis) -> list[Millis]:
            nonlocal wait
            over = len(ends) - self._budget.messages
            wait = 0 if over < 0 else max(1, min(ends[over] - now, self._per))
            return ends if wait else sorted([*ends, now + self._per])

        self._turn(desk, recipient, spent)
        return to_seconds(wait)

    def give_back(self, desk: Desk, recipient: str) -> None:
        """It was not sent after all."""
        self._turn(desk, recipient, lambda ends, _: ends[:-1])

    def _turn(self, desk: Desk, recipient: str, change: Callable[[list[Millis], Millis], list[Millis]]) -> None:
        """Write a change of one account into its book, again if somebody else has written there meanwhile."""
        account = f"{self._pattern}\0{recipient}"
        number = crc32(account.encode()) % BOOKS
        name, partition = f"budget-{number}", number % desk.store.partitions
        is_written = False
        while not is_written:
            noted, now = desk.store.note(partition, name), desk.now()
            now = desk.store.time(partition) if now is None else now
            book = _open_book(noted, now)
            before = book.get(account, [])
            book[account] = change(before, now)
            is_written = book[account] == before or desk.store.swap_note(partition, name, noted, _closed_book(book))


def _open_book(noted: bytes | None, now: Millis) -> Book:
    book: Book = {} if noted is None else _decode(noted)
    return {account: [end for end in ends if end > now] for account, ends in book.items()}


def _closed_book(book: Book) -> bytes | None:
    used = {account: ends for account, ends in book.items() if ends}
    return _encode(used) if used else None
