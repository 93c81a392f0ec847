"""A store with everything in it that a release can leave behind, and what can be seen of that.

Leases have tokens of our own, so digests have the same ids in every store, and what is seen of one is seen of all.
Folders of older releases were written by this program as it was then: add kinds of timelines, but leave the names of
those that are here, and of the namespaces.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import msgspec

from digestif import Budget, Digests, Policy, Record
from digestif.attempts.contents import decode
from digestif.core.machine import Unfinished
from digestif.core.times import Millis, to_millis
from digestif.notes.samples import Sampler
from digestif.stores.base import Burial, Completion, Lease, QuarantinedRecord, Release, Take
from digestif.stores.codec import JsonCodec, Sealer
from digestif.stores.documents import Bounds, Document
from digestif.stores.reader import Part
from digestif.stores.redis import leases as redis_leases
from digestif.stores.rows import open_digests as rows_reading
from digestif.stores.transfer import TransferStore
from digestif.transfer.move import Move, Progress
from tests.routes.recorder import Recording

T = 1_900_000_000.0
NOW = T + 1000  # when the store is left, and opened again
HOUR = 3600.0
DAY = 24 * HOUR

# Namespaces with timelines of every kind, which will be scheduled, claimed by workers, or left until all expires.
SCHEDULED, CLAIMED, AGED = EVERYTHING = ("d", "parted", "aged")
PARTITIONS = {CLAIMED: 4}  # on Redis
STOPS = (2, 10)  # after so many records a move was interrupted: in a digest, and in a dead letter
MAIL = "mail"  # the namespace of a route with a budget
BUDGET = Budget(1, per=DAY)
INBOX = "inbox"  # the namespace with records that were added inside a transaction, on PostgreSQL
KEPT = "kept"  # the namespace of a service: messages that were sent, a sample, the answer to a request
ANSWER = Document("a request", b"\0\xff answer")
ORDER = Record("order-7", {"total": "12.50"}, T)


def fill(digests: Digests) -> None:
    """Timelines of every kind, one after the other, named for what happened to them."""
    for number, kind in enumerate(_KINDS):
        kind(digests, kind.__name__.removeprefix("_"), T + 20 * number)


def spend(digests: Digests) -> None:
    """Use up a recipient's budget."""
    digests.route("mail:*", channel=Recording(), budget=BUDGET)
    _add(digests, "mail:ada", "first", at=T)
    assert digests.deliver("mail:ada", now=T)


def serve(digests: Digests) -> None:
    """Send a message that is kept, note a sample, and keep what a service keeps."""
    digests.route("mail:*", channel=Recording())
    digests.keep_messages()
    _add(digests, "mail:ada", "first", at=T)
    assert digests.deliver("mail:ada", now=T)
    assert Sampler(digests.store).tick(to_millis(T))
    assert digests.store.keep("idempotency", ANSWER, bounds=Bounds(entries=10), now=to_millis(T))


def begin_move(source: Digests, target: Digests, *, stop: int) -> None:
    """Move one store into the other, as far as so many records."""
    for name, kind in {"dead": _dead, "failed": _failed, "ready": _ready}.items():
        kind(source, name, T)
    assert isinstance(source.store, TransferStore)
    assert isinstance(target.store, TransferStore)
    source.store.page_records = 2

    def report(progress: Progress) -> None:
        if progress.records >= stop:
            raise _Interrupted

    with suppress(_Interrupted):
        Move(source.store, target.store, report=report, now=lambda: to_millis(NOW)).run()
        raise AssertionError("the move came to its end")


class _Interrupted(Exception):
    """Ends a move half-way."""


# Kinds


def _expired(digests: Digests, name: str, at: float) -> None:
    """A digest that may have gone out, and a record beside it."""
    brief = Digests(digests.store, policy=Policy.immediate(ttl=5))
    _add(brief, name, "a", "b", at=at)
    _leased(digests, name, at, lease=1)
    digests.maintenance(0, now=at + 1)
    _add(brief, name, "c", at=at + 1)
    digests.maintenance(0, now=at + 6)


def _frozen(digests: Digests, name: str, at: float) -> None:
    """A digest whose lease lapsed, and a newer version of one of its records."""
    _add(digests, name, "a", "b", at=at)
    _leased(digests, name, at, lease=1)
    digests.maintenance(0, now=at + 1)
    _add(digests, name, "b", "c", at=at + 2)


# Whatever follows must not be met by maintenance, which would let leases lapse.


def _idle(digests: Digests, name: str, at: float) -> None:
    """Delivered, and after that there was nothing more."""
    _delivered(digests, name, at, cool_down=0)
    digests.flush(name, now=at + 1)
    _complete(digests, _leased(digests, name, at + 1), at + 1)


def _delivered(digests: Digests, name: str, at: float, cool_down: Millis = 300_000) -> None:
    """Cooling down with nothing pending."""
    _add(digests, name, "old", at=at)
    _complete(digests, _leased(digests, name, at), at, cool_down=cool_down)


