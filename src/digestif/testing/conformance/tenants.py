"""Tenants: each named prefix has a ring of its own for history, removals and documents, and so has the rest."""

import pytest

from digestif import Digests, Fate
from digestif.clock import monotonic
from digestif.core import machine
from digestif.core.tenants import LEARNED_WITHIN, MOST_TENANTS
from digestif.core.times import to_seconds
from digestif.errors import Overloaded
from digestif.stores.base import HISTORY_LIMIT, PAGE_TIMELINES, Admission, Completion, Lease, Store
from digestif.stores.documents import EVICTED, Bounds, Document
from digestif.stores.tenants import TENANTS_NOTE, TenantsNote
from digestif.testing.conformance.base import Suite, in_sync_mode_only
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    arrive_everywhere,
    claim_all,
    complete,
    delete,
    expire,
    open_digest,
)

FLOOD = HISTORY_LIMIT + PAGE_TIMELINES


def name(store: Store, prefixes: list[str]) -> None:
    """Name prefixes, as a service does when it starts."""
    store.name_tenants(prefixes)
    store.tenants()


def deliver(store: Store, timeline: str, *, now: int = NOW) -> str:
    """Deliver one record; the answer is the id of its digest."""
    arrive(store, timeline, ["a"], now=now)
    store.flush(timeline, now=now)
    lease = open_digest(store, timeline, now=now)
    assert complete(store, lease, now=now)
    return lease.digest_id


