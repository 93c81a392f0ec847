"""Every error that Digestif raises on purpose.

DigestifError
├── InvalidState            the timeline is not in a state that allows this
│   └── Busy                another attempt holds the lease, an unfinished digest is in the way, or a move
├── StaleLease              the lease lapsed or was lost; nothing was changed
├── ConfigError             an option, a policy or a DSN is wrong
├── InvalidRecord           a record was refused before anything was written
├── AccessDenied            a service refused the token of its client
└── StoreError              the store could not do it
    ├── StoreUnavailable    … now: it can't be reached, written or locked
    └── Overloaded          … because it refuses to grow
"""

from collections.abc import Iterable
from copy import copy
from typing import Self


class DigestifError(Exception):
    """The root of the tree: catch this to catch everything that Digestif raises on purpose."""


class InvalidState(DigestifError):
    """The timeline is not in a state that allows this: it is waiting, idle or paused. Nothing was done."""


class Busy(InvalidState):
    """Another attempt holds the timeline's digest, an unfinished one is in the way, or the store is being moved.

    Nothing was done.
    """


class StaleLease(DigestifError):
    """The lease lapsed, or the timeline was deleted or taken over. Nothing was changed."""


class ConfigError(DigestifError):
    """An option, a policy or a DSN is wrong; the message names the field and what it takes."""


class InvalidRecord(DigestifError):
    """A record was refused because of its key, value or timestamp, before anything was written."""


class AccessDenied(DigestifError):
    """A service refused the token of its client: it is unknown, lacks a scope, or does not reach the timeline."""


class StoreError(DigestifError):
    """The store could not do what was asked.

    If only some partitions or pages failed, `answers` holds the answer for each item that the caller gave, None for
    those that failed or of which nothing is known. If `answers` is None, that holds for every item.
    """

    answers: tuple[bool | None, ...] | None = None

    def knowing(self, answers: Iterable[bool | None]) -> Self:
        """This error, with what is known of each item of the batch."""
        error = copy(self).with_traceback(self.__traceback__)
        error.__cause__ = self.__cause__
        error.answers = tuple(answers)
        return error


class StoreUnavailable(StoreError):
    """The store can't be reached, locked or written now. What was not acknowledged may be added again."""


class Overloaded(StoreError):
    """The store refuses to grow: records are refused before acceptance. Delivery goes on as far as there is room."""
