"""Zone data that change: a government moves its clocks, and processes start with new files."""

import struct
import zoneinfo
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from digestif import Digests, Policy
from digestif.core.windows import zones
from digestif.intake import policies, zone_data
from digestif.stores.memory import MemoryStore

HOUR = 3600.0
DAY = 24 * HOUR
BEGIN = 20_000 * DAY  # midnight in UTC
ZONE = "Test/Atlantis"
Install = Callable[[float], None]


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Install]:
    """Gives this process a zone that leaves UTC this morning, to be so many hours ahead, as if it had just started."""

    def install(hours: float) -> None:
        file = tmp_path / ZONE
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(zone_file(round(BEGIN + 2 * HOUR), round(hours * HOUR)))
        start_with([str(tmp_path)])

    before = zoneinfo.TZPATH
    yield install
    start_with(before)


def start_with(places: "list[str] | tuple[str, ...]") -> None:
    zoneinfo.reset_tzpath(places)
    zoneinfo.ZoneInfo.clear_cache()
    for cached in (zones.zone_of, policies.parsed, policies._shared, zone_data.zone_data_version):
        cached.cache_clear()


def zone_file(change: int, offset: int) -> bytes:
    """A TZif file of a zone that is UTC until the change, and then this many seconds ahead."""
    names, kinds = b"ATL\0", struct.pack(">lBBlBB", 0, 0, 0, offset, 0, 0)
    old = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + kinds[:6] + names
    new = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 1, 2, 4) + struct.pack(">qB", change, 1) + kinds + names
    return old + new + f"\nATL{-offset // 3600:+d}\n".encode()


LATE_EVENING = f"daily@23:30 {ZONE}"


def days(digests: Digests, *, since: float, until: float) -> list[float]:
    """Deliver what is due, twice an hour while a record arrives each hour: how many hours after BEGIN it left."""
    left: list[float] = []
    for number in range(round((until - since) / HOUR * 2)):
        now = since + number * HOUR / 2
        if number % 2:
            digests.add("t", number, now=now - 60)
        for entry in digests.schedule(now, now=now):
            with digests.digest(entry.key, now=now):
                left.append((now - BEGIN) / HOUR)
    return left


@pytest.mark.parametrize("stored", [True, False], ids=["stored for the timeline", "in the code"])
@pytest.mark.parametrize(("hours", "first"), [(1, 22.5), (-2, 25.5)])
def test_a_worker_that_starts_with_new_zone_data_plans_what_waits_again(
    install: Install, hours: float, first: float, stored: bool
) -> None:
    """Before the next 23:30: from then on there is one digest each evening, at 23:30 by the new clocks."""
    store = MemoryStore(namespace="d")

    def start(now: float) -> Digests:
        digests = Digests(store, policy=Policy() if stored else Policy.parse(LATE_EVENING))
        digests.replan_changed(now=now)
        return digests

    install(0)
    old = start(BEGIN - DAY)
    if stored:
        old.set_policy("t", LATE_EVENING, now=BEGIN - DAY)
    assert days(old, since=BEGIN - DAY, until=BEGIN + 10 * HOUR) == [-0.5]

    install(hours)
    new = start(BEGIN + 10 * HOUR)

    assert days(new, since=BEGIN + 10 * HOUR, until=BEGIN + 4.5 * DAY) == [first + 24 * day for day in range(4)]


@pytest.mark.parametrize("hours", [1, -2])
def test_without_a_worker_a_stored_policy_follows_new_zone_data_after_one_delivery(
    install: Install, hours: float
) -> None:
    store = MemoryStore(namespace="d")
    install(0)
    old = Digests(store)
    old.set_policy("t", LATE_EVENING, now=BEGIN - DAY)
    assert days(old, since=BEGIN - DAY, until=BEGIN + 10 * HOUR) == [-0.5]

    install(hours)
    _, *later = days(Digests(store), since=BEGIN + 10 * HOUR, until=BEGIN + 4.5 * DAY)

    assert [hour % 24 for hour in later] == [(23.5 - hours) % 24] * len(later)


def test_the_same_zone_data_move_nothing(install: Install) -> None:
    store = MemoryStore(namespace="d")
    install(0)
    old = Digests(store)
    old.replan_changed(now=BEGIN)
    old.set_policy("t", LATE_EVENING, now=BEGIN)
    old.add("t", 1, now=BEGIN)
    before = store.note(0, "policies")

    install(0)
    assert Digests(store).replan_changed(now=BEGIN + HOUR) == 0
    assert store.note(0, "policies") == before