def flood(store: Store, prefix: str, *, now: int = NOW + LEASE) -> None:
    """Deliver FLOOD digests of timelines that begin with a prefix."""
    timelines = [f"{prefix}{number}" for number in range(PAGE_TIMELINES)]
    for at in range(now, now + FLOOD // PAGE_TIMELINES):
        arrive_everywhere(store, timelines, now=at)
        leases = claim_all(store, now=at)
        for begin in range(0, len(leases), PAGE_TIMELINES):
            store.complete([Completion(lease, 0) for lease in leases[begin : begin + PAGE_TIMELINES]], now=at)


def ended(store: Store, timeline: str) -> list[str]:
    """The ids of a timeline's digests in the history."""
    return [entry.id for entry in store.history(timeline, limit=HISTORY_LIMIT)]


def keep(store: Store, key: str, ring: str, *, bounds: Bounds, body: bytes = b"1", now: int = NOW) -> None:
    assert store.keep("shelf", Document(key, body, ring=ring), bounds=bounds, replace=True, now=now)


def shelf(store: Store) -> list[str]:
    return [document.key for document in store.documents("shelf", limit=100, now=NOW)]


def ids_of_claims(store: Store, *, asks: bool) -> dict[str, str]:
    """Open all that is due, claimed or admitted with the same token; the ids of the digests by timeline."""
    leases: list[Lease] = []
    for partition in range(store.partitions):
        page = store.claim(partition, 100, token="claim", lease=LEASE, now=NOW, asks=asks)
        admissions = [Admission(each.timeline, machine.seen(each.slot)) for each in page.candidates]
        leases += page.leases
        leases += store.admit(admissions, token="claim", lease=LEASE, now=NOW).leases if admissions else []
    return {lease.timeline: lease.digest_id for lease in leases}


def pass_time(monkeypatch: pytest.MonkeyPatch, millis: int) -> None:
    """Let the clock by which notes are read again go on."""
    later = monotonic() + to_seconds(millis)
    monkeypatch.setattr(f"{TenantsNote.__module__}.monotonic", lambda: later)


def _refuse(*_: object) -> bool:
    raise Overloaded("the disk is full")


class TenantRings(Suite):
    @in_sync_mode_only
    def test_one_tenant_does_not_push_out_what_others_have_in_the_history(self, store: Store, digests: Digests) -> None:
        """Fact 88. More digests than a ring has leave history and traces of another prefix and of the rest alone."""
        name(store, ["a:", "b:"])
        other, rest = deliver(store, "b:1"), deliver(store, "rest")

        flood(store, "a:")

        assert (ended(store, "b:1"), ended(store, "rest")) == ([other], [rest])
        assert [found.fate for found in digests.trace("b:1", "a")] == [Fate.DELIVERED]
        assert digests.trace("b:1", "never came") == digests.trace("rest", "never came") == []
        assert (store.kept_since("b:1"), store.kept_since("rest")) == (None, None)

    def test_the_rest_does_not_push_out_what_a_tenant_has(self, store: Store) -> None:
        """Fact 88. Timelines without a named prefix share one ring, which is bounded like each of the others."""
        name(store, ["b:"])
        other = deliver(store, "b:1")

        flood(store, "c:")

        assert ended(store, "b:1") == [other]
        assert store.kept_since("b:1") is None
        assert HISTORY_LIMIT // 2 <= len(store.history(None, limit=10 * HISTORY_LIMIT, prefix="c:")) <= HISTORY_LIMIT

    def test_each_ring_of_the_history_is_bounded(self, store: Store) -> None:
        """Fact 30. About the last thousand digests of a prefix; what was forgotten is known by its ring alone."""
        name(store, ["a:"])
        before = deliver(store, "a:first")

        flood(store, "a:")

        found = store.history(None, limit=10 * HISTORY_LIMIT, prefix="a:")
        assert HISTORY_LIMIT // 2 <= len(found) <= HISTORY_LIMIT
        assert [entry.ended for entry in found] == sorted((entry.ended for entry in found), reverse=True)
        if store.partitions == 1:
            assert before not in {entry.id for entry in found}
            assert store.kept_since("a:first") is not None
            assert store.kept_since("rest") is None

    def test_of_nested_prefixes_the_longest_counts(self, store: Store) -> None:
        """Fact 88. `a:x:` is a tenant beside `a:`: neither pushes out the other."""
        name(store, ["a:", "a:x:"])
        outer = deliver(store, "a:1")

        flood(store, "a:x:many")
        assert ended(store, "a:1") == [outer]
        inner = deliver(store, "a:x:1", now=NOW + 2 * LEASE)
        flood(store, "a:many", now=NOW + 3 * LEASE)

        assert inner in ended(store, "a:x:1")

    def test_history_is_read_by_prefix_over_all_rings(self, store: Store) -> None:
        """Fact 88. The latest first, whatever their rings; a prefix need not be named, nor end where a name does."""
        name(store, ["a:", "b:"])
        timelines = ["a:1", "rest", "b:1", "a:2", "restless", "b:2"]
        for number, timeline in enumerate(timelines):
            deliver(store, timeline, now=NOW + number)

        def found(prefix: str, limit: int = 10) -> list[str]:
            return [entry.timeline for entry in store.history(None, limit=limit, prefix=prefix)]

        assert found("") == timelines[::-1]
        assert found("", 2) == ["b:2", "restless"]
        assert found("a:") == ["a:2", "a:1"]
        assert found("b:", 1) == ["b:2"]
        assert found("res") == ["restless", "rest"]
        assert found("b:1") == ["b:1"]
        assert found("c") == []

    def test_a_prefix_is_read_as_it_is_written(self, store: Store) -> None:
        """Fact 88. No character of a prefix has a meaning of its own, and none sorts beyond it."""
        prefixes = ["%", "_:", "a*:", "é:", "\U0010ffff", "a:\0", "'"]
        name(store, prefixes)
        for number, prefix in enumerate(prefixes):
            deliver(store, f"{prefix}\U0010ffff", now=NOW + number)
            deliver(store, f"{prefix}z", now=NOW + number)
        deliver(store, "other", now=NOW + len(prefixes))

        for prefix in prefixes:
            found = [entry.timeline for entry in store.history(None, limit=10, prefix=prefix)]
            assert sorted(found) == sorted([f"{prefix}\U0010ffff", f"{prefix}z"])

    @pytest.mark.parametrize("asks", [False, True], ids=["claimed", "admitted"])
    def test_the_id_of_a_digest_does_not_depend_on_others_in_its_claim(self, store: Store, asks: bool) -> None:
        """Fact 88. Ids of one claim differ, and none counts the digests of others."""
        alone: dict[str, str] = {}
        for timeline in ("a:1", "b:0"):
            arrive(store, timeline, ["a"])
            alone |= ids_of_claims(store, asks=asks)
            delete(store, timeline, now=NOW)
        arrive_everywhere(store, ["a:1", *(f"b:{number}" for number in range(20))])

        ids = ids_of_claims(store, asks=asks)

        assert len(set(ids.values())) == len(ids) == 21
        assert alone == {timeline: ids[timeline] for timeline in ("a:1", "b:0")}

    def test_a_tenant_does_not_push_out_removals_of_others(self, store: Store) -> None:
        """Fact 78. Records that expire in more timelines than a ring remembers leave those of other rings alone."""
        name(store, ["a:", "b:"])
        for timeline in ("b:1", "rest"):
            arrive(store, timeline, ["gone"])
            assert store.retract(timeline, "gone", now=NOW)
        many = [f"a:{number}" for number in range(HISTORY_LIMIT * min(4, store.partitions) + HISTORY_LIMIT // 2)]

        arrive_everywhere(store, many, ttl=1_000)
        expire(store, now=NOW + 1_000)

        assert store.removals("b:1").retracted == store.removals("rest").retracted == (("gone", NOW),)
        remembered = [timeline for timeline in many if store.removals(timeline).expired]
        assert HISTORY_LIMIT // 2 <= len(remembered) < len(many)
        assert (store.kept_since("b:1"), store.kept_since("rest")) == (None, None)

    def test_documents_of_a_ring_push_out_only_each_other(self, store: Store) -> None:
        """Fact 74. Entries and bytes are bounded for each ring of a collection."""
        bounds = Bounds(entries=3, bytes=100)
        keep(store, "b1", "b:", bounds=bounds, body=b"x" * 90)
        keep(store, "r1", "", bounds=bounds, body=b"x" * 90)

        for number in range(5):
            keep(store, f"a{number}", "a:", bounds=bounds)
        keep(store, "large", "a:", bounds=bounds, body=b"x" * 99)
        keep(store, "b2", "b:", bounds=bounds, body=b"x" * 10)

        assert shelf(store) == ["b2", "large", "a4", "r1", "b1"]
        assert store.kept("shelf", "b1", now=NOW) == Document("b1", b"x" * 90, None, NOW, "b:")

    def test_documents_that_are_too_old_leave_every_ring(self, store: Store) -> None:
        """Fact 74. Whatever ring is written next: a tenant that is quiet or has gone leaves nothing behind."""
        bounds = Bounds(entries=10, bytes=100, age=100)
        for key, ring in (("r1", ""), ("a1", "a:"), ("b1", "b:"), ("r2", ""), ("a2", "a:")):
            keep(store, key, ring, bounds=bounds, body=b"x" * 50)
        keep(store, "b2", "b:", bounds=bounds, body=b"x" * 50, now=NOW + 50)

        keep(store, "c1", "c:", bounds=bounds, now=NOW + 100)
        assert shelf(store) == ["c1", "b2"]
        keep(store, "r3", "", bounds=bounds, now=NOW + 200)
        assert shelf(store) == ["r3"]

        keep(store, "b3", "b:", bounds=bounds, body=b"x" * 100, now=NOW + 200)
        assert shelf(store) == ["b3", "r3"]

    def test_documents_that_are_too_old_leave_other_rings_a_page_at_a_time(self, store: Store) -> None:
        """Fact 74. One call removes a bounded number of them."""
        bounds = Bounds(entries=2 * EVICTED, age=100)
        for number in range(EVICTED + 1):
            keep(store, f"a{number}", "a:", bounds=bounds)

        keep(store, "b1", "b:", bounds=bounds, now=NOW + 100)
        assert shelf(store) == ["b1", f"a{EVICTED}"]
        keep(store, "b2", "b:", bounds=bounds, now=NOW + 100)
        assert shelf(store) == ["b2", "b1"]

    def test_documents_of_all_rings_are_read_in_their_order(self, store: Store) -> None:
        """Fact 74. Page after page, the newest first, also where only documents of one timeline are asked for."""
        bounds = Bounds(entries=10)
        for number in range(6):
            document = Document(f"k{number}", b"1", "t", ring=["a:", "", "b:"][number % 3])
            store.keep("shelf", document, bounds=bounds, now=NOW)

        first = store.documents("shelf", limit=4, now=NOW)
        second = store.documents("shelf", before=first[-1].key, limit=4, now=NOW)

        assert [document.key for document in (*first, *second)] == ["k5", "k4", "k3", "k2", "k1", "k0"]
        assert [document.ring for document in second] == ["", "a:"]
        assert len(store.documents("shelf", timeline="t", limit=10, now=NOW)) == 6
        store.forget_timeline("t")
        assert shelf(store) == []

    def test_a_key_is_unique_over_all_rings(self, store: Store) -> None:
        """Fact 74. A document of the same key in another ring is there already; one that replaces it moves."""
        bounds = Bounds(entries=2)
        keep(store, "k", "a:", bounds=bounds)
        assert not store.keep("shelf", Document("k", b"2", ring="b:"), bounds=bounds, now=NOW)
        keep(store, "k", "b:", bounds=bounds)

        for key in ("a1", "a2"):
            keep(store, key, "a:", bounds=bounds)
        assert shelf(store) == ["a2", "a1", "k"]

        for key in ("b1", "b2"):
            keep(store, key, "b:", bounds=bounds)
        assert shelf(store) == ["b2", "b1", "a2", "a1"]
        assert store.forget("shelf", "b2")

    def test_a_prefix_may_be_named_later(self, store: Store) -> None:
        """Fact 88. What was filed before is found; that it may be forgotten with the rest is known."""
        before = deliver(store, "b:1")
        name(store, ["b:"])
        after = deliver(store, "b:1", now=NOW + 1)
        assert ended(store, "b:1") == [after, before]

        flood(store, "c:")

        assert after in ended(store, "b:1")
        if store.partitions == 1:
            assert ended(store, "b:1") == [after]
            assert store.kept_since("b:1") is not None

    def test_a_process_learns_the_prefixes_that_another_one_has_named(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fact 88. Within half a minute it files by them, and names none itself."""
        deliver(store, "rest")
        assert store.tenants().of("a:1") == ""

        assert store.swap_note(0, TENANTS_NOTE, None, b'{"a:":0,"b:":0}')
        assert store.tenants().of("a:1") == ""
        pass_time(monkeypatch, LEARNED_WITHIN)
        other = deliver(store, "b:1")
        flood(store, "a:")

        assert store.tenants().rings == ("", "a:", "b:")
        assert ended(store, "b:1") == [other]

    def test_prefixes_of_several_processes_are_all_named(self, store: Store) -> None:
        """Fact 88. A name is there for good; what is named twice is named once; an empty prefix is none."""
        for prefixes in (["a:", "", "a:"], ["b:", "a:"], []):
            name(store, prefixes)

        assert store.tenants().rings == ("", "a:", "b:")

    def test_prefixes_that_cannot_be_added_leave_those_that_are_named(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fact 88. A process that can read the store but not write it files by what others have named."""
        name(store, ["a:"])
        other = TenantsNote(store)
        other.name(["b:"])

        with monkeypatch.context() as while_full:
            while_full.setattr(store, "swap_note", _refuse)
            assert other.tenants().rings == ("", "a:")

        pass_time(monkeypatch, LEARNED_WITHIN)
        assert other.tenants().rings == ("", "a:", "b:")

    def test_there_is_a_bounded_number_of_rings(self, store: Store) -> None:
        """Fact 88. Timelines of prefixes beyond it share the ring of the rest."""
        *named, beyond = (f"tenant-{number}:" for number in range(MOST_TENANTS + 1))

        name(store, [*named, beyond])

        assert store.tenants().rings == ("", *named)
        assert store.tenants().of(f"{named[0]}1") == named[0]
        assert store.tenants().of(f"{beyond}1") == ""
        assert [deliver(store, f"{beyond}1")] == ended(store, f"{beyond}1")

    def test_a_note_that_cannot_be_read_names_no_prefix(self, store: Store) -> None:
        """Fact 88. The next process that names prefixes writes it again."""
        assert store.swap_note(0, TENANTS_NOTE, None, b"\xff{")
        assert store.tenants().rings == ("",)

        name(store, ["a:"])

        assert store.tenants().rings == ("", "a:")

    def test_a_deleted_timeline_leaves_every_ring(self, store: Store) -> None:
        """Fact 29. Filed before and after its prefix was named: all of it is gone, and what others have stays."""
        deliver(store, "a:1")
        name(store, ["a:"])
        deliver(store, "a:1", now=NOW + 1)
        other = deliver(store, "a:2", now=NOW + 2)
        arrive(store, "a:1", ["gone"], now=NOW + 3)
        store.retract("a:1", "gone", now=NOW + 3)

        delete(store, "a:1", now=NOW + 4)

        assert [entry.id for entry in store.history(None, limit=10)] == [other]
        assert store.removals("a:1") == store.removals("never seen")
