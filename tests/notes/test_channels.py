"""The note about channels is shared by processes of different releases: each reads what the other wrote."""

import asyncio
from typing import Literal

import msgspec
import pytest
from msgspec.structs import replace

from digestif import Digest, Digests, Unavailable, Worker
from digestif.core.outages import MOST_CHANNELS, Outage, Phase
from digestif.events.base import Events
from digestif.notes.channels import ChannelNotes
from digestif.stores.memory import MemoryStore

T = 1_700_000_000.0
NOW = 1_700_000_000_000

WRITTEN_BEFORE = {  # by a process that knows neither witnesses nor answers
    "closed": b'{"mail":{"phase":"closed","since":%d,"reason":"refused","probe_at":%d,"patterns":["mail:*"]}}',
    "suspected": b'{"mail":{"phase":"suspected","since":%d,"reason":"no answer","suspect":"mail:eve","probe_at":%d}}',
    "returning": b'{"mail":{"phase":"returning","since":%d,"reason":"refused","probe_at":%d,"returned":1699999999000}}',
}


class OutageBefore(msgspec.Struct):
    """What an older process reads of a note."""

    phase: Literal["suspected", "closed", "returning"]
    since: int
    reason: str
    suspect: str = ""
    interval: int = 5_000
    probe_at: int = 0
    prober: str = ""
    prober_id: str = ""
    probe_until: int = 0
    returned: int = 0
    second: int = -1
    granted: int = 0
    patterns: tuple[str, ...] = ()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(namespace="d")


@pytest.mark.parametrize("phase", WRITTEN_BEFORE)
def test_a_note_of_an_older_process_is_understood(store: MemoryStore, phase: str) -> None:
    note = WRITTEN_BEFORE[phase] % (NOW - 1_000, NOW)
    assert store.swap_note(0, "channels", None, note)
    digests, sent = Digests(store), []
    digests.handler("mail:*", channel="mail")(lambda digest: sent.append(digest.timeline))

    assert [outage.channel for outage in digests.outages(now=T)] == ([] if phase == "suspected" else ["mail"])
    digests.add("mail:ada", 1, now=T)
    digests.deliver("mail:ada", now=T)

    assert sent == ["mail:ada"]  # closed: it is the probe


def test_an_older_process_understands_every_note(store: MemoryStore) -> None:
    digests = Digests(store)
    away = False

    @digests.handler("mail:*", channel="mail")
    def send(digest: Digest) -> None:
        if away:
            raise Unavailable("refused")

    phases = set()
    for step in range(30):
        away = 1 <= step < 4
        now = T + 6 * step
        digests.add(f"mail:{step}", 1, now=now)
        while asyncio.run(Worker(digests).run_once(now)):
            pass
        written = store.note(0, "channels")
        if written is not None:
            phases.add(msgspec.json.decode(written, type=dict[str, OutageBefore])["mail"].phase)

    assert phases == {"suspected", "closed", "returning"}


def test_a_full_note_forgets_the_oldest_suspicion_that_was_refuted(store: MemoryStore) -> None:
    notes = ChannelNotes(store, events=Events(), goes_through=lambda *_: False, on_down=lambda _: None)
    refuted = Outage(Phase.SUSPECTED, NOW - 10, "503", answered=NOW)
    met = Outage(Phase.SUSPECTED, NOW - 100, "503", met=("ada",), met_since=NOW - 100)
    noted = {"met": met, "later": refuted, "first": replace(refuted, since=NOW - 20)}
    noted |= {f"closed {number}": Outage(Phase.CLOSED, NOW, "503", probe_at=NOW) for number in range(MOST_CHANNELS - 3)}
    assert store.swap_note(0, "channels", None, msgspec.json.encode(noted))

    for name in ("new", "newer", "newest"):
        notes.put(name, lambda _: Outage(Phase.CLOSED, NOW, "503", probe_at=NOW), now=NOW)

    assert len(notes.read()) == MOST_CHANNELS
    assert noted.keys() - notes.read().keys() == {"first", "later"}
    assert notes.read().keys() - noted.keys() == {"new", "newer"}
