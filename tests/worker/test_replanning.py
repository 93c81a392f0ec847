"""A worker that starts with other policies than the last one plans what waits again."""

from typing import Any

import pytest

from digestif import AsyncDigests, Digests, Policy, Replanned
from digestif.stores.memory import MemoryStore
from tests.worker.workers import Ear, working


@pytest.mark.parametrize("kind", [Digests, AsyncDigests])
def test_a_worker_plans_again_what_a_changed_policy_moves(kind: Any) -> None:
    store = MemoryStore(namespace="d")
    old = Digests(store, policy=Policy.hourly())
    old.replan_changed()
    old.add("t", 1)
    with old.digest("t"):
        pass
    old.add("t", 2)
    due = old.timeline("t").due

    changed = kind(store, policy=Policy(minimum_delay=7200, maximum_delay=7200))
    changed.handler("*")(lambda _: None)
    ear = Ear(changed)
    with working(changed):
        [told] = ear.wait_for(Replanned)

    assert (told.timelines, told.moved) == (1, 1)
    assert due is not None
    assert old.timeline("t").due == due + 3600
