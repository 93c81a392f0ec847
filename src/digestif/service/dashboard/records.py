"""The page of a record: its value, where it is, and what became of it."""

from functools import partial

from starlette.responses import Response

from digestif.core.records import DeadLetter, Fate, Sighting, check_record_key
from digestif.core.sightings import in_words
from digestif.service import excerpts
from digestif.service.dashboard.timelines import asked_timeline
from digestif.service.dashboard.visits import Visit
from digestif.service.excerpts import Excerpts, Version


async def record(visit: Visit) -> Response:
    key, record_key = asked_timeline(visit), check_record_key(visit.asked("record"))
    sightings = await visit.digests.trace(key, record_key)
    certain = [sighting for sighting in sightings if sighting.certain]
    read = partial(excerpts.versions_of, timeline=key, record_key=record_key)
    return visit.render(
        "record.html",
        timeline=key,
        record_key=record_key,
        is_known=bool(certain),
        sightings=[(sighting, _fate(sighting), in_words(sighting)) for sighting in certain or sightings],
        versions=[(_place(version), version.record) for version in await visit.service.part(Excerpts).read(read)],
        keeps=visit.service.settings.keep_messages,
    )


def _fate(sighting: Sighting) -> str:
    if sighting.certain:
        return str(sighting.fate)
    return "perhaps " + ("deleted or declined" if sighting.fate is Fate.DECLINED else sighting.fate)


def _place(version: Version) -> str:
    if isinstance(version.place, DeadLetter):
        return f"in the dead letter {version.place.id}"
    return {"pending": "pending", "digest": "in the unfinished digest"}[version.place]
