"""A store that an older release wrote opens in this one with nothing lost, and goes on where it was (promise 9).

Each folder here was written by the release that it is named for: `python -m tests.upgrades.write tests/upgrades 0.1.0`.
When the layout of a store changes (a migration, the schema on Redis, a slot, a note), write a folder with the release
that brings the change, and keep the old ones as they are: the tests open each of them.
"""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest

from digestif import Busy, Digest, Digests, Ledger, Record, Timeline, Worker
from digestif.core.times import to_millis
from digestif.stores.postgres import PostgresStore
from digestif.stores.transfer import TransferStore
from digestif.testing.servers import RedisServer
from digestif.transfer.move import Move
from tests.routes.recorder import Recording
from tests.stores.postgres.servers import empty_database
from tests.upgrades.population import (
    AGED,
    BUDGET,
    CLAIMED,
    DAY,
    EVERYTHING,
    HOUR,
    INBOX,
    MAIL,
    NOW,
    ORDER,
    SCHEDULED,
    STOPS,
    T,
    kept_in,
    seen_in,
)

pytestmark = pytest.mark.long

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/expected.json"))
NOTHING_KEPT: dict[str, Any] = {"messages": [], "samples": [], "document": None}  # by releases without a service
NEW = Record("new", "of this release", NOW)


# Opening copies


@contextmanager
def sqlite(folder: Path, scratch: Path) -> Iterator[str]:
    path = shutil.copy(folder / "digests.sqlite3", scratch)
    yield f"sqlite:///{path}"


@contextmanager
def postgres(folder: Path, scratch: Path) -> Iterator[str]:
    with empty_database() as url:
        with psycopg.connect(url) as connection:
            connection.execute((folder / "dump.sql").read_bytes())
        store = PostgresStore(url)
        store.migrate()
        store.close()
        yield url


@contextmanager
def redis(folder: Path, scratch: Path) -> Iterator[str]:
    with RedisServer() as server:
        server.stop()
        shutil.copy(folder / "appendonly.aof", server.directory)
        server.options["appendonly"] = True
        yield server.start().url


KINDS: tuple[Callable[[Path, Path], AbstractContextManager[str]], ...] = (sqlite, postgres, redis)


@dataclass(frozen=True)
class Old:
    """An old store. Each test that changes something has a namespace of its own for that."""

    dsn: str
    expected: dict[str, Any]  # in each of the namespaces with everything
    found: list[dict[str, Any]]  # in each, before anything was changed
    kept: dict[str, Any]  # expected in the namespace of a service

    def open(self, namespace: str) -> Digests:
        return Digests(self.dsn, namespace=namespace)


@pytest.fixture(scope="module", params=product(FOLDERS, KINDS), ids=lambda it: f"{it[0].name}-{it[1].__name__}")
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Old]:
    folder, kind = request.param
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    kept = expected.pop("kept", NOTHING_KEPT)
    with kind(folder, tmp_path_factory.mktemp("old")) as dsn:
        yield Old(dsn, expected, [seen_in(dsn, namespace) for namespace in EVERYTHING], kept)


# Running on


@dataclass(frozen=True)
class Run:
    """What an old store had, and what became of it in the two days after it was opened."""

    expected: dict[str, Any]
    is_busy: bool  # the timeline whose lease lives
    urgent: Timeline  # after each timeline got another record
    first_day: list[Digest]
    second_day: list[Digest]  # what was paused had been resumed, dead letters replayed or discarded
    history: list[str]  # the ids of digests, in the end
    ledger: Ledger
    verified: bool
    left: dict[str, int]  # rows and keys

    @property
    def timelines(self) -> list[dict[str, Any]]:
        timelines: list[dict[str, Any]] = self.expected["timelines"]
        return timelines

    @property
    def unknown(self) -> list[dict[str, Any]]:
        """Timelines whose digest may have gone out."""
        return [it for it in self.timelines if it["digest"] and (it["digest"]["frozen"] or it["state"] == "open")]

    @property
    def failed(self) -> list[dict[str, Any]]:
        """Timelines whose digest has not gone out."""
        return [it for it in self.timelines if it["digest"] and it not in self.unknown]

    @property
    def unreadable(self) -> list[dict[str, Any]]:
        """Dead letters whose record can't be decoded: they are discarded."""
        return [letter for letter in self.expected["letters"] if not letter["contents"]]

    def first(self, timeline: str) -> Digest:
        return next(digest for digest in self.first_day + self.second_day if digest.timeline == timeline)


@pytest.fixture(scope="module")
def runs(old: Old) -> list[Run]:
    return [
        run_on(old, SCHEDULED, add=one_by_one, deliver=by_schedule),
        run_on(old, CLAIMED, add=together, deliver=by_worker),
    ]


