"""Endpoints that add records: one, or many with an answer for each."""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from digestif.core.records import VALUE_DEPTH, Acceptance, Addition
from digestif.errors import InvalidRecord
from digestif.service.api.bodies import SMALL, decoded_quickly
from digestif.service.api.fields import Key, Timestamp, Within
from digestif.service.api.idempotency import once
from digestif.service.api.problems import ProblemDocument, problem_of
from digestif.service.api.record_texts import LINES, MANY, ONE, Form, additions, refuse_deep, too_many
from digestif.service.api.requests import JSON, NDJSON, Answer, Request, answer, require_type
from digestif.service.api.room import Rooms
from digestif.service.turns import Turns, finished
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
    [timeline] = request.keys
    record = decoded_quickly(body, _one.decode)
    if record is None:
        [addition] = await _read(request, body, ONE, timeline)
    else:
        refuse_deep(record.value, request.service.settings.limits)
        addition = Addition(timeline, Decoded(record.value), record.key, record.timestamp, record.within)
    if seed is not None:
        addition = _with_key(addition, seed, 0)
    async with _room(request, [timeline]):
        return answer(202, await _accepted(request, addition))


async def _accepted(request: Request, addition: Addition) -> Acceptance:
    """Accept a record. The value of a long body is encoded in a thread."""
    digests = request.service.digests
    if type(addition.value) is Decoded:
        timeline, value, key, timestamp, within = addition
        return await digests.accept(timeline, value, key=key, timestamp=timestamp, within=within)
    [found] = await digests.accept_valid([addition])
    if isinstance(found, InvalidRecord):
        raise found
    return found


async def _read(request: Request, body: bytes, form: Form, timeline: str = "") -> list[Addition]:
    """Read the records of a body, in a thread unless it is small."""
    service = request.service
    steps = additions(body, form, timeline, service.settings.limits, service.digests.engine.sealer)
    return finished(steps) if len(body) <= SMALL else await service.part(Turns).run(steps)


def _room(request: Request, timelines: Collection[str]) -> AbstractAsyncContextManager[None]:
    return request.service.part(Rooms).reserved(request.principal.prefix, timelines)


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
    given = await _additions(request, body)
    timelines = {addition.timeline for addition in given}
    for timeline in timelines:
        request.refuse_outside(timeline)
    if seed is not None:
        given = [_with_key(addition, seed, index) for index, addition in enumerate(given)]
    async with _room(request, timelines):
        return _results(await request.service.digests.accept_valid(given))


async def _additions(request: Request, body: bytes) -> list[Addition]:
    """The records of a body that has many."""
    is_lines = require_type(request.headers, JSON, NDJSON) == NDJSON
    records = decoded_quickly(body, _line.decode_lines if is_lines else _many.decode)
    if records is None:
        return await _read(request, body, LINES if is_lines else MANY)
    limits = request.service.settings.limits
    if len(records) > limits.items:
        raise too_many(limits)
    for record in records if limits.depth < VALUE_DEPTH else ():
        refuse_deep(record.value, limits)
    return [_addition(record) for record in records]


def _addition(record: RecordOf) -> Addition:
    return Addition(record.timeline, Decoded(record.value), record.key, record.timestamp, record.within)


def _with_key(addition: Addition, seed: str, index: int) -> Addition:
    return addition if addition.key is not None else addition._replace(key=key_of(seed, index))


def _result(found: Acceptance | InvalidRecord) -> Result:
    if isinstance(found, Acceptance):
        return Result(found.key, found.ready, found.due)
    return Result(problem=problem_of(found).document())


def _results(found: Sequence[Acceptance | InvalidRecord]) -> Answer:
    results = [_result(each) for each in found]
    accepted = sum(isinstance(each, Acceptance) for each in found)
    status = 202 if accepted == len(found) else 207 if accepted else 422
    return answer(status, Results(accepted, results))
