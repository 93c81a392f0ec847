"""Answers that are a value of the engine with a field or two more, as the commands with --json show them."""

from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from digestif.core.ledger import Ledger
from digestif.core.machine import may_have_gone_out
from digestif.core.records import DeadLetter, Fate, Sighting, Timeline
from digestif.core.sightings import in_words


def _extended(name: str, kind: type[Any], **more: Any) -> type[Struct]:
    """A struct with the fields of a dataclass and more."""
    hints = get_type_hints(kind)
    own = [(field.name, hints[field.name]) for field in fields(kind)]
    assert all(field.default_factory is MISSING for field in fields(kind))
    return msgspec.defstruct(
        name, [*own, *more.items()], frozen=True, module=__name__, namespace={"__doc__": kind.__doc__}
    )


def _values(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


LedgerAnswer = _extended("LedgerAnswer", Ledger, balanced=bool)
TimelineAnswer = _extended("TimelineAnswer", Timeline, unhandled=bool)
DeadLetterAnswer = _extended("DeadLetterAnswer", DeadLetter, sent=str)


class RecordAnswer(Struct, frozen=True):
    """A record. Times in seconds."""

    key: str
    value: Any
    timestamp: float


class SightingAnswer(Struct, frozen=True):
    """Where a version of a record is, or what became of it; unless it is certain, what may have become of it."""

    fate: Fate
    digest_id: str | None
    ended: float | None
    certain: bool
    since: float | None
    records: int | None
    text: str


def ledger_answer(ledger: Ledger) -> Struct:
    return LedgerAnswer(**_values(ledger), balanced=ledger.balanced)


def timeline_answer(timeline: Timeline, *, unhandled: bool) -> Struct:
    return TimelineAnswer(**_values(timeline), unhandled=unhandled)


def letter_answer(letter: DeadLetter) -> Struct:
    sent = "maybe" if may_have_gone_out(letter) else "partly" if letter.served else "no"
    return DeadLetterAnswer(**_values(letter), sent=sent)


def sighting_answer(sighting: Sighting) -> SightingAnswer:
    return SightingAnswer(*sighting, in_words(sighting))
