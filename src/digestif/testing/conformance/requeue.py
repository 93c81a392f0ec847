"""Requeue: the records of dead letters are pending again, and leave together."""

import pytest

from digestif import Busy, Digests, Dropped, Event, Fate, InvalidState, Outcome, Record, State
from digestif.core.terms import Openings, Override, Terms
from digestif.stores.base import Burial, Lease, Requeue, Requeued, Store
from digestif.stores.reader import Part
from digestif.testing.conformance.actions import T, add_all, deliver, fail, keys, next_digest, numbered
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.keys import HOSTILE
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    bury,
    claim_all,
    complete,
    everything,
    expire,
    numbers,
    open_and_take,
    open_digest,
    open_lease,
    record_keys,
    release,
    requeue,
    stored,
    sweep,
    take_all,
)
from digestif.testing.footprint import assert_nothing_left


def bury_at(digests: Digests, timeline: str, records: list[Record], *, now: float) -> str:
    """Add records and fail to deliver them; the id of the dead letter."""
    add_all(digests, timeline, records, now=now)
    digests.flush(timeline, now=now)
    return fail(digests, timeline, now=now).id


def retire(digests: Digests, timeline: str, *, now: float) -> None:
    """An empty digest ends the cool-down: the timeline is idle."""
    assert list(next_digest(digests, timeline, now=now)) == []
    assert digests.timeline(timeline).state is State.IDLE


