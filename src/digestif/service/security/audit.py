"""The audit log: who changed what, and when. It is kept in the store, bounded for each token: its oldest go first."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from digestif.core.policy import Policy
from digestif.core.times import Millis
from digestif.errors import ConfigError, StoreError
from digestif.ids import fresh_key
from digestif.service.security.tokens import Principal
from digestif.service.service import Service
from digestif.service.waits import to_its_end
from digestif.stores.documents import Bounds, Document

T = TypeVar("T")

logger = logging.getLogger(__name__)

COLLECTION = "audit"
BOUNDS = Bounds(entries=10_000, bytes=10 << 20, age=365 * 86_400_000)
LONGEST_POLICY = 4_000  # characters of the text that a caller sends
LONGEST = 280  # bytes of each text of an entry as it is stored: all entries fit the bytes, whatever callers write


class AuditEntry(Struct, frozen=True, omit_defaults=True):
    """A change that a person made. Times in seconds."""

    at: float
    who: str  # the name of the token
    what: str  # such as pause, delete, replay
    timeline: str | None = None
    subject: str | None = None  # the record, the digest, or the new policy


_decode = msgspec.json.Decoder(AuditEntry).decode


def entry_of(who: str, what: str, *, timeline: str, subject: str | None) -> AuditEntry:
    """An entry with texts of bounded length; the log sets its time."""
    return AuditEntry(0.0, _cut(who), what, _cut(timeline), None if subject is None else _cut(subject))


def _cut(text: str) -> str:
    """A text as it is, or the beginning of one that is too long."""
    length = LONGEST
    shown = text[:length]
    while len(msgspec.json.encode(shown)) > LONGEST:
        length = length * 3 // 4
        shown = f"{text[:length]}…"
    return shown if shown == text or shown.endswith("…") else f"{text[: length - 5]}…"


def encoded(entry: AuditEntry, *, now: Millis) -> bytes:
    return msgspec.json.encode(replace(entry, at=now / 1000))


async def noted(
    change: Coroutine[Any, Any, T],
    service: Service,
    principal: Principal,
    what: str,
    *,
    timeline: str,
    subject: str | None = None,
    is_change: Callable[[T], bool] = lambda answer: answer is not False,
) -> T:
    """Make a change, and note it if it was one. Both are done even if the request is given up meanwhile."""

    async def make() -> T:
        answer = await change
        if is_change(answer):
            await _note(service, entry_of(principal.name, what, timeline=timeline, subject=subject))
        return answer

    return await to_its_end(make())


async def _note(service: Service, entry: AuditEntry) -> None:
    """Write an entry after a change. One that can't be written is logged: the change has been made."""
    digests = service.digests

    def write() -> None:
        now = digests.store.time(0)
        # The timeline is in the body only: what became of a deleted one stays in the log. Each token has a ring.
        document = Document(fresh_key(), encoded(entry, now=now), ring=entry.who)
        digests.store.keep(COLLECTION, document, bounds=BOUNDS, now=now)

    try:
        await service.in_thread(write)
    except StoreError:
        logger.exception("the audit log lacks: %s by %s", entry.what, entry.who)


def policy_noted(text: str) -> str:
    """A policy as the log has it: its canonical text. ConfigError if it is none, or so long that reading it is slow."""
    if len(text) > LONGEST_POLICY:
        raise ConfigError(f"policy: {len(text):,} characters, allowed are {LONGEST_POLICY:,}")
    return str(Policy.parse(text))


def preference_noted(cadence: str, zone: str | None) -> str:
    """A preference as the log has it."""
    return f"{cadence}, {zone}" if zone else cadence


async def audit_entries(
    service: Service, *, before: str | None = None, limit: int = 100
) -> list[tuple[str, AuditEntry]]:
    """Entries with their ids, the newest first."""
    store = service.digests.store

    def read() -> list[Document]:
        return store.documents(COLLECTION, before=before, limit=limit, now=store.time(0))

    return [(found.key, _decode(found.body)) for found in await service.in_thread(read)]
