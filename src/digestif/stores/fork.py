"""Forks: stores that a process has open are brought to rest before it forks, and go on in both parent and child."""

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """A store that wants to know of forks."""

    def before_fork(self) -> None: ...
    def after_fork(self, *, in_child: bool) -> None: ...


_watched: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_forks: list[
    list[Forkable]
] = []  # under way in this thread: a signal handler may fork while a fork brings stores to rest
_one_thread = threading.RLock()  # forks at a time


def watch(store: Forkable) -> None:
    """Tell the store of every fork, as long as it lives."""
    _watched.add(store)


def _before() -> None:
    _one_thread.acquire()
    resting = [store for fork in _forks for store in fork]
    _forks.append([])
    for store in list(_watched):  # others may come and go meanwhile
        if store not in resting:
            _forks[-1].append(store)
            store.before_fork()


def _after(*, in_child: bool) -> None:
    try:
        for store in _forks.pop():
            store.after_fork(in_child=in_child)
    finally:
        _one_thread.release()  # the child's only thread is the one that took it


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(in_child=False),
        after_in_child=lambda: _after(in_child=True),
    )