def run_on(
    old: Old,
    namespace: str,
    *,
    add: Callable[[Digests, list[str]], None],
    deliver: Callable[[Digests, float], list[Digest]],
) -> Run:
    with old.open(namespace) as digests:
        is_busy = is_refused(digests, "open")
        add(digests, [timeline["key"] for timeline in old.expected["timelines"]])
        urgent = digests.timeline("urgent")
        first_day = deliver(digests, NOW)
        for timeline in digests.timelines():
            digests.resume(timeline.key, now=NOW + DAY)
        for letter in digests.dead_letters():
            act = digests.replay if digests.dead_records(letter.id) else digests.discard
            act(letter.id, now=NOW + DAY)
        second_day = deliver(digests, NOW + DAY)
        left = {kind: count for kind, count in digests.store.footprint().items() if count}
        history = [entry.id for entry in digests.history(limit=1000)]
        verified = bool(digests.verify())
        return Run(old.expected, is_busy, urgent, first_day, second_day, history, digests.ledger(), verified, left)


def is_refused(digests: Digests, timeline: str) -> bool:
    try:
        with digests.digest(timeline, now=NOW):
            return False
    except Busy:
        return True


def one_by_one(digests: Digests, timelines: list[str]) -> None:
    for timeline in timelines:
        digests.add(timeline, NEW, now=NOW)


def together(digests: Digests, timelines: list[str]) -> None:
    digests.add_many([(timeline, NEW) for timeline in timelines], now=NOW)


def by_schedule(digests: Digests, start: float) -> list[Digest]:
    sent = []
    for now in hours(start):
        digests.maintenance(now, now=now)
        for entry in digests.schedule(now=now):
            with digests.digest(entry.key, now=now) as digest:
                sent.append(digest)
    return [digest for digest in sent if digest]


def by_worker(digests: Digests, start: float) -> list[Digest]:
    sent = []
    working = Digests(digests.store)

    @working.handler("*")
    async def keep(digest: Digest) -> None:
        sent.append(digest)

    for now in hours(start):
        while asyncio.run(Worker(working).run_once(now)):
            pass
        working.maintenance(now=now)
    return sent


def hours(start: float) -> list[float]:
    return [start + hour * HOUR for hour in range(5)]


def account(digest: Digest) -> list[list[Any]]:
    """Its records in JSON's terms."""
    return [list(record) for record in digest]


