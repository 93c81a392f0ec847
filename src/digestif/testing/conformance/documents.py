"""Documents: what a service keeps for a while, by key, bounded, in the order in which it came."""

import pytest

from digestif.stores.base import Store
from digestif.stores.documents import Bounds, Document
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import NOW, arrive, delete
from digestif.testing.footprint import assert_nothing_left

MANY = Bounds(entries=1000)
HOSTILE = ["", "a", "a:", ":", "\0", "é", "日本", "a\0b", "x" * 200]


def keep(
    store: Store, key: str, body: bytes = b"1", *, bounds: Bounds = MANY, now: int = NOW, **options: object
) -> bool:
    timeline = options.pop("timeline", None)
    document = Document(key, body, None if timeline is None else str(timeline))
    return store.keep("shelf", document, bounds=bounds, now=now, **options)  # type: ignore[arg-type]


def keys(store: Store, *, now: int = NOW, **wanted: object) -> list[str]:
    found = store.documents("shelf", limit=100, now=now, **wanted)  # type: ignore[arg-type]
    return [document.key for document in found]


class KeptDocuments(Suite):
    def test_a_document_is_kept_under_its_key(self, store: Store) -> None:
        """Fact 74. What was kept is found, with the time; what was not is None."""
        assert keep(store, "a", b"\0\xff body", timeline="t") is True

        assert store.kept("shelf", "a", now=NOW) == Document("a", b"\0\xff body", "t", NOW)
        assert store.kept("shelf", "b", now=NOW) is None
        assert store.kept("other", "a", now=NOW) is None

    def test_a_key_is_kept_once_unless_it_is_to_be_replaced(self, store: Store) -> None:
        """Fact 74. The second `keep` answers False and changes nothing; with `replace` it is the newest."""
        keep(store, "a", b"first")
        keep(store, "b")

        assert keep(store, "a", b"second") is False
        assert keys(store) == ["b", "a"]
        assert keep(store, "a", b"third", replace=True) is True

        assert keys(store) == ["a", "b"]
        found = store.kept("shelf", "a", now=NOW)
        assert found is not None
        assert found.body == b"third"

    def test_a_document_is_replaced_by_comparison_only_where_its_body_is_there(self, store: Store) -> None:
        """Fact 74. Of two that replace the same body one does; what is not there, or too old, is not replaced."""
        bounds = Bounds(entries=10, age=100)
        keep(store, "a", b"first", timeline="t", bounds=bounds)

        assert keep(store, "a", b"second", replace=b"first", bounds=bounds) is True
        assert keep(store, "a", b"third", replace=b"first", bounds=bounds) is False
        assert keep(store, "a", b"third", replace=b"", bounds=bounds) is False
        assert keep(store, "b", replace=b"1", bounds=bounds) is False
        assert keep(store, "a", b"third", replace=b"second", bounds=bounds, now=NOW + 100) is False

        assert store.kept("shelf", "a", now=NOW) == Document("a", b"second", None, NOW)
        assert keys(store) == ["a"]

    def test_the_oldest_are_removed_beyond_the_entries(self, store: Store) -> None:
        """Fact 74. At most three: of five the last three are left."""
        for number in range(5):
            keep(store, f"k{number}", bounds=Bounds(entries=3))

        assert keys(store) == ["k4", "k3", "k2"]
        assert store.kept("shelf", "k1", now=NOW) is None

    def test_the_oldest_are_removed_beyond_the_bytes(self, store: Store) -> None:
        """Fact 74. At most 100 bytes: a body of 60 leaves room for one of 40, and one of 101 is not kept at all."""
        bounds = Bounds(entries=10, bytes=100)
        for key, size in (("a", 50), ("b", 40), ("c", 60)):
            keep(store, key, b"x" * size, bounds=bounds)
        before = keys(store)
        keep(store, "d", b"x" * 101, bounds=bounds)

        assert before == ["c", "b"]
        assert keys(store) == []

    def test_replaced_and_forgotten_bytes_make_room(self, store: Store) -> None:
        """Fact 74. Bytes are counted as they are, whatever happened to documents before."""
        bounds = Bounds(entries=10, bytes=100)
        keep(store, "a", b"x" * 90, bounds=bounds)
        keep(store, "a", b"x" * 10, bounds=bounds, replace=True)
        keep(store, "b", b"x" * 80, bounds=bounds)
        store.forget("shelf", "b")
        keep(store, "c", b"x" * 90, bounds=bounds)

        assert keys(store) == ["c", "a"]

    def test_a_document_that_is_too_old_counts_as_gone(self, store: Store) -> None:
        """Fact 74. Kept for 100 ms: it is there 99 ms later, not after 100, and its key can be kept again."""
        bounds = Bounds(entries=10, age=100)
        keep(store, "a", bounds=bounds)

        assert store.kept("shelf", "a", now=NOW + 99) is not None
        assert store.kept("shelf", "a", now=NOW + 100) is None
        assert keys(store, now=NOW + 100) == []
        assert keep(store, "a", bounds=bounds, now=NOW + 100) is True

    def test_too_old_documents_are_removed_by_later_ones(self, store: Store) -> None:
        """Fact 74. Nothing else has to sweep them."""
        for number in range(5):
            keep(store, f"old{number}", bounds=Bounds(entries=10, age=100))
        keep(store, "new", bounds=Bounds(entries=10, age=100), now=NOW + 200)
        store.forget("shelf", "new")

        assert_nothing_left(store)

    def test_documents_come_page_by_page_newest_first(self, store: Store) -> None:
        """Fact 74. Ten in pages of four; after one that is gone there is nothing."""
        for number in range(10):
            keep(store, f"k{number}")

        pages = [store.documents("shelf", limit=4, now=NOW)]
        while pages[-1]:
            pages.append(store.documents("shelf", before=pages[-1][-1].key, limit=4, now=NOW))

        assert [[document.key for document in page] for page in pages] == [
            ["k9", "k8", "k7", "k6"],
            ["k5", "k4", "k3", "k2"],
            ["k1", "k0"],
            [],
        ]
        assert store.documents("shelf", before="unknown", limit=4, now=NOW) == []

    def test_documents_of_a_timeline_have_a_list_of_their_own(self, store: Store) -> None:
        """Fact 74. Those of one timeline, newest first, page by page."""
        for number in range(6):
            keep(store, f"k{number}", timeline="ab"[number % 2])

        first = store.documents("shelf", timeline="a", limit=2, now=NOW)
        rest = store.documents("shelf", timeline="a", before=first[-1].key, limit=2, now=NOW)

        assert [document.key for document in [*first, *rest]] == ["k4", "k2", "k0"]

    def test_documents_of_a_timeline_are_forgotten_together(self, store: Store) -> None:
        """Fact 74. In all collections, and no others; also more than a page."""
        for number in range(250):
            keep(store, f"k{number}", timeline="t")
        store.keep("other", Document("x", b"1", "t"), bounds=MANY, now=NOW)
        keep(store, "theirs", timeline="t2")
        keep(store, "none")

        store.forget_timeline("t")

        assert keys(store) == ["none", "theirs"]
        assert store.documents("other", limit=10, now=NOW) == []

    def test_a_document_is_forgotten_by_comparison_only_where_its_body_is_there(self, store: Store) -> None:
        """Fact 74. What has another body stays, also if the one that is given is empty."""
        keep(store, "a", b"first", timeline="t")

        assert store.forget("shelf", "a", body=b"other") is False
        assert store.forget("shelf", "a", body=b"") is False
        assert store.forget("shelf", "b", body=b"first") is False
        assert keys(store) == ["a"]
        assert store.forget("shelf", "a", body=b"first") is True
        assert_nothing_left(store)

    def test_forgetting_what_is_not_there_changes_nothing(self, store: Store) -> None:
        """Fact 74. Neither a document nor a timeline that was never there."""
        keep(store, "a")

        assert store.forget("shelf", "b") is False
        assert store.forget("other", "a") is False
        assert store.forget("shelf", "a") is True
        assert store.forget("shelf", "a") is False
        store.forget_timeline("t")
        assert_nothing_left(store)

    @pytest.mark.parametrize("name", HOSTILE[1:])
    def test_no_name_is_taken_for_another(self, store: Store, name: str) -> None:
        """Fact 74. Hostile keys and timelines side by side: only the named one is forgotten."""
        for other in HOSTILE[1:]:
            keep(store, other, other.encode(), timeline=other)

        store.forget_timeline(name)

        assert sorted(keys(store)) == sorted(other for other in HOSTILE[1:] if other != name)

    def test_neither_records_nor_their_counts_are_touched(self, store: Store) -> None:
        """Fact 74. Beside records: verify agrees, a repair finds nothing, and deleting the timeline leaves them."""
        arrive(store, "t", ["a", "b"])
        keep(store, "m", timeline="t")

        assert store.verify()
        assert store.repair(0, dry_run=False, now=NOW) == []
        delete(store, "t")

        assert keys(store) == ["m"]
        assert store.verify()
