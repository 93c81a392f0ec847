"""What a move leaves behind: documents, samples and notes belong to the store in which they were written."""

from digestif import Digests
from digestif.notes.samples import Sampler
from digestif.stores.documents import Bounds, Document
from digestif.stores.memory import MemoryStore
from digestif.transfer.move import Move

NOW = 1_700_000_000_000


def test_documents_and_samples_stay_where_they_are() -> None:
    source, target = MemoryStore(), MemoryStore()
    Digests(source).add("t", 1, now=NOW / 1000)
    source.keep("messages", Document("m", b"{}", "t"), bounds=Bounds(entries=10), now=NOW)
    Sampler(source).tick(NOW)

    Move(source, target, now=lambda: NOW).run()

    assert target.inspect("t").pending == 1
    assert [document.key for document in source.documents("messages", limit=10, now=NOW)] == ["m"]
    assert target.documents("messages", limit=10, now=NOW) == []
    assert len(Digests(source).samples(now=NOW / 1000)) == 1
    assert Digests(target).samples(now=NOW / 1000) == []