def _waiting(digests: Digests, name: str, at: float) -> None:
    """Put off by each record; one was superseded, one retracted."""
    _delivered(digests, name, at)
    _add(digests, name, "a", "b", "c", at=at + 1)
    _add(digests, name, "b", at=at + 2)
    digests.retract(name, "a", now=at + 2)


def _urgent(digests: Digests, name: str, at: float) -> None:
    _delivered(digests, name, at)
    _add(digests, name, "a", at=at + 1)
    _add(digests, name, "b", at=at + 1, within=50)


def _delayed(digests: Digests, name: str, at: float) -> None:
    _add(digests, name, "a", at=at, first_delay=2 * HOUR)


def _ready(digests: Digests, name: str, at: float) -> None:
    _add(digests, name, "a", "b", "c", at=at)


def _full(digests: Digests, name: str, at: float) -> None:
    """More than its capacity. On Redis such batches have orders of their own, as large ones do."""
    _add(Digests(digests.store, policy=Policy(capacity=3)), name, "a", "b", "c", "d", "e", at=at)


def _forever(digests: Digests, name: str, at: float) -> None:
    _add(Digests(digests.store, policy=Policy(ttl=None)), name, "a", at=at)


def _zipped(digests: Digests, name: str, at: float) -> None:
    _add(Digests(digests.store, codec="zstd"), name, "a", at=at)


def _odd(digests: Digests, name: str, at: float) -> None:
    """A name and a timestamp that not every store takes as they are."""
    digests.add(f"{name}: Straße {{1}}\n\0😀", None, key="é\0", timestamp=-0.0, now=at)


def _failed(digests: Digests, name: str, at: float) -> None:
    """Ready again after a block that raised, with newer records and a newer version."""
    _add(digests, name, "a", "b", "c", at=at)
    _release(digests, _leased(digests, name, at), at)
    _add(digests, name, "c", "d", at=at + 1)


def _retried(digests: Digests, name: str, at: float) -> None:
    """Waiting after an attempt of a worker that failed."""
    _add(digests, name, "a", at=at)
    _release(digests, _leased(digests, name, at), at, until=at + HOUR)
    _add(digests, name, "b", at=at + 1)


def _open(digests: Digests, name: str, at: float) -> None:
    """Under a lease that lives."""
    _full(digests, name, at)
    _leased(digests, name, at, lease=NOW + HOUR / 2 - at)
    _add(digests, name, "f", at=at + 1)


def _lapsed(digests: Digests, name: str, at: float) -> None:
    """The lease of a second attempt ran out, and is still noted."""
    _add(digests, name, "a", "b", at=at)
    _release(digests, _leased(digests, name, at), at)
    _leased(digests, name, at + 1, lease=1)
    _add(digests, name, "c", at=at + 2)


def _served(digests: Digests, name: str, at: float) -> None:
    """The same, after one of several recipients had got it."""
    _add(digests, name, "a", at=at)
    digests.store.mark_served(_leased(digests, name, at, lease=1), ["ada"], now=to_millis(at))


def _merging(digests: Digests, name: str, at: float) -> None:
    """The same, in the middle of a merge."""
    _full(digests, name, at)
    _release(digests, _leased(digests, name, at), at)
    _add(Digests(digests.store, policy=Policy(capacity=3)), name, "f", "g", "h", "i", at=at + 1)
    lease = _leased(digests, name, at + 2, lease=1)
    with patch.object(rows_reading, "PAGE_RECORDS", 2), patch.object(redis_leases, "MOVED_RECORDS", 2):
        [taken] = digests.store.take([Take(lease, None, merge=True)], now=to_millis(at + 2))
    assert taken is not None
    assert not taken.complete


def _paused(digests: Digests, name: str, at: float) -> None:
    _ready(digests, name, at)
    digests.pause(name, now=at)


def _paused_idle(digests: Digests, name: str, at: float) -> None:
    digests.pause(name, now=at)


def _paused_open(digests: Digests, name: str, at: float) -> None:
    """Its lease ran out after it was paused."""
    _add(digests, name, "a", at=at)
    _leased(digests, name, at, lease=1)
    digests.pause(name, now=at)


def _dead(digests: Digests, name: str, at: float) -> None:
    """A dead letter that some recipients have got, and a timeline that goes on."""
    _full(digests, name, at)
    lease = _leased(digests, name, at)
    digests.store.mark_served(lease, ["ada"], now=to_millis(at))
    _bury(digests, lease, at)
    _add(digests, name, "f", at=at + 1)


def _quarantined(digests: Digests, name: str, at: float) -> None:
    """A record of a codec that is not configured; the other was delivered."""
    _add(digests, name, "a", at=at)
    _add(Digests(digests.store, codec=_Foreign()), name, "foreign", at=at)
    lease = _leased(digests, name, at)
    quarantined = QuarantinedRecord(
        "foreign", f"{name}-letter", "it was stored by the codec 'foreign/1', which is not configured"
    )
    digests.store.quarantine(lease, [quarantined], now=to_millis(at))
    _complete(digests, lease, at)


