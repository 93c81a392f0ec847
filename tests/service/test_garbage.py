"""Full garbage collections of a service: seldom, and while it holds little."""

import gc

import pytest

from digestif.service.garbage import AT_LATEST, EVERY, LITTLE, MANY, Garbage


class Process:
    """A process whose time and memory the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.held, self.grown, self.collected = 0.0, 0, 0, list[float]()
        self.garbage = Garbage(lambda: self.held, lambda: self.now)
        monkeypatch.setattr(gc, "collect", lambda: self.collected.append(self.now))
        monkeypatch.setattr(gc, "get_count", lambda: (0, 0, self.grown))

    def look(self, now: float) -> None:
        self.now = now
        self.garbage.tick()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


def test_a_calm_process_collects_every_few_minutes(process: Process) -> None:
    for now in (10, EVERY - 1, EVERY, EVERY + 10, 2 * EVERY):
        process.look(now)

    assert process.collected == [EVERY, 2 * EVERY]


def test_while_many_records_are_held_a_collection_waits_but_not_for_ever(process: Process) -> None:
    process.held, process.grown = LITTLE, MANY
    for now in (10, EVERY, AT_LATEST - 1, AT_LATEST, AT_LATEST + 10):
        process.look(now)

    assert process.collected == [AT_LATEST]


def test_what_many_objects_have_left_is_collected_as_soon_as_the_process_is_calm(process: Process) -> None:
    process.held, process.grown = LITTLE, MANY
    process.look(10)
    process.held = 0
    process.look(20)

    assert process.collected == [20]
