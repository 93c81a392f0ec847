"""Endpoints about the whole store: what was delivered lately, the ledger, status, workers, and what people changed."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from digestif.core.backlog import Backlog
from digestif.core.failures import FailedAttempt
from digestif.core.outages import ChannelOutage
from digestif.core.records import HistoryEntry
from digestif.core.samples import Sample
from digestif.core.workers import LiveWorker, PolicyConflict, policy_conflicts
from digestif.dsn import redacted
from digestif.notes.workers import UNHANDLED_LOOKED_AT, unhandled_among
from digestif.service.api.fields import Key, Limit, Time, given
from digestif.service.api.problems import Problem
from digestif.service.api.requests import Answer, Request, encode, listing
from digestif.service.api.shapes import LedgerAnswer, ledger_answer
from digestif.service.security.audit import AuditEntry, audit_entries
from digestif.service.security.cursors import Cursors
from digestif.service.security.reach import ended_digests, reached_message
from digestif.stores.documents import DOCUMENTS_PAGE
from digestif.stores.versions import versions


class DigestsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which digests."""

    timeline: Key | UnsetType = UNSET
    limit: Limit = 100


class DigestsAnswer(Struct, frozen=True):
    """Digests that ended lately, the latest first."""

    digests: Sequence[HistoryEntry]


async def list_digests(request: Request) -> Answer:
    query, principal = request.query(DigestsQuery), request.principal
    timeline = given(query.timeline)
    if timeline is not None:
        request.refuse_outside(timeline)
    found = await ended_digests(request.service, principal, timeline=timeline, limit=query.limit)
    return await request.service.beside(partial(listing, "digests", map(encode, found)))


async def show_message(request: Request) -> Answer:
    """A message that was sent, if messages are kept."""
    found = await reached_message(request.service, request.principal, request.keys[0])
    if found is None:
        raise Problem(404, "no message of this digest was kept")
    return Answer(200, await request.service.beside(partial(encode, found)))


async def show_ledger(request: Request) -> Struct:
    return ledger_answer(await request.service.digests.ledger())


class VerifyAnswer(Struct, frozen=True):
    """The ledger against a recount of the data."""

    agrees: bool
    ledger: LedgerAnswer  # type: ignore[valid-type]  # made from the engine's own
    recounted: Mapping[str, int]
    problems: Sequence[str]


async def verify(request: Request) -> VerifyAnswer:
    report = await request.service.digests.verify()
    return VerifyAnswer(not report.problems, ledger_answer(report.ledger), report.recounted, report.problems)


class StatusAnswer(Struct, frozen=True):
    """Store, workers, closed channels, backlog and ledger."""

    store: str  # its DSN without a password
    namespace: str
    enabled: bool
    durability: str
    partitions: int
    versions: Mapping[str, str]
    moving_since: float | None
    workers: Sequence[LiveWorker]
    policy_conflicts: Sequence[PolicyConflict]
    outages: Sequence[ChannelOutage]
    failures: Sequence[FailedAttempt]  # of digests that are tried again, the latest first
    unhandled: Sequence[str]  # of the timelines that are due first, those that no live worker has a handler for
    backlog: Backlog
    counted: float  # when the timelines of the backlog were counted
    at_least: bool  # there may be more of them
    ledger: LedgerAnswer  # type: ignore[valid-type]  # made from the engine's own


async def show_status(request: Request) -> StatusAnswer:
    digests = request.service.digests
    store = digests.store
    ledger, overview, outages, failures, workers, (moving, known, durability, partitions) = await asyncio.gather(
        digests.ledger(),
        digests.overview(),
        digests.outages(),
        digests.failures(),
        digests.workers(),
        request.service.in_thread(lambda: (store.moving_since(), versions(store), store.durability, store.partitions)),
    )
    due = await digests.timelines_page(due=True, limit=UNHANDLED_LOOKED_AT)
    unhandled = await request.service.beside(partial(unhandled_among, due.timelines, workers))
    conflicts = await request.service.beside(partial(policy_conflicts, workers))
    return StatusAnswer(
        store=redacted(request.service.settings.store.reveal()),
        namespace=store.namespace,
        enabled=digests.enabled,
        durability=str(durability),
        partitions=partitions,
        versions=known,
        moving_since=None if moving is None else moving / 1000,
        workers=workers,
        policy_conflicts=conflicts,
        outages=outages,
        failures=failures,
        unhandled=unhandled,
        backlog=overview.backlog,
        counted=overview.counted,
        at_least=overview.at_least,
        ledger=ledger_answer(ledger),
    )


class ChannelsAnswer(Struct, frozen=True):
    """The channels that are unavailable, or have just come back."""

    outages: Sequence[ChannelOutage]


async def list_channels(request: Request) -> ChannelsAnswer:
    return ChannelsAnswer(await request.service.digests.outages())


class WorkersAnswer(Struct, frozen=True):
    """The workers of all processes that were seen in the last minute."""

    workers: Sequence[LiveWorker]


async def list_workers(request: Request) -> WorkersAnswer:
    return WorkersAnswer(await request.service.digests.workers())


class SamplesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """From which time on."""

    since: Time | UnsetType = UNSET


class SamplesAnswer(Struct, frozen=True):
    """What was counted every ten seconds, the oldest first."""

    samples: Sequence[Sample]


async def list_samples(request: Request) -> SamplesAnswer:
    since = given(request.query(SamplesQuery).since)
    return SamplesAnswer(await request.service.digests.samples(since))


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which entries."""

    before: str | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=DOCUMENTS_PAGE)] = 100


class AuditAnswer(Struct, frozen=True):
    """What people changed, the newest first; `before` is null at the end."""

    entries: Sequence[AuditEntry]
    before: str | None


async def list_audit(request: Request) -> AuditAnswer:
    query, cursors, principal = request.query(AuditQuery), request.service.part(Cursors), request.principal
    before = await cursors.open(given(query.before), principal, "audit", name="before")
    found = await audit_entries(request.service, before=before, limit=query.limit)
    last = found[-1][0] if len(found) == query.limit else None
    return AuditAnswer([entry for _, entry in found], await cursors.seal(last, principal, "audit"))