def known_part(found: Any, expected: Any) -> Any:
    """Of what was found, what a release could know that wrote the expectation: later ones may tell more."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return {name: known_part(found.get(name), value) for name, value in expected.items()}
    if isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        return [known_part(*pair) for pair in zip(found, expected, strict=True)]
    return found


def keys(contents: list[list[Any]]) -> set[str]:
    return {key for key, _, _ in contents}


def names(timelines: list[dict[str, Any]]) -> set[str]:
    return {timeline["key"] for timeline in timelines}


# The tests


def test_there_is_a_store_to_open() -> None:
    assert FOLDERS


def test_everything_is_found_as_it_was_left(old: Old) -> None:
    for found in old.found:
        assert known_part(found, old.expected) == old.expected
        assert found["verified"]


def test_messages_samples_and_documents_are_found_as_they_were_left(old: Old) -> None:
    assert kept_in(old.dsn) == old.kept


def test_a_lease_that_lives_is_respected(runs: list[Run]) -> None:
    assert all(run.is_busy for run in runs)


def test_an_urgent_record_stays_urgent(runs: list[Run]) -> None:
    for run in runs:
        [expected] = [it["due"] for it in run.timelines if it["key"] == "urgent"]

        assert run.urgent.due == expected


def test_what_may_have_gone_out_comes_again_under_the_same_key_with_the_same_records(runs: list[Run]) -> None:
    for run in runs:
        assert {"frozen", "lapsed", "merging", "open", "paused_open", "replayed"} <= names(run.unknown)
        for timeline in run.unknown:
            again, digest = run.first(timeline["key"]), timeline["digest"]
            assert again.idempotency_key == f"{digest['id']}.{digest['revision']}"
            assert again.attempt == digest["attempt"] + 1
            assert account(again) == digest["contents"]


def test_what_failed_comes_again_with_newer_records(runs: list[Run]) -> None:
    for run in runs:
        assert {"failed", "retried"} <= names(run.failed)
        for timeline in run.failed:
            again, digest = run.first(timeline["key"]), timeline["digest"]
            assert (again.id, again.revision) == (digest["id"], digest["revision"] + 1)
            assert account(again) == [list(NEW), *timeline["peek"]]


def test_what_was_pending_is_delivered_with_newer_records(runs: list[Run]) -> None:
    for run in runs:
        pending = [it for it in run.timelines if not it["digest"]]

        assert {"delivered", "full", "paused", "paused_idle", "ready", "waiting", "zipped"} <= names(pending)
        for timeline in pending:
            assert account(run.first(timeline["key"])) == [list(NEW), *timeline["peek"]]


def test_what_is_paused_stays_so_until_it_is_resumed(runs: list[Run]) -> None:
    for run in runs:
        paused = names([it for it in run.timelines if it["paused"]])

        assert {"paused", "paused_idle", "paused_open"} <= paused
        assert not paused & {digest.timeline for digest in run.first_day}


def test_paused_timelines_are_listed(old: Old) -> None:
    """In a store that kept no index of all of them, too."""
    with old.open(AGED) as digests:
        page = digests.timelines_page(paused=True, limit=100)

    assert {timeline.key for timeline in page.timelines} == {"paused", "paused_idle", "paused_open"}


def test_a_dead_letter_is_replayed_under_its_own_key(runs: list[Run]) -> None:
    for run in runs:
        again = {digest.idempotency_key: account(digest) for digest in run.second_day}
        readable = [letter for letter in run.expected["letters"] if letter["contents"]]

        assert readable
        for letter in readable:
            assert again[f"{letter['id']}.{letter['revision']}"] == letter["contents"]


def test_the_history_goes_on(runs: list[Run]) -> None:
    for run in runs:
        before = [entry["id"] for entry in run.expected["history"]]
        since = {digest.id for digest in run.first_day + run.second_day}
        discarded = {letter["id"] for letter in run.unreadable}

        assert run.history[-len(before) :] == before
        assert set(run.history[: -len(before)]) == since | discarded


def test_no_record_is_lost_and_each_fate_is_counted(runs: list[Run]) -> None:
    for run in runs:
        before = Ledger(**run.expected["ledger"])
        superseded = sum(len(keys(it["digest"]["contents"]) & keys(it["pending_contents"])) for it in run.failed)
        discarded = sum(letter["records"] for letter in run.unreadable)

        assert superseded
        assert discarded
        assert run.ledger == Ledger(
            accepted=before.accepted + len(run.timelines),
            delivered=before.delivered + sum(map(len, run.first_day + run.second_day)),
            superseded=before.superseded + superseded,  # in what failed, by newer versions
            dropped=before.dropped,
            expired=before.expired,
            deleted=before.deleted + discarded,
        )
        assert run.ledger.balanced
        assert run.verified
        assert run.left == {}


def test_what_is_not_delivered_expires_when_its_time_is_over(old: Old) -> None:
    before = Ledger(**old.expected["ledger"])
    endless = sum(it["pending"] for it in old.expected["timelines"] if it["key"] == "forever")
    replayed = sum(
        len(it["digest"]["contents"]) for it in old.expected["timelines"] if it["digest"] and it["digest"]["replayed"]
    )

    with old.open(AGED) as digests:
        digests.maintenance(now=NOW + DAY)
        assert digests.ledger() == before
        digests.maintenance(now=NOW + 7 * DAY)

        expired = before.expired + before.pending + before.open - endless - replayed
        assert digests.ledger() == replace(before, pending=endless, open=replayed, expired=expired)
        assert digests.verify()


def test_a_budget_that_was_spent_stays_spent(old: Old) -> None:
    channel = Recording()
    with old.open(MAIL) as digests:
        digests.route("mail:*", channel=channel, budget=BUDGET)
        digests.add("mail:ada", NEW, now=NOW)
        digests.flush("mail:ada", now=NOW)

        assert not digests.deliver("mail:ada", now=NOW)
        assert digests.timeline("mail:ada").due == T + BUDGET.per
        assert [entry.key for entry in digests.schedule(now=T + BUDGET.per)] == ["mail:ada"]
        assert digests.deliver("mail:ada", now=T + BUDGET.per)

    assert channel.records() == ["new"]


@pytest.mark.parametrize("stop", STOPS)
def test_a_move_that_was_interrupted_is_finished(old: Old, stop: int) -> None:
    with old.open(f"from-{stop}") as source, old.open(f"to-{stop}") as target:
        assert isinstance(source.store, TransferStore)
        assert isinstance(target.store, TransferStore)

        assert Move(source.store, target.store, now=lambda: to_millis(NOW)).run(patience=1).finished

        assert source.ledger() == Ledger()
        assert source.verify()
        states = {timeline.key: timeline.state for timeline in target.timelines()}
        assert states == {"dead": "waiting", "failed": "ready", "ready": "ready"}
        [letter] = target.dead_letters()
        assert [record.key for record in target.dead_records(letter.id)] == ["e", "d", "c"]
        sent = {digest.timeline: [record.key for record in digest] for digest in by_schedule(target, NOW)}
        assert sent == {"dead": ["f"], "failed": ["d", "c", "b", "a"], "ready": ["c", "b", "a"]}
        assert target.ledger() == Ledger(accepted=14, delivered=8, dead=3, dropped=2, superseded=1)
        assert target.verify()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_was_added_inside_a_transaction_is_folded_in(folder: Path, tmp_path: Path) -> None:
    with postgres(folder, tmp_path) as dsn, Digests(dsn, namespace=INBOX) as digests:
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT count(*) FROM digestif.inbox").fetchone() == (2,)

        digests.maintenance(now=NOW)
        assert {it.key: it.due for it in digests.timelines()} == {"calm": NOW + 60, "urgent": NOW + 30}
        assert [entry.key for entry in digests.schedule(now=NOW + 30)] == ["urgent"]
        with digests.digest("urgent", now=NOW + 30) as digest:
            assert digest.records == (ORDER,)
        digests.maintenance(now=NOW + 7 * DAY)

        assert digests.ledger() == Ledger(accepted=2, delivered=1, expired=1)
        assert digests.verify()