class Requeues(Suite):
    @pytest.fixture
    def burying(self, digests_with: DigestsWith) -> Digests:
        return digests_with(attempts=1, minimum_delay=60, capacity=4)

    def test_three_dead_letters_of_a_timeline_leave_as_one_digest(self, burying: Digests) -> None:
        """Fact 64. Each record once, of two versions the later; from dead to pending; after the cool-down."""
        letters = [
            bury_at(burying, "t", [Record("a", 1, T), Record("b", 1, T + 1)], now=T),
            bury_at(burying, "t", [Record("b", 2, T + 2)], now=T + 1),
            bury_at(burying, "t", [Record("c", 3, T + 3)], now=T + 2),
        ]
        retire(burying, "t", now=T + 100)
        assert (burying.ledger().dead, burying.ledger().pending) == (4, 0)

        answers = [burying.requeue(letter, now=T + 100) for letter in (letters[2], letters[1], letters[0])]

        assert answers == [True, True, True]
        assert burying.dead_letters() == []
        ledger = burying.ledger()
        assert (ledger.dead, ledger.pending, ledger.superseded) == (0, 3, 1)
        assert burying.verify()
        timeline = burying.timeline("t")
        assert (timeline.state, timeline.due, timeline.pending) == (State.WAITING, T + 160, 3)
        digest = next_digest(burying, "t", now=T + 160)
        assert list(digest) == [Record("c", 3, T + 3), Record("b", 2, T + 2), Record("a", 1, T)]
        assert (digest.revision, digest.attempt) == (1, 1)
        assert digest.id not in letters
        assert (burying.ledger().delivered, burying.ledger().pending) == (3, 0)

    def test_what_is_unknown_can_not_be_requeued(self, burying: Digests, store: Store) -> None:
        """Fact 64. No such dead letter: False, nothing changes; neither is there one after a requeue."""
        letter = bury_at(burying, "t", [Record("a", 1, T)], now=T)
        assert burying.requeue(letter, now=T) is True
        before = everything(store)

        assert [burying.requeue(name, now=T) for name in (letter, "x")] == [False, False]
        assert [requeue(store, name) for name in (letter, "x")] == [[], []]
        assert everything(store) == before

    @pytest.mark.parametrize("sign", ["unknown", "lapsed", "served"])
    def test_what_may_have_gone_out_is_refused_unless_forced(self, burying: Digests, store: Store, sign: str) -> None:
        """Fact 64. Its records would go out a second time: InvalidState says so, and nothing changes."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)
        if sign == "lapsed":
            lease = open_digest(store, now=NOW + LEASE)
        if sign == "served":
            store.mark_served(lease, ["ada"], now=NOW)
        store.bury(
            [Burial(lease, "poison", 0, unknown=sign == "unknown")], now=NOW + LEASE if sign == "lapsed" else NOW
        )
        before = everything(store)

        with pytest.raises(InvalidState, match=r"replay it.* or force") as refused:
            burying.requeue(lease.digest_id, now=T + 60)

        assert not isinstance(refused.value, Busy)
        assert lease.digest_id in str(refused.value)
        assert ("recipients" if sign == "served" else "may have gone out") in str(refused.value)
        assert everything(store) == before
        assert burying.requeue(lease.digest_id, force=True, now=T + 60) is True
        assert (store.ledger().dead, store.ledger().pending) == (0, 1)
        assert store.verify()

    def test_what_went_out_once_stays_so_over_a_replay(self, store: Store) -> None:
        """Fact 64. A letter that may have gone out is replayed and fails again: it still may have gone out."""
        letter_id = bury(store, ["a"], unknown=True)
        store.replay(letter_id, now=NOW)
        store.bury([Burial(open_digest(store), "poison", 0)], now=NOW)

        with pytest.raises(InvalidState):
            requeue(store, letter_id)

    def test_what_people_switched_off_is_refused(self, burying: Digests, store: Store) -> None:
        """Fact 64. Forced or not, as by replay."""
        letter = bury_at(burying, "t", [Record("a", 1, T)], now=T)
        burying.prefer("t", "off", now=T + 1)
        before = everything(store)

        for force in (False, True):
            with pytest.raises(InvalidState, match=r"switched off: prefer\(\) another"):
                burying.requeue(letter, force=force, now=T + 2)

        assert everything(store) == before
        burying.prefer("t", "instant", now=T + 3)
        assert burying.requeue(letter, now=T + 3) is True

    # When it is due

    def test_an_idle_timeline_waits_and_any_other_keeps_its_time(self, store: Store) -> None:
        """Fact 64. Idle: now + the cool-down. Waiting, ready, open, to be tried again: unchanged."""
        letters = {name: bury(store, ["a"], name) for name in ("idle", "waiting", "ready", "open", "retry", "paused")}
        claim_all(store)
        arrive(store, "waiting", ["b"], first_delay=5_000)
        arrive(store, "ready", ["b"])
        for name in ("open", "retry"):
            arrive(store, name, ["b"])
        held = open_lease(store, "open")
        release(store, open_digest(store, "retry"), until=NOW + 7_000)
        store.pause("paused", True, now=NOW)

        for letter_id in letters.values():
            requeue(store, letter_id, delay=60_000, now=NOW + 1_000)

        slots = {name: store.inspect(name) for name in letters}
        assert {name: (str(slot.state), slot.at - NOW, slot.pending, slot.paused) for name, slot in slots.items()} == {
            "idle": ("waiting", 61_000, 1, False),
            "waiting": ("waiting", 5_000, 2, False),
            "ready": ("ready", 0, 2, False),
            "open": ("open", 0, 1, False),
            "retry": ("waiting", 7_000, 1, False),
            "paused": ("waiting", 61_000, 1, True),
        }
        assert complete(store, held)
        assert store.verify()

    def test_enough_records_make_it_due_at_once(self, store: Store) -> None:
        """Fact 64. `max_records`, as at an add; a retry is not pulled forward."""
        full, waiting, retry = (bury(store, ["a", "b"], name) for name in ("full", "waiting", "retry"))
        claim_all(store)
        arrive(store, "waiting", ["c"], first_delay=5_000)
        arrive(store, "retry", ["c"])
        release(store, open_digest(store, "retry"), until=NOW + 7_000)

        requeue(store, full, max_records=2)
        requeue(store, waiting, max_records=3)
        requeue(store, retry, max_records=1)

        assert [store.inspect(name).at - NOW for name in ("full", "waiting", "retry")] == [0, 0, 7_000]
        assert {lease.timeline for lease in claim_all(store)} == {"full", "waiting"}

    def test_the_timelines_own_policy_comes_first(self, store: Store) -> None:
        """Fact 64. Its cool-down, capacity and ttl, not those of the code."""
        letter_id = bury(store, ["a", "b", "c"])
        claim_all(store)
        own = Override(text="", since=NOW, terms=Terms(capacity=2, ttl=90_000), cool_downs=(20_000, 40_000))
        store.set_override("t", own, now=NOW)

        [page] = requeue(store, letter_id, delay=60_000, capacity=1, ttl=1)

        assert page == Requeued(3, 1, more=False)
        assert store.inspect("t").at == NOW + 20_000
        assert record_keys(stored(store, "t", Part.PENDING)) == ["c", "b"]
        assert expire(store, now=NOW + 89_999) == 0
        assert expire(store, now=NOW + 90_000) == 2

    def test_a_window_aligns_it(self, store: Store) -> None:
        """Fact 64. After the cool-down it waits for an opening, as after a delivery."""
        letter_id = bury(store, ["a"])
        claim_all(store)

        requeue(store, letter_id, delay=60_000, openings=Openings((NOW + 30_000, NOW + 90_000)))

        slot = store.inspect("t")
        assert (slot.at, slot.by_delays, slot.passes) == (NOW + 90_000, NOW + 60_000, False)

    def test_records_added_later_leave_along(self, burying: Digests) -> None:
        """Fact 64. An add does not put off what waits after a requeue, and joins it."""
        letter = bury_at(burying, "t", [Record("a", 1, T)], now=T)
        retire(burying, "t", now=T + 60)
        burying.requeue(letter, now=T + 100)

        assert burying.add("t", Record("b", 2, T + 101), now=T + 101) is False

        assert burying.timeline("t").due == T + 160
        assert keys(next_digest(burying, "t", now=T + 160)) == ["b", "a"]

    def test_explain_tells_it(self, burying: Digests) -> None:
        """Fact 64. Requeued, and the cool-down."""
        letter = bury_at(burying, "t", [Record("a", 1, T)], now=T)
        retire(burying, "t", now=T + 60)
        burying.requeue(letter, now=T + 100)

        explanation = burying.explain("t", now=T + 100)

        assert explanation.rule == "requeued"
        assert "dead letters were requeued at 2023-11-14T22:15:00.000Z + 1 min of cool-down" in explanation.arithmetic

    # Versions, capacity, expiry

    def test_a_later_version_that_is_pending_stays(self, store: Store) -> None:
        """Fact 64. By arrival, whatever the time of the event; the older one counts as superseded."""
        letter_id = bury(store, ["a", "b"])
        arrive(store, "t", ["b"], timestamp=-5.0)

        assert requeue(store, letter_id) == [Requeued(2, 0, more=False)]

        pending = list(stored(store, "t", Part.PENDING))
        assert [(record.key, record.timestamp) for record in pending] == [("a", 0.0), ("b", -5.0)]
        assert (store.ledger().superseded, store.ledger().pending, store.ledger().dead) == (1, 2, 0)
        assert store.verify()

    def test_a_later_version_in_a_failed_digest_stays_when_they_merge(self, store: Store) -> None:
        """Fact 64. What is pending may be older than what is in the digest: the later by arrival goes out."""
        letter_id = bury(store, ["a", "b"])
        arrive(store, "t", ["b"], timestamp=5.0)
        store.flush("t", now=NOW)
        release(store, open_digest(store))

        requeue(store, letter_id)
        taken = open_and_take(store, "t")

        assert [(record.key, record.timestamp) for record in taken.records] == [("b", 5.0), ("a", 0.0)]
        assert (store.ledger().superseded, store.ledger().open) == (1, 2)
        assert store.verify()

    def test_a_frozen_digest_is_not_touched(self, store: Store) -> None:
        """Fact 64. It comes again exactly as it was; what was requeued follows."""
        letter_id = bury(store, ["a"])
        arrive(store, "t", ["b"])
        store.flush("t", now=NOW)
        release(store, open_digest(store), freeze=True)

        requeue(store, letter_id)
        lease = open_lease(store)

        assert record_keys(take_all(store, lease).records) == ["b"]
        complete(store, lease)
        store.flush("t", now=NOW)
        assert record_keys(open_and_take(store, "t").records) == ["a"]

    def test_capacity_keeps_the_newest(self, burying: Digests) -> None:
        """Fact 64. Exactly, over all letters; what is dropped is counted, in the digest as well, and emitted."""
        seen: list[Event] = []
        letters = [bury_at(burying, "t", numbered(range(start, start + 3)), now=T) for start in (0, 3)]
        burying.subscribe(seen.append)

        for letter in letters:
            assert burying.requeue(letter, now=T) is True

        ledger = burying.ledger()
        assert (ledger.dead, ledger.pending, ledger.dropped) == (0, 4, 2)
        assert [event for event in seen if isinstance(event, Dropped)] == [Dropped(timeline="t", records=2)]
        assert burying.verify()
        digest = next_digest(burying, "t", now=T + 60)
        assert (keys(digest), digest.dropped) == (["r5", "r4", "r3", "r2"], 2)

    def test_what_the_letter_has_dropped_before_is_told_by_the_next_digest(self, burying: Digests) -> None:
        """Fact 64. Capacity pushed out two records before the burial: no reader knows yet."""
        letter = bury_at(burying, "t", numbered(range(6)), now=T)
        assert burying.dead_letters()[0].dropped == 2

        burying.requeue(letter, now=T)

        assert next_digest(burying, "t", now=T + 60).dropped == 2
        assert burying.ledger().dropped == 2

    def test_their_ttl_counts_from_the_requeue(self, store: Store) -> None:
        """Fact 64. However long they were dead, they expire one ttl later; without a ttl they do not."""
        first, second = bury(store, ["a"], "t"), bury(store, ["a"], "u")

        requeue(store, first, ttl=100_000, now=NOW + 500_000)
        requeue(store, second, now=NOW + 500_000)

        assert expire(store, now=NOW + 599_999) == 0
        assert expire(store, now=NOW + 600_000) == 1
        assert (store.ledger().expired, store.ledger().pending) == (1, 1)
        assert expire(store, now=NOW + 10**12) == 0
        assert store.verify()

    def test_their_own_deadline_is_over(self, store: Store) -> None:
        """Fact 64. `within` is not restored: it has long passed. That of another pending record holds."""
        arrive(store, "t", ["a"], within=1_000)
        lease = open_digest(store)
        store.bury([Burial(lease, "poison", 0)], now=NOW)
        claim_all(store)

        requeue(store, lease.digest_id, delay=60_000)
        assert (store.inspect("t").at, store.inspect("t").deadline) == (NOW + 60_000, None)
        arrive(store, "t", ["b"], within=20_000)

        assert (store.inspect("t").at, store.inspect("t").deadline) == (NOW + 20_000, NOW + 20_000)

    def test_the_deadline_of_a_record_that_is_dropped_is_forgotten(self, store: Store) -> None:
        """Fact 64. Capacity pushed out the urgent record: the timeline is not urgent any more."""
        letter_id = bury(store, ["a"], timestamp=9.0)
        arrive(store, "t", ["urgent"], within=90_000)
        assert store.inspect("t").deadline == NOW + 90_000

        requeue(store, letter_id, capacity=1)

        assert record_keys(stored(store, "t", Part.PENDING)) == ["a"]
        assert store.inspect("t").deadline is None
        assert store.verify()

    # Pages

    def test_a_large_letter_comes_back_page_by_page(self, store: Store) -> None:
        """Fact 64. No call moves more than a page; the oldest first; after each page the counts agree."""
        letter_id = bury(store, numbers(0, 2300))
        left = 2300
        request = Requeue(letter_id, Terms(), 60_000)
        while left:
            page = store.requeue(request, now=NOW)
            assert page is not None
            assert 0 < page.records <= 1000
            left -= page.records
            letter = store.letter(letter_id)
            assert (0 if letter is None else letter.records) == left
            assert page.more == bool(left)
            assert (store.ledger().dead, store.ledger().pending) == (left, 2300 - left)
            assert store.verify()

        assert store.inspect("t").pending == 2300
        assert record_keys(stored(store, "t", Part.PENDING)) == numbers(0, 2300)[::-1]

    def test_a_capacity_below_what_comes_back_holds_after_each_page(self, store: Store) -> None:
        """Fact 64. 1,500 records for 400 places: the newest stay, the others are counted."""
        letter_id = bury(store, numbers(0, 1500))

        pages = requeue(store, letter_id, capacity=400)

        assert sum(page.records for page in pages) == 1500
        assert sum(page.dropped for page in pages) == 1100
        assert record_keys(stored(store, "t", Part.PENDING)) == numbers(1100, 1500)[::-1]
        assert (store.ledger().pending, store.ledger().dropped, store.ledger().dead) == (400, 1100, 0)
        assert store.inspect("t").dropped == 1100
        assert store.verify()

    def test_an_interrupted_requeue_can_be_made_again(self, store: Store) -> None:
        """Fact 64. Between two pages the rest is a dead letter; each record comes back once."""
        letter_id = bury(store, ["a", "b", "c", "d", "e"])
        request = Requeue(letter_id, Terms(), 60_000)

        assert store.requeue(request, limit=2, now=NOW) == Requeued(2, 0, more=True)
        assert record_keys(store.letter_records(letter_id, after=None, limit=9)) == ["e", "d", "c"]
        lease = open_digest_now(store)
        complete(store, lease)
        assert requeue(store, letter_id, limit=2) == [Requeued(2, 0, more=True), Requeued(1, 0, more=False)]

        assert record_keys(stored(store, "t", Part.PENDING)) == ["e", "d", "c"]
        assert (store.ledger().delivered, store.ledger().pending, store.ledger().dead) == (2, 3, 0)
        assert store.verify()

    @pytest.mark.parametrize("verb", ["replay", "discard", "delete"])
    def test_what_an_interrupted_requeue_left_is_a_dead_letter_as_any(self, store: Store, verb: str) -> None:
        """Fact 64. Replayed, it has another idempotency key, since it carries other records than before."""
        letter_id = bury(store, ["a", "b", "c"])
        store.requeue(Requeue(letter_id, Terms(), 60_000), limit=1, now=NOW)

        if verb == "replay":
            assert store.replay(letter_id, now=NOW) is True
            taken = open_and_take(store, "t")
            assert (record_keys(taken.records), taken.revision) == (["c", "b"], 2)
        elif verb == "discard":
            assert store.discard(letter_id, now=NOW) is True
        else:
            assert store.delete("t", now=NOW) is True

        gone = {"replay": (1, 2, 0), "discard": (1, 0, 2), "delete": (0, 0, 3)}[verb]
        assert (store.ledger().pending, store.ledger().open, store.ledger().deleted) == gone
        assert store.verify()

    def test_a_letter_keeps_its_place_while_it_shrinks(self, store: Store) -> None:
        """Fact 64. Letters are listed in the order of their burial, with all that is known of them."""
        first, second = bury(store, ["a", "b"], "t"), bury(store, ["a"], "u", now=NOW + 1)
        before = store.letter(first)
        assert before is not None

        store.requeue(Requeue(first, Terms(), 0), limit=1, now=NOW)

        found = store.letters(None, after=None, limit=9)
        assert [letter.id for letter in found] == [first, second]
        assert (found[0].reason, found[0].attempts, found[0].buried) == (before.reason, before.attempts, before.buried)
        assert (found[0].records, found[0].revision) == (1, 2)

    # Whatever they are

    def test_records_that_can_not_be_read_go_along(self, digests: Digests, store: Store) -> None:
        """Fact 64. They are quarantined again when they are delivered; the others go out."""
        arrive(store, "t", ["bad"])
        digests.add("t", Record("good", 1, T), now=T)
        assert keys(deliver(digests, "t", 0)) == ["good"]
        [letter] = digests.dead_letters()

        assert digests.requeue(letter.id, now=T) is True
        assert digests.add("t", Record("other", 2, T), now=T) is False

        assert digests.dead_letters() == []
        assert digests.timeline("t").pending == 2
        assert keys(next_digest(digests, "t", now=T + 300)) == ["other"]
        [again] = digests.dead_letters()
        assert again.id != letter.id
        assert record_keys(store.letter_records(again.id, after=None, limit=9)) == ["bad"]
        assert digests.verify()

    def test_hostile_names_come_back_as_they_were(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 43. Records of any keys, in timelines of any names; in the end nothing is left."""
        digests = digests_with(attempts=1, minimum_delay=0)
        letters = [bury_at(digests, name, numbered(range(2)), now=T) for name in HOSTILE]
        letters.append(bury_at(digests, "t", [Record(key, n, T + n) for n, key in enumerate(HOSTILE)], now=T))

        assert all(digests.requeue(letter, now=T) for letter in letters)

        assert digests.verify()
        assert keys(next_digest(digests, "t", now=T)) == HOSTILE[::-1]
        for name in HOSTILE:
            assert keys(next_digest(digests, name, now=T)) == ["r1", "r0"]
        for name in ["t", *HOSTILE]:
            assert list(next_digest(digests, name, now=T)) == []
        assert_nothing_left(store)

    @pytest.mark.parametrize("many", [1, 300, 1200])
    def test_a_requeued_letter_leaves_nothing(self, store: Store, many: int) -> None:
        """Fact 64. Delivered and retired, small or large: neither rows nor keys remain."""
        letter_id = bury(store, numbers(0, many))
        requeue(store, letter_id, delay=0, ttl=10**9)

        lease = open_digest_now(store)
        complete(store, lease)
        claim_all(store)
        sweep(store)

        assert store.ledger().delivered == many
        assert_nothing_left(store)

    def test_a_requeued_record_is_traced_where_it_is(self, burying: Digests) -> None:
        """Fact 64. Pending, then delivered: the dead letter is gone. The history keeps what ended."""
        letter = bury_at(burying, "t", [Record("a", 1, T)], now=T)
        burying.requeue(letter, now=T + 1)

        pending = burying.trace("t", "a")
        digest = next_digest(burying, "t", now=T + 60)
        delivered = burying.trace("t", "a")

        assert [sighting.fate for sighting in pending] == [Fate.PENDING]
        assert [(sighting.fate, sighting.digest_id) for sighting in delivered] == [(Fate.DELIVERED, digest.id)]
        entries = [(entry.id, entry.outcome) for entry in burying.history("t")]
        assert entries == [(digest.id, Outcome.DELIVERED), (letter, Outcome.DEAD)]

    def test_what_is_left_of_a_letter_is_traced_there(self, burying: Digests, store: Store) -> None:
        """Fact 64. After an interruption: what came back is pending, the rest is dead."""
        letter = bury_at(burying, "t", numbered(range(2)), now=T)
        store.requeue(Requeue(letter, Terms(), 0), limit=1, now=NOW)

        fates = {key: [sighting.fate for sighting in burying.trace("t", key)] for key in ("r0", "r1")}

        assert fates == {"r0": [Fate.PENDING], "r1": [Fate.DEAD]}


def open_digest_now(store: Store) -> Lease:
    """Make the timeline ready, whenever it is due, and take its records."""
    store.flush("t", now=NOW)
    return open_digest(store)
