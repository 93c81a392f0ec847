"""Everything of a store goes into another: nothing is lost, doubled or changed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any

import msgspec
import pytest

from digestif import Busy, ConfigError, Digests, Policy, Record
from digestif.core.ledger import Ledger
from digestif.core.records import State
from digestif.core.times import to_seconds
from digestif.stores.registry import open_store
from digestif.transfer import Move, abandon
from digestif.transfer.lock import LOCK, LOCK_SECONDS, MoveNote, Stage
from tests.transfer.population import NOW, POLICY, T, populate, seen, seen_letters
from tests.transfer.stores import KINDS, store_of

pytestmark = pytest.mark.long

Make = Callable[[str], Any]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as stack:
        yield lambda kind: stack.enter_context(store_of(kind, tmp_path))


def moved(source: Any, target: Any, *, patience: float = 5, lock_seconds: float = LOCK_SECONDS) -> Move:
    move = Move(source, target, now=lambda: NOW, lock_seconds=lock_seconds)
    move.run(patience=patience)
    return move


def by_id(letters: list[Any]) -> list[Any]:
    return sorted(letters, key=lambda pair: pair[0].id)


def test_a_lock_of_a_clock_that_was_set_back_is_free(make: Make) -> None:
    """A process died while the clock was a day ahead: the move goes on, and does not wait for a day."""
    source, target = make("memory"), make("memory")
    ahead = MoveNote("m", Stage.BEGUN, "dead", source.time(0) / 1000 + 86_400)
    source.swap_note(0, LOCK, None, msgspec.json.encode(ahead))

    moved(source, target, patience=0)

    assert source.note(0, LOCK) is None


@pytest.mark.parametrize(("here", "there"), [*pairwise((*KINDS, KINDS[0]))])
def test_everything_arrives_as_it_was(make: Make, here: str, there: str) -> None:
    """From each store and to each; torture/test_move.py has all directions."""
    source, target = make(here), make(there)
    populate(source, each=2, records=4, large=1200)
    timelines, letters, ledger = seen(source), seen_letters(source), source.ledger()

    moved(source, target)

    arrived = seen(target)
    assert arrived.keys() == timelines.keys()
    for name, was in timelines.items():
        if name.startswith("lapsed"):  # it may have gone out
            assert arrived[name].slot.digest.frozen  # type: ignore[union-attr]
            assert arrived[name].slot.state is State.WAITING
            assert arrived[name][1:] == was[1:]
        else:
            assert arrived[name] == was
    assert by_id(seen_letters(target)) == by_id(letters)
    assert target.ledger() == ledger
    assert target.verify()
    assert source.verify()
    assert source.ledger() == Ledger()
    assert {kind: count for kind, count in source.footprint().items() if count} == {}
    assert target.footprint().get("notes", 0) == 0


@pytest.mark.parametrize("there", KINDS)
def test_times_of_records_travel_with_them(make: Make, there: str) -> None:
    source, target = make("memory"), make(there)
    digests = Digests(source, policy=Policy(minimum_delay=300, ttl=7200, maximum_delay=1800))
    digests.add("t", 1, key="first", now=T)
    with digests.digest("t", now=T + 1):
        pass
    digests.add("t", 2, key="urgent", within=60, now=T + 10)
    digests.add("t", 3, key="other", now=T + 600)

    moved(source, target)

    after = Digests(target)
    assert after.timeline("t").due == T + 70
    assert after.retract("t", "urgent", now=T + 700)
    assert target.inspect("t").deadline is None
    assert after.maintenance(now=T + 600 + 7199) == 0
    assert after.ledger().expired == 0
    after.maintenance(now=T + 600 + 7200)
    assert after.ledger().expired == 1


def test_a_digest_keeps_its_id_and_its_attempts(make: Make) -> None:
    source, target = make("sqlite"), make("redis")
    digests = Digests(source, policy=POLICY)
    digests.add("t", 1, now=T)
    keys = []
    with pytest.raises(RuntimeError), digests.digest("t", now=T + 1) as digest:
        keys.append(digest.id)
        raise RuntimeError

    moved(source, target)

    with Digests(target, policy=POLICY).digest("t", now=T + 5) as again:
        assert (again.id, again.revision, again.attempt) == (keys[0], 1, 2)


@pytest.mark.parametrize("there", KINDS)
def test_a_timeline_that_lives_in_both_goes_on_where_it_goes_to(make: Make, there: str) -> None:
    """A producer switched before the timeline was moved: its records are later versions, and keep their time."""
    source, target = make("memory"), make(there)
    old, new = Digests(source, policy=POLICY), Digests(target, policy=POLICY)
    old.add("t", "older", key="both", now=T)
    old.add("t", "left behind", key="old", now=T)
    new.add("t", "newer", key="both", now=T + 1)
    with new.digest("t", now=T + 2):
        pass
    new.add("t", "newest", key="both", now=T + 3)
    due = new.timeline("t").due

    moved(source, target)

    assert new.timeline("t").due == due
    assert {record.key: record.value for record in new.peek("t")} == {"both": "newest", "old": "left behind"}
    assert new.ledger() == Ledger(accepted=4, pending=2, delivered=1, superseded=1)
    assert new.verify()


@pytest.mark.parametrize("there", KINDS)
def test_a_later_version_that_is_added_to_the_old_store_comes_after(make: Make, there: str) -> None:
    """A producer that has not switched yet."""
    source, target = make("memory"), make(there)
    old, new = Digests(source, policy=POLICY), Digests(target, policy=POLICY)
    old.add("t", "first", key="k", now=T)
    moved(source, target)
    old.add("t", "second", key="k", now=T + 1)
    moved(source, target)

    assert [record.value for record in new.peek("t")] == ["second"]
    assert new.ledger() == Ledger(accepted=2, pending=1, superseded=1)
    assert new.verify()


@pytest.mark.parametrize("there", ["memory", "redis"])
def test_an_unfinished_digest_waits_for_the_one_that_is_there(make: Make, there: str) -> None:
    source, target = make("memory"), make(there)
    for number, store in enumerate((source, target)):
        digests = Digests(store, policy=POLICY)
        digests.add("t", number, key=str(number), now=T)
        with pytest.raises(RuntimeError), digests.digest("t", now=T + 1):
            raise RuntimeError

    with pytest.raises(Busy, match="1 are left"):
        moved(source, target, patience=0)
    assert source.inspect("t").state is State.READY  # and can be delivered here as well

    with Digests(target, policy=POLICY).digest("t", now=T + 5):
        pass
    moved(source, target)
    assert target.inspect("t").digest is not None
    assert target.verify()


@pytest.mark.parametrize("here", KINDS)
def test_a_delivery_that_is_under_way_is_not_disturbed(make: Make, here: str) -> None:
    source, target = make(here), make("memory")
    digests = Digests(source, policy=POLICY)
    digests.add("t", 1, now=T)
    digests.add("other", 1, now=T)
    end = to_seconds(NOW)

    with digests.digest("t", now=end - 1):
        with pytest.raises(Busy):
            moved(source, target, patience=0)
        assert seen(target).keys() == {"other"}
    moved(source, target)

    assert target.inspect("t").last == NOW - 1000
    assert target.ledger() == Ledger(accepted=2, delivered=1, pending=1)


def test_a_timeline_on_its_way_says_so(make: Make) -> None:
    source = make("memory")
    digests = Digests(source, policy=POLICY)
    digests.add("t", 1, key="a", now=T)
    source.begin_export(["t"], token="road", now=NOW)

    with pytest.raises(Busy):
        digests.digest("t", now=T + 9_000_000).__enter__()
    assert "another store" in digests.explain("t", now=T).summary


@pytest.mark.parametrize("there", KINDS)
def test_a_page_that_comes_twice_counts_once(make: Make, there: str) -> None:
    """A reply got lost, or another process was faster."""
    source, target = make("memory"), make(there)
    populate(source, each=1, records=3)
    ledger = source.ledger()
    arrive = target.import_pages

    def twice(pages: Any, **named: Any) -> Any:
        answers = arrive(pages, **named)
        assert [answer and answer.done for answer in arrive(pages, **named)] == [
            answer and answer.done for answer in answers
        ]
        return answers

    target.import_pages = twice
    moved(source, target)

    assert target.ledger() == ledger
    assert target.verify()


def test_a_move_that_was_begun_goes_to_the_same_store(make: Make) -> None:
    source, target, other = make("memory"), make("memory"), make("memory")
    populate(source, each=1, records=1)
    stopped = Move(source, target, now=lambda: NOW, report=lambda _: stopped.stop())
    stopped.run()

    with pytest.raises(ConfigError, match="same target"):
        moved(source, other)
    moved(source, target)
    moved(target, other)  # a new one may go anywhere


@pytest.mark.parametrize("there", KINDS)
def test_who_was_frozen_brings_nothing_after_another_went_on(make: Make, there: str) -> None:
    """Its lock lapsed before it sent a page: another process has moved everything and deleted all notes."""
    source, target = make("memory"), make(there)
    populate(source, each=1, records=3)
    ledger = source.ledger()
    arrive = target.import_pages

    def frozen(pages: Any, **named: Any) -> Any:
        target.import_pages = arrive
        moved(source, target)
        return arrive(pages, **named)

    target.import_pages = frozen
    with pytest.raises(Busy, match="away for too long"):
        moved(source, target, lock_seconds=0)

    assert target.ledger() == ledger
    assert target.footprint().get("notes", 0) == 0


@pytest.mark.parametrize("there", KINDS)
def test_a_dead_letter_that_is_not_whole_is_nobodys(make: Make, there: str) -> None:
    source, target = make("memory"), make(there)
    populate(source, each=1, records=2, large=target.page_records + 5)
    arrive, whole = target.import_pages, []

    def look(pages: Any, **named: Any) -> Any:
        answers = arrive(pages, **named)
        for page, mark in zip(pages, answers, strict=True):
            if page.parcel.letter is not None and not mark.whole:
                name = f"coming:{page.parcel.id}"
                whole.append(mark.whole)
                assert target.letters(None, after=None, limit=10) == []
                assert target.letter(name) is None
                assert not target.replay(name, now=NOW)
                assert not target.discard(name, now=NOW)
                assert target.verify()
        return answers

    target.import_pages = look
    moved(source, target)

    assert whole
    assert len(target.letters(None, after=None, limit=10)) == 1


@pytest.mark.parametrize("there", KINDS)
def test_of_a_timeline_that_is_deleted_on_its_way_nothing_stays(make: Make, there: str) -> None:
    source, target = make("memory"), make(there)
    source.page_records = 10
    populate(source, each=1, records=2, large=25)
    arrive, deleted = target.import_pages, []

    def delete(pages: Any, **named: Any) -> Any:
        answers = arrive(pages, **named)
        for page, mark in zip(pages, answers, strict=True):
            if page.parcel.kind != "pending" and not mark.whole and page.parcel.timeline not in deleted:
                deleted.append(page.parcel.timeline)
                source.delete(page.parcel.timeline, now=NOW)
        return answers

    target.import_pages = delete
    moved(source, target)

    assert len(deleted) == 4  # a failed digest, a lapsed one, a suspect, a dead letter
    for timeline in deleted:
        slot = target.inspect(timeline)
        assert (slot.digest, slot.parked) == (None, None)
    assert target.letters(None, after=None, limit=10) == []
    assert target.verify()
    assert source.verify()
    assert {kind: count for kind, count in target.footprint().items() if kind == "notes" and count} == {}


@pytest.mark.parametrize("here", KINDS)
def test_a_move_whose_target_is_gone_can_be_given_up(make: Make, here: str) -> None:
    source = make(here)
    populate(source, each=1, records=3)
    before = {name: len(was.pending) + len(was.digest) for name, was in seen(source).items()}
    ledger = source.ledger()
    gone = open_store("memory://")
    stopped = Move(source, gone, now=lambda: NOW, report=lambda _: stopped.stop())  # type: ignore[arg-type]
    monkey = source.commit_export
    source.commit_export = lambda *_, **__: []
    stopped.run()
    source.commit_export = monkey

    assert abandon(source, now=NOW) > 0

    assert {name: len(was.pending) + len(was.digest) for name, was in seen(source).items()} == before
    assert not any(was.slot.parked for was in seen(source).values())
    assert source.ledger().accepted == ledger.accepted
    assert source.verify()
    moved(source, make("memory"))


def test_a_store_is_not_moved_into_itself_under_another_name(make: Make, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    source, same = (open_store(f"sqlite:///{folder}/one.db") for folder in (tmp_path, tmp_path / "link"))
    populate(source, each=1, records=1)

    with pytest.raises(ConfigError, match="same store"):
        moved(source, same)
    moved(source, make("memory"))

    source.close()
    same.close()


def test_two_can_not_move_the_same_store_at_once(make: Make) -> None:
    source, target = make("memory"), make("memory")
    populate(source, each=1, records=1)
    refused: list[Any] = []

    def meanwhile(_: Any) -> None:
        if not refused:
            with pytest.raises(Busy, match="another process") as error:
                moved(source, target, patience=0)
            refused.append(error)

    Move(source, target, now=lambda: NOW, report=meanwhile).run()

    assert refused


def test_heavy_records_go_in_small_pages(make: Make) -> None:
    source, target = make("memory"), make("redis")
    digests = Digests(source, policy=POLICY)
    digests.add_many([("t", Record(str(n), "x" * 200_000, T + n)) for n in range(40)], now=T)
    sizes = []
    arrive = target.import_pages

    def weighed(pages: Any, **named: Any) -> Any:
        sizes.append(sum(len(item.record.payload) for page in pages for item in page.records))
        return arrive(pages, **named)

    target.import_pages = weighed
    moved(source, target)

    assert max(sizes) <= 1.3 * 2**20
    assert target.ledger().pending == 40


# Nothing is delivered at the source


@pytest.mark.parametrize("here", KINDS)
def test_the_source_delivers_nothing_from_the_first_export_to_the_end(make: Make, here: str) -> None:
    source, target = make(here), make("memory")
    populate(source, each=2, records=2)
    while_moving: list[bool] = []

    def look(_: Any) -> None:
        while_moving.append(source.moving_since() is not None)

    Move(source, target, now=lambda: NOW, report=look).run()

    assert len(while_moving) > 3
    assert all(while_moving[:-1])  # the last report says that it is finished
    assert not while_moving[-1]


@pytest.mark.parametrize("here", KINDS)
def test_a_move_that_goes_on_stops_deliveries_again(make: Make, here: str) -> None:
    """The process was killed before the mark was set everywhere; or a copy of the store was restored without it."""
    source, target = make(here), make("memory")
    populate(source, each=2, records=2)
    stopped = Move(source, target, now=lambda: NOW, report=lambda _: stopped.stop())
    stopped.run()
    for partition in range(source.partitions):
        source.end_move(partition, None)

    stopped = Move(source, target, now=lambda: NOW, report=lambda _: stopped.stop())
    stopped.run()

    assert source.moving_since() is not None


@pytest.mark.parametrize("here", KINDS)
def test_who_was_frozen_before_the_mark_leaves_none_after_the_end(make: Make, here: str) -> None:
    """Another process has moved everything meanwhile."""
    source, target = make(here), make("memory")
    populate(source, each=1, records=1)
    begin = source.begin_move

    def frozen(partition: int, move_id: str, **named: Any) -> Any:
        source.begin_move = begin
        moved(source, target)
        return begin(partition, move_id, **named)

    source.begin_move = frozen
    with pytest.raises(Busy, match="away for too long"):
        moved(source, target, lock_seconds=0)

    assert source.moving_since() is None


def test_what_is_due_is_moved_before_the_rest(make: Make) -> None:
    source, target = make("memory"), make("memory")
    digests = Digests(source, policy=POLICY)
    for number in range(450):
        digests.add(f"a{number:03}", 1, first_delay=10_000, now=T)
    digests.add("z", 1, now=T)
    order: list[str] = []
    arrive = target.import_pages

    def look(pages: Any, **named: Any) -> Any:
        order.extend(page.parcel.timeline for page in pages)
        if len(order) == 1:
            digests.add("y", 1, now=T)  # due at once, while the bulk is moved
        return arrive(pages, **named)

    target.import_pages = look
    moved(source, target)

    assert order[0] == "z"
    assert order.index("y") < 250
    assert len(set(order)) == 452


# Interrupted at every point


class Cut(Exception):
    """Here the process was killed."""


class Frail:
    """A store that is cut off after so many calls; its last call may have been done."""

    def __init__(self, store: Any, budget: list[int], *, done: bool) -> None:
        self._store = store
        self._budget = budget
        self._done = done

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in (
            "begin_move",
            "end_move",
            "begin_export",
            "read_export",
            "commit_export",
            "export_counts",
            "import_pages",
            "delete_progress",
            "delete_notes",
            "import_counts",
            "swap_note",
        ):
            return found

        def call(*args: Any, **named: Any) -> Any:
            self._budget[0] -= 1
            if self._budget[0] < 0:
                if self._done:
                    self._budget[0] = -(10**9)
                    found(*args, **named)
                raise Cut
            return found(*args, **named)

        return call


@pytest.mark.parametrize(
    ("here", "there", "done"),
    [
        ("memory", "memory", False),
        ("memory", "memory", True),
        ("memory", "redis", True),
        ("redis", "memory", False),
    ],
)
def test_a_move_that_is_cut_off_at_any_call_goes_on(make: Make, here: str, there: str, done: bool) -> None:
    """Not two, and not none: whether the last call was done or not, and wherever it was."""
    calls, step = 0, 1 if here == there else 3  # a server takes three times as long as memory
    while True:
        source, target = make(here), make(there)
        populate(source, each=1, records=2, large=3)
        for store in (source, target):
            store.page_records = 5
        timelines, ledger = seen(source), source.ledger()
        try:
            moved(Frail(source, budget := [calls], done=done), Frail(target, budget, done=done), lock_seconds=0)
            break
        except Cut:
            assert source.verify()
            assert target.verify()
            assert not _has_parcels(source) or source.moving_since() is not None
        moved(source, target)
        assert source.moving_since() is None
        assert target.ledger() == ledger
        assert target.verify()
        assert seen(target).keys() == timelines.keys()
        assert {name: len(was.pending) + len(was.digest) for name, was in seen(target).items()} == {
            name: len(was.pending) + len(was.digest) for name, was in timelines.items()
        }
        assert target.footprint().get("notes", 0) == 0
        calls += step
    assert calls > 20


def _has_parcels(source: Any) -> bool:
    return any(slot.parked is not None for _, slot in source.scan(prefix="", after=None, limit=200))


def test_a_stop_from_a_signal_handler_ends_a_run_at_any_moment(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the middle of a wait: the handler runs in the waiting thread, between two of its lines."""
    monkeypatch.setattr("digestif.transfer.move.PAUSE_SECONDS", 0.001)
    source, target = make("memory"), make("memory")

    for line in range(1, 80):
        assert _ends_if_stopped_at(line, Move(source, target)), f"it did not end after a stop at line {line}"


def _ends_if_stopped_at(line: int, move: Move) -> bool:
    """True if a run ends that is stopped so many lines after it began to follow, wherever these are."""
    passed = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        nonlocal passed
        passed += event == "line" and move.progress.following
        if passed == line:
            move.stop()
        return trace

    def run() -> None:
        sys.settrace(trace)
        move.run(follow=True)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()
