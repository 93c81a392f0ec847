"""Recovery from kills, in virtual time: soon, and without a burial of a healthy digest. See `recovery`."""

import pytest

from tests.worker.recovery import Case, recover, second_kills

pytestmark = pytest.mark.long


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("healthy", [100, 1_000])
def test_what_killed_workers_held_is_delivered_within_the_bound(healthy: int, workers: int) -> None:
    """Fact 83. Whenever the second kill comes, in groups of any size."""
    case = Case(healthy, workers=workers)

    moments = second_kills(case) if healthy == 100 else second_kills(case)[1::4]
    found = [recover(case._replace(kills=(case.handler / 2, again))) for again in moments]

    assert [recovery.seconds for recovery, bound in found if recovery.seconds > bound] == []
    assert [recovery.buried for recovery, _ in found if recovery.buried] == []


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("poison", [1, 3])
@pytest.mark.parametrize("healthy", [60, 1_000])
def test_only_digests_that_end_their_workers_are_buried(healthy: int, poison: int, workers: int) -> None:
    """Fact 66. However many lapsed with them."""
    recovery, _ = recover(Case(healthy, poison=poison, workers=workers))

    assert sorted(recovery.buried) == [f"p{number}" for number in range(poison)]
