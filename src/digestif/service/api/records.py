"""Endpoints that add records: one, or many with an answer for each."""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from digestif.core.records import VALUE_DEPTH, Acceptance, Addition, is_deep
from digestif.errors import InvalidRecord
from digestif.service.api.bodies import decoded, decoded_lines
from digestif.service.api.fields import Key, Timestamp, Within
from digestif.service.api.idempotency import once
from digestif.service.api.problems import Problem, ProblemDocument, problem_of
from digestif.service.api.requests import JSON, NDJSON, Answer, Request, answer, require_type
from digestif.service.api.room import Rooms
from digestif.stores.codec import Decoded


class NewRecord(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record to add to the timeline in the path."""

    value: Any
    key: Key | None = None  # unique within the timeline; a pending record of the same key is replaced
    timestamp: Timestamp | None = None  # of the event
    within: Within | None = None


class RecordOf(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record to add, and its timeline."""

    timeline: Key
    value: Any
    key: Key | None = None
    timestamp: Timestamp | None = None
    within: Within | None = None


class Result(Struct, frozen=True):
    """The answer to one of many records: as for a single one, or why it was refused."""

    key: str | UnsetType = UNSET
    ready: bool | UnsetType = UNSET
    due: float | UnsetType | None = UNSET
    problem: ProblemDocument | UnsetType = UNSET


class Results(Struct, frozen=True):
    """The answers to many records, in their order."""

    accepted: int
    results: Sequence[Result]


_one = msgspec.json.Decoder(NewRecord)
_many = msgspec.json.Decoder(list[RecordOf])
_line = msgspec.json.Decoder(RecordOf)


async def add_one(request: Request) -> Answer:
    """Accept a record. The answer comes when the store has it."""
    require_type(request.headers, JSON)
    body = await request.body()
    given = request.headers.get(b"idempotency-key")
    if given is None:
        return await _add_one(request, body, None)
    return await once(request, given, body, _add_one)


async def _add_one(request: Request, body: bytes, seed: str | None) -> Answer:
    record = decoded(body, _one)
    [timeline] = request.keys
    refuse_deep(request, [record.value])
    async with _room(request, [timeline]):
        accepted = await request.service.digests.accept(
            timeline,
            Decoded(record.value),
            key=record.key if seed is None or record.key is not None else key_of(seed, 0),
            timestamp=record.timestamp,
            within=record.within,
        )
    return answer(202, accepted)


def _room(request: Request, timelines: Collection[str]) -> AbstractAsyncContextManager[None]:
    """Room for these timelines while records are added, if their number is limited."""
    if not request.service.settings.limits.timelines:
        return nullcontext()
    return request.service.part(Rooms).of(request.principal.prefix).reserved(timelines)


def refuse_deep(request: Request, values: Sequence[Any]) -> None:
    """422 for values that are nested deeper than the service allows; the engine's own limit holds anyway."""
    depth = request.service.settings.limits.depth
    if depth < VALUE_DEPTH and any(is_deep(value, depth) for value in values):
        raise Problem(422, f"value: nested deeper than {depth} levels")


def key_of(seed: str, index: int) -> str:
    """The key of a record without one in a request that may be repeated: the same each time."""
    return sha256(f"{seed}\0{index}".encode()).hexdigest()[:32]


async def add_many(request: Request) -> Answer:
    """Accept many records, and say of each what became of it."""
    require_type(request.headers, JSON, NDJSON)
    body = await request.body()
    given = request.headers.get(b"idempotency-key")
    if given is None:
        return await _add_many(request, body, None)
    return await once(request, given, body, _add_many)


async def _add_many(request: Request, body: bytes, seed: str | None) -> Answer:
    is_lines = require_type(request.headers, JSON, NDJSON) == NDJSON
    records = decoded_lines(body, _line) if is_lines else decoded(body, _many)
    most = request.service.settings.limits.items
    if len(records) > most:
        raise Problem(413, f"{len(records)} records, allowed are {most} in a request")
    timelines = {record.timeline for record in records}
    for timeline in timelines:
        request.refuse_outside(timeline)
    refuse_deep(request, [record.value for record in records])
    additions = [_addition(record, seed, index) for index, record in enumerate(records)]
    async with _room(request, timelines):
        return _results(await request.service.digests.accept_valid(additions))


def _addition(record: RecordOf, seed: str | None, index: int) -> Addition:
    key = key_of(seed, index) if seed is not None and record.key is None else record.key
    return Addition(record.timeline, Decoded(record.value), key, record.timestamp, record.within)


def _result(found: Acceptance | InvalidRecord) -> Result:
    if isinstance(found, Acceptance):
        return Result(found.key, found.ready, found.due)
    return Result(problem=problem_of(found).document())


def _results(found: Sequence[Acceptance | InvalidRecord]) -> Answer:
    results = [_result(each) for each in found]
    accepted = sum(isinstance(each, Acceptance) for each in found)
    status = 202 if accepted == len(found) else 207 if accepted else 422
    return answer(status, Results(accepted, results))
