"""A process that the schema no longer lets write is stopped at its next call; additive changes stop none (fact 80).

The processes are real, each with a build of this package: this one, and copies whose numbers are raised.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import serving
from tests.upgrades.builds import FAULTS, PLACES, Fault, Place, Process, Refusal, build

pytestmark = pytest.mark.long

Start = Callable[..., Process]


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with request.param(tmp_path) as place:
        yield place


@pytest.fixture
def start(place: Place, tmp_path: Path) -> Iterator[Start]:
    """Start a process on the store: of this build, or of one whose numbers are raised by so many."""
    processes: list[Process] = []

    def start(*, newer_by: int = 0, oldest_by: int = 0) -> Process:
        if newer_by:
            folder = tmp_path / f"build-{len(processes)}"
            processes.append(Process(place.dsn, build(folder, newer_by=newer_by, oldest_by=oldest_by)))
        else:
            processes.append(Process(place.dsn))
        if newer_by and place.waits:
            processes[-1].migrate()
        processes[-1].pending()  # opens the store, and brings it up to date
        return processes[-1]

    yield start
    for process in processes:
        process.end()


def refusal(call: Callable[[], Any]) -> Refusal:
    with pytest.raises(Refusal) as refused:
        call()
    return refused.value


# Additive


def test_an_additive_change_leaves_processes_of_the_version_before_at_work(place: Place, start: Start) -> None:
    old = start()
    old.add("kept")
    old.open("kept")
    old.work()
    old.add("a", "b")
    old.wait_for("a", "b")

    new = start(newer_by=1)
    old.add("c", "d")
    old.add_one("e")
    old.close("kept")
    new.add_one("f")
    late = start()

    assert old.wait_for("a", "b", "c", "d", "e", "f") == ["a", "b", "c", "d", "e", "f"]
    assert late.add_one("g") in (True, False)
    assert old.wait_for("g")[-1] == "g"
    assert old.reports() == []
    assert [process.verify() for process in (old, late, new)] == [True] * 3


def test_a_number_that_a_running_process_still_reaches_does_not_stop_it(place: Place, start: Start) -> None:
    """The process is of the second version; the third raises the oldest that may write to the second."""
    middle = start(newer_by=1)
    middle.add("kept")
    middle.open("kept")
    middle.work()
    middle.add("a")
    middle.wait_for("a")

    new = start(newer_by=2, oldest_by=1)
    middle.add("b", "c")
    middle.add_one("d")
    middle.close("kept")

    assert middle.wait_for("a", "b", "c", "d") == ["a", "b", "c", "d"]
    assert middle.reports() == []
    assert middle.verify()
    assert new.verify()


# Fenced


def test_a_process_that_is_too_old_is_stopped_in_the_middle_of_its_work(place: Place, start: Start) -> None:
    old = start()
    old.add("open", "quiet", "later")
    old.open("open")
    old.work()
    old.add_one("busy")
    assert old.wait_until_busy()
    before = old.wait_for("quiet", "later")

    new = start(newer_by=1, oldest_by=1)
    new.refuse("quiet")
    new.add("quiet", "busy-2", "later")
    content = place.content()
    refusals = [refusal(partial(old.add_one, "quiet")), refusal(partial(old.add, "quiet", "x", "y"))]
    refusals += [refusal(partial(old.close, "open")), refusal(old.pending), refusal(old.verify)]
    old.release()
    old.pause_for(2.0)

    version = place.version
    for refused in refusals:
        assert refused.kind == "StoreError", refused
        assert f"processes of version {version + 1} or later, and this process has version {version}" in refused.text
        assert "Nothing was changed, and nothing is lost. Upgrade this process" in refused.text
    assert place.content() == content
    assert old.wait_for() == before
    assert new.declined() == 1
    assert new.verify()


def test_every_call_of_a_process_that_is_too_old_is_refused(place: Place, start: Start) -> None:
    old = start()
    old.add("t", "u")
    new = start(newer_by=1, oldest_by=1)
    content = place.content()

    calls: list[list[Any]] = [
        *(["add", "t", 2], ["retract", "t", "k"], ["flush", "t"], ["pause", "t"], ["resume", "t"], ["delete", "t"]),
        *(["prefer", "t", "daily"], ["schedule"], ["maintenance"], ["replan", "*"]),
        *(["timeline", "t"], ["timelines"], ["peek", "t"], ["explain", "t"], ["ledger"], ["verify"], ["repair"]),
        *(["dead_letters"], ["history"], ["replay", "d"], ["requeue", "d"], ["discard", "d"], ["trace", "t", "k"]),
        *(["backlog"], ["workers"], ["messages"]),
    ]
    for call in calls:
        assert refusal(partial(old.call, *call)).kind == "StoreError", call
    assert place.content() == content
    assert new.verify()


def test_the_worker_of_a_process_that_is_too_old_says_why_and_does_not_spin(place: Place, start: Start) -> None:
    old = start()
    old.work()
    old.add("a")
    old.wait_for("a")

    new = start(newer_by=1, oldest_by=1)
    new.add("b")
    assert old.wait_for_report()
    old.pause_for(2.0)
    failures = [report for report in old.reports() if report.startswith("StoreFailed")]

    assert old.delivered() == ["a"]
    assert failures
    assert all("Upgrade this process" in failure for failure in failures)
    assert len(failures) < 40, failures


def test_a_process_that_is_too_old_does_not_open_the_store(place: Place, start: Start) -> None:
    new = start(newer_by=1, oldest_by=1)
    new.add("a")
    content = place.content()

    refused = refusal(start)

    assert refused.kind == "ConfigError"
    assert "Upgrade this process" in refused.text
    assert place.content() == content
    assert new.verify()


def test_a_service_that_is_too_old_answers_503(place: Place, start: Start) -> None:
    with serving(place.dsn) as (client, _):
        client.add("t", 1)
        new = start(newer_by=1, oldest_by=1)
        content = place.content()

        replies = [client.post("/v1/timelines/t/records", {"value": 2}), client.get("/v1/ledger")]

        assert [reply.status for reply in replies] == [503, 503]
        assert place.content() == content
        assert new.verify()


@pytest.mark.parametrize("place", PLACES[1:2], indirect=True, ids=["postgres"])
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_an_add_inside_the_callers_transaction_is_refused_too(place: Place, start: Start, isolation: str) -> None:
    old = start()
    old.add_inside("a", isolation)
    new = start(newer_by=1, oldest_by=1)
    assert new.pending() == 1
    content = place.content()

    refused = refusal(partial(old.add_inside, "b", isolation))

    assert refused.kind == "StoreError"
    assert "Upgrade this process" in refused.text
    assert place.content() == content


# Planted faults


PLANTED = [(place, fault) for fault in FAULTS for place in PLACES if place.__name__ in fault.places]


@pytest.mark.parametrize(("place", "fault"), PLANTED, indirect=["place"], ids=lambda it: getattr(it, "says", ""))
def test_a_process_whose_guard_is_gone_is_found(place: Place, fault: Fault, start: Start, tmp_path: Path) -> None:
    """The same calls as above are then not refused, and change what is stored."""
    old = Process(place.dsn, fault.plant(tmp_path / "faulty"))
    try:
        getattr(old, fault.act)("t")
        start(newer_by=1, oldest_by=1)
        content = place.content()

        getattr(old, fault.act)("t")

        assert place.content() != content
    finally:
        old.end()