def _replayed(digests: Digests, name: str, at: float) -> None:
    _add(digests, name, "a", "b", at=at)
    lease = _leased(digests, name, at)
    _bury(digests, lease, at)
    digests.replay(lease.digest_id, now=at + 1)


def _discarded(digests: Digests, name: str, at: float) -> None:
    _add(digests, name, "a", at=at)
    lease = _leased(digests, name, at)
    _bury(digests, lease, at)
    digests.discard(lease.digest_id, now=at + 1)


def _deleted(digests: Digests, name: str, at: float) -> None:
    _failed(digests, name, at)
    digests.delete(name, now=at + 2)


def _trashed(digests: Digests, name: str, at: float) -> None:
    """Deleted in the middle of a merge, and not swept yet. The last: deleting and discarding sweep what is left."""
    _merging(digests, name, at)
    digests.store.delete(name, now=to_millis(at + 3))


_KINDS: tuple[Callable[[Digests, str, float], None], ...] = (
    *(_expired, _frozen),
    *(_idle, _delivered, _waiting, _urgent, _delayed, _ready, _full, _forever, _zipped, _odd),
    *(_failed, _retried, _open, _lapsed, _served, _merging),
    *(_paused, _paused_idle, _paused_open),
    *(_dead, _quarantined, _replayed, _discarded, _deleted, _trashed),
)


class _Foreign(JsonCodec):
    name = "foreign/1"


# Acts


def _add(digests: Digests, timeline: str, *keys: str, at: float, **options: Any) -> None:
    records = [(timeline, Record(key, {"at": at, "text": f"{key} ≥ é"}, at)) for key in keys]
    digests.add_many(records, now=at, **options)


def _leased(digests: Digests, timeline: str, at: float, *, lease: float = 30) -> Lease:
    token = f"{timeline}-{at - T:g}"
    return digests.store.open(timeline, token=token, lease=to_millis(lease), now=to_millis(at))


def _complete(digests: Digests, lease: Lease, at: float, *, cool_down: Millis = 300_000) -> None:
    digests.store.complete([Completion(lease, cool_down)], now=to_millis(at))


def _release(digests: Digests, lease: Lease, at: float, *, until: float | None = None) -> None:
    again = None if until is None else to_millis(until)
    digests.store.release([Release(lease, again)], now=to_millis(at))


def _bury(digests: Digests, lease: Lease, at: float) -> None:
    digests.store.bury([Burial(lease, "no such mailbox", 300_000)], now=to_millis(at))


# Seeing


def seen_in(dsn: str, namespace: str) -> dict[str, Any]:
    with Digests(dsn, namespace=namespace) as digests:
        return _seen(digests)


def kept_in(dsn: str) -> dict[str, Any]:
    """What is seen of the namespace of a service, in JSON's terms."""
    with Digests(dsn, namespace=KEPT) as digests:
        document = digests.store.kept("idempotency", ANSWER.key, now=to_millis(NOW))
        messages = digests.messages(now=NOW)
        return _plain(
            {
                "messages": [(each.timeline, each.recipient, each.channel, each.at, each.subject) for each in messages],
                "samples": digests.samples(now=NOW),
                "document": None if document is None else (document.body.hex(), document.at),
            }
        )


def _plain(account: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(account))
    return plain


def _seen(digests: Digests) -> dict[str, Any]:
    """All that can be seen of a store at NOW, in JSON's terms."""
    timelines = digests.timelines(limit=1000, now=NOW)
    return _plain(
        {
            "timelines": [{**msgspec.to_builtins(view), **_contents(digests, view.key)} for view in timelines],
            "letters": [
                {**msgspec.to_builtins(letter), "contents": digests.dead_records(letter.id)}
                for letter in digests.dead_letters(limit=1000)
            ],
            "history": digests.history(limit=1000),
            "ledger": digests.ledger(),
            "backlog": digests.backlog(now=NOW),
            "verified": bool(digests.verify()),
        }
    )


def _contents(digests: Digests, timeline: str) -> dict[str, Any]:
    slot = digests.store.inspect(timeline)
    digest = slot.digest
    known = ("at", "since", "dropped", "first", "deadline", "rule", "was", "token", "until")
    return {
        **{name: getattr(slot, name) for name in known},
        "letters": [letter.id for letter in digests.dead_letters(timeline)],
        "peek": digests.peek(timeline, now=NOW),
        "pending_contents": _records(digests, timeline, Part.PENDING),
        "digest": None if digest is None else _unfinished(digests, timeline, digest),
    }


def _unfinished(digests: Digests, timeline: str, digest: Unfinished) -> dict[str, Any]:
    counts = ("revision", "attempt", "lapses", "dropped")
    known = ("id", "opened", *counts, "deciding", "settled", "frozen", "replayed", "served")
    return {name: getattr(digest, name) for name in known} | {"contents": _records(digests, timeline, Part.DIGEST)}


def _records(digests: Digests, timeline: str, part: Part) -> list[Record]:
    return decode(digests.store.records(timeline, part, after=None, limit=1000), Sealer("json"))[0]
