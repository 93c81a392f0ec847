"""Forks: open stores come to rest before their process forks, and go on in both parent and child."""

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """A store that prepares for forks."""

    def before_fork(self) -> None: ...
    def after_fork(self, *, in_child: bool) -> None: ...


_watched: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
# The stores at rest, per fork under way in this thread: a signal handler may fork while `_before` runs.
_forks: list[list[Forkable]] = []
_one_thread = threading.RLock()  # forks at a time


def watch(store: Forkable) -> None:
    """Call the store before and after every fork, as long as it lives."""
    _watched.add(store)


def _before() -> None:
    _one_thread.acquire()
    resting = [store for fork in _forks for store in fork]
    _forks.append([])
    for store in list(_watched):  # a copy: other threads may open and close stores
        if store not in resting:
            _forks[-1].append(store)
            store.before_fork()


def _after(*, in_child: bool) -> None:
    try:
        for store in _forks.pop():
            store.after_fork(in_child=in_child)
    finally:
        _one_thread.release()  # also in the child: its only thread is the one that acquired it


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(in_child=False),
        after_in_child=lambda: _after(in_child=True),
    )
