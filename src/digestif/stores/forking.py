"""Forks: stores that a process has open are brought to rest before it forks, and go on in both parent and child."""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """A store that wants to know of forks."""

    def before_fork(self) -> None: ...
    def after_fork(self, *, in_child: bool) -> None: ...


_watched: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_resting: list[Forkable] = []


def watch(store: Forkable) -> None:
    """Tell the store of every fork, as long as it lives."""
    _watched.add(store)


def _before() -> None:
    _resting[:] = list(_watched)  # others may come and go meanwhile
    for store in _resting:
        store.before_fork()


def _after(*, in_child: bool) -> None:
    for store in _resting:
        store.after_fork(in_child=in_child)
    _resting.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(in_child=False),
        after_in_child=lambda: _after(in_child=True),
    )
